"""What a run kept in its folder, read for a report. What is missing is told, what is damaged is an error."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from didact.errors import DidactError, OptionError, RecordError
from didact.records.explanations import Explanations
from didact.records.remote import fetched_run, is_url
from didact.records.table import read_table

FEW: Final = 5  # seeds below which an interval says little
NONE: Final = "none"

Column = tuple[str, int]


@dataclass(frozen=True)
class Gain:
    """One explainer with one student and size. Measures and gains are fractions; what is not known is None."""

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

    @property
    def column(self) -> Column:
        return self.student, self.size

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def is_above(self) -> bool:
        return self.low is not None and self.low > 0

    @property
    def is_below(self) -> bool:
        return self.high is not None and self.high < 0


@dataclass(frozen=True)
class MeasuredRow:
    """One row that all methods explained. `rationale` holds (text, start, end), or for images four sides."""

    id: str
    gold: str | None
    prediction: str
    is_right: bool | None
    sureness: float | None
    agreement: float | None
    rationale: tuple[tuple[int, ...], ...]
    picture: str | None


@dataclass(frozen=True)
class Method:
    """One set of explanations of the measured rows."""

    label: str
    file: str
    kind: str
    is_control: bool


@dataclass(frozen=True)
class Measured:
    """What else was measured: explanations of test rows, and numbers about them."""

    split: str
    task: str
    rows: tuple[MeasuredRow, ...]
    methods: tuple[Method, ...]
    skipped: tuple[Mapping[str, Any], ...]
    metrics: Mapping[str, Any]
    agreement: tuple[Mapping[str, Any], ...]
    cost: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """A run's folder. `values` holds by explainer, student and size what the students of each seed reached."""

    folder: Path
    rows: tuple[Gain, ...]
    measure: str
    failed: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    about: Mapping[str, Any]
    agreement: Mapping[str, Any]
    learned: tuple[Mapping[str, Any], ...]
    values: Mapping[tuple[str, str, int], Mapping[int, float]] = field(default_factory=dict)
    measured: Measured | None = None

    @property
    def name(self) -> str:
        return str(self.about.get("teacher") or "this model")

    @cached_property
    def explainers(self) -> list[str]:
        """From best to worst by mean rank; those without a rank last."""
        names = list(dict.fromkeys(row.explainer for row in self.rows))
        return sorted(names, key=lambda name: (self.rank(name) is None, self.rank(name) or 0.0, name))

    @cached_property
    def columns(self) -> list[Column]:
        return list(dict.fromkeys(row.column for row in self.rows))

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

    def rank(self, explainer: str) -> float | None:
        """The mean rank over all columns; 1 is best, and `none` is ranked with the others."""
        return mean([row.rank for row in self.rows_of(explainer)])

    def gain(self, explainer: str, columns: Sequence[Column] | None = None) -> float | None:
        """The mean gain over all its columns, or over these."""
        return mean([row.gain for row in self.rows_of(explainer) if columns is None or row.column in columns])

    def shared(self, explainers: Sequence[str]) -> list[Column]:
        """The columns in which all of them have a gain, so that their means compare."""
        rows = {(row.explainer, row.column) for row in self.rows if row.gain is not None}
        return [column for column in self.columns if all((name, column) in rows for name in explainers)]

    @property
    def least_seeds(self) -> int:
        return min((row.seeds for row in self.rows), default=0)

    # -- how measures are written -------------------------------------------------------------------------------------

    @property
    def is_correlation(self) -> bool:
        return self.measure == "pearson"

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


def read_run(folder: Path | str) -> Run:
    """Read what `didact compare` wrote into a folder, or into a store (a URL)."""
    folder = fetched_run(str(folder)) if is_url(folder) else Path(folder)
    path = folder / "comparison.json"
    if not folder.is_dir():
        raise OptionError(f"There is no folder {folder}. Name the folder that `didact compare … --out FOLDER` wrote.")
    found = _json(path, "Run the same comparison again: its cells are kept.")
    if found is None:
        raise OptionError(
            f"{folder} is not the folder of a finished run: it holds no comparison.json. "
            f"Run `didact compare … --out {folder}` first (the same command goes on where it was stopped)."
        )
    try:
        run = _run(folder, found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{path} is damaged ({_reason(error)}). Run the same comparison again: its cells are kept."
        ) from error
    path = folder / "measured.json"
    again = f"Run the same comparison again with --measure, or remove {path} for a report without it."
    found = _json(path, again)
    if found is None:
        return run
    try:
        return Run(**{**_fields(run), "measured": _measured(found)})
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path} is damaged ({_reason(error)}). {again}") from error


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def column_name(column: Column) -> str:
    return f"{column[0]}, {column[1]:,} rows"


