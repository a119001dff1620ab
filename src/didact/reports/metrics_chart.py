"""The table of metrics as a chart, for papers: a field for each metric and method, the darker the better."""

from typing import Any, Final

from didact.render.chart import GREENS, altair
from didact.render.tables import Cell, Table
from didact.reports.figure import INK, PAGE, calm, label, values

_STEP: Final = 26  # pixels of a line
_DARK: Final = 0.8  # shares above which letters are light


def metrics_chart(table: Table, width: int) -> Any:
    """The cells of the table by metric (down) and method (across). The best of a line is bold."""
    alt = altair()
    fields = _fields(table)
    names = list(dict.fromkeys(one["method"] for one in fields))
    metrics = list(dict.fromkeys(one["metric"] for one in fields))
    axis = {"title": None, "domain": False, "ticks": False, "labelColor": INK}
    base = alt.Chart(values(fields)).encode(
        x=alt.X(
            "method:N", sort=names, axis=alt.Axis(orient="top", labelAngle=-35, labelLimit=160, **axis),
            scale=alt.Scale(paddingInner=0.04),
        ),
        y=alt.Y(
            "metric:N", sort=metrics, axis=alt.Axis(labelLimit=260, **axis), scale=alt.Scale(paddingInner=0.08)
        ),
    )  # fmt: skip
    share = alt.Color("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[PAGE, *GREENS[:2]]))
    ground = base.transform_filter("datum.share >= 0").mark_rect(stroke=None).encode(color=share)
    layers = [ground]
    for is_best, weight in ((False, "normal"), (True, "bold")):
        for is_dark, ink in ((False, INK), (True, PAGE)):
            chosen = f"datum.is_best == {str(is_best).lower()} && (datum.share > {_DARK}) == {str(is_dark).lower()}"
            text = base.transform_filter(chosen).mark_text(fontSize=11, fontWeight=weight, color=ink)
            layers.append(text.encode(text="text:N"))
    return calm(alt.layer(*layers), width, _STEP * len(metrics) + 90)


def _fields(table: Table) -> list[dict[str, Any]]:
    """Each cell with its share from the worst (0) to the best (1) of its line; -1 where there is no number.

    Metrics without any number are left out.
    """
    heads = [_text(one) for one in table.heads[1:]]
    found = []
    for row in table.rows:
        cells = [one if isinstance(one, Cell) else Cell(one) for one in row[1:]]
        if all(cell.text == "–" for cell in cells):
            continue
        levels = [int(cell.look.removeprefix("strength") or 0) for cell in cells]
        most = max(levels, default=0) or 1
        for head, cell, level in zip(heads, cells, levels, strict=True):
            found.append(
                {
                    "metric": label(_text(row[0]), 44), "method": label(head, 30), "text": cell.text,
                    "share": -1.0 if cell.text == "–" else level / most, "is_best": cell.is_best,
                }
            )  # fmt: skip
    return found


def _text(one: Cell | str) -> str:
    return one.text if isinstance(one, Cell) else one
