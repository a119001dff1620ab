"""Compares explanation methods by what students learn from them.

- `compare`: the public function. `prepare` chooses rows, methods and students, `assemble` makes the `setup` (teacher,
  rows, methods, students), `preflight` tries it on two rows, `runner` runs it.
- `runner`: the five steps. label; explain (`explanations`); train (`grid` lists the cells, `training` trains those
  that are not done, `cell` trains one); summarise (`summarise`, `statistics`: gains, from `didact.stats.contrast`);
  evaluate (`evaluation`: all other metrics on test rows).
- The config: `config` (the fields, which are also the flags), `config_fields` (the same for editors), `config_values`
  (how values are read), `config_checks` (checks that know methods, data and devices).
- What is compared: `methods` (the rows of the table), `sampling` (which rows of the data), `chance_level` (whether
  students beat a constant answer), `targets` (what students are sent), `bands` (methods at several temperatures). The
  test set of edited rows: `edited` (which rows), `edited_statistics` (gains).
- Several runs: `combine` (the public function over teachers), `run_answers` (reads the answers of a finished run).
- Time: `costs` measures, `forecast` adds up, `budget` fits a plan to a time limit.
- On disk: `run_inputs` (what workers read), `answer_file` (answers of a black box).

The same command resumes a killed run. `runner` repeats its steps, and each step finds its files by key:
`load_completed` in `cell` checks whether a cell is done, `training` picks the cells that are not,
`didact.explaining.cache` knows which explanations exist, `evaluation` compares the key of measured.json, and `prepare`
reads the plan that was fitted to a budget from plan.toml. A half-trained student starts over.

To add a row to every table (a control, a companion): `methods`. To add a number to every row: a field of `GainRow`
(`didact.results.gains`), computed in `statistics`, drawn by `didact.results.comparison_table`. To add an option: a
field of `CompareConfig`, the same in `config_fields`, and in `PLAN_FIELDS` (`config`) if plans store it; then run
docs/make_config_reference.py.
"""
