"""The findings of an analysis as typed values; `Findings.to_document` prepares them for analysis.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from didact.results.study_analysis import MethodEstimate, PairwiseDifference
from didact.study.contrasts import Contrasts


@dataclass(frozen=True)
class Settings:
    """The options of an analysis."""

    replicates: int
    level: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings of one study. `more` has entries of its kind only; `taus` are by person."""

    measure: str
    headline: str
    methods: Sequence[MethodEstimate]
    contrasts: Contrasts
    pairs: Sequence[PairwiseDifference]
    agreement: Mapping[str, Any]
    notes: Sequence[str]
    taus: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """The entries of analysis.json."""
        methods = sorted(self.methods, key=lambda row: (-row.estimate, row.method))
        return {
            "measure": self.measure,
            "headline": self.headline,
            "methods": [row.to_document() for row in methods],
            "pairs": [pair.to_document() for pair in self.pairs],
            "order": [asdict(row) for row in self.contrasts.order()],
            "order_here": [asdict(row) for row in self.contrasts.order(fixed_people=True)],
            "agreement": self.agreement,
            "notes": self.notes,
            **self.more,
        }
