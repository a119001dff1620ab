"""What people said: which explanations they prefer, or learn from, how sure that is, and who beats whom."""

from typing import Final

from didact.reports.dot_plot import Dot, dot_plot
from didact.reports.figure import BLUE, GREY, Figure, label
from didact.reports.people_charts import Grid, grid
from didact.reports.section import Block, Details, Heading, Notes, Section, lead, missing
from didact.results.study_analysis import StudyAnalysis
from didact.results.study_tables import study_tables

_LEADS: Final = {
    "ranking": "People ranked explanations without knowing whose they are. The log-worth of a method is what puts it "
    "before others: with one more, it is put before another about e = 2.7 times as often as behind it.",
    "simulation": "People learned from explanations of some rows what the model says, and then foretold it for rows "
    "without any. A cohort saw one method; the control saw none.",
    "rating": "People rated one explanation at a time. Means are cleared of how strict a person is and of how hard an "
    "item is.",
}
_RANKS: Final = (
    "rank: 1 + the number of methods that are surely better, by intervals that hold for all pairs at once and are "
    "about other people and other items like these. Methods of one rank are not alike; they cannot be told apart.",
    "rank among these people: the same if the very people who were asked judged other items; of "
    "others it says nothing.",
)
_SKILL: Final = (
    "TrueSkill believes late games more and takes pages for independent; its intervals do not know that a page's "
    "people and items return. It is here to compare with the paper. For what can be said, see the ranks above.",
)


def section(study: StudyAnalysis, *, place: int = 1, is_alone: bool = False) -> Section:
    """One study; `place` counts those of a page. Alone on a page, what its head says is not said again."""
    name = "people" if place == 1 else f"people-{place}"
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
        # What a simulation tests are its pairs.
        *(pairs if study.kind == "simulation" else [Details("Every pair of methods", pairs)]),
        Details("TrueSkill, as SMaT's study computed it", [*skills, Notes(_SKILL)] if skills else []),
        Heading("Do people agree?"),
        *(tables.get("agreement") or [missing(_reason(study.agreement.reason))]),
        Heading("How many people would it take?"),
        *(tables.get("power") or [missing(_reason(study.power.reason))]),
        Details(f"{study.counts.people} people", tables.get("everybody", [])),
        Notes(study.notes),
    ]
    return Section(name, "People" if place == 1 else f"People, study {place}", blocks)


def _reason(reason: str) -> str:
    said = reason or "there is too little for that"
    return f"{said[0].upper()}{said[1:]}."


def _figures(study: StudyAnalysis, name: str) -> list[Figure]:
    scale = study.format.scale
    lines = []
    for method in study.methods:
        written = study.format.plain(method.estimate)
        told = f"{label(method.method)}: {written} ({study.format.interval(method.low, method.high, signed=False)})"
        low, high = (None if end is None else end * scale for end in (method.low, method.high))
        people = tuple(value * scale for value in method.by_person)
        short, color = label(method.method, 44), GREY if method.is_control else BLUE
        lines.append(Dot(short, method.estimate * scale, low, high, written, told, color, people=people))
    control = next((one.estimate * scale for one in study.methods if one.is_control), None)
    base = {"ranking": 0.0, "simulation": control, "rating": None}[study.kind]
    most = 100.0 if study.kind == "simulation" else None
    captions = {
        "ranking": "Log-worths", "simulation": "Share of the model's answers that people foresee, percent",
        "rating": "Mean ratings",
    }  # fmt: skip
    told = "; ".join(one.told for one in lines[:12])
    caption = f"{captions[study.kind]}, with {100 * study.level:g} % intervals"
    found = [
        Figure(
            f"{name}-methods",
            f"{caption}. {told}.",
            lambda width: dot_plot(lines, width, base=base, ticks=most),
            caption=caption,
        )
    ]
    if len(study.methods) > 1 and study.pairs:
        found.append(_who_beats_whom(study, name))
    return found


def _who_beats_whom(study: StudyAnalysis, name: str) -> Figure:
    names = [one.method for one in study.methods]
    short = [label(one, 30) for one in names]
    cells = []
    for pair in study.pairs:
        if pair.better not in names or pair.worse not in names:
            continue
        for row, column, sign in ((pair.better, pair.worse, 1.0), (pair.worse, pair.better, -1.0)):
            look = ("better" if sign > 0 else "worse") if pair.is_sure else "open"
            word = {"better": "surely better", "worse": "surely worse", "open": "cannot be told apart"}[look]
            written = study.format.signed(sign * pair.difference)
            told = f"{label(row)} against {label(column)}: {written}, {word}"
            cells.append(Grid(names.index(row), names.index(column), written, look, told))
    sure = [f"{label(pair.better)} beats {label(pair.worse)}" for pair in study.pairs if pair.is_sure]
    caption = "Who beats whom: the row's lead over the column; filled where it is sure"
    alt = f"{caption}. {'; '.join(sure[:20]) or 'No two can be told apart'}."
    return Figure(f"{name}-beats", alt, lambda width: grid(short, cells, width), caption=caption)
