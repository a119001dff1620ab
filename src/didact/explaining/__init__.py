"""Explains data sets, streams and the rows of a comparison, and resumes what was stopped.

`explain.py` has `didact.explain`, `stream.py` has `didact.explain_stream`, `cache.py` keeps the explanations of a
comparison. All three explain shard by shard, and `shard_store.py` is what each of them resumes from. `shard_jobs.py`
lets workers explain shards: `saved_teacher.py` is how they load the teacher, `row_io.py` how they read rows.
`input_rows.py` makes rows of what users have, `to_columns.py` columns of scores, `component_scores.py` keeps what a
learned explainer weighs, `score_checks.py` warns where scores do not add up, `align_sets.py` puts sets side by side.
"""
