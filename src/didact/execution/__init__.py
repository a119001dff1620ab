"""Who does the work of a run: this process, processes of this machine, or a Ray cluster.

`base.py` has the protocol (`Executor`) and its values (`Job`, `JobResult`, `JobStatus`). `in_process.py`,
`process_pool.py` and `ray.py` are the executors, `worker.py` is the entry point of a worker process, `run_dir.py` and
`remote_sync.py` are the folder of a run and its copy in a store. Nothing is pickled: jobs read files and write files.
To add an executor: a class with `Executor`'s methods, and a name in `compare`. To add a kind of job: a `JobRunner`, and
its place in `RUNNERS`.
"""
