"""A study with people: which explanations they prefer or learn from, how sure that is, and who beats whom."""

from functools import partial
from typing import Any, Final

from didact.reports.charts import ChartCell, Dot, cell_chart, dot_plot
from didact.reports.figure import BLUE, GREY, INK, LINE, NARROW, ORANGE, PAGE, Figure, label
from didact.reports.section import Block, Details, Heading, Notes, Section, lead, missing
from didact.results.study_analysis import StudyAnalysis
from didact.results.study_tables import study_tables
from didact.viz.html import cut

_LEADS: Final = {
    "ranking": "People ranked explanations without knowing which method made them. A method whose log-worth is larger "
    "by 1 is ranked before another about e = 2.7 times as often as behind it.",
    "simulation": "People studied some rows with explanations, and then predicted the model's answers to other rows "
    "without any. Each cohort saw one method; the control saw no explanations.",
    "rating": "People rated one explanation at a time. Means are adjusted for how strict each person and how hard each "
    "item is.",
}
_CAPTIONS: Final = {
    "ranking": "Log-worths",
    "simulation": "Share of the model's answers that people predict, percent",
    "rating": "Mean ratings",
}
_RANKS: Final = (
    "rank: 1 + the number of methods that are surely better. The intervals hold for all pairs at once, and for other "
    "people and other items like these. Methods of equal rank may differ, but this study cannot distinguish them.",
    "rank among these people: the same for other items judged by the same people. It does not hold for other people.",
)
_SKILL: Final = (
    "TrueSkill gives later games more weight and treats pages as independent; its intervals ignore that people and "
    "items recur. It is shown for comparison with the paper. Use the ranks above for conclusions.",
)


def section(study: StudyAnalysis, *, number: int = 1, is_alone: bool = False) -> Section:
    """The section of a study; `number` counts the studies of a page. `is_alone`: the header has title and headline."""
    name = "people" if number == 1 else f"people-{number}"
    figures = _figures(study, name) if study.methods else []
    tables: dict[str, list[Block]] = {
        table.name.removeprefix(f"{name}-"): [table] for table in study_tables(study, f"{name}-")
    }
    pairs, skills = tables.get("pairs", []), tables.get("trueskill", [])
    heads = [f"{study.title}: {study.question}" if study.question else study.title, study.headline]
    blocks = [
        *map(lead, [] if is_alone else heads),
        lead(_LEADS[study.kind]),
        *figures,
        *tables.get("methods", []),
        Notes(_RANKS),
        # In a simulation study, the tests are of pairs.
        *(pairs if study.kind == "simulation" else [Details("Every pair of methods", pairs)]),
        Details("TrueSkill, as SMaT's study computed it", [*skills, Notes(_SKILL)] if skills else []),
        Heading("Do people agree?"),
        *(tables.get("agreement") or [missing(_reason(study.agreement.reason))]),
        Heading("How many people would it take?"),
        *(tables.get("power") or [missing(_reason(study.power.reason))]),
        Details(f"{study.counts.people} people", tables.get("everybody", [])),
        Notes(study.notes),
    ]
    return Section(name, "People" if number == 1 else f"People, study {number}", blocks)


def _reason(reason: str) -> str:
    text = reason or "there are too few answers for that"
    return f"{text[0].upper()}{text[1:]}."


def _figures(study: StudyAnalysis, name: str) -> list[Figure]:
    scale = study.format.scale
    dots = []
    for method in study.methods:
        written = study.format.plain(method.estimate)
        tooltip = f"{label(method.method)}: {written} ({study.format.interval(method.low, method.high, signed=False)})"
        low, high = (None if end is None else end * scale for end in (method.low, method.high))
        people = [value * scale for value in (method.by_person or {}).values()]
        short, color = label(method.method, 44), GREY if method.is_control else BLUE
        dots.append(Dot(short, method.estimate * scale, low, high, written, tooltip, color, people=people))
    control = next((entry.estimate * scale for entry in study.methods if entry.is_control), None)
    base = {"ranking": 0.0, "simulation": control, "rating": None}[study.kind]
    most = 100.0 if study.kind == "simulation" else None
    description = "; ".join(dot.tooltip for dot in dots[:12])
    caption = f"{_CAPTIONS[study.kind]}, with {100 * study.level:g} % intervals"
    draw = partial(dot_plot, dots, base=base, ticks=most)
    first = Figure(f"{name}-methods", f"{caption}. {description}.", draw, caption=caption)
    return [first, _who_beats_whom(study, name)] if len(study.methods) > 1 and study.pairs else [first]


def _who_beats_whom(study: StudyAnalysis, name: str) -> Figure:
    sure_pairs = [f"{label(pair.better)} beats {label(pair.worse)}" for pair in study.pairs if pair.is_sure]
    caption = "Who beats whom: the lead of the row over the column; filled where it is sure"
    alt = f"{caption}. {'; '.join(sure_pairs[:20]) or 'No two can be distinguished'}."
    return Figure(f"{name}-beats", alt, partial(_square, study), caption=caption)


def _square(study: StudyAnalysis, width: int) -> Any:
    """A matrix of differences, filled where one method is surely better or worse than the other."""
    is_narrow = width <= NARROW
    names = [method.method for method in study.methods]
    rows = [f"{number}. {cut(label(name, 30), 12 if is_narrow else 30)}" for number, name in enumerate(names, 1)]
    columns = [f"{number}" for number in range(1, len(names) + 1)]
    cells = []
    for pair in study.pairs:
        for row, column, sign in ((pair.better, pair.worse, 1.0), (pair.worse, pair.better, -1.0)):
            if row not in names or column not in names:
                continue
            claim, background = ("surely better", BLUE) if sign > 0 else ("surely worse", ORANGE)
            verdict, background, text_color = (
                (claim, background, PAGE) if pair.is_sure else ("cannot be distinguished", LINE, INK)
            )
            difference = study.format.signed(sign * pair.difference)
            tooltip = f"{label(row)} against {label(column)}: {difference}, {verdict}"
            position = rows[names.index(row)], columns[names.index(column)]
            cells.append(ChartCell(*position, difference, background, text_color, tooltip))
    size = (width if is_narrow else min(width, 230 + 76 * len(names)), 38 * len(names) + 40)
    return cell_chart(cells, rows, columns, size, font_size=10 if is_narrow and len(names) > 4 else 12)
