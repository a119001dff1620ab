"""A comparison of explanation methods by what they teach students.

- `compare`: the public function. `prepare` loads data and teacher, `assemble` makes the `setup` (teacher, rows,
  methods, students), `preflight` tries it on two rows, `runner` runs it.
- `runner`: the five steps. label; explain (`explanations`); train (`grid` lists the cells, `training` trains what is
  left of them, `cell` is one cell); summarise (`summarise`, `statistics`: gains, from
  `didact.stats.contrast`); evaluate (`evaluation`: all other metrics on test rows).
- The config: `config` (the fields, which are also the flags), `config_fields` (the same for editors), `config_values`
  (how values are read), `config_checks` (checks that know methods, data and devices).
- What is compared: `methods` (the rows of the table), `sampling` (which rows of the data), `learnedness` (whether the
  students learned anything at all).
- Time: `costs` measures, `forecast` adds up, `budget` fits a plan to a limit.
- On disk: `run_inputs` (what workers read), `answer_file` (answers of a black box).

A killed run is resumed by the same command. `runner` repeats its steps, and each finds its files by key: `finished`
in `cell` says whether a cell is done, `training` picks the cells that are left, `didact.explaining.cache`
says which explanations exist, `evaluation` knows measured.json by its key, and `prepare` reads the numbers that were
fitted to a budget from plan.toml. A half-trained student starts over.

To add a row that every table must have (a control, a companion): `methods`. To add a number to every row: a field of
`GainRow` (`didact.results.gains`), computed in `statistics`, drawn by `didact.results.comparison_table`. To add an
option: a field of `CompareConfig`, the same in `config_fields`, and in `WRITTEN` (`config`) if a plan keeps it; then
run docs/make_config_reference.py.
"""
