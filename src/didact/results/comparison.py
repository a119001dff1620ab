"""What a comparison found: gains with claims, contrasts, ranks, and how far students agree. Read without torch."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import OptionError
from didact.files.atomic import ensure_parent, write_bytes, write_text
from didact.files.remote import fetch_run, is_url
from didact.results import comparison_table
from didact.results.contrast import Column, Contrast, ContrastTable
from didact.results.documents import load_document, require_list, save_document
from didact.results.gains import NONE, FailedRun, GainRow, LearnedWeights
from didact.results.measured import Measurements
from didact.results.number_format import NumberFormat
from didact.results.run_record import RunInfo, RunRecord
from didact.viz.weights_chart import WeightsView

FILE: Final = "comparison.json"
VERSION: Final = 1
COLUMNS: Final = (
    "explainer", "student", "size", "seeds", "measure", "median", "q25", "q75", "gain", "low", "high", "p", "rank",
    "test_rows", "mean", "level", "p_reason", "claimed", "is_control", "lost_rows", "low_seeds",
)  # fmt: skip
_AGAIN: Final = "Run the same comparison again: finished runs are kept."

Arm = tuple[str, str, int]  # explainer, student, size
Scores = Mapping[Arm, Mapping[int, Float[np.ndarray, " row"]]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One row per explainer, student and size; measures and gains are fractions. `GainRow` says what a row holds.

    p and interval are None with a `p_reason` where nothing can be claimed; docs/compare.md states the rule.
    `contrasts` holds every two arms of a column; `why_no_contrasts` says why it is empty. `agreement` holds
    Kendall's τ between the rankings of the columns. `learned` tells what every learned explainer became, one entry per
    student, size and seed. `scores` and `contrast_arms`, which contrasts them, are there until a comparison is loaded
    again. `is_temporary` is true if the folder is deleted with this object.
    """

    rows: tuple[GainRow, ...]
    failed: tuple[FailedRun, ...]
    notes: tuple[str, ...]
    about: RunInfo
    agreement: Mapping[str, Any]
    folder: Path
    learned: tuple[LearnedWeights, ...] = ()
    scores: Scores = field(default_factory=dict, repr=False)
    contrasts: ContrastTable = field(default_factory=ContrastTable, repr=False)
    contrast_arms: Callable[[Arm, Arm], Contrast] | None = field(default=None, repr=False)
    is_temporary: bool = False

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} rows, {len(self.failed)} failed cells, {str(self.folder)!r})"

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name; of an absolute path the last part, since a page that is passed on must not show it."""
        name = self.about.teacher or "this model"
        return PurePath(name).name or name if PurePath(name).is_absolute() else name

    @cached_property
    def explainers(self) -> list[str]:
        return list(dict.fromkeys(row.explainer for row in self.rows))

    @cached_property
    def ranked(self) -> list[str]:
        """Explainers from best to worst by mean rank over the judged columns; those without a rank last."""
        return sorted(self.explainers, key=lambda name: (self.rank(name) is None, self.rank(name) or 0.0, name))

    @cached_property
    def controls(self) -> set[str]:
        return {row.explainer for row in self.rows if row.is_control} | {NONE}

    @cached_property
    def columns(self) -> list[Column]:
        """Students and sizes."""
        return list(dict.fromkeys(row.column for row in self.rows))

    @cached_property
    def students(self) -> list[str]:
        return list(dict.fromkeys(student for student, _ in self.columns))

    @cached_property
    def sizes(self) -> list[int]:
        return sorted({size for _, size in self.columns})

    @cached_property
    def unlearned(self) -> dict[Column, str]:
        """The columns whose students learned nothing, with the reason. Ranks and gains of a report leave them out."""
        reasons = {(line.student, line.size): line.reason for line in self.about.columns if line.learned is False}
        return {column: reason for column, reason in reasons.items() if column in self.columns}

    @cached_property
    def judged(self) -> list[Column]:
        """The columns that a verdict can rest on: all but those whose students learned nothing."""
        return [column for column in self.columns if column not in self.unlearned]

    def column_mark(self, column: Column) -> str:
        """‡ for a column in which some students failed to learn."""
        return " ‡" if any(row.low_seeds for row in self.rows if row.column == column) else ""

    # -- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_arm(self) -> dict[Arm, GainRow]:
        return {(row.explainer, row.student, row.size): row for row in self.rows}

    def find(self, explainer: str, column: Column) -> GainRow | None:
        """The row of this explainer and column, if there is one."""
        return self._by_arm.get((explainer, *column))

    def row(self, explainer: str, student: str | None = None, size: int | None = None) -> GainRow:
        """The one row of this explainer; of this student and size, where there are several."""
        rows = [
            row for row in self.rows_of(explainer) if student in (None, row.student) and size in (None, row.size)
        ]  # fmt: skip
        if len(rows) != 1:
            raise OptionError(
                f"{len(rows)} rows are of {explainer!r}, student {student!r}, size {size!r}; name just one. "
                f"Explainers: {', '.join(self.explainers)}; students and sizes: {', '.join(map(str, self.columns))}."
            )
        return rows[0]

    def rows_of(self, explainer: str) -> list[GainRow]:
        return [row for row in self.rows if row.explainer == explainer]

    def judged_rows(self, explainer: str) -> list[GainRow]:
        """Its rows that have a gain, in the columns that a verdict can rest on."""
        return [row for row in self.rows_of(explainer) if row.gain is not None and row.column in self.judged]

    @property
    def why_no_contrasts(self) -> str:
        return self.contrasts.why_empty(row.column for row in self.rows)

    def rank(self, explainer: str) -> float | None:
        """The mean rank over the judged columns; 1 is best, and `none` is ranked with the others."""
        return mean([row.rank for row in self.rows_of(explainer) if row.column in self.judged])

    def gain(self, explainer: str, columns: Sequence[Column] | None = None) -> float | None:
        """The mean gain over all judged columns, or over these."""
        selected = self.judged if columns is None else columns
        return mean([row.gain for row in self.rows_of(explainer) if row.column in selected])

    def shared(self, explainers: Sequence[str]) -> list[Column]:
        """The judged columns in which all of them have a gain, so that their means compare."""
        arms = {(row.explainer, row.column) for row in self.rows if row.gain is not None}
        return [column for column in self.judged if all((name, column) in arms for name in explainers)]

    @property
    def least_seeds(self) -> int:
        return min((row.seeds for row in self.rows), default=0)

    def ranking(self) -> list[dict[str, Any]]:
        """Explainers from best to worst by their mean rank over all columns; `none` is one of them."""
        lines = []
        for name in self.explainers:
            ranked = [row for row in self.rows_of(name) if row.rank is not None]
            gains = [row.gain for row in ranked if row.gain is not None]
            if ranked:
                rank = float(np.mean([row.rank for row in ranked]))
                lines.append({"explainer": name, "rank": rank, "gain": float(np.mean(gains)) if gains else None})
        return sorted(lines, key=lambda line: (line["rank"], line["explainer"]))

    def contrast(self, first: Arm | str, second: Arm | str) -> Contrast:
        """The first row minus the second, each (explainer, student, size): difference, standard error, interval, p.

        The name of an explainer is enough where there is one student and one size.
        Rows of one column can always be contrasted. Rows of two columns need the students' answers, which a loaded
        comparison does not have. With one seed the interval is about other test rows alone.
        """
        arms = [name if not isinstance(name, str) else _arm(self.row(name)) for name in (first, second)]
        for arm in arms:
            if arm not in self._by_arm:
                available = ", ".join(map(str, sorted(self._by_arm)))
                raise OptionError(f"There are no answers of {arm}; known are {available}.")
        first_arm, second_arm = arms
        if (
            first_arm[1:] == second_arm[1:]
            and (stored := self.contrasts.get(first_arm[0], second_arm[0], first_arm[1:])) is not None
        ):
            return stored
        if self.contrast_arms is None:
            raise OptionError(
                f"The contrast of {first_arm} and {second_arm} is not stored in {self.folder}. Give the same "
                "comparison again (didact.compare with this folder as out): nothing is trained twice, and the result "
                "has it."
            )
        return self.contrast_arms(first_arm, second_arm)

    def mix(self, explainer: str = "smat", student: str | None = None, size: int | None = None) -> WeightsView:
        """How much each part of a learned explainer counts, mean over seeds: a layer × head map, or bars."""
        mixes = [
            mix for mix in self.learned
            if mix.explainer == explainer and student in (None, mix.student) and size in (None, mix.size)
        ]  # fmt: skip
        if not mixes:
            learned = sorted({mix.explainer for mix in self.learned})
            raise OptionError(f"Nothing was learned by {explainer!r}; learned were: {', '.join(learned) or 'none'}.")
        columns = sorted({(mix.student, mix.size) for mix in mixes})
        if len(columns) > 1:
            raise OptionError(f"{explainer!r} was learned for several students or sizes; name one of {columns}.")
        weights = np.mean([mix.weights for mix in mixes], axis=0)
        title = f"{explainer}, mean of {len(mixes)} seeds" if len(mixes) > 1 else explainer
        return WeightsView(mixes[0].names, tuple(weights.tolist()), title)

    # -- how measures are written -------------------------------------------------------------------------------------

    @cached_property
    def measure(self) -> str:
        return self.about.measure or (self.rows[0].measure if self.rows else "accuracy")

    @property
    def is_correlation(self) -> bool:
        return self.measure == "pearson"

    @property
    def is_balanced(self) -> bool:
        return self.measure == "balanced_accuracy"

    @cached_property
    def format(self) -> NumberFormat:
        """How measures and gains are written: a correlation with three digits, all others in percent."""
        return NumberFormat(digits=3) if self.is_correlation else NumberFormat(100.0, 1)

    def interval(self, row: GainRow) -> str:
        """The interval of a row, as sentences write it."""
        return self.format.interval(row.low, row.high)

    @property
    def unit(self) -> str:
        """What a gain is counted in."""
        return "in Pearson's r" if self.is_correlation else "points"

    # -- what lies beside the comparison ------------------------------------------------------------------------------

    @cached_property
    def launch(self) -> RunRecord:
        """How and when the run was started."""
        return RunRecord.load(self.folder)

    @cached_property
    def measured(self) -> Measurements | None:
        """What was measured without students; None where nothing was."""
        return Measurements.load(self.folder)

    # -- files --------------------------------------------------------------------------------------------------------

    def to_document(self) -> dict[str, object]:
        """Plain JSON: the rows, the failed cells and what else is to be known."""
        return {
            "rows": [row.to_document() for row in self.rows],
            "failed": [run.to_document() for run in self.failed],
            "ranking": self.ranking(),
            "agreement": dict(self.agreement),
            "learned": [mix.to_document() for mix in self.learned],
            "contrasts": self.contrasts.to_document(),
            "notes": list(self.notes),
            "about": self.about.to_document(),
        }

    def to_pandas(self) -> Any:
        """A data frame with one line per row of the table."""
        import pandas

        return pandas.DataFrame([dict(row) for row in self.rows], columns=list(COLUMNS))

    def save(self, path: Path | str) -> None:
        """Write the table as .json, .csv or .parquet. The run's own folder holds it already."""
        path = ensure_parent(Path(path))
        if path.suffix == ".json":
            save_document(path, self.to_document(), VERSION)
        elif path.suffix == ".csv":
            write_text(path, self.to_pandas().to_csv(index=False))
        elif path.suffix == ".parquet":
            buffer = io.BytesIO()
            self.to_pandas().to_parquet(buffer, index=False)
            write_bytes(path, buffer.getvalue())
        else:
            raise OptionError(f"A comparison is saved as .json, .csv or .parquet, not {path.name!r}.")

    @classmethod
    def load(cls, folder: Path | str) -> "Comparison":
        """What a run kept in its folder, or in a store (a URL). The students' answers stay where they are."""
        folder = fetch_run(str(folder)) if is_url(folder) else Path(folder)
        if not folder.is_dir():
            raise OptionError(
                f"There is no folder {folder}. Name the folder that `didact compare … --out FOLDER` wrote."
            )
        missing = (
            f"{folder} is not the folder of a finished run: it holds no finished comparison ({FILE}). "
            f"Run `didact compare … --out {folder}` first (the same command resumes where it was stopped)."
        )
        read = partial(cls._from_document, folder=folder)
        return load_document(folder / FILE, VERSION, read, advice=_AGAIN, missing=missing)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any], *, folder: Path) -> "Comparison":
        for name in ("about", "agreement"):
            if not isinstance(document[name], Mapping):
                raise TypeError(f"{name} is {document[name]!r}")
        contrasts = document.get("contrasts")
        return cls(
            rows=tuple(map(GainRow.from_document, require_list(document["rows"]))),
            failed=tuple(map(FailedRun.from_document, require_list(document["failed"]))),
            notes=tuple(map(str, require_list(document["notes"]))),
            about=RunInfo.from_document(document["about"]),
            agreement=document["agreement"],
            folder=folder,
            learned=tuple(map(LearnedWeights.from_document, require_list(document.get("learned") or []))),
            contrasts=ContrastTable.from_document(None if contrasts is None else require_list(contrasts)),
        )

    # -- shown --------------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """The table for people: one line per explainer, a column per student and size."""
        return comparison_table.text(self)

    def remarks(self) -> list[str]:
        """What must be read with the table."""
        return comparison_table.remarks(self)

    def _repr_html_(self) -> str:
        """The same table for a notebook."""
        return comparison_table.html(self)


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are known."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _arm(row: GainRow) -> Arm:
    return row.explainer, row.student, row.size
