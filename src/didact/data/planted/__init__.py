"""Planted data: generated tasks whose label is a known function of known units, so the rationale is the truth.

One file per task (`sentiment`, `inference`, `quality`, `reading`, `shapes`), each with a function of the same name and
nothing but its own rules. `dataset` draws the rows and answers what only a generator can (oracle, redrawn rows);
`verify` tells whether a trained teacher really reads the planted units. To add a task: one file with `Rules` and a
function, one line in `didact.data.DATASETS`, one line in the contract test.
"""
