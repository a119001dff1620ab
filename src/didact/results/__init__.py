"""Results: one typed class for each thing that is kept on disk. Nothing here imports torch.

- Explanations: `explanations` (scores of many rows; `explanations_checks` what they must fulfil, `explanations_parquet`
  their form on disk, `origin` what they were made of), `row_explanation` (of one row), `by_class` (of every class),
  `component_scores` (what a learned explainer weighs). `words`, `transforms`, `temperature` and `ragged` change scores,
  `views` and `word_summary` show them.
- Comparisons: `comparison` is the stored result of a run; `gains` and `contrast` are its records, which
  `didact.comparing.statistics` computes. `run_record` says how the run was made, `training_record` is one student,
  `comparison_table` draws the table.
- Metrics without students: `measured`, with `evaluation`, `agreement` and cost; `sanity`.
- Studies: `study_analysis`, `study_tables`.
- Shared: `documents` (all JSON files), `task_kinds` (what is known of a task by its name), `number_format`,
  `text_table`.

Report, command line and notebooks read these classes. To add one: a frozen dataclass over `documents.Document` with
`load` and `save`, which write and check a schema version. A document without one is version 1.
"""
