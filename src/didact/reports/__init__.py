"""Reports: a run as one HTML file. The package reads stored results only; it runs no model and needs no torch.

`build` assembles a page from `sections`, which return data; `templates/` draw that data. `verdict` words the headline
and `sections.headline` lays it out: `standing` compares the leading method with each rival, `leaders` summarises the
other metrics, `describe` describes every method and student in a line. `figure` embeds charts in the page, `charts`
has the charts that several sections share, `band_chart` that of a band over temperatures. `example_rows` and
`example_json` prepare explained rows, as HTML and for the page's script. `section` defines the types.

To add a section: a module with `section(run)`, named in `build.SECTIONS`. The package is not called `report`, since
`didact.report` is a function.
"""
