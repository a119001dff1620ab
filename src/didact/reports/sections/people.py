"""What people said: which explanations they prefer, or learn from, how sure that is, and who beats whom."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from didact.reports.figure import Figure, label
from didact.reports.part import Part, details, lead, missing, notes
from didact.reports.people_charts import Grid, Line, dots, grid
from didact.reports.read_study import Judged, Study
from didact.reports.table import Cell, Table
from didact.results.number_format import minus

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


def part(study: Study, *, place: int = 1, is_alone: bool = False) -> Part:
    """One study; `place` counts those of a page. Alone on a page, what its head says is not said again."""
    name = "people" if place == 1 else f"people-{place}"
    figures = _figures(study, name) if study.methods else []
    tables = [make(study, name) for make in (_methods, _pairs, _skills, _agreement, _power, _everybody)]
    shown = {table.name.removeprefix(f"{name}-"): table for table in tables if table.rows}
    body = [
        "" if is_alone else lead(f"{study.title}: {study.question}" if study.question else study.title),
        "" if is_alone else lead(study.headline),
        lead(_LEADS[study.kind]),
        *(figure.html() for figure in figures),
        _html(shown, "methods"),
        notes(_RANKS),
        # What a simulation tests are its pairs.
        _html(shown, "pairs")
        if study.kind == "simulation"
        else details("Every pair of methods", _html(shown, "pairs")),
        details("TrueSkill, as SMaT's study computed it", _html(shown, "trueskill") + notes(_skill_notes(study))),
        "<h3>Do people agree?</h3>",
        _html(shown, "agreement") or missing(_reason(study.agreement)),
        "<h3>How many people would it take?</h3>",
        _html(shown, "power") or missing(_reason(study.power)),
        details(f"{study.counts['people']} people", _html(shown, "everybody")),
        notes(study.notes),
    ]
    title = "People" if place == 1 else f"People, study {place}"
    return Part(name, title, "\n".join(body), figures, list(shown.values()))


def _html(shown: Mapping[str, Table], name: str) -> str:
    return shown[name].html() if name in shown else ""


def _reason(found: Mapping[str, Any]) -> str:
    said = str(found.get("reason") or "there is too little for that")
    return f"{said[0].upper()}{said[1:]}."


def _figures(study: Study, name: str) -> list[Figure]:
    lines = [
        Line(
            label(one.method, 44), one.estimate * study.scale, _scaled(one.ends.low, study),
            _scaled(one.ends.high, study), study.written(one.estimate),
            f"{label(one.method)}: {study.written(one.estimate)} ({study.interval(one.ends)})", one.is_control,
            tuple(float(value) * study.scale for value in _by_person(one)),
        )
        for one in study.methods
    ]  # fmt: skip
    control = next((one.estimate * study.scale for one in study.methods if one.is_control), None)
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
            lambda width: dots(lines, width, base=base, most=most),
            caption=caption,
        )
    ]
    if len(study.methods) > 1 and study.pairs:
        found.append(_who_beats_whom(study, name))
    return found


def _who_beats_whom(study: Study, name: str) -> Figure:
    names = [one.method for one in study.methods]
    short = [label(one, 30) for one in names]
    cells = []
    for pair in study.pairs:
        if pair.better not in names or pair.worse not in names:
            continue
        for row, column, sign in ((pair.better, pair.worse, 1.0), (pair.worse, pair.better, -1.0)):
            look = ("better" if sign > 0 else "worse") if pair.is_sure else "open"
            word = {"better": "surely better", "worse": "surely worse", "open": "cannot be told apart"}[look]
            written = study.written(sign * pair.difference, signed=True)
            told = f"{label(row)} against {label(column)}: {written}, {word}"
            cells.append(Grid(names.index(row), names.index(column), written, look, told))
    sure = [f"{label(pair.better)} beats {label(pair.worse)}" for pair in study.pairs if pair.is_sure]
    caption = "Who beats whom: the row's lead over the column; filled where it is sure"
    alt = f"{caption}. {'; '.join(sure[:20]) or 'No two can be told apart'}."
    return Figure(f"{name}-beats", alt, lambda width: grid(short, cells, width), caption=caption)


def _methods(study: Study, name: str) -> Table:
    extra: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "ranking": {"first places": _share("first_places"), "mean rank": _number("mean_rank", 2)},
        "simulation": {
            "people": _number("people", 0), "where the model is right": _share("where_right"),
            "where it is wrong": _share("where_wrong"), "while learning": _share("learning"),
        },
        "rating": {"ratings": _number("ratings", 0), "plain mean": _number("raw_mean", 2)},
    }[study.kind]  # fmt: skip
    rows: list[list[Cell | str]] = [
        [
            Cell(one.method, "control" if one.is_control else "", is_best=_is_best(study, one)), str(one.rank),
            str(one.rank_here), Cell(study.written(one.estimate), aside=study.interval(one.ends)),
            *(told(one.facts) for told in extra.values()),
        ]
        for one in study.methods
    ]  # fmt: skip
    who = "cohort" if study.kind == "simulation" else "method"
    caption = f"{study.measure}, with its {100 * study.level:g} % interval over people and items"
    data = [
        {key: value for key, value in one.facts.items() if not isinstance(value, list | dict)} for one in study.methods
    ]
    heads = [who, "rank", "rank among these people", study.measure, *extra]
    return Table(f"{name}-methods", caption[0].upper() + caption[1:], heads, rows, look="ranking", data=data)


def _is_best(study: Study, one: Judged) -> bool:
    return one.rank == 1 and sum(other.rank == 1 for other in study.methods) == 1 and len(study.methods) > 1


def _pairs(study: Study, name: str) -> Table:
    has_tests = study.kind == "simulation"
    rows: list[list[Cell | str]] = []
    for pair in study.pairs:
        told = "yes" if pair.is_sure else "among these people" if pair.is_sure_here else "no"
        row: list[Cell | str] = [
            pair.better, pair.worse, study.written(pair.difference, signed=True),
            study.interval(pair.ends, signed=True), study.interval(pair.sure, signed=True), told,
        ]  # fmt: skip
        rows.append([*row, Cell("–" if pair.p is None else f"{pair.p:.3g}", title=pair.p_reason)] if has_tests else row)
    level = f"{100 * study.level:g} %"
    heads = ["better", "worse", "difference", f"{level} interval", f"{level} of all pairs at once", "told apart"]
    data = [dict(row) for row in study.document["pairs"]]
    unit = ", in points" if has_tests else ""
    return Table(f"{name}-pairs", f"Differences between methods{unit}", [*heads, "p (Holm)"] if has_tests else heads,
                 rows, words=(0, 1, 5), data=data)  # fmt: skip


def _skills(study: Study, name: str) -> Table:
    rows: list[list[Cell | str]] = [
        [
            one["method"], str(one["rank"]), Cell(_two(one["mu"]), aside=f"{_two(one['low'])} to {_two(one['high'])}"),
            Cell(_two(one["shuffled"]), aside=f"± {_two(one['spread'])}"), str(one["shuffled_rank"]),
        ]
        for one in study.skills
    ]  # fmt: skip
    heads = ["method", "rank", "μ, 95 % interval", "μ over shuffled orders", "rank over orders"]
    return Table(f"{name}-trueskill", "TrueSkill: μ 0 and σ 0.5 at the start, one game a page", heads, rows,
                 data=study.skills)  # fmt: skip


def _agreement(study: Study, name: str) -> Table:
    found = study.agreement
    names = {
        "kendall_w_items": "Kendall's W, mean over items", "kendall_w_people": "Kendall's W of people's mean ranks",
        "alpha": f"Krippendorff's α, {found.get('alpha_metric')}", "alpha_ordinal": "Krippendorff's α, ordinal",
    }  # fmt: skip
    known = [(told, _number(key, 2)(found)) for key, told in names.items() if key in found]
    cohorts = found.get("by_cohort")
    known += [(f"α within {one}", _number(one, 2)(cohorts)) for one in cohorts] if isinstance(cohorts, Mapping) else []
    rows: list[list[Cell | str]] = [[told, value] for told, value in known if value != "–"]
    return Table(f"{name}-agreement", "1 is full agreement; α of 0 is what chance gives", ["measure", "value"], rows)


def _power(study: Study, name: str) -> Table:
    each = "people in each cohort" if study.power.get("groups") == 2 else "people"
    rows: list[list[Cell | str]] = []
    for one in study.power["rows"]:
        what = "the smallest that was found" if one["what"] == "smallest" else "the one asked for"
        people = "no number is enough" if one["people"] is None else f"{one['people']:,}"
        more = "–" if one["more"] is None else f"{one['more']:,}"
        rows.append([what, study.written(one["difference"]), people, more, f"{one['items']:,}", one["limit"]])
    caption = (
        f"To tell a difference with a power of {100 * study.power['power']:.0f} %, as people, items "
        "and answers varied here"
    )
    heads = ["difference", "size", each, "more than now", "items", ""]
    return Table(f"{name}-power", caption, heads, rows, words=(0, 5))


def _everybody(study: Study, name: str) -> Table:
    rows: list[list[Cell | str]] = [
        [
            f"{one['person']}{' (synthetic)' if one['is_synthetic'] else ''}", one["cohort"] or "–",
            f"{one['answers']} of {one['steps']}", _number("median_seconds", 1)(one), _number("tau", 2)(one),
            "; ".join(one["odd"]) or "–",
        ]
        for one in study.people
    ]  # fmt: skip
    heads = ["person", "cohort", "answers", "median seconds", "τ with the others", "odd"]
    data = [{**one, "odd": "; ".join(one["odd"])} for one in study.people]
    return Table(f"{name}-everybody", "Everybody who answered", heads, rows, words=(0, 1, 5), data=data)


def _skill_notes(study: Study) -> list[str]:
    if not study.skills:
        return []
    return [
        "TrueSkill believes late games more and takes pages for independent; its intervals do not know that a page's "
        "people and items return. It is here to compare with the paper. For what can be said, see the ranks above."
    ]


def _by_person(one: Judged) -> Sequence[Any]:
    found = one.facts.get("by_person")
    values = found.values() if isinstance(found, Mapping) else []
    return [value for value in values if isinstance(value, int | float)]


def _scaled(value: float | None, study: Study) -> float | None:
    return None if value is None else value * study.scale


def _share(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "–" if not _is_number(row.get(name)) else f"{100 * float(row[name]):.0f} %"


def _number(name: str, digits: int) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "–" if not _is_number(row.get(name)) else minus(f"{float(row[name]):.{digits}f}")


def _two(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:.2f}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
