"""Explains data sets, streams and the rows of a comparison, and resumes stopped runs.

Entry points: `explain` (`didact.explain`), `stream` (`didact.explain_stream`), `cache` (the explanations of a
comparison), `read_explanations` (explanations of other tools) and `check_explainer` (the contract of explainers).

Steps: `input_rows` turns data into rows, `method_options` resolves a method and its options, `job` explains rows
(`ExplainJob`), `to_columns` turns scores into columns, `score_checks` warns about scores that do not add up. `dataset`
explains all rows of a data set shard by shard; `shard_store` holds the finished shards that runs resume from.
`shard_jobs` lets workers explain shards: they load the teacher with `saved_teacher` and read rows with `row_io`.
`component_scores` computes the inputs of learned explainers, `align_sets` matches sets of explanations by row.

To add an option that every method shares, add a field to `CommonOptions` and use it in `ExplainJob`.
"""
