"""Results: one typed class for each thing that is kept on disk. Nothing here imports torch.

`explanations` has the scores of many rows (`explanations_checks` what they must fulfil, `explanations_parquet` their
form on disk, `origin` what they were made of), `row_explanation` those of one row, `by_class` those of every class,
`component_scores` what a learned explainer weighs; `words`, `transforms`, `temperature` and `ragged` change scores,
`views` and `word_summary` show them. `comparison` has `Comparison` with `gains` and `contrast`, `run_facts` what it
says of itself, `comparison_table` draws it; `training_record` is one student of a run, `run_record` how the run was
started. `measured` has what was measured without students: `evaluation`, `agreement` and cost; `sanity` its checks.
`study_analysis` is what a study with people found, `study_tables` its tables. `number_format` and `text_table` write
numbers and tables, `documents` has what all JSON files share. Report, command line and notebooks read these classes.

To add one: a frozen dataclass over `documents.Document` with `load` and `save`, which write and check a schema
version. A document without one is version 1.
"""
