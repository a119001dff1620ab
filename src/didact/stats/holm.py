"""Several tests at once (Holm, 1979)."""

from collections.abc import Sequence

from didact.errors import OptionError


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Step-down adjusted p-values, in the order given. None stays None and does not count as a test."""
    present = [(p, place) for place, p in enumerate(values) if p is not None]
    if any(not 0 <= p <= 1 for p, _ in present):
        raise OptionError(f"A p-value is between 0 and 1; given were {', '.join(str(p) for p, _ in present)}.")
    adjusted: list[float | None] = [None] * len(values)
    floor = 0.0
    for step, (p, place) in enumerate(sorted(present)):
        floor = max(floor, min(1.0, (len(present) - step) * p))
        adjusted[place] = floor
    return adjusted
