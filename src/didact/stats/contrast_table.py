"""The contrasts of every two arms of every column of a comparison, as a run stores them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from didact.stats.contrast import Contrast, crossed_contrast

Column = tuple[str, int]
# By arm, for each seed one value per row.
Arms = Mapping[str, Mapping[int, Float[np.ndarray, " row"]]]
_OLDER: Final = (
    "This run was made by an older didact and holds no contrasts, so no method is claimed to be ahead of another. Run "
    "the same comparison again to add them: nothing is trained twice."
)
_ALONE: Final = "No column has runs of two explainers, so nothing could be compared and no lead is claimed."
_NO_SHARED_SEED: Final = (
    "No two explainers have a finished run of the same seed, so nothing could be compared and no lead is claimed. Run "
    "the same comparison again to repeat the failed runs: finished ones are kept."
)
_FIELDS: Final = tuple(one.name for one in fields(Contrast))


@dataclass(frozen=True)
class ContrastTable:
    """Contrasts by first arm, second arm and column (student and size).

    `is_stored` is false for a file that has no table: older versions wrote none.
    """

    entries: Mapping[tuple[str, str, Column], Contrast] = field(default_factory=dict)
    is_stored: bool = True

    def __bool__(self) -> bool:
        return bool(self.entries)

    def get(self, first: str, second: str, column: Column) -> Contrast | None:
        """First minus second; None where the two share no seed or were not compared."""
        found = self.entries.get((first, second, column))
        if found is not None:
            return found
        reverse = self.entries.get((second, first, column))
        return None if reverse is None else -reverse

    def why_empty(self, columns: Iterable[Column]) -> str:
        """Why a run has no contrasts, given the column of each row of its table. Empty if it has some."""
        if self:
            return ""
        if not self.is_stored:
            return _OLDER
        return _NO_SHARED_SEED if max(Counter(columns).values(), default=0) > 1 else _ALONE

    def to_document(self) -> list[dict[str, Any]] | None:
        if not self.is_stored:
            return None
        return [
            {"student": column[0], "size": column[1], "first": first, "second": second, **asdict(contrast)}
            for (first, second, column), contrast in self.entries.items()
        ]

    @classmethod
    def from_document(cls, lines: Sequence[Mapping[str, Any]] | None) -> "ContrastTable":
        """What `to_document` wrote. Raises LookupError, TypeError or ValueError where that is damaged."""
        if lines is None:
            return cls(is_stored=False)
        entries = {}
        for line in lines:
            values = {name: float(line[name]) for name in _FIELDS}
            if not np.isfinite(list(values.values())).all():
                raise ValueError("a contrast has values that are not numbers")
            counts = {"seeds": int(line["seeds"]), "rows": int(line["rows"])}
            key = (str(line["first"]), str(line["second"]), (str(line["student"]), int(line["size"])))
            entries[key] = Contrast(**{**values, **counts})  # type: ignore[arg-type]
        return cls(entries)


def pairwise_contrasts(
    arms: Arms, *, strata: Int[np.ndarray, " _"] | None = None
) -> Iterator[tuple[str, str, Contrast]]:
    """Every two arms with a shared seed. Seeds that one of the two lacks are left out of the pair."""
    for (first, own), (second, other) in combinations(arms.items(), 2):
        seeds = sorted(own.keys() & other.keys())
        if seeds:
            stacked = [np.stack([by_seed[seed] for seed in seeds]) for by_seed in (own, other)]
            yield first, second, crossed_contrast(*stacked, strata=strata)
