"""Every metric by every method, as a table with colours from the worst to the best method of each line."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from didact.reports.charts import ChartCell, cell_chart
from didact.reports.describe import incomplete_notes, marked_name, method_text
from didact.reports.figure import Figure, label
from didact.reports.leaders import better_than_random, family_of, metric_entry, metric_text, winners
from didact.reports.section import MEASURE_HINT, Notes, Section, lead, missing
from didact.results.comparison import Comparison
from didact.results.evaluation import MetricRow
from didact.results.measured import Measurements
from didact.viz.colours import LEVELS, Shade, colours
from didact.viz.tables import Cell, Table

_STRONGEST: Final = LEVELS - 3  # level of the scale on which numbers are still readable
_STEP: Final = 26  # pixels of a line of the chart
_FAMILY_HEADINGS: Final = {
    "faithfulness": "faithfulness: does the model depend on what is marked?",
    "plausibility": "plausibility: would people mark the same?",
    "truth": "truth: does it find the words that decide? (planted data, verified teacher)",
    "stability": "stability: do similar texts get similar explanations?",
    "other": "other",
}


@dataclass(frozen=True)
class _Line:
    """One metric, with its result for each method."""

    metric: str
    family: str
    is_lower: bool
    rows_by_method: Mapping[str, MetricRow]


def section(run: Comparison) -> Section:
    title = "All other measures"
    measured = run.measured
    lines = [] if measured is None else _lines(measured)
    if measured is None or not lines:
        notes = [] if measured is None else list(measured.notes)
        return Section("metrics", title, [missing(f"No other measures were computed. {MEASURE_HINT}"), Notes(notes)])
    table = _table(run, measured, lines)
    count = measured.metrics.rows_asked or len(measured.rows)
    heading = measured.metrics.heading
    intro = (
        f"The same methods on {count:,.0f} rows of {measured.split}, by metrics that need no students. In each line, "
        "colours run from the worst method to the best. ★ marks the best value (controls excluded); ties share it."
    )
    remarks = [
        "↑ higher is better, ↓ lower. A number in brackets is no better than random explanations: the interval of the "
        "paired difference includes 0 or is on the wrong side of it. Point at a number for its interval and its rows.",
        "Faithfulness metrics run the model on inputs with parts removed or replaced. It was not trained on such "
        "inputs, so a value may reflect its confusion. Signed methods have an advantage there.",
    ]
    if heading == "plausibility" and any(line.family == "plausibility" for line in lines):
        remarks.append("People mark what convinces people. A plausible explanation can be wrong about the model.")
    remarks += incomplete_notes(run)
    remarks += measured.metrics.notes
    remarks += [f"{method.label} was not measured: {method.reason}" for method in measured.skipped]
    remarks += [note for note in measured.notes if note not in remarks]
    figure = Figure("metrics", "Every metric by every method; the darker, the better", partial(_chart, table))
    return Section("metrics", title, [lead(intro), table, Notes(remarks)], charts=[figure])


def _lines(measured: Measurements) -> list[_Line]:
    heading = measured.metrics.heading
    rows_by_metric: dict[str, dict[str, MetricRow]] = {}
    for row in measured.metrics.rows:
        rows_by_metric.setdefault(row.metric, {})[row.method] = row
    lower = {row.metric for row in measured.metrics.rows if row.better == "lower"}
    lines = [
        _Line(metric, family_of(metric, heading), metric in lower, method_rows)
        for metric, method_rows in rows_by_metric.items()
    ]
    families = list(dict.fromkeys(line.family for line in lines))
    return sorted(lines, key=lambda line: families.index(line.family))


def _table(run: Comparison, measured: Measurements, lines: list[_Line]) -> Table:
    names = list(dict.fromkeys(name for line in lines for name in line.rows_by_method))
    controls = run.controls | measured.controls | {"random"}
    order = {name: index for index, name in enumerate(run.ranked)}
    names.sort(key=lambda name: (name in controls, order.get(name, len(order))))
    best = winners(run)
    is_better_than_random = better_than_random(measured)
    heads: list[Cell | str] = [
        "metric",
        *(Cell(marked_name(run, name), "control" if name in controls else "", method_text(name)) for name in names),
    ]
    rows: list[list[Cell | str]] = []
    for line in lines:
        first = Cell(f"{line.metric} {'↓' if line.is_lower else '↑'}", title=_summary(line.metric))
        rows.append([first, *(_cell(line, name, best.get(line.metric, []), is_better_than_random) for name in names)])
    families = groupby(_FAMILY_HEADINGS.get(line.family, line.family) for line in lines)
    groups = [(heading, len(list(metrics))) for heading, metrics in families]
    data = [dict(row) for line in lines for row in line.rows_by_method.values()]
    return Table("metrics", "Every metric by every method", heads, rows, look="heat", groups=groups, data=data)


def _cell(line: _Line, name: str, best: list[str], is_better_than_random: Mapping[tuple[str, str], bool]) -> Cell:
    row = line.rows_by_method.get(name)
    if row is None:
        return Cell("–", title="not measured")
    value = row.value
    if value is None:
        return Cell("–", title=f"undefined ({row.skipped or 'no'} rows skipped)")
    has_interval = row.low is not None and row.high is not None
    interval = (
        f"95 % interval {metric_text(row.low or 0.0)} to {metric_text(row.high or 0.0)}; " if has_interval else ""
    )
    skipped = f", {row.skipped} skipped" if row.skipped else ""
    how = f"; {row.how}" if row.how else ""
    title = f"{name}: {metric_text(value)}; {interval}{row.rows} rows{skipped}{how}"
    text = metric_text(value)
    if is_better_than_random.get((line.metric, name)) is False:
        text, title = f"({text})", f"{title}; no better than random"
    return Cell(text, _shade(line, value), title, is_best=name in best)


def _chart(table: Table, width: int) -> Any:
    """The table as a chart for papers, in the colours of the page. Metrics without any value are left out."""
    methods = [label(head, 30) for head in table.text_heads[1:]]
    rows_with_values = [row for _, rows in table.bodies for row in rows if any(cell.text != "–" for cell in row[1:])]
    chart_cells = []
    for first, *cells in rows_with_values:
        for method, cell in zip(methods, cells, strict=True):
            level = int("0" + "".join(filter(str.isdigit, cell.look)))  # strength7
            background, text_color = ("rgb({}, {}, {})".format(*colour) for colour in colours(Shade("strength", level)))
            chart_cells.append(
                ChartCell(label(first.text, 44), method, cell.text, background, text_color, is_best=cell.is_best)
            )
    metrics = [label(row[0].text, 44) for row in rows_with_values]
    return cell_chart(chart_cells, metrics, methods, (width, _STEP * len(metrics) + 90), angle=-35, font_size=11)


def _shade(line: _Line, value: float) -> str:
    """The CSS class of a cell: no colour for the worst value of a line, the strongest for the best."""
    line_values = [row.value for row in line.rows_by_method.values() if row.value is not None]
    low, high = min(line_values), max(line_values)
    if high == low:
        return ""
    share = (value - low) / (high - low)
    return Shade("strength", round((1 - share if line.is_lower else share) * _STRONGEST)).look


def _summary(metric: str) -> str:
    entry = metric_entry(metric)
    return "" if entry is None else f"{entry.summary} ({entry.paper})"
