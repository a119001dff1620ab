"""Explanations evaluated, compared with each other and learned; the students of a comparison.

`cell.py` trains one student of a comparison, `classroom.py` is what worker processes read, `train_jobs.py` are the jobs
that `didact.execution` runs, `summary.py` what comes out (`results.Comparison`). `didact.comparing` runs a comparison,
`didact.explaining` explains.
"""
