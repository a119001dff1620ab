"""The tables of an analysed study, the same for terminals and reports."""

from didact.results.number_format import UNKNOWN, NumberFormat
from didact.results.study_analysis import MethodEstimate, StudyAnalysis
from didact.viz.tables import Cell, Table

_DECIMALS = NumberFormat()
_PERCENT = NumberFormat(100.0, 0, " %")
_COUNT = NumberFormat(digits=0)
# Additional columns of the methods table by kind of study: heading, field, format.
_EXTRA_COLUMNS = {
    "ranking": (("first places", "first_places", _PERCENT), ("mean rank", "mean_rank", _DECIMALS)),
    "simulation": (
        ("people", "people", _COUNT),
        ("where the model is right", "where_right", _PERCENT),
        ("where it is wrong", "where_wrong", _PERCENT),
        ("while learning", "learning", _PERCENT),
    ),
    "rating": (("ratings", "ratings", _COUNT), ("plain mean", "raw_mean", _DECIMALS)),
}


def study_tables(study: StudyAnalysis, prefix: str = "") -> list[Table]:
    """The tables that this kind of study has: methods, pairs, TrueSkill, agreement, power, people."""
    builders = (_methods, _pairs, _skills, _agreement, _power, _participants)
    return [table for build in builders if (table := build(study, prefix)).rows]


def _methods(study: StudyAnalysis, prefix: str) -> Table:
    extra_columns = _EXTRA_COLUMNS[study.kind]
    rows: list[list[Cell | str]] = []
    for method in study.methods:
        first = Cell(method.method, "control" if method.is_control else "", is_best=_is_best(study, method))
        interval = study.format.interval(method.low, method.high, signed=False)
        estimate = Cell(study.format.plain(method.estimate), aside=interval)
        extra_cells = [number_format.plain(getattr(method, name)) for _, name, number_format in extra_columns]
        rows.append([first, str(method.rank), str(method.rank_here), estimate, *extra_cells])
    row_heading = "cohort" if study.kind == "simulation" else "method"
    caption = f"{study.measure}, with its {100 * study.level:g} % interval over people and items"
    data = [
        {key: value for key, value in row.items() if not isinstance(value, list | dict)}
        for row in study.document["methods"]
    ]
    heads = [
        row_heading,
        "rank",
        "rank among these people",
        study.measure,
        *(heading for heading, _, _ in extra_columns),
    ]
    return Table(f"{prefix}methods", caption[0].upper() + caption[1:], heads, rows, look="ranking", data=data)


def _is_best(study: StudyAnalysis, method: MethodEstimate) -> bool:
    return method.rank == 1 and sum(other.rank == 1 for other in study.methods) == 1 and len(study.methods) > 1


def _pairs(study: StudyAnalysis, prefix: str) -> Table:
    has_tests = study.kind == "simulation"
    rows: list[list[Cell | str]] = []
    for pair in study.pairs:
        verdict = "yes" if pair.is_sure else "among these people" if pair.is_sure_here else "no"
        intervals = [
            study.format.interval(pair.low, pair.high),
            study.format.interval(pair.sure_low, pair.sure_high),
        ]
        row: list[Cell | str] = [pair.better, pair.worse, study.format.signed(pair.difference), *intervals, verdict]
        p = Cell(UNKNOWN if pair.p_holm is None else f"{pair.p_holm:.3g}", title=pair.p_reason)
        rows.append([*row, p] if has_tests else row)
    level = f"{100 * study.level:g} %"
    heads = ["better", "worse", "difference", f"{level} interval", f"{level} of all pairs at once", "different"]
    heads += ["p (Holm)"] if has_tests else []
    caption = f"Differences between methods{', in points' if has_tests else ''}"
    data = [dict(row) for row in study.document["pairs"]]
    return Table(f"{prefix}pairs", caption, heads, rows, words=(0, 1, 5), data=data, keys=2)


def _skills(study: StudyAnalysis, prefix: str) -> Table:
    rows: list[list[Cell | str]] = [
        [
            skill.method,
            str(skill.rank),
            Cell(_DECIMALS.plain(skill.mu), aside=_DECIMALS.interval(skill.low, skill.high, signed=False)),
            Cell(_DECIMALS.plain(skill.shuffled), aside=f"± {_DECIMALS.plain(skill.spread)}"),
            str(skill.shuffled_rank),
        ]
        for skill in study.skills
    ]
    heads = ["method", "rank", "μ, 95 % interval", "μ over shuffled orders", "rank over orders"]
    caption = "TrueSkill: μ 0 and σ 0.5 at the start, one game a page"
    order = ("method", "rank", "shuffled_rank", "mu", "sigma", "low", "high", "shuffled", "spread")
    data = [{name: skill[name] for name in order} for skill in study.skills]
    return Table(f"{prefix}trueskill", caption, heads, rows, data=data)


def _agreement(study: StudyAnalysis, prefix: str) -> Table:
    rows: list[list[Cell | str]] = [[title, _DECIMALS.plain(value)] for title, value in study.agreement.values]
    caption = "1 is full agreement; α of 0 is what chance gives"
    return Table(f"{prefix}agreement", caption, ["measure", "value"], rows)


def _power(study: StudyAnalysis, prefix: str) -> Table:
    people_heading = "people in each cohort" if study.power.groups == 2 else "people"
    rows: list[list[Cell | str]] = []
    for needed in study.power.rows:
        label = "the smallest observed" if needed.what == "smallest" else "the one requested"
        people = "no number is enough" if needed.people is None else f"{needed.people:,}"
        more = UNKNOWN if needed.more is None else f"{needed.more:,}"
        size = study.format.plain(needed.difference)
        rows.append([label, size, people, more, f"{needed.items:,}", needed.limit])
    power = f"{100 * study.power.power:.0f} %"
    caption = f"To detect a difference with a power of {power}, given how people, items and answers varied here"
    return Table(
        f"{prefix}power",
        caption,
        ["difference", "size", people_heading, "more than now", "items", ""],
        rows,
        words=(0, 5),
    )


def _participants(study: StudyAnalysis, prefix: str) -> Table:
    seconds = NumberFormat(digits=1)
    rows: list[list[Cell | str]] = [
        [
            f"{participant.person}{' (synthetic)' if participant.is_synthetic else ''}",
            participant.cohort or UNKNOWN,
            f"{participant.answers} of {participant.steps}",
            seconds.plain(participant.median_seconds),
            _DECIMALS.plain(participant.tau),
            "; ".join(participant.odd) or UNKNOWN,
        ]
        for participant in study.people
    ]
    heads = ["person", "cohort", "answers", "median seconds", "τ with the others", "odd"]
    data = [{**participant.to_document(), "odd": "; ".join(participant.odd)} for participant in study.people]
    return Table(f"{prefix}everybody", "Everyone who answered", heads, rows, words=(0, 1, 5), data=data)
