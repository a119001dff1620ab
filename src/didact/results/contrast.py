"""Paired differences that a comparison stores: the `Contrast` of two arms, and a table of all contrasts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from didact.errors import OptionError
from didact.results.documents import Document, require_number

Column = tuple[str, int]  # student and training size
_NOT_STORED: Final = (
    "An older didact made this run and stored no contrasts, so no method is claimed to be ahead of another. Run the "
    "same comparison again to add them: nothing is trained twice."
)
_SINGLE_EXPLAINER: Final = (
    "No column has runs of two explainers, so there is nothing to compare and no lead is claimed."
)
_NO_SHARED_SEED: Final = (
    "No two explainers have a finished run of the same seed, so there is nothing to compare and no lead is claimed. "
    "Run the same comparison again to repeat the failed runs: finished runs are kept."
)


@dataclass(frozen=True)
class Contrast(Document):
    """The mean paired difference of two arms. Its interval is `difference` ± t·`se`, with t at `df` degrees of freedom.

    `seed_variance`, `row_variance` and `cell_variance` estimate the variance of the difference from seed means, from
    row means and from the residuals. The first two contain the third, so the total is seed + row − cell, but at least
    the larger of seed and row. With one seed the contrast generalises to other rows only, not to other seeds.
    """

    difference: float
    se: float
    df: float
    seeds: int
    rows: int
    seed_variance: float = 0.0
    row_variance: float = 0.0
    cell_variance: float = 0.0

    @cached_property
    def p(self) -> float:
        """The two-sided p of Student's t. It is below 1 − level if and only if `interval(level)` excludes 0."""
        from scipy.special import stdtr  # not scipy.stats, which takes a second to import

        if self.se == 0:
            return 1.0 if self.difference == 0 else 0.0
        return float(2 * stdtr(self.df, -abs(self.difference) / self.se))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval at this level."""
        from scipy.special import stdtrit

        if not 0 < level < 1:
            raise OptionError(f"level must be between 0 and 1, got {level}.")
        margin = float(-stdtrit(self.df, (1 - level) / 2)) * self.se if self.se else 0.0
        return self.difference - margin, self.difference + margin

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.interval()[1]

    def __neg__(self) -> "Contrast":
        """The contrast of the same arms, second minus first."""
        return replace(self, difference=-self.difference)


@dataclass(frozen=True)
class TeacherContrast(Contrast):
    """The mean over teachers of the difference of two arms, for teachers in general.

    `teacher_variance` is the variance of that mean from the differences of the teachers. `seed_variance`,
    `row_variance` and `cell_variance` are the covariance of two teachers through the seeds and test rows that they
    share (0 if none), so the variance is teacher + seed + row − cell. `teacher_sd` estimates how far the true
    differences of teachers vary, beyond chance in seeds and rows; None with one teacher. `by_teacher` has the
    difference with each teacher. With one teacher this is its contrast, for that teacher only.
    """

    teacher_variance: float = 0.0
    teacher_sd: float | None = None
    by_teacher: tuple[float, ...] = ()

    @property
    def teachers(self) -> int:
        return len(self.by_teacher)


_FIELDS: Final = tuple(entry.name for entry in fields(Contrast))


@dataclass(frozen=True)
class ContrastTable:
    """Contrasts by first explainer, second explainer and column (student and size).

    `is_stored` is false for files of older versions, which have no such table.
    """

    entries: Mapping[tuple[str, str, Column], Contrast] = field(default_factory=dict)
    is_stored: bool = True

    def __bool__(self) -> bool:
        return bool(self.entries)

    def get(self, first: str, second: str, column: Column) -> Contrast | None:
        """The contrast first minus second; None if the two share no seed or were not compared."""
        contrast = self.entries.get((first, second, column))
        if contrast is not None:
            return contrast
        reverse = self.entries.get((second, first, column))
        return None if reverse is None else -reverse

    def why_empty(self, columns: Iterable[Column]) -> str:
        """Why a run has no contrasts, given the column of each row of its table. Empty if there are contrasts."""
        if self:
            return ""
        if not self.is_stored:
            return _NOT_STORED
        return _NO_SHARED_SEED if max(Counter(columns).values(), default=0) > 1 else _SINGLE_EXPLAINER

    def to_document(self) -> list[dict[str, object]] | None:
        if not self.is_stored:
            return None
        return [
            {"student": column[0], "size": column[1], "first": first, "second": second, **contrast.to_document()}
            for (first, second, column), contrast in self.entries.items()
        ]

    @classmethod
    def from_document(cls, records: Sequence[Mapping[str, Any]] | None) -> "ContrastTable":
        """Read what `to_document` returned. Raises LookupError, TypeError or ValueError if it is damaged."""
        if records is None:
            return cls(is_stored=False)
        entries = {}
        for record in records:
            for name in _FIELDS:
                require_number(record[name])
            key = (str(record["first"]), str(record["second"]), (str(record["student"]), int(record["size"])))
            entries[key] = Contrast.from_document(record)
        return cls(entries)
