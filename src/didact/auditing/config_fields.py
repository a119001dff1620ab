"""The fields of `AuditConfig` as typed keyword arguments, for completion in editors. A test compares the two."""

from collections.abc import Sequence
from typing import Literal

from didact.comparing.config_fields import CompareFields


class AuditFields(CompareFields, total=False):
    """The fields of a comparison, and those of an audit alone."""

    bases: Sequence[str] | None
    damage: Sequence[float] | None
    damaged: Sequence[Literal["rows", "units"]] | None
    normalisations: Sequence[Literal["raw", "tuned", "matched", "ranks", "band"]] | None
    metrics: Sequence[str] | None
    name: str | None
    protocol: str | None
