"""The tables of an analysis for a terminal."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from didact.study.analyze import Sheet

Row = Mapping[str, Any]
_FIRST: Final = {"ranking": "log-worth", "simulation": "foreseen", "rating": "mean"}


def sheets_of(document: Mapping[str, Any]) -> list[Sheet]:
    """Methods, pairs, agreement, TrueSkill, people, power: whatever this kind of study has."""
    return [one for make in (_methods, _pairs, _skill, _agreement, _power, _people) if (one := make(document)).rows]


def _methods(document: Mapping[str, Any]) -> Sheet:
    kind = document["kind"]
    form = _forms(kind)
    extra: dict[str, Callable[[Row], str]] = {
        "ranking": {
            "first places": lambda row: share(row["first_places"]),
            "mean rank": lambda row: number(row["mean_rank"], 2),
        },
        "simulation": {
            "people": lambda row: str(row["people"]), "where it is right": lambda row: share(row["where_right"]),
            "where it is wrong": lambda row: share(row["where_wrong"]),
            "while learning": lambda row: share(row["learning"]),
        },
        "rating": {"ratings": lambda row: str(row["ratings"]), "plain mean": lambda row: number(row["raw_mean"], 2)},
    }[kind]  # fmt: skip
    level = f"{100 * document['level']:g} %"
    rows = tuple(
        (
            row["method"], str(row["rank"]), form(row["estimate"]), ends(row["low"], row["high"], form),
            str(row["rank_here"]), *(told(row) for told in extra.values()),
        )
        for row in document["methods"]
    )  # fmt: skip
    return Sheet("Methods", ("method", "rank", _FIRST[kind], level, "rank here", *extra), rows)


def _pairs(document: Mapping[str, Any]) -> Sheet:
    form = _forms(document["kind"], signed=True)
    has_tests = document["kind"] == "simulation"
    columns = ["better", "worse", "difference", f"{100 * document['level']:g} %", "all at once", "distinguishable"]
    rows = []
    for row in document["pairs"]:
        line = [
            row["better"], row["worse"], form(row["difference"]), ends(row["low"], row["high"], form),
            ends(row["sure_low"], row["sure_high"], form),
            "yes" if row["is_sure"] else "among these people" if row["is_sure_here"] else "no",
        ]  # fmt: skip
        rows.append((*line, _p(row)) if has_tests else tuple(line))
    return Sheet("Pairs", (*columns, "p (Holm)") if has_tests else tuple(columns), tuple(rows), keys=2)


def _p(row: Row) -> str:
    return "–" if row["p_holm"] is None else f"{row['p_holm']:.3g}"


def _skill(document: Mapping[str, Any]) -> Sheet:
    rows = [
        (
            row["method"], str(row["rank"]), number(row["mu"], 2),
            ends(row["low"], row["high"], lambda one: number(one, 2)),
            f"{number(row['shuffled'], 2)} ± {number(row['spread'], 2)}", str(row["shuffled_rank"]),
        )
        for row in document.get("trueskill", {}).get("rows", [])
    ]  # fmt: skip
    columns = ("method", "rank", "TrueSkill μ", "95 %", "over orders", "rank over orders")
    return Sheet("TrueSkill, as SMaT's study computed it", columns, tuple(rows))


def _agreement(document: Mapping[str, Any]) -> Sheet:
    found = document["agreement"]
    names = {
        "kendall_w_items": "Kendall's W, mean over items", "kendall_w_people": "Kendall's W of people's mean ranks",
        "alpha": f"Krippendorff's α, {found['alpha_metric']}", "alpha_ordinal": "Krippendorff's α, ordinal",
    }  # fmt: skip
    rows = [(told, number(found[name], 2)) for name, told in names.items() if name in found]
    rows += [(f"α within {name}", number(value, 2)) for name, value in found.get("by_cohort", {}).items()]
    return Sheet("Agreement between people", ("measure", "value"), tuple(rows))


def _power(document: Mapping[str, Any]) -> Sheet:
    found = document["power"]
    form = _forms(document["kind"])
    rows = []
    for row in found.get("rows", []):
        what = "smallest found" if row["what"] == "smallest" else "asked for"
        people = "no number" if row["people"] is None else str(row["people"])
        more = "–" if row["more"] is None else str(row["more"])
        rows.append((what, form(row["difference"]), people, more, str(row["items"]), row["limit"]))
    each = "people in each cohort" if found.get("groups") == 2 else "people"
    title = f"To tell a difference with a power of {100 * found.get('power', 0.8):.0f} %"
    return Sheet(title, ("which", "difference", each, "more", "items", ""), tuple(rows))


def power_sentence(document: Mapping[str, Any], difference: float) -> str:
    """The people that `difference` takes; the analysis must have been asked for it."""
    found = document["power"]
    shown = _forms(document["kind"])(difference)
    asked = next((row for row in found.get("rows", []) if row["what"] == "asked"), None)
    if asked is None:
        return f"How many people a difference of {shown} takes cannot be said: {found.get('reason') or 'not analysed'}."
    start = f"To detect a difference of {shown} with a power of {100 * found['power']:.0f} %"
    if asked["people"] is None:
        return f"{start}, no number of people is enough, even with {asked['items']} items."
    each = " in each cohort" if found.get("groups") == 2 else ""
    more = f"{asked['more']} more than now" if asked["more"] else "no more than now"
    limit = f" {asked['limit'].capitalize()}." if asked["limit"] else ""
    return f"{start}, ask {asked['people']} people{each} ({more}) about {asked['items']} items.{limit}"


def _people(document: Mapping[str, Any]) -> Sheet:
    rows = tuple(
        (
            row["person"] + (" (synthetic)" if row["is_synthetic"] else ""), row["cohort"] or "–",
            f"{row['answers']} of {row['steps']}", number(row["median_seconds"], 1), number(row["tau"], 2),
            "; ".join(row["odd"]) or "–",
        )
        for row in document["people"]
    )  # fmt: skip
    return Sheet("People", ("person", "cohort", "answers", "median seconds", "τ with others", "odd"), rows)


def _forms(kind: str, *, signed: bool = False) -> Callable[[float | None], str]:
    if kind == "simulation":
        return lambda value: "–" if value is None else f"{100 * value:{'+' if signed else ''}.1f} %"
    return lambda value: number(value, 2, signed=signed)


def number(value: float | None, digits: int, *, signed: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if signed else ''}.{digits}f}"


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def ends(low: float | None, high: float | None, form: Callable[[float | None], str]) -> str:
    return "–" if low is None or high is None else f"{form(low)} to {form(high)}"
