"""What a run kept in its folder, read for a report. What is missing is told, what is damaged is an error."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from statistics import median
from typing import Any, Final

from didact.errors import DidactError, OptionError, RecordError
from didact.records.explanations import Explanations
from didact.records.remote import fetched_run, is_url
from didact.records.sealed import read_json
from didact.render.marks import INCOMPLETE
from didact.reports.measured import Measured, Method, list_of, measured_of, number
from didact.stats.contrast_table import ContrastTable

FEW: Final = 5  # seeds below which an interval says little
NONE: Final = "none"

Column = tuple[str, int]


@dataclass(frozen=True)
class Gain:
    """One explainer with one student and size. Measures and gains are fractions; what is not known is None.

    `claimed` is true if the gain differs from 0 by the rule of docs/compare.md; the interval is at `level`.
    """

    explainer: str
    student: str
    size: int
    seeds: int
    mean: float | None
    gain: float | None
    low: float | None
    high: float | None
    p: float | None
    p_reason: str
    rank: float | None
    is_control: bool
    lost_rows: int
    test_rows: int
    level: float | None = None
    claimed: bool = False
    low_seeds: int = 0

    @property
    def column(self) -> Column:
        return self.student, self.size

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def is_above(self) -> bool:
        """Claimed to be above 0."""
        return self.claimed and (self.gain or 0.0) > 0

    @property
    def is_below(self) -> bool:
        """Claimed to be below 0."""
        return self.claimed and (self.gain or 0.0) < 0


@dataclass(frozen=True)
class Launch:
    """How and when a run was started (run.json). What older runs did not record is empty or None."""

    command: str = ""
    started: str = ""
    finished: str = ""
    seconds: float | None = None

    @property
    def date(self) -> str:
        """When the run finished, to the minute; else when it started."""
        moment = self.finished or self.started
        try:
            when = datetime.fromisoformat(moment)
        except ValueError:
            return ""
        zone = "" if when.tzinfo is None else " UTC"
        return f"{when if when.tzinfo is None else when.astimezone(UTC):%Y-%m-%d %H:%M}{zone}"


@dataclass(frozen=True, eq=False)
class Run:
    """A run's folder. `contrasts` holds every two arms of a column; `why_empty` says why it is empty.

    `unlearned` holds the columns whose students learned nothing, with the reason. Ranks and gains leave them out.
    """

    folder: Path
    rows: tuple[Gain, ...]
    measure: str
    failed: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    about: Mapping[str, Any]
    agreement: Mapping[str, Any]
    learned: tuple[Mapping[str, Any], ...]
    measured: Measured | None = None
    unlearned: Mapping[Column, str] = field(default_factory=dict)
    launch: Launch = field(default_factory=Launch)
    contrasts: ContrastTable = field(default_factory=ContrastTable)

    @property
    def name(self) -> str:
        """The model's name; of a folder's path its last part: where it lay is no part of a page that is passed on."""
        name = str(self.about.get("teacher") or "this model")
        return PurePath(name).name or name if PurePath(name).is_absolute() else name

    @cached_property
    def counts(self) -> dict[str, str]:
        """How many rows there were, by what they were for; what is not known is left out."""
        recorded = {name: number(self.about.get(f"{name}_rows")) for name in ("file", "train", "dev", "test")}
        tests = sorted({row.test_rows for row in self.rows if row.test_rows})
        found = {
            "in the data": _count(recorded["file"]),
            "to draw students' rows from": _count(recorded["train"]),
            "students learn from": ", ".join(f"{size:,}" for size in self.sizes),
            "dev": _count(recorded["dev"]),
            "test": ", ".join(f"{count:,}" for count in tests) or _count(recorded["test"]),
            "measured": "" if self.measured is None else f"{len(self.measured.rows):,}",
        }
        return {name: text for name, text in found.items() if text}

    @cached_property
    def explainers(self) -> list[str]:
        """From best to worst by mean rank; those without a rank last."""
        names = list(dict.fromkeys(row.explainer for row in self.rows))
        return sorted(names, key=lambda name: (self.rank(name) is None, self.rank(name) or 0.0, name))

    @cached_property
    def columns(self) -> list[Column]:
        return list(dict.fromkeys(row.column for row in self.rows))

    @cached_property
    def judged(self) -> list[Column]:
        """The columns that a verdict can rest on: all but those whose students learned nothing."""
        return [column for column in self.columns if column not in self.unlearned]

    @cached_property
    def students(self) -> list[str]:
        return list(dict.fromkeys(student for student, _ in self.columns))

    @cached_property
    def sizes(self) -> list[int]:
        return sorted({size for _, size in self.columns})

    @cached_property
    def controls(self) -> set[str]:
        return {row.explainer for row in self.rows if row.is_control} | {NONE}

    @cached_property
    def _table(self) -> dict[tuple[str, str, int], Gain]:
        return {(row.explainer, row.student, row.size): row for row in self.rows}

    def row(self, explainer: str, column: Column) -> Gain | None:
        return self._table.get((explainer, *column))

    def rows_of(self, explainer: str) -> list[Gain]:
        return [row for row in self.rows if row.explainer == explainer]

    @property
    def why_no_contrasts(self) -> str:
        return self.contrasts.why_empty(row.column for row in self.rows)

    def rank(self, explainer: str) -> float | None:
        """The mean rank over the judged columns; 1 is best, and `none` is ranked with the others."""
        return mean([row.rank for row in self.rows_of(explainer) if row.column in self.judged])

    def gain(self, explainer: str, columns: Sequence[Column] | None = None) -> float | None:
        """The mean gain over all judged columns, or over these."""
        wanted = self.judged if columns is None else columns
        return mean([row.gain for row in self.rows_of(explainer) if row.column in wanted])

    def shared(self, explainers: Sequence[str]) -> list[Column]:
        """The judged columns in which all of them have a gain, so that their means compare."""
        rows = {(row.explainer, row.column) for row in self.rows if row.gain is not None}
        return [column for column in self.judged if all((name, column) in rows for name in explainers)]

    @property
    def least_seeds(self) -> int:
        return min((row.seeds for row in self.rows), default=0)

    # -- how measures are written -------------------------------------------------------------------------------------

    @property
    def is_correlation(self) -> bool:
        return self.measure == "pearson"

    @property
    def is_balanced(self) -> bool:
        return self.measure == "balanced_accuracy"

    @property
    def scale(self) -> float:
        return 1.0 if self.is_correlation else 100.0

    @property
    def digits(self) -> int:
        return 3 if self.is_correlation else 1

    @property
    def unit(self) -> str:
        """What a gain is counted in."""
        return "in Pearson's r" if self.is_correlation else "points"

    def written(self, value: float | None) -> str:
        """A measure for people."""
        return "–" if value is None else minus(f"{value * self.scale:.{self.digits}f}")

    def signed(self, value: float | None) -> str:
        """A gain for people, with its sign."""
        if value is None:
            return "–"
        text = f"{value * self.scale:+.{self.digits}f}"
        return minus(text if float(text) else text[1:])

    def interval(self, row: Gain) -> str:
        return f"{self.signed(row.low)} to {self.signed(row.high)}" if row.has_interval else "no interval"

    def bracketed(self, row: Gain) -> str:
        """The interval as tables write it."""
        return f"[{self.signed(row.low)}, {self.signed(row.high)}]" if row.has_interval else "no interval"

    # -- what lies beside the numbers ---------------------------------------------------------------------------------

    def inside(self, name: str) -> Path | None:
        """A file of the run by the name that a record gives; None for what lies elsewhere or is not there."""
        path = self.folder / name
        try:
            is_ours = path.resolve().is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError):  # a name that no file can have
            return None
        return path if is_ours else None

    def explanations(self, method: Method) -> Explanations | str:
        """The explanations of one method, or what stands in the way."""
        path = self.inside(method.file)
        if path is None:
            return f"the file {method.file!r} is not in the run's folder"
        try:
            return Explanations.load(path)
        except DidactError as error:
            return str(error)

    @cached_property
    def incomplete(self) -> dict[str, float]:
        """The methods whose scores should add up and do not: the median residual, where it exceeds 5 %."""
        found = {}
        for method in () if self.measured is None else self.measured.methods:
            maps = self.explanations(method)
            known = () if isinstance(maps, str) else [one for one in maps.residuals.tolist() if not math.isnan(one)]
            if known and (residual := median(known)) > INCOMPLETE:
                found[method.label] = residual
        return found

    def marked(self, explainer: str) -> str:
        """The explainer's name, with a sign where its scores do not add up."""
        return f"{explainer} §" if explainer in self.incomplete else explainer

    def incomplete_notes(self) -> list[str]:
        """The footnote to the sign."""
        told = [f"{name} by {100 * value:.3g} %" for name, value in self.incomplete.items()]
        if not told:
            return []
        return [
            "§ The scores of this method should add up to the change of the model's answer, and do not: in the median "
            f"of the measured rows they are off, {'; '.join(told)}. Do not read them as shares of the answer."
        ]


