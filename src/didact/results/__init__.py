"""Results on disk: one typed class for each stored thing. Nothing here imports torch.

- Explanations: `explanations` (scores of many rows, validated by `explanations_checks`, stored by
  `explanations_parquet`, compared with an existing file by `origin`), `row_explanation` (one row), `by_class` (every
  class), `component_scores` (what a learned explainer weighs). `words`, `transforms`, `temperature`,
  `target_transform`, `ragged` and `variants` (for audits) transform scores; `views` and `word_summary` display them.
- Comparisons: `comparison` is the stored result of a run. `gains` and `contrast` are its records, computed by
  `didact.comparing.statistics`. `run_record` describes the run, `training_record` one student; `comparison_table` draws
  the table. `target_normalisation` names what students are sent; `edited` has the results on edited rows; `combined` is
  the result over several teachers, drawn by `combined_table`.
- Audits: `audit` (what every way of judging says about explanations whose order is known), `audit_summary` (right and
  wrong answers over teachers). `evidence` is the file of one part of a trial, audits among them. `validation` has the
  figures of evaluators that are part of didact, `student_agreement` whether kinds of student agree; `trust` puts both
  beside a comparison.
- Metrics without students: `measured`, with `evaluation`, `agreement` and cost; `sanity`.
- Studies: `study_analysis`, `study_tables`.
- Shared: `documents` (all JSON files), `task_kinds` (properties of a task by name), `number_format`, `text_table`.

Reports, the command line and notebooks read these classes. To add one, write a frozen dataclass over
`documents.Document` with `load` and `save`, which write and check a schema version. A document without a version is
version 1.
"""
