"""The chart of who beats whom among the methods of a study."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from didact.render.chart import altair
from didact.render.html import cut
from didact.reports.figure import BLUE, INK, LINE, NARROW, ORANGE, PAGE, calm, values

_LOOKS: Final = {"better": BLUE, "worse": ORANGE, "open": LINE}


@dataclass(frozen=True)
class Grid:
    """One field: what the method of the row leads over that of the column."""

    row: int
    column: int
    written: str
    look: str
    told: str


def grid(names: Sequence[str], cells: Sequence[Grid], width: int) -> Any:
    """A square: filled where one method is surely better or worse than the other, with the difference in words."""
    alt = altair()
    is_narrow = width <= NARROW
    longest = 12 if is_narrow else 30
    rows = [f"{place}. {cut(name, longest)}" for place, name in enumerate(names, 1)]
    columns = [f"{place}" for place in range(1, len(names) + 1)]
    found = [
        {
            "row": rows[one.row], "column": columns[one.column], "written": one.written, "color": _LOOKS[one.look],
            "text": INK if one.look == "open" else PAGE, "told": one.told,
        }
        for one in cells
    ]  # fmt: skip
    labels = {"domain": False, "ticks": False, "labelColor": INK, "title": None, "labelPadding": 8}
    base = alt.Chart(values(found)).encode(
        x=alt.X("column:N", sort=columns, scale=alt.Scale(domain=columns, padding=0.06),
                axis=alt.Axis(orient="top", labelAngle=0, **labels)),
        y=alt.Y("row:N", sort=rows, scale=alt.Scale(domain=rows, padding=0.06),
                axis=alt.Axis(labelLimit=260, **labels)),
        description="told:N",
    )  # fmt: skip
    fields = base.mark_rect(cornerRadius=4).encode(color=alt.Color("color:N", scale=None))
    size = 10 if is_narrow and len(names) > 4 else 12
    words = base.mark_text(fontSize=size).encode(text="written:N", color=alt.Color("text:N", scale=None))
    wide = min(width, 230 + 76 * len(names)) if not is_narrow else width
    return calm(alt.layer(fields, words), wide, 38 * len(names) + 40)
