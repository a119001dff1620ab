"""Explains data sets, streams and the rows of a comparison, and resumes what was stopped.

`explain.py` has `didact.explain`, `stream.py` has `didact.explain_stream`, `cache.py` keeps the explanations of a
comparison. `method_options.py` resolves what users ask for, `job.py` explains rows with it (`ExplainJob`), `dataset.py`
all rows of a data set, shard by shard. `shard_store.py` is what data sets, streams and comparisons resume from.
`shard_jobs.py` lets workers explain shards: `saved_teacher.py` is how they load the teacher, `row_io.py` how they read
rows. `input_rows.py` makes rows of what users have, `to_columns.py` columns of scores, `component_scores.py` has what a
learned explainer weighs, `score_checks.py` warns where scores do not add up, `align_sets.py` puts sets side by side.
"""
