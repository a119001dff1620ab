"""What `didact study analyze` found, read for a report. Nothing of the study itself is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact.errors import OptionError, RecordError
from didact.records.sealed import read_json
from didact.results.documents import number
from didact.results.number_format import minus

FILE: Final = "analysis.json"
VERSION: Final = 1
KINDS: Final = ("ranking", "simulation", "rating")


@dataclass(frozen=True)
class Ends:
    """An interval, or what is known of it."""

    low: float | None
    high: float | None

    @property
    def is_known(self) -> bool:
        return self.low is not None and self.high is not None


@dataclass(frozen=True)
class Judged:
    """One method, or one cohort of a simulation. `rank` is about people at large, `rank_here` about those asked."""

    method: str
    estimate: float
    ends: Ends
    rank: int
    rank_here: int
    is_control: bool
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """The better of two and the worse. `sure` holds for all pairs at once, `here` for the people who were asked."""

    better: str
    worse: str
    difference: float
    ends: Ends
    sure: Ends
    is_sure: bool
    is_sure_here: bool
    p: float | None
    p_reason: str


@dataclass(frozen=True, eq=False)
class Study:
    """An analysed study. `document` holds what is written as it is."""

    folder: Path
    kind: str
    title: str
    question: str
    headline: str
    notes: Sequence[str]
    level: float
    methods: Sequence[Judged]
    pairs: Sequence[Pair]
    counts: Mapping[str, Any]
    people: Sequence[Mapping[str, Any]]
    agreement: Mapping[str, Any]
    power: Mapping[str, Any]
    skills: Sequence[Mapping[str, Any]]
    document: Mapping[str, Any]

    @property
    def measure(self) -> str:
        return {"ranking": "log-worth", "simulation": "foreseen", "rating": "mean rating"}[self.kind]

    @property
    def scale(self) -> float:
        return 100.0 if self.kind == "simulation" else 1.0

    def written(self, value: float | None, *, signed: bool = False) -> str:
        if value is None:
            return "–"
        digits, unit = (0, "" if signed else " %") if self.kind == "simulation" else (2, "")
        text = f"{value * self.scale:{'+' if signed else ''}.{digits}f}"
        return minus(text if float(text) else text.lstrip("+-")) + unit

    def interval(self, ends: Ends, *, signed: bool = False) -> str:
        if not ends.is_known:
            return "no interval"
        return f"{self.written(ends.low, signed=signed)} to {self.written(ends.high, signed=signed)}"


def read_study(folder: Path) -> Study:
    """Read the analysis that lies in a study's folder."""
    path = folder / FILE
    again = f"Run `didact study analyze {folder}`."
    if not folder.is_dir():
        raise OptionError(f"There is no folder {folder}. Name the folder of a study that was analysed.")
    try:
        found = read_json(path, advice=again)
    except FileNotFoundError as error:
        raise OptionError(f"{folder} holds no {FILE}: the study was not analysed yet. {again}") from error
    try:
        return _study(folder, found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise RecordError(f"{path} is damaged ({reason}). {again}") from error


def _study(folder: Path, found: Mapping[str, Any]) -> Study:
    if found["version"] != VERSION or found["kind"] not in KINDS:
        raise ValueError(f"version {found['version']!r} of kind {found['kind']!r} is not known here")
    return Study(
        folder=folder,
        kind=str(found["kind"]),
        title=str(found["title"]),
        question=str(found["question"]),
        headline=str(found["headline"]),
        notes=tuple(map(str, found["notes"])),
        level=_real(found["level"]),
        methods=tuple(map(_judged, found["methods"])),
        pairs=tuple(map(_pair, found["pairs"])),
        counts={
            name: int(found["counts"][name]) for name in ("people", "synthetic", "finished", "items", "answers")
        } | {"median_seconds": number(found["counts"].get("median_seconds"))},
        people=tuple(map(_person, found["people"])),
        agreement=dict(found["agreement"]),
        power=_power(found["power"]),
        skills=tuple(map(_skill, dict(found.get("trueskill") or {}).get("rows", ()))),
        document=found,
    )  # fmt: skip


def _judged(row: Mapping[str, Any]) -> Judged:
    return Judged(
        method=str(row["method"]), estimate=_real(row["estimate"]), ends=_ends(row, ""), rank=int(row["rank"]),
        rank_here=int(row["rank_here"]), is_control=bool(row.get("is_control", False)), facts=dict(row),
    )  # fmt: skip


def _pair(row: Mapping[str, Any]) -> Pair:
    return Pair(
        better=str(row["better"]), worse=str(row["worse"]), difference=_real(row["difference"]), ends=_ends(row, ""),
        sure=_ends(row, "sure_"), is_sure=bool(row["is_sure"]), is_sure_here=bool(row["is_sure_here"]),
        p=number(row.get("p_holm")), p_reason=str(row.get("p_reason") or ""),
    )  # fmt: skip


def _person(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "person": str(row["person"]), "cohort": str(row["cohort"]), "answers": int(row["answers"]),
        "steps": int(row["steps"]), "is_synthetic": bool(row["is_synthetic"]),
        "median_seconds": number(row["median_seconds"]), "tau": number(row["tau"]),
        "odd": tuple(map(str, row["odd"])),
    }  # fmt: skip


def _power(found: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = [
        {
            "what": str(row["what"]), "difference": _real(row["difference"]), "items": int(row["items"]),
            "people": None if row["people"] is None else int(row["people"]),
            "more": None if row["more"] is None else int(row["more"]), "limit": str(row["limit"]),
        }
        for row in found.get("rows") or ()
    ]  # fmt: skip
    share = 0.8 if found.get("power") is None else _real(found["power"])
    return {"rows": rows, "power": share, "groups": found.get("groups"), "reason": str(found.get("reason") or "")}


def _skill(row: Mapping[str, Any]) -> Mapping[str, Any]:
    numbers = {name: _real(row[name]) for name in ("mu", "sigma", "low", "high")}
    rest = {name: number(row[name]) for name in ("shuffled", "spread")}
    ranks = {name: int(row[name]) for name in ("rank", "shuffled_rank")}
    return {"method": str(row["method"]), **ranks, **numbers, **rest}


def _ends(row: Mapping[str, Any], start: str) -> Ends:
    return Ends(number(row[f"{start}low"]), number(row[f"{start}high"]))


def _real(value: Any) -> float:
    found = number(value)
    if found is None:
        raise ValueError(f"{value!r} is not a number")
    return found
