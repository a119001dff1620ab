"""How far methods agree with one another: a square per measure, with what agreement does not mean."""

import numpy as np

from didact.reports.figure import Figure, label
from didact.reports.section import Block, Details, Notes, Section, lead
from didact.results.agreement import AgreementMatrix
from didact.results.comparison import Comparison
from didact.results.documents import number
from didact.viz.colours import shade
from didact.viz.matrix import MatrixView, format_value
from didact.viz.tables import Cell, Table

_SAID = {
    "kendall": "Kendall's τ: the order of all units",
    "spearman": "Spearman's ρ: the ranks of all units",
    "pearson": "Pearson's r: the scores themselves",
    "weighted_tau": "weighted τ: the order, the top first",
    "top_overlap": "overlap of the highest units",
    "top_tau": "order of the highest units",
    "sign": "the same signs",
}


def section(run: Comparison) -> Section | None:
    """None where agreement was not measured; the end of the page says so."""
    squares = [] if run.measured is None else [one for one in run.measured.agreement if one.square is not None]
    if not squares:
        return None
    caution = next((one.caution for one in squares if one.caution), "")
    tables = [_table(one) for one in squares]
    rows = max((int(number(count) or 0) for line in squares[0].rows for count in line), default=0)
    said = f"Each pair of methods about the same rows: mean over {rows:,} rows. 1 is the same, 0 is chance. {caution}"
    more = [Details(table.caption, [table]) for table in tables[1:]]
    remarks = list(dict.fromkeys(note for one in squares for note in one.notes))
    blocks: list[Block] = [lead(said), tables[0], *more, Notes(remarks)]
    return Section("agreement", "Do the methods say the same?", blocks, charts=[_figure(one) for one in squares])


def _said(square: AgreementMatrix) -> str:
    name = square.measure
    said = _SAID.get(name.partition("(")[0].strip(), name)
    options = name.partition("(")[2].rstrip(")")
    by = {"size": ", scores by size", "signed": ", scores with their signs"}.get(square.by, "")
    return f"{said}{f' ({options})' if options else ''}{by}"


def _table(square: AgreementMatrix) -> Table:
    names, values = square.methods, square.square
    assert values is not None
    rows: list[list[Cell | str]] = []
    data = []
    for a, name in enumerate(names):
        line: list[Cell | str] = [name]
        for b, other in enumerate(names):
            sd = square.spread(a, b)
            line.append(_cell(name, other, float(values[a, b]), sd))
            if a < b:
                known = {"measure": square.measure, "value": number(float(values[a, b])), "sd": sd}
                data.append({"method": name, "other": other, **known})
        rows.append(line)
    return Table(f"agreement-{square.measure}", _said(square), ["", *names], rows, look="square", data=data)


def _cell(name: str, other: str, value: float, sd: float | None) -> Cell:
    if name == other:
        return Cell("", "same")
    if not np.isfinite(value):
        return Cell("–", title=f"{name} and {other}: no row with an answer")
    step = shade(value, 1.25, "signed")  # the strongest colours are left out: numbers are read on the others
    spread = "" if sd is None else f" ± {sd:.2f} over rows"
    return Cell(format_value(value), step.look, f"{name} and {other}: {format_value(value)}{spread}")


def _figure(square: AgreementMatrix) -> Figure:
    values = square.square
    assert values is not None
    names = tuple(label(name, 44) for name in square.methods)
    low = 0.0 if square.measure.startswith(("top_overlap", "sign", "prediction")) else -1.0
    view = MatrixView(names, values, low=low, title=_said(square))
    name = f"agreement-{square.measure}"
    return Figure(name, _said(square), lambda _: view.chart(caution=square.caution), (0,))
