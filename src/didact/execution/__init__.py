"""Runs the jobs of a run: in this process, in processes of this machine, or on a Ray cluster.

`base` has the protocol (`Executor`) and its values (`Job`, `JobResult`, `JobStatus`). `in_process`, `process_pool`
and `ray` are the executors, `worker` is the entry point of a worker process, `run_dir` has the folder of a run and
its copy in a store. Jobs read and write files; no model, row or score is pickled. Ray transfers keys, file names and
bytes.

To add an executor: a class with `Executor`'s methods, a branch in `_executor` of `didact.comparing.compare`, and its
name in `engine` of `didact.comparing.config` and `config_fields`. To add a kind of job: a `JobKind` and its line in
`RUNNERS`, both in `base`; the runner is defined next to the work (`didact.comparing.training`,
`didact.explaining.shard_jobs`).
"""
