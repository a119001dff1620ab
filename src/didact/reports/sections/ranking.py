"""How much each method teaches: gains with intervals as charts and a table, and whether students agree."""

import itertools
from functools import partial
from typing import Any

from didact.reports.band_chart import Band, band_plot
from didact.reports.charts import Dot, dot_plot
from didact.reports.describe import incomplete_notes, marked_name, method_text, student_text
from didact.reports.figure import BLUE, GREY, Figure, label
from didact.reports.section import Block, Heading, Key, Notes, Section, folded, lead, missing
from didact.reports.verdict import verdict_of
from didact.results.comparison import Comparison
from didact.results.comparison_table import MORE_TO_READ, band_text, share_texts
from didact.results.contrast import Column
from didact.results.documents import number
from didact.results.gains import FEW_SEEDS, NONE, SHARES, GainRow, column_name
from didact.results.number_format import minus
from didact.viz.tables import Cell, Table

_KEY = Key(
    [
        ("dot blue", "method"),
        ("dot grey", "control"),
        ("dot hollow", "hollow: no gain is claimed (the interval includes 0 or is missing)"),
    ]
)
_EXPORTED = (
    *("explainer", "student", "size", "seeds", "measure", "mean", "gain", "low", "high", "level", "p", "claimed"),
    *("low_seeds", "rank", "is_control", "test_rows"),
)
UNLEARNED = "students did not learn: no verdict"
_SHOWN = 4  # charts; a click unfolds the others


_FLIPS = (
    "Any change to a student flips some answers, so read helped and misled beside those of the controls: random "
    "explanations mislead, too."
)
_STARRED = ("clear", "close", "alone")  # verdicts that name a best method
_MEASURES = {
    "pearson": "Pearson's r with the model",
    "f1": "F1 with the model's answers",
    "balanced_accuracy": "balanced agreement with the model in percent (mean of the classes' recalls)",
}


def section(run: Comparison) -> Section:
    if not run.rows:
        return Section("ranking", "Ranking", [missing("No training succeeded. The end of the page says why.")])
    columns = sorted(run.columns, key=lambda column: column not in run.judged)
    figures = [_figure(run, column) for column in columns if _chart_rows(run, column)]
    blocks: list[Block] = [
        lead(
            "How much better students predict the model on unseen rows if they saw explanations while learning. Gains "
            "are measured against students who saw none; bars are 95 % intervals, corrected for the number of methods."
        ),
        _key(run) if figures else missing("No method has a gain here, so there is nothing to draw."),
        *folded(figures, min(_SHOWN, len(run.judged) or 1), "charts", "more charts"),
        _table(run),
        Notes(_notes(run)),
    ]
    if (more := _more_to_read(run)) is not None:
        blocks += [Heading("More to read"), more, Notes([MORE_TO_READ, _FLIPS])]
    if (taus := _agreement(run)) is not None:
        blocks += [Heading("Do the students agree?"), taus]
    return Section("ranking", "Ranking", blocks)


def _key(run: Comparison) -> Key:
    if not any(row.band for row in run.rows):
        return _KEY
    band = "a band goes from the lowest to the highest gain over temperatures (below its points), a line to the ends of"
    return Key([*_KEY.entries[:2], ("", f"{band} their intervals")])


def _chart_rows(run: Comparison, column: Column) -> list[GainRow]:
    """The rows of a chart, from the largest gain to the smallest."""
    rows = [run.find(name, column) for name in run.ranked]
    rows_with_gain = [row for row in rows if row is not None and row.gain is not None]
    return sorted(rows_with_gain, key=lambda row: -(row.gain or 0.0))


def _figure(run: Comparison, column: Column) -> Figure:
    rows = _chart_rows(run, column)
    description = "; ".join(
        f"{label(row.explainer)} {run.format.signed(row.gain)} ({run.interval(row)})" for row in rows[:12]
    )
    baseline = run.find(NONE, column)
    baseline_text = f" none: {run.format.plain(baseline.mean)}." if baseline is not None else ""
    is_judged = column in run.judged
    if any(row.band for row in rows):
        description = "; ".join(f"{label(row.explainer)} {band_text(row, run.format)}" for row in rows[:12])
    return Figure(
        f"ranking-{column[0]}-{column[1]}",
        f"Gains over none with 95 % intervals, corrected for the number of methods, "
        f"{_column_title(run, column)}.{baseline_text} From best to worst: {description}.",
        partial(_chart, run, rows, is_judged=is_judged),
        caption=_column_title(run, column),
    )


def _column_title(run: Comparison, column: Column) -> str:
    """The name of a column, marked if its students or some of them did not learn."""
    return column_name(column) + run.column_mark(column) + ("" if column in run.judged else f" ({UNLEARNED})")