def read_run(folder: Path | str) -> Run:
    """Read what `didact compare` wrote into a folder, or into a store (a URL)."""
    folder = fetched_run(str(folder)) if is_url(folder) else Path(folder)
    path = folder / "comparison.json"
    if not folder.is_dir():
        raise OptionError(f"There is no folder {folder}. Name the folder that `didact compare … --out FOLDER` wrote.")
    found = _json(path, "Run the same comparison again: finished training is kept.")
    if found is None:
        raise OptionError(
            f"{folder} is not the folder of a finished run: it holds no comparison.json. "
            f"Run `didact compare … --out {folder}` first (the same command resumes where it was stopped)."
        )
    try:
        run = _run(folder, found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{path} is damaged ({_reason(error)}). Run the same comparison again: finished training is kept."
        ) from error
    path = folder / "measured.json"
    again = f"Run the same comparison again with --measure, or remove {path} for a report without it."
    found = _json(path, again)
    if found is None:
        return run
    try:
        return Run(**{**_fields(run), "measured": measured_of(found)})
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path} is damaged ({_reason(error)}). {again}") from error


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def column_name(column: Column) -> str:
    return f"{column[0]}, {column[1]:,} rows"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def minus(text: str) -> str:
    """With a proper minus."""
    return text.replace("-", "−")


