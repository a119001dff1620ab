"""How far methods agree with one another: a matrix per agreement measure, and what agreement does not mean."""

import numpy as np

from didact.reports.figure import Figure, label
from didact.reports.section import Block, Details, Notes, Section, lead
from didact.results.agreement import AgreementMatrix
from didact.results.comparison import Comparison
from didact.results.documents import number
from didact.viz.colours import shade
from didact.viz.matrix import MatrixView, format_value
from didact.viz.tables import Cell, Table

_MEASURE_NAMES = {
    "kendall": "Kendall's τ: the order of all units",
    "spearman": "Spearman's ρ: the ranks of all units",
    "pearson": "Pearson's r: the scores themselves",
    "weighted_tau": "weighted τ: the order, the top first",
    "top_overlap": "overlap of the highest units",
    "top_tau": "order of the highest units",
    "sign": "the same signs",
}


def section(run: Comparison) -> Section | None:
    """The section, or None if agreement was not measured (provenance then says so)."""
    matrices = (
        [] if run.measured is None else [matrix for matrix in run.measured.agreement if matrix.square is not None]
    )
    if not matrices:
        return None
    caution = next((matrix.caution for matrix in matrices if matrix.caution), "")
    tables = [_table(matrix) for matrix in matrices]
    rows = max((int(number(count) or 0) for line in matrices[0].rows for count in line), default=0)
    intro = f"Agreement of each pair of methods, mean over {rows:,} rows: 1 is identical, 0 is chance. {caution}"
    more = [Details(table.caption, [table]) for table in tables[1:]]
    remarks = list(dict.fromkeys(note for matrix in matrices for note in matrix.notes))
    blocks: list[Block] = [lead(intro), tables[0], *more, Notes(remarks)]
    return Section("agreement", "Do the methods agree?", blocks, charts=[_figure(matrix) for matrix in matrices])


def _caption(matrix: AgreementMatrix) -> str:
    name = matrix.measure
    description = _MEASURE_NAMES.get(name.partition("(")[0].strip(), name)
    options = name.partition("(")[2].rstrip(")")
    by = {"size": ", scores by size", "signed": ", scores with their signs"}.get(matrix.by, "")
    return f"{description}{f' ({options})' if options else ''}{by}"


def _table(matrix: AgreementMatrix) -> Table:
    names, values = matrix.methods, matrix.square
    assert values is not None
    rows: list[list[Cell | str]] = []
    data = []
    for a, name in enumerate(names):
        line: list[Cell | str] = [name]
        for b, other in enumerate(names):
            sd = matrix.spread(a, b)
            line.append(_cell(name, other, float(values[a, b]), sd))
            if a < b:
                pair_values = {"measure": matrix.measure, "value": number(float(values[a, b])), "sd": sd}
                data.append({"method": name, "other": other, **pair_values})
        rows.append(line)
    return Table(f"agreement-{matrix.measure}", _caption(matrix), ["", *names], rows, look="square", data=data)


def _cell(name: str, other: str, value: float, sd: float | None) -> Cell:
    if name == other:
        return Cell("", "same")
    if not np.isfinite(value):
        return Cell("–", title=f"{name} and {other}: undefined on every row")
    step = shade(value, 1.25, "signed")  # without the strongest colours, on which numbers are hard to read
    spread = "" if sd is None else f" ± {sd:.2f} over rows"
    return Cell(format_value(value), step.look, f"{name} and {other}: {format_value(value)}{spread}")


def _figure(matrix: AgreementMatrix) -> Figure:
    values = matrix.square
    assert values is not None
    names = tuple(label(name, 44) for name in matrix.methods)
    low = 0.0 if matrix.measure.startswith(("top_overlap", "sign", "prediction")) else -1.0
    view = MatrixView(names, values, low=low, title=_caption(matrix))
    name = f"agreement-{matrix.measure}"
    return Figure(name, _caption(matrix), lambda _: view.chart(caution=matrix.caution), (0,))
