"""The command line: parses options and calls the Python API. One module per command; `main` registers them.

The options of a command are the fields of its config class: `didact.comparing.config` for compare,
`didact.learning.config` for train, `didact.study.config` for study, `configs` for most others. `options` turns fields
into flags, `inputs` loads what they name, `output` prints results, `help` prints help screens. `demo_steps` belongs to
`demo`, `study_answers` is the second half of `study`.

To add an option, add a field to the config class, with its help as docstring. To add a command, write a module with
`EXAMPLES` and a function under `@configured`, and register it in `main`.

Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 1 the work failed, 2 a bad request.
"""
