"""Reports: what lies in a run's folder, as one HTML file. Reads records, asks no model, needs no torch.

`read.py` reads the folder, `verdict.py` says in plain words what was found, each file of `sections/` is a pure function
from what was read to a `Part` of the page, and `build.py` puts the parts together. To add a section: a module with
`part(run)`, and a line in `build.PARTS`. The room is not called `report`, since `didact.report` is a function.
"""
