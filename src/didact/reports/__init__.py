"""Reports: what a run's folder holds, as one HTML file. Reads records, asks no model, needs no torch.

`build` puts a page together from `sections`, which return data that `templates/` draw. `verdict` words the headline
(`sections.headline` only lays it out): `standing` has the leader against each rival, `leaders` what other metrics
say; `describe` has a line for every method and student. `figure` makes charts a part of the page, `charts` has those
that several sections draw. `example_rows` and `example_json` are explained rows, for people and for the page's
script. `section` has the types.

To add a section: a module with `section(run)`, named in `build.SECTIONS`. The package is not called `report`, since
`didact.report` is a function.
"""
