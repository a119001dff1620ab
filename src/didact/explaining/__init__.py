"""Explains data sets, streams and the rows of a comparison, and resumes what was stopped.

`explain` has `didact.explain`, `stream` has `didact.explain_stream`, `cache` keeps the explanations of a comparison.
`method_options` resolves what users ask for, `job` explains rows with it (`ExplainJob`), `dataset` all rows of a data
set, shard by shard. `shard_store` is what data sets, streams and comparisons resume from. `shard_jobs` lets workers
explain shards: `saved_teacher` is how they load the teacher, `row_io` how they read rows. `input_rows` makes rows of
what users have, `to_columns` columns of scores, `component_scores` has what a learned explainer weighs, `score_checks`
warns where scores do not add up, `align_sets` puts sets side by side. `read_explanations` takes those of other tools,
and `check_explainer` holds an explainer to what all promise.
To add an option that every method shares: a field of `CommonOptions`, and its use in `ExplainJob`.
"""
