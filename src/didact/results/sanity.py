"""Whether explanations depend on the model, and which metrics can be fooled: what the sanity checks found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact.results.documents import Document, MappingDocument, load_document, save_document

VERSION: Final = 1
CHECKS: Final = ("weights", "labels", "trivial")


@dataclass(frozen=True, eq=False)
class SanityStep(MappingDocument):
    """One method after one step: Spearman's ρ of |scores| with those of the teacher as it is, mean over rows.

    `roc_auc` is the area against the rationales. Both have 95 % intervals; what is not known is NaN, or None in a file.
    """

    method: str
    step: str
    rows: int
    similarity: float | None = None
    low: float | None = None
    high: float | None = None
    roc_auc: float | None = None
    roc_auc_low: float | None = None
    roc_auc_high: float | None = None


@dataclass(frozen=True, eq=False)
class FooledMetric(MappingDocument):
    """One metric: what trivial explanations reach and what random ones do. `fooled` if trivial ones are better."""

    metric: str
    trivial: float | None
    random: float | None
    difference: float | None
    low: float | None
    high: float | None
    better: str
    rows: int
    fooled: bool


@dataclass(frozen=True)
class Sanity(Document):
    """Lines of the checks that were asked for: redrawn weights, shuffled labels, trivial explanations."""

    weights: tuple[SanityStep, ...] = ()
    labels: tuple[SanityStep, ...] = ()
    trivial: tuple[FooledMetric, ...] = ()
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> dict[str, Any]:
        """A data frame for each check."""
        import pandas

        return {name: pandas.DataFrame(map(dict, getattr(self, name))) for name in CHECKS if getattr(self, name)}

    def save(self, path: Path | str) -> None:
        """Write the lines as JSON."""
        save_document(Path(path), self.to_document(), VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "Sanity":
        """What `save` wrote."""
        missing = f"There is no file {path}. Sanity checks are written by sanity.save(path)."
        advice = "Run the checks again (didact sanity)."
        return load_document(Path(path), VERSION, cls.from_document, advice=advice, missing=missing)
