"""What users ask for as a whole: explain a data set, compare methods by what they teach.

This room composes the others. `explain.py` hands back explanations. A comparison goes from `plan.py` (what was asked)
over `roster.py` (who takes part) to `run.py` (what is done and kept): `cell.py` is one student, `classroom.py` what
worker processes read, `train_jobs.py` and `shard_jobs.py` are the jobs that `didact.execution` runs, `shard_store.py`
is what a stopped run resumes from, `summary.py` what comes out (`results.Comparison`).
"""
