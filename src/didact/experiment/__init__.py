"""What users ask for as a whole: explain a data set, evaluate explanations, learn explainers.

`explain.py` hands back explanations. `cell.py` trains one student of a comparison, `classroom.py` is what worker
processes read, `train_jobs.py` and `shard_jobs.py` are the jobs that `didact.execution` runs, `shard_store.py` is what
a stopped run resumes from, `summary.py` what comes out (`results.Comparison`). `didact.comparing` runs a comparison.
"""
