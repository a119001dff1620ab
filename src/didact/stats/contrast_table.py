"""The contrasts of every two arms of every column of a comparison, as a run stores them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from didact.stats.contrast import Contrast, crossed_contrast

Column = tuple[str, int]
# By arm, for each seed one value per row.
Arms = Mapping[str, Mapping[int, Float[np.ndarray, " row"]]]
# What is said of a run that stores none.
NO_CONTRASTS: Final = (
    "This run was made by an older didact and holds no contrasts, so no method is claimed to be ahead of another. Run "
    "the same comparison again to add them: nothing is trained twice."
)
_FIELDS: Final = tuple(one.name for one in fields(Contrast))


@dataclass(frozen=True)
class ContrastTable:
    """Contrasts by first arm, second arm and column (student and size)."""

    entries: Mapping[tuple[str, str, Column], Contrast] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def get(self, first: str, second: str, column: Column) -> Contrast | None:
        """First minus second; None where the two share no seed or were not compared."""
        found = self.entries.get((first, second, column))
        if found is not None:
            return found
        reverse = self.entries.get((second, first, column))
        return None if reverse is None else -reverse

    def to_document(self) -> list[dict[str, Any]]:
        return [
            {"student": column[0], "size": column[1], "first": first, "second": second, **asdict(contrast)}
            for (first, second, column), contrast in self.entries.items()
        ]

    @classmethod
    def from_document(cls, lines: Sequence[Mapping[str, Any]]) -> "ContrastTable":
        """What `to_document` wrote. Raises LookupError, TypeError or ValueError where that is damaged."""
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
