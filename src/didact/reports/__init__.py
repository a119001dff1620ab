"""Reports: what lies in a run's folder, as one HTML file. Reads records, asks no model, needs no torch.

`verdict.py` says in plain words what a `Comparison` found. Each file of `sections/` is a function from it to a
`Section` of data, and the templates in `templates/` draw them. `build.py` puts the page together. To add a section:
a module with `section(run)`, named in `build.SECTIONS`. The room is not called `report`, since `didact.report` is a
function.
"""