def _chart(run: Comparison, rows: list[GainRow], width: int, *, is_judged: bool = True) -> Any:
    if any(row.band for row in rows):
        return _band_chart(run, rows, width, is_judged=is_judged)
    dots = []
    scale = run.format.scale
    for row in rows:
        name, gain_text = label(row.explainer, 44), run.format.signed(row.gain)
        low, high = (None if end is None else end * scale for end in (row.low, row.high))
        color = BLUE if is_judged and not row.is_control else GREY
        is_filled = is_judged and (row.is_above or row.is_below)
        tooltip = f"{name}: {gain_text} ({run.interval(row)}), {row.seeds} seeds"
        dots.append(Dot(name, (row.gain or 0.0) * scale, low, high, gain_text, tooltip, color, is_filled))
    return dot_plot(dots, width, base=0.0, base_name="zero", title=f"gain over none, {run.unit}")


def _band_chart(run: Comparison, rows: list[GainRow], width: int, *, is_judged: bool) -> Any:
    """The rows as bands over temperatures; a row without a band is a single point."""
    bands = []
    for row in rows:
        name, texts = label(row.explainer, 44), []
        points = [
            (f"{point.temperature:g}", point.gain, point.low, point.high)
            for point in row.band
            if point.gain is not None
        ] or [("", row.gain or 0.0, row.low, row.high)]
        for temperature, gain, low, high in points:
            sent = f" at temperature {temperature}" if temperature else ""
            texts.append(f"{name}{sent}: {run.format.signed(gain)} ({run.format.interval(low, high)})")
        lowest, highest = (end(points, key=lambda point: point[1]) for end in (min, max))
        ends = [lowest[1] if lowest[2] is None else lowest[2], highest[1] if highest[3] is None else highest[3]]
        low, high = (end * run.format.scale for end in ends)
        values = [
            (temperature, gain * run.format.scale, text)
            for (temperature, gain, _, _), text in zip(points, texts, strict=True)
        ]
        value_text = " to ".join(dict.fromkeys(run.format.signed(point[1]) for point in (lowest, highest)))
        bands.append(Band(name, values, low, high, value_text, BLUE if is_judged and not row.is_control else GREY))
    return band_plot(bands, width, title=f"gain over none at each temperature, {run.unit}")


def _table(run: Comparison) -> Table:
    several = len(run.columns) > 1
    heads: list[Cell | str] = ["explainer", "mean rank" if several else "rank"]
    heads += [
        Cell(_column_title(run, column), "" if column in run.judged else "control", student_text(run, column[0]))
        for column in run.columns
    ]
    verdict = verdict_of(run)
    best = verdict.tied if verdict.level in _STARRED else ()
    rows: list[list[Cell | str]] = []
    for name in run.ranked:
        rank = run.rank(name)
        look = "control" if name in run.controls else ""
        first = Cell(marked_name(run, name), look, method_text(name), is_best=name in best)
        written = "–" if rank is None else f"{rank:.1f}".removesuffix(".0")
        rows.append([first, written, *(_cell(run, run.find(name, column)) for column in run.columns)])
    judged = run.judged if run.about.get("columns") else None
    data = []
    for row in run.rows:
        learned = None if judged is None else row.column in judged
        fields = {name: row[name] for name in _EXPORTED} | {"measure": run.measure}
        data.append(fields | {"learned": learned, "written": _gain_with_interval(run, row)})
    baseline_text = _MEASURES.get(run.measure, "percent of rows on which students agree with the model")
    caption = f"Gain over none, {run.unit}, with its 95 % interval (Holm-corrected); none: {baseline_text}"
    return Table("ranking", caption, heads, rows, look="ranking", data=data)


def _cell(run: Comparison, row: GainRow | None) -> Cell:
    if row is None or (row.gain is None and row.explainer != NONE):
        return Cell("–", title="none of its runs succeeded")
    if row.explainer == NONE:
        return Cell(
            f"{run.format.plain(row.mean)}{row.footnotes}", "control", f"{row.seeds} seeds, {row.test_rows:,} test rows"
        )
    is_judged = row.column in run.judged
    text = run.format.signed(row.gain)
    aside = f"{run.format.brackets(row.low, row.high)} {row.mark if is_judged else ''}{row.footnotes}".strip()
    if (lowest := row.lowest_point) is not None:
        text = f"{run.format.signed(lowest.gain)} to {text}"
        aside = f"{run.format.brackets(lowest.low, lowest.high)} {lowest.mark if is_judged else ''} to {aside}"
    test = f"p = {row.p:.3g}" if row.p is not None else f"no p: {row.p_reason}" if row.p_reason else ""
    lost = f"{row.lost_rows:,} rows lost part of their explanation" if row.lost_rows else ""
    details = [f"mean {run.format.plain(row.mean)}", f"{row.seeds} seeds", f"{row.test_rows:,} test rows", test, lost]
    details += [] if is_judged else [UNLEARNED]
    look = "control" if row.is_control or not is_judged else ""
    return Cell(text, look, "; ".join(filter(None, details)), aside)


