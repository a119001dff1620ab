"""Every metric by every method: a table whose colours run from the worst to the best of each line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from didact.errors import DidactError
from didact.metrics import METRICS
from didact.registry import parse_spec
from didact.render.heat import LEVELS
from didact.reports.describe import method_text
from didact.reports.figure import Figure
from didact.reports.leaders import beyond_chance, family_of, winners, written
from didact.reports.measured import Measured, number
from didact.reports.metrics_chart import metrics_chart
from didact.reports.part import AGAIN, Part, lead, missing, notes
from didact.reports.read import Run
from didact.reports.table import Cell, Table

_STRONGEST: Final = LEVELS - 3  # of the scale: numbers are read on it
_SAID: Final = {
    "faithfulness": "faithfulness: does the model depend on what is marked?",
    "plausibility": "plausibility: would people mark the same?",
    "truth": "truth: does it find the words that decide? (planted data, verified teacher)",
    "stability": "stability: do like texts get like explanations?",
    "other": "other",
}


@dataclass(frozen=True)
class _Line:
    """One metric: by method its value and what is told beside it."""

    metric: str
    family: str
    is_lower: bool
    found: Mapping[str, Mapping[str, Any]]

    def value(self, method: str) -> float | None:
        return number(self.found.get(method, {}).get("value"))


def part(run: Run) -> Part:
    title = "All other measures"
    measured = run.measured
    lines = [] if measured is None else _lines(measured)
    if measured is None or not lines:
        told = [] if measured is None else list(measured.notes)
        return Part("metrics", title, missing(f"No other measure was taken. {AGAIN}") + notes(told))
    table = _table(run, measured, lines)
    count = number(measured.metrics.get("rows_asked")) or len(measured.rows)
    heading = str(measured.metrics.get("heading") or "plausibility")
    said = (
        f"The same methods on {count:,.0f} rows of {measured.split}, by what does not need a student. In each line the "
        "colour runs from the worst method to the best. ★ best value (controls excluded); equal ones share it."
    )
    remarks = [
        "↑ higher is better, ↓ lower. A number in brackets is no better than random explanations: the interval of the "
        "paired difference includes 0 or lies on the wrong side. Point at a number for its interval and its rows.",
        "Faithfulness asks the model about texts with holes, which it never learned to read; a figure may be its "
        "confusion. Signed methods have an advantage there.",
    ]
    if heading == "plausibility" and any(line.family == "plausibility" for line in lines):
        remarks.append("People mark what convinces people. A plausible explanation may be wrong about the model.")
    remarks += run.incomplete_notes()
    remarks += [str(one) for one in measured.metrics.get("notes") or ()]
    remarks += [f"{one.get('label')} was not measured: {one.get('reason')}" for one in measured.skipped]
    remarks += [note for note in measured.notes if note not in remarks]
    figure = Figure(
        "metrics", "Every metric by every method; the darker, the better", lambda width: metrics_chart(table, width)
    )
    return Part("metrics", title, f"{lead(said)}{table.html()}{notes(remarks)}", [figure], [table])


def _lines(measured: Measured) -> list[_Line]:
    heading = str(measured.metrics.get("heading") or "plausibility")
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    lower = set()
    for row in measured.metrics.get("rows") or ():
        found.setdefault(str(row.get("metric")), {})[str(row.get("method"))] = row
        if row.get("better") == "lower":
            lower.add(str(row.get("metric")))
    lines = [_Line(metric, family_of(metric, heading), metric in lower, own) for metric, own in found.items()]
    families = list(dict.fromkeys(line.family for line in lines))
    return sorted(lines, key=lambda line: families.index(line.family))


def _table(run: Run, measured: Measured, lines: list[_Line]) -> Table:
    names = list(dict.fromkeys(name for line in lines for name in line.found))
    controls = run.controls | {one.label for one in measured.methods if one.is_control} | {"random"}
    order = {name: place for place, name in enumerate(run.explainers)}
    names.sort(key=lambda name: (name in controls, order.get(name, len(order))))
    best = winners(run)
    beyond = beyond_chance(measured)
    heads: list[Cell | str] = [
        "metric",
        *(Cell(run.marked(name), "control" if name in controls else "", method_text(name)) for name in names),
    ]
    rows: list[list[Cell | str]] = []
    for line in lines:
        first = Cell(f"{line.metric} {'↓' if line.is_lower else '↑'}", title=_summary(line.metric))
        rows.append([first, *(_cell(line, name, best.get(line.metric, []), beyond) for name in names)])
    groups: list[tuple[str, int]] = []
    for line in lines:
        if groups and groups[-1][0] == _SAID.get(line.family, line.family):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((_SAID.get(line.family, line.family), 1))
    data = [dict(row) for line in lines for row in line.found.values()]
    return Table("metrics", "Every metric by every method", heads, rows, look="heat", groups=groups, data=data)


def _cell(line: _Line, name: str, best: list[str], beyond: Mapping[tuple[str, str], bool]) -> Cell:
    value = line.value(name)
    own = line.found.get(name, {})
    if value is None:
        return Cell("–", title=f"{own.get('skipped') or 'no'} rows, none with an answer" if own else "not measured")
    low, high = number(own.get("low")), number(own.get("high"))
    interval = "" if low is None or high is None else f"95 % interval {written(low)} to {written(high)}; "
    skipped = f", {own.get('skipped')} skipped" if own.get("skipped") else ""
    how = f"; {own['how']}" if own.get("how") else ""
    title = f"{name}: {written(value)}; {interval}{own.get('rows')} rows{skipped}{how}"
    text = written(value)
    if beyond.get((line.metric, name)) is False:
        text, title = f"({text})", f"{title}; no better than random"
    return Cell(text, _shade(line, value), title, is_best=name in best)


def _shade(line: _Line, value: float) -> str:
    """The worst of a line has no colour, the best the strongest."""
    known = [one for name in line.found if (one := line.value(name)) is not None]
    low, high = min(known), max(known)
    if high == low:
        return ""
    share = (value - low) / (high - low)
    level = round((1 - share if line.is_lower else share) * _STRONGEST)
    return f"strength{level}" if level else ""


def _summary(metric: str) -> str:
    try:
        entry = METRICS[parse_spec(metric).name]
    except DidactError:
        return ""
    return f"{entry.summary} ({entry.paper})"
