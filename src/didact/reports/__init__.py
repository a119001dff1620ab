"""Reports: what lies in a run's folder, as one HTML file. Reads records, asks no model, needs no torch.

`verdict.py` says in plain words what a `Comparison` found, each file of `sections/` is a pure function
from it to a `Part` of the page, and `build.py` puts the parts together. To add a section: a module with
`part(run)`, and a line in `build.PARTS`. The room is not called `report`, since `didact.report` is a function.
"""
