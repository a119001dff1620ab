"""The command line: parse, then call the Python API. One module per command; `main` ties them together.

The options of a command are the fields of its config class: `didact.comparing.config` for compare,
`didact.learning.config` for train, `didact.study.config` for study, `configs` for most others. `options` turns fields
into flags, `inputs` opens what they name, `output` prints, `help` draws the help screens. `demo_steps` belongs to
`demo`, `study_answers` is the second half of `study`.

To add an option: a field of the config class, with its help as docstring. To add a command: a module with `EXAMPLES`
and a function under `@configured`, and a line in `main`.

Answers go to stdout, progress and messages to stderr. Exit code 0: done; 1: work failed; 2: a bad request.
"""
