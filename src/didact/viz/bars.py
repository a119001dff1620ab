"""The scores of one row as an Altair bar chart, one bar per word from top to bottom."""

from typing import TYPE_CHECKING, Any

from didact.errors import OptionError
from didact.viz.chart import BOTH_SIGNS, GREENS, QUIET, altair
from didact.viz.heat_map import HeatMap, printable

if TYPE_CHECKING:
    import altair as alt

_UNNAMED = "(empty)"


def bar_chart(heat_map: HeatMap, *, title: str, k: int | None = 20) -> "alt.Chart":
    """The `k` strongest units (None: all) in the order of the text. Bars to the right are for the target.

    Raises OptionError for images and for `k` below 1.
    """
    if heat_map.is_image:
        raise OptionError("A bar chart needs words, but this row is an image. Use show() or to_html().")
    if k is not None and k < 1:
        raise OptionError(f"plot: k must be at least 1, or None for all words, got {k}.")
    alt = altair()
    ranked = sorted(range(len(heat_map.units)), key=lambda index: -abs(heat_map.units[index].score))
    # Words repeat, so their index makes names unique; the axis shows what follows the first space.
    units = [(index, _name(heat_map.units[index].token), heat_map.units[index].score) for index in sorted(ranked[:k])]
    rows = [{"unit": f"{index} {word}", "word": word, "score": score} for index, word, score in units]
    label_expression = "slice(datum.label, indexof(datum.label, ' ') + 1)"
    axis = alt.Axis(labelExpr=label_expression, labelLimit=220, ticks=False, domain=False, labelPadding=6)
    colour: Any = alt.value(GREENS[1])
    if heat_map.kind == "signed":
        colour = alt.condition(alt.datum.score < 0, alt.value(BOTH_SIGNS[0]), alt.value(BOTH_SIGNS[2]))
    # In words: a font without ✓ and ✗ would be replaced for the whole line.
    answers = " · ".join(f"{name} {printable(value)}" for name, value in heat_map.answers())
    subtitles = [answers.replace(" ✓", " (right)").replace(" ✗", " (wrong)")] if answers else []
    subtitles += (
        [f"the {k} strongest of {len(heat_map.units)} words"] if k is not None and k < len(heat_map.units) else []
    )
    subtitles += [heat_map.warning] if heat_map.warning else []
    return (
        alt.Chart(alt.Data(values=rows), width=360, height=alt.Step(22))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("score:Q", title="score", axis=alt.Axis(gridColor="#e6e8eb", tickCount=5)),
            y=alt.Y("unit:N", title=None, sort=[row["unit"] for row in rows], axis=axis),
            color=colour,
            tooltip=["word:N", alt.Tooltip("score:Q", format="+.4~g" if heat_map.kind == "signed" else ".4~g")],
        )
        .properties(
            title=alt.TitleParams(
                printable(title), subtitle=subtitles, anchor="start", fontSize=14, subtitleColor=QUIET
            )
        )
        .configure_view(stroke=None)
    )


def _name(token: str) -> str:
    return printable(token).strip() or _UNNAMED