def _gain_with_interval(run: Comparison, row: GainRow) -> str:
    """A gain with its interval as one text for the CSV file; for `none`, its mean."""
    if row.explainer == NONE:
        return run.format.plain(row.mean)
    if row.band:
        return band_text(row, run.format)
    return "" if row.gain is None else f"{run.format.signed(row.gain)} {run.format.brackets(row.low, row.high)}"


def _notes(run: Comparison) -> list[str]:
    star = "★ in the lead (controls excluded); tied methods share it. " if verdict_of(run).level in _STARRED else ""
    notes = [
        f"{star}▲ claimed better than none, ▼ claimed worse: the interval excludes 0, that is p < 0.05, Holm-corrected "
        "over the methods of a column (each control by itself)."
    ]
    notes += filter(None, [run.about.sent])
    if not run.contrasts:
        notes.append(run.why_no_contrasts)
    notes += [f"‡ {column_name(row.column)}: {row.modes_sentence}" for row in run.rows if row.low_seeds]
    for column, reason in run.unlearned.items():
        notes.append(f"{column_name(column)}: {UNLEARNED}. {reason}".strip())
    if any(row.seeds < FEW_SEEDS for row in run.rows):
        notes.append(f"° fewer than {FEW_SEEDS} seeds: the interval is unreliable. Use --seeds 8.")
    notes += sorted({f"No p: {row.p_reason}." for row in run.rows if row.p_reason and not row.is_control})
    if run.failed:
        notes.append(f"{len(run.failed):,} runs failed; a contrast leaves out seeds that failed in either arm.")
    notes += incomplete_notes(run)
    if len(run.sizes) == 1:
        notes.append(
            "There is one training size. Use --train-sizes 125,250,500 to see how gains change with more rows."
        )
    if any(row.lost_rows for row in run.rows):
        notes.append(
            "Some students read less text than the model: some rows lost part of their explanation. Point at a number."
        )
    return notes


def _more_to_read(run: Comparison) -> Table | None:
    """Normalised gain, helped and misled, one line per method; None if the run stores none of them."""
    names = [name for name in run.ranked if any(row.helped is not None for row in run.rows_of(name))]
    if not names:
        return None
    several = len(run.columns) > 1
    heads: list[Cell | str] = ["explainer"]
    for column in run.columns:
        title = f"{_column_title(run, column)}: " if several else ""
        heads += [f"{title}gap closed, %", "helped, %", "misled, %"]
    rows: list[list[Cell | str]] = []
    for name in names:
        shares = [share_texts(run.find(name, column), ascii_minus=False) for column in run.columns]
        first = Cell(marked_name(run, name), "control" if name in run.controls else "", method_text(name))
        rows.append([first, *(text for texts in shares for text in texts)])
    data = [
        {name: row[name] for name in ("explainer", "student", "size", *SHARES)}
        for row in run.rows
        if row.helped is not None
    ]
    return Table(
        "more-to-read", "Share of the remaining gap, and answers that explanations changed", heads, rows, data=data
    )


def _agreement(run: Comparison) -> Table | None:
    columns = [(str(entry.get("student")), int(entry.get("size") or 0)) for entry in run.agreement.get("columns") or []]
    tau = run.agreement.get("tau") or []
    if len(tau) != len(columns):
        return None
    learned = [index for index, column in enumerate(columns) if column not in run.unlearned]
    tau = [[tau[first][second] for second in learned] for first in learned]
    names = [column_name(columns[index]) for index in learned]
    if len(names) < 2:
        return None
    rows: list[list[Cell | str]] = []
    for name, line in zip(names, tau, strict=True):
        rows.append(
            [
                name,
                *(Cell("–" if (tau_value := number(value)) is None else minus(f"{tau_value:.2f}")) for value in line),
            ]
        )
    pairs = [number(tau[a][b]) for a, b in itertools.combinations(range(len(tau)), 2)]
    known_taus = [value for value in pairs if value is not None]
    span = f", from {minus(f'{min(known_taus):.2f}')} to {minus(f'{max(known_taus):.2f}')}" if known_taus else ""
    caption = f"Kendall's τ between the rankings by each pair of students{span}; 1 is the same ranking"
    return Table("students-agree", caption, ["", *names], rows)
