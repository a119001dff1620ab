"""Results of sanity checks: whether explanations depend on the model, and which metrics prefer a label leak."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from didact.results.documents import Document, MappingDocument, load_document, save_document

VERSION: Final = 1
CHECKS: Final = ("weights", "labels", "trivial")


@dataclass(frozen=True, eq=False)
class SanityStep(MappingDocument):
    """One method after one step of randomisation: Spearman's ρ of |scores| with those for the original teacher.

    ρ is a mean over rows. `roc_auc` is the ROC AUC against the rationales. Both have 95 % intervals. Unknown values are
    NaN, and None in a file.
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
    """One metric for trivial and for random explanations. `fooled` is true if trivial ones score better."""

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
    """The results of the requested checks: randomised weights, shuffled labels, trivial explanations."""

    weights: tuple[SanityStep, ...] = ()
    labels: tuple[SanityStep, ...] = ()
    trivial: tuple[FooledMetric, ...] = ()
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> dict[str, Any]:
        """One data frame per check that has results."""
        import pandas

        return {name: pandas.DataFrame(map(dict, getattr(self, name))) for name in CHECKS if getattr(self, name)}

    def save(self, path: Path | str) -> None:
        """Write the results as JSON."""
        save_document(Path(path), self.to_document(), VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "Sanity":
        """Read a file that `save` wrote. Raises RecordError if it is damaged."""
        missing = f"There is no file {path}. Write one with sanity.save(path)."
        advice = "Run the checks again (didact sanity)."
        return load_document(Path(path), VERSION, cls.from_document, advice=advice, missing=missing)
