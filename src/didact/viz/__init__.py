"""Display: heat maps, tables, charts and progress bars. Nothing here imports torch.

`heat_map` holds one row with the scores of a method. `text_spans` splits its text at the scored units, `colours` maps
scores to colours, and `terminal` and `page` draw it. `bars`, `matrix` and `weights_chart` are charts; `chart` has their
shared code. `tables` writes HTML, CSV and LaTeX, `png` encodes images, `formulas` keeps spreadsheets from evaluating
texts, `progress` shows progress with the time left. HTML comes from `templates/` through `html`, which escapes data.

To add a chart, write a module that returns an Altair chart and render it with `chart.picture`.
"""

from typing import Final

GENERATOR: Final = '<meta name="generator" content="didact">'  # identifies pages that didact wrote