def _fields(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


def _json(path: Path, again: str) -> Any:
    """The content of a file; None if there is none."""
    try:
        return read_json(path, advice=again)
    except FileNotFoundError:
        return None


def _reason(error: Exception) -> str:
    missing = isinstance(error, KeyError)
    return f"there is no {error.args[0]!r}" if missing else " ".join(str(error).split())[:200]


def _run(folder: Path, found: Mapping[str, Any]) -> Run:
    about = dict(found["about"])
    rows = tuple(map(_gain, list_of(found["rows"])))
    measures = [str(one.get("measure", "")) for one in found["rows"]]
    contrasts = found.get("contrasts")
    return Run(
        folder=folder,
        rows=rows,
        measure=str(about.get("measure") or (measures[0] if measures else "accuracy")),
        failed=tuple(map(dict, list_of(found["failed"]))),
        notes=tuple(map(str, list_of(found["notes"]))),
        about=about,
        agreement=dict(found.get("agreement") or {}),
        learned=tuple(map(dict, list_of(found.get("learned") or []))),
        unlearned=_unlearned(about.get("columns"), rows),
        launch=_launch(folder / "run.json"),
        contrasts=ContrastTable.from_document(None if contrasts is None else list_of(contrasts)),
    )


def _unlearned(columns: Any, rows: Sequence[Gain]) -> dict[Column, str]:
    """The columns of this run that are recorded as not learned, with the reason. Older runs record none."""
    known = {row.column for row in rows}
    found = {
        (str(line.get("student")), int(number(line.get("size")) or 0)): str(line.get("reason") or "")
        for line in columns or ()
        if isinstance(line, Mapping) and line.get("learned") is False
    }
    return {column: reason for column, reason in found.items() if column in known}


def _launch(path: Path) -> Launch:
    """How the run was started. Runs of earlier versions have no such file, which leaves it open."""
    try:
        content = read_json(path, advice="Run the same comparison again, or remove the file.")
    except FileNotFoundError:
        return Launch()
    texts = {name: str(content.get(name) or "") for name in ("command", "started", "finished")}
    return Launch(**texts, seconds=number(content.get("seconds")))


def _gain(row: Mapping[str, Any]) -> Gain:
    return Gain(
        explainer=str(row["explainer"]), student=str(row["student"]), size=int(row["size"]), seeds=int(row["seeds"]),
        mean=number(row.get("mean", row.get("median"))), gain=number(row["gain"]), low=number(row["low"]),
        high=number(row["high"]), p=number(row.get("p")), p_reason=str(row.get("p_reason") or ""),
        rank=number(row.get("rank")), is_control=bool(row.get("is_control", False)),
        lost_rows=int(row.get("lost_rows") or 0), test_rows=int(row.get("test_rows") or 0),
        level=number(row.get("level")), claimed=bool(row.get("claimed", False)),
        low_seeds=int(row.get("low_seeds") or 0),
    )  # fmt: skip
