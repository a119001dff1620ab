"""The values that travel between the rooms, and the promises of a teacher and a model.

Import from the modules, not from here: `task`, `row`, `dataset`, `outputs`, `measure`, `words`, `seeds`, `teacher`,
`function` and `human` need no torch; `batch`, `trace`, `target`, `explanation`, `loss` and `model` do.
To add a value: one frozen dataclass, one file, shapes in the annotations.
"""
