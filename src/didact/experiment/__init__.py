"""Methods compared by what they teach, measured and learned.

This room composes the others. A comparison goes from `plan.py` (what was asked) over `roster.py` (who takes part) to
`run.py` (what is done and kept): `cell.py` is one student, `classroom.py` what worker processes read, `train_jobs.py`
are its jobs for `didact.execution`, `summary.py` what comes out (`results.Comparison`).
"""
