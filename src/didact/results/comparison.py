"""The result of a comparison: gains with claims, contrasts, ranks and agreement of students. Needs no torch."""

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
from didact.results.edited import EditedResults
from didact.results.gains import NONE, FailedRun, GainRow, LearnedWeights
from didact.results.measured import Measurements
from didact.results.number_format import NumberFormat
from didact.results.run_record import RunInfo, RunRecord
from didact.results.trust import Trust
from didact.viz.weights_chart import WeightsView

FILE: Final = "comparison.json"
VERSION: Final = 1
COLUMNS: Final = (
    "explainer", "student", "size", "seeds", "measure", "median", "q25", "q75", "gain", "low", "high", "p", "rank",
    "test_rows", "mean", "level", "p_reason", "claimed", "is_control", "lost_rows", "low_seeds",
    "normalised_gain", "normalised_low", "normalised_high", "helped", "misled",
)  # fmt: skip
_AGAIN: Final = "Run the same comparison again: finished runs are kept."

Arm = tuple[str, str, int]  # explainer, student, size
Scores = Mapping[Arm, Mapping[int, Float[np.ndarray, " row"]]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The table of a comparison: one `GainRow` per explainer, student and training size.

    Measures and gains are fractions. Where nothing can be claimed, p and interval are None and `p_reason` says why;
    docs/compare.md states the rule. `contrasts` has every pair of arms of a column; if it is empty, `why_no_contrasts`
    gives the reason. `agreement` is Kendall's τ between the rankings of the columns. `learned` has the weights of every
    learned explainer, one entry per student, size and seed. `edited` has the results on edited rows, if requested.
    `scores` and the function `contrast_arms`, which contrasts them, are only available right after a run, not in a
    loaded comparison. If `is_temporary` is true, the folder is deleted with this object.
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
    edited: EditedResults | None = None

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} rows, {len(self.failed)} failed cells, {str(self.folder)!r})"

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name. An absolute path is reduced to its last part, since reports are passed on to others."""
        name = self.about.teacher or "this model"
        return PurePath(name).name or name if PurePath(name).is_absolute() else name

    @cached_property
    def explainers(self) -> list[str]:
        return list(dict.fromkeys(row.explainer for row in self.rows))

    @cached_property
    def ranked(self) -> list[str]:
        """Explainers from best to worst by mean rank over the judged columns; those without a rank come last."""
        return sorted(self.explainers, key=lambda name: (self.rank(name) is None, self.rank(name) or 0.0, name))

    @cached_property
    def controls(self) -> set[str]:
        return {row.explainer for row in self.rows if row.is_control} | {NONE}

    @cached_property
    def columns(self) -> list[Column]:
        """All pairs of student and training size."""
        return list(dict.fromkeys(row.column for row in self.rows))

    @cached_property
    def students(self) -> list[str]:
        return list(dict.fromkeys(student for student, _ in self.columns))

    @cached_property
    def sizes(self) -> list[int]:
        return sorted({size for _, size in self.columns})

    @cached_property
    def unlearned(self) -> dict[Column, str]:
        """Columns whose students learned nothing, with the reason. Reports leave them out of ranks and gains."""
        reasons = {(line.student, line.size): line.reason for line in self.about.columns if line.learned is False}
        return {column: reason for column, reason in reasons.items() if column in self.columns}

    @cached_property
    def judged(self) -> list[Column]:
        """The columns that count for a verdict: all except those whose students learned nothing."""
        return [column for column in self.columns if column not in self.unlearned]

    def column_mark(self, column: Column) -> str:
        """The mark ‡ for a column in which some students failed to learn, otherwise an empty string."""
        return " ‡" if any(row.low_seeds for row in self.rows if row.column == column) else ""

    # -- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_arm(self) -> dict[Arm, GainRow]:
        return {(row.explainer, row.student, row.size): row for row in self.rows}

    def find(self, explainer: str, column: Column) -> GainRow | None:
        """The row of this explainer and column, or None."""
        return self._by_arm.get((explainer, *column))

    def row(self, explainer: str, student: str | None = None, size: int | None = None) -> GainRow:
        """The row of this explainer, student and size. Raises OptionError unless exactly one row matches."""
        rows = [row for row in self.rows_of(explainer) if student in (None, row.student) and size in (None, row.size)]
        if len(rows) != 1:
            raise OptionError(
                f"{len(rows)} rows match {explainer!r}, student {student!r}, size {size!r}; name exactly one. "
                f"Explainers: {', '.join(self.explainers)}; students and sizes: {', '.join(map(str, self.columns))}."
            )
        return rows[0]

    def rows_of(self, explainer: str) -> list[GainRow]:
        return [row for row in self.rows if row.explainer == explainer]

    def judged_rows(self, explainer: str) -> list[GainRow]:
        """The rows of this explainer that have a gain, in the judged columns."""
        return [row for row in self.rows_of(explainer) if row.gain is not None and row.column in self.judged]

    @property
    def why_no_contrasts(self) -> str:
        return self.contrasts.why_empty(row.column for row in self.rows)

    def rank(self, explainer: str) -> float | None:
        """The mean rank over the judged columns. 1 is best; `none` is ranked too."""
        return mean([row.rank for row in self.rows_of(explainer) if row.column in self.judged])

    def gain(self, explainer: str, columns: Sequence[Column] | None = None) -> float | None:
        """The mean gain over `columns`, by default all judged columns."""
        selected = self.judged if columns is None else columns
        return mean([row.gain for row in self.rows_of(explainer) if row.column in selected])

    def shared(self, explainers: Sequence[str]) -> list[Column]:
        """The judged columns in which all these explainers have a gain, so that their means are comparable."""
        arms = {(row.explainer, row.column) for row in self.rows if row.gain is not None}
        return [column for column in self.judged if all((name, column) in arms for name in explainers)]

    @property
    def least_seeds(self) -> int:
        return min((row.seeds for row in self.rows), default=0)

    def ranking(self) -> list[dict[str, Any]]:
        """Explainers, including `none`, from best to worst by mean rank over all columns."""
        lines = []
        for name in self.explainers:
            ranked = [row for row in self.rows_of(name) if row.rank is not None]
            gains = [row.gain for row in ranked if row.gain is not None]
            if ranked:
                rank = float(np.mean([row.rank for row in ranked]))
                lines.append({"explainer": name, "rank": rank, "gain": float(np.mean(gains)) if gains else None})
        return sorted(lines, key=lambda line: (line["rank"], line["explainer"]))

    def contrast(self, first: Arm | str, second: Arm | str) -> Contrast:
        """The contrast of two arms, first minus second, with standard error, interval and p.

        An arm is (explainer, student, size). If there is one student and one size, the name of the explainer is enough.
        Arms of the same column can always be contrasted. Arms of different columns need the students' answers, which a
        loaded comparison does not have: then an OptionError says so. With one seed the interval covers only the choice
        of test rows.
        """
        arms = [name if not isinstance(name, str) else _arm(self.row(name)) for name in (first, second)]
        for arm in arms:
            if arm not in self._by_arm:
                available = ", ".join(map(str, sorted(self._by_arm)))
                raise OptionError(f"There is no arm {arm}. Available: {available}.")
        first_arm, second_arm = arms
        if (
            first_arm[1:] == second_arm[1:]
            and (stored := self.contrasts.get(first_arm[0], second_arm[0], first_arm[1:])) is not None
        ):
            return stored
        if self.contrast_arms is None:
            raise OptionError(
                f"The contrast of {first_arm} and {second_arm} is not stored in {self.folder}. Run the same comparison "
                "again (didact.compare with this folder as out) and contrast its result: nothing is trained twice."
            )
        return self.contrast_arms(first_arm, second_arm)

    def mix(self, explainer: str = "smat", student: str | None = None, size: int | None = None) -> WeightsView:
        """The weights of a learned explainer for one student and size, mean over seeds: a layer × head map, or bars."""
        mixes = [
            mix for mix in self.learned
            if mix.explainer == explainer and student in (None, mix.student) and size in (None, mix.size)
        ]  # fmt: skip
        if not mixes:
            learned = sorted({mix.explainer for mix in self.learned})
            raise OptionError(
                f"Explainer {explainer!r} learned no weights. Learned explainers: {', '.join(learned) or 'none'}."
            )
        columns = sorted({(mix.student, mix.size) for mix in mixes})
        if len(columns) > 1:
            raise OptionError(f"{explainer!r} was learned for several students or sizes. Name one of {columns}.")
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
        """The format of measures and gains: three digits for a correlation, percent for all others."""
        return NumberFormat(digits=3) if self.is_correlation else NumberFormat(100.0, 1)

    def interval(self, row: GainRow) -> str:
        """The interval of a row, formatted for a sentence."""
        return self.format.interval(row.low, row.high)

    @property
    def unit(self) -> str:
        """The unit of a gain."""
        return "in Pearson's r" if self.is_correlation else "points"

    # -- other files of the run ---------------------------------------------------------------------------------------

    @cached_property
    def launch(self) -> RunRecord:
        """The command and times of the run."""
        return RunRecord.load(self.folder)

    @cached_property
    def measured(self) -> Measurements | None:
        """Measurements without students, or None."""
        return Measurements.load(self.folder)

    # -- files --------------------------------------------------------------------------------------------------------

    def to_document(self) -> dict[str, object]:
        """The comparison as JSON data, with what is known about its evaluators at the time of writing."""
        edited: dict[str, object] = {} if self.edited is None else {"edited": self.edited.to_document()}
        return edited | {
            "rows": [row.to_document() for row in self.rows],
            "failed": [run.to_document() for run in self.failed],
            "ranking": self.ranking(),
            "agreement": dict(self.agreement),
            "validation": Trust.of(self).to_document(),
            "learned": [mix.to_document() for mix in self.learned],
            "contrasts": self.contrasts.to_document(),
            "notes": list(self.notes),
            "about": self.about.to_document(),
        }

    def to_pandas(self) -> Any:
        """A data frame with one line per row of the table, and per temperature with target normalisation `band`."""
        import pandas

        columns = [*COLUMNS, *(["temperature"] if any(row.band for row in self.rows) else [])]
        return pandas.DataFrame([line for row in self.rows for line in row.frame_lines()], columns=columns)

    def save(self, path: Path | str) -> None:
        """Write the table as .json, .csv or .parquet. The folder of the run already contains it."""
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
            raise OptionError(f"A comparison is saved as .json, .csv or .parquet, not as {path.name!r}.")

    @classmethod
    def load(cls, folder: Path | str) -> "Comparison":
        """Read the comparison in the folder of a run, or at a URL, without the students' answers."""
        folder = fetch_run(str(folder)) if is_url(folder) else Path(folder)
        if not folder.is_dir():
            raise OptionError(
                f"There is no folder {folder}. Name the folder that `didact compare … --out FOLDER` wrote."
            )
        missing = (
            f"{folder} is not the folder of a finished run: it has no finished comparison ({FILE}). "
            f"Run `didact compare … --out {folder}` first (the same command resumes a stopped run)."
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
            edited=EditedResults.from_document(document["edited"]) if "edited" in document else None,
        )

    # -- display ------------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """The table as text: one line per explainer, one column per student and size, followed by remarks."""
        return comparison_table.text(self)

    def remarks(self) -> list[str]:
        """What a reader of the table must know."""
        return comparison_table.remarks(self)

    def _repr_html_(self) -> str:
        """The table as HTML for a notebook."""
        return comparison_table.html(self)


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None if all are None."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _arm(row: GainRow) -> Arm:
    return row.explainer, row.student, row.size
