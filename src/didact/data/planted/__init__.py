"""Planted data: generated tasks whose label is a known function of known units, so the rationale is the truth.

Each task has one file (`sentiment`, `graded`, `inference`, `quality`, `reading`, `shapes`) with its rules and a
function of the same name. `wording` has the words of a task in English, invented, or with exchanged roles. `dataset`
generates the rows, redraws them and makes the oracle; `verify` measures whether a trained teacher depends on the
planted units. To add a task: write one file with `Rules` and a function, and add one line to
`didact.data.DATASETS` and one to the contract test.
"""