def minus(text: str) -> str:
    """With a proper minus."""
    return text.replace("-", "−")


def _fields(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


def _json(path: Path, again: str) -> Any:
    """The content of a file; None if there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"Could not read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged ({_reason(error)}). {again}") from error


def _reason(error: Exception) -> str:
    missing = isinstance(error, KeyError)
    return f"there is no {error.args[0]!r}" if missing else " ".join(str(error).split())[:200]


def _run(folder: Path, found: Mapping[str, Any]) -> Run:
    about = dict(found["about"])
    rows = tuple(map(_gain, _list(found["rows"])))
    measures = [str(one.get("measure", "")) for one in found["rows"]]
    return Run(
        folder=folder,
        rows=rows,
        measure=str(about.get("measure") or (measures[0] if measures else "accuracy")),
        failed=tuple(map(dict, _list(found["failed"]))),
        notes=tuple(map(str, _list(found["notes"]))),
        about=about,
        agreement=dict(found.get("agreement") or {}),
        learned=tuple(map(dict, _list(found.get("learned") or []))),
        values=_values(folder / "results.parquet"),
    )


def _gain(row: Mapping[str, Any]) -> Gain:
    return Gain(
        explainer=str(row["explainer"]), student=str(row["student"]), size=int(row["size"]), seeds=int(row["seeds"]),
        mean=number(row.get("mean", row.get("median"))), gain=number(row["gain"]), low=number(row["low"]),
        high=number(row["high"]), p=number(row.get("p")), p_reason=str(row.get("p_reason") or ""),
        rank=number(row.get("rank")), is_control=bool(row.get("is_control", False)),
        lost_rows=int(row.get("lost_rows") or 0), test_rows=int(row.get("test_rows") or 0),
    )  # fmt: skip


def _values(path: Path) -> dict[tuple[str, str, int], dict[int, float]]:
    """By explainer, student and size the measure of each seed. The report does without where they cannot be read."""
    try:
        columns = read_table(path).columns
        lines = zip(*(columns[name] for name in ("explainer", "student", "size", "seed", "value")), strict=True)
    except (RecordError, LookupError):
        return {}
    found: dict[tuple[str, str, int], dict[int, float]] = {}
    for explainer, student, size, seed, value in lines:
        known = number(value)
        if known is not None:
            found.setdefault((explainer, student, size), {})[seed] = known
    return found


def _measured(found: Mapping[str, Any]) -> Measured:
    return Measured(
        split=str(found.get("split") or "test"),
        task=str(found.get("task") or ""),
        rows=tuple(map(_row, _list(found.get("rows") or []))),
        methods=tuple(
            Method(str(one["label"]), str(one["file"]), str(one.get("kind") or ""), bool(one.get("is_control")))
            for one in _list(found.get("methods") or [])
        ),
        skipped=tuple(map(dict, _list(found.get("skipped") or []))),
        metrics=dict(found.get("metrics") or {}),
        agreement=tuple(map(dict, _list(found.get("agreement") or []))),
        cost=tuple(map(dict, _list(found.get("cost") or []))),
        notes=tuple(map(str, _list(found.get("notes") or []))),
    )


def _row(row: Mapping[str, Any]) -> MeasuredRow:
    right = row.get("is_right")
    return MeasuredRow(
        id=str(row["id"]),
        gold=None if row.get("gold") is None else _said(row["gold"]),
        prediction="" if row.get("prediction") is None else _said(row["prediction"]),
        is_right=None if right is None else bool(right),
        sureness=number(row.get("sureness")),
        agreement=number(row.get("agreement")),
        rationale=tuple(tuple(map(int, span)) for span in _list(row.get("rationale") or [])),
        picture=None if row.get("picture") is None else str(row["picture"]),
    )


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected where {type(value).__name__} {str(value)[:40]!r} stands")
    return value
