"""The result of `didact.combine`: gains and contrasts of methods over several teachers. Needs no torch."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from didact.errors import OptionError
from didact.files.atomic import ensure_parent, write_bytes, write_text
from didact.results import combined_table
from didact.results.contrast import Column
from didact.results.documents import Document, MappingDocument, load_document, save_document
from didact.results.gains import NONE, column_name

VERSION: Final = 1
ALL_COLUMNS: Final[Column] = ("all columns", 0)  # stands for the mean over columns
KINDS: Final = (".json", ".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class CombinedTeacher(MappingDocument):
    """One teacher: its name, the name of its run, its data, and the seeds and test rows of the run."""

    name: str
    run: str = ""
    fingerprint: str = ""
    data: str = ""
    seeds: int = 0
    test_rows: int = 0


@dataclass(frozen=True, eq=False)
class CombinedRow(MappingDocument):
    """The mean difference of two arms over teachers, `explainer` minus `against`, in one column.

    `difference` is a gain where `against` is `none`. `low`, `high`, `p` and `claimed` follow the rule for claims.
    `by_teacher` has the difference with each teacher, `ahead` the share of teachers where it is above 0, and `leads`
    the share where no other method has a higher gain (None for controls and for pairs). `teacher_sd` estimates how far
    the true differences of teachers vary. The last fields are the parts of the variance, see `TeacherContrast`.
    """

    explainer: str
    against: str
    student: str
    size: int
    difference: float
    se: float
    df: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    p: float | None = None
    p_reason: str = ""
    claimed: bool = False
    is_control: bool = False
    teachers: int = 1
    seeds: int = 0
    test_rows: int = 0
    teacher_sd: float | None = None
    ahead: float = 0.0
    leads: float | None = None
    by_teacher: tuple[float, ...] = ()
    teacher_variance: float = 0.0
    seed_variance: float = 0.0
    row_variance: float = 0.0
    cell_variance: float = 0.0

    @property
    def column(self) -> Column:
        return self.student, self.size

    @property
    def mark(self) -> str:
        """▲ for a difference claimed to be above 0, ▼ for one claimed to be below, otherwise empty."""
        return "" if not self.claimed else "▲" if self.difference > 0 else "▼"


@dataclass(frozen=True, eq=False)
class CombinedComparison(Document):
    """Gains over `none` (`gains`) and contrasts of methods (`pairs`) over teachers, test rows and seeds.

    Every column (student and training size) has its rows. If a mean over columns was requested, it comes first, as the
    column `("all columns", 0)`. `shared_rows` is the number of test rows that all teachers have, `shares_seeds` is true
    if students of one seed learn from the same rows with every teacher. With one teacher, nothing holds for others.
    """

    teachers: tuple[CombinedTeacher, ...]
    gains: tuple[CombinedRow, ...]
    pairs: tuple[CombinedRow, ...] = ()
    measure: str = "accuracy"
    shared_rows: int = 0
    shares_seeds: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"CombinedComparison({len(self.teachers)} teachers, {len(self.explainers)} explainers)"

    @cached_property
    def explainers(self) -> list[str]:
        return list(dict.fromkeys(row.explainer for row in self.gains))

    @cached_property
    def columns(self) -> list[Column]:
        return list(dict.fromkeys(row.column for row in self.gains))

    def ranked(self, column: Column) -> list[CombinedRow]:
        """The gains of a column, methods first, each from the largest to the smallest."""
        rows = [row for row in self.gains if row.column == column]
        return sorted(rows, key=lambda row: (row.is_control, -row.difference, row.explainer))

    def gain(self, explainer: str, student: str | None = None, size: int | None = None) -> CombinedRow:
        """The gain of this explainer over `none`. Raises OptionError unless exactly one row matches."""
        return self.contrast(explainer, NONE, student, size)

    def contrast(self, first: str, second: str, student: str | None = None, size: int | None = None) -> CombinedRow:
        """The difference of two arms, as it is stored: `first` minus `second`. Raises OptionError unless one matches.

        A method is contrasted with `none`, with every other method (the one with the higher gain is first) and with
        every control.
        """
        rows = [
            row
            for row in (*self.gains, *self.pairs)
            if (row.explainer, row.against) == (first, second)
            and student in (None, row.student)
            and size in (None, row.size)
        ]
        if len(rows) != 1:
            raise OptionError(
                f"{len(rows)} contrasts match {first!r} minus {second!r}, student {student!r}, size {size!r}; name "
                f"exactly one. Explainers: {', '.join(self.explainers)}; columns: "
                f"{'; '.join(map(column_name, self.columns))}."
            )
        return rows[0]

    # -- files --------------------------------------------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """A data frame with one line per contrast: gains (`against` is `none`), then pairs."""
        import pandas

        return pandas.DataFrame([dict(row) for row in (*self.gains, *self.pairs)], columns=list(_COLUMNS))

    def save(self, path: Path | str) -> None:
        """Write everything as .json, or the contrasts as .csv or .parquet."""
        path = ensure_parent(Path(path))
        check_kind(path)
        if path.suffix == ".json":
            save_document(path, self.to_document(), VERSION)
        elif path.suffix == ".csv":
            write_text(path, self.to_pandas().to_csv(index=False))
        else:
            buffer = io.BytesIO()
            self.to_pandas().to_parquet(buffer, index=False)
            write_bytes(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> "CombinedComparison":
        """Read a .json file that `save` wrote. Raises RecordError if it is damaged."""
        path = Path(path)
        return load_document(
            path, VERSION, cls._from_file, advice="Combine the runs again.",
            missing=f"There is no file {path}. Write one with `didact combine RUN RUN --out {path.name}`.",
        )  # fmt: skip

    @classmethod
    def _from_file(cls, document: Mapping[str, object]) -> "CombinedComparison":
        """Convert a document. An empty list of teachers is damage."""
        combined = cls.from_document(document)
        if not combined.teachers:
            raise ValueError("it names no teacher")
        return combined

    # -- display ------------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """One table per column as text: gains, contrasts with the leader, and the gain with every teacher."""
        return combined_table.text(self)

    def remarks(self) -> list[str]:
        """What a reader of the tables must know."""
        return combined_table.remarks(self)

    def _repr_html_(self) -> str:
        """The tables as HTML for a notebook."""
        return combined_table.html(self)


_COLUMNS: Final[Sequence[str]] = tuple(CombinedRow.__dataclass_fields__)


def check_kind(path: Path) -> None:
    """Raise OptionError if combined results cannot be saved under this name."""
    if path.suffix not in KINDS:
        raise OptionError(f"Combined comparisons are saved as {', '.join(KINDS)}, not as {path.name!r}.")
