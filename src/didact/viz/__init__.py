"""What people see: texts with marks, tables, pictures, progress with the time left. No torch in this package.

`heat` is one row as a method scored it, in `colours`, cut by `marks`, drawn in a `terminal` or on a `page`. `bars`,
`matrix` and `mix` are charts, by what `chart` shares. `tables` are written as HTML, CSV and LaTeX, pictures of rows
as `png`; `formulas` keeps spreadsheets from evaluating texts. `progress` counts steps. HTML is written by the
templates in `templates/`, through `html`, which escapes whatever came with data.

To add a chart: a module that gives an altair chart, drawn by `chart.picture`.
"""

from typing import Final

GENERATOR: Final = '<meta name="generator" content="didact">'  # by which a page is known as one of ours
