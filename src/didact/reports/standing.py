"""The leading method against its rivals: paired contrasts, Holm-corrected over the rivals of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from didact.results.comparison import Comparison
from didact.results.contrast import Column, Contrast
from didact.stats.claims import ALPHA, Claim, claims
from didact.stats.power import VarianceComponents, people_needed

_MAX_SEEDS, _MAX_ROWS = 1000, 1_000_000
SEEDS: Final = 8  # the recommended number if there are fewer


@dataclass(frozen=True)
class Standing:
    """The leader against one rival: a claim for each judged column that both have."""

    rival: str
    claims: Mapping[Column, Claim] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        return len(self.claims)

    @property
    def ahead(self) -> int:
        """Columns in which the leader is claimed ahead."""
        return sum(claim.is_above for claim in self.claims.values())

    @property
    def behind(self) -> int:
        """Columns in which the rival is claimed ahead."""
        return sum(claim.is_below for claim in self.claims.values())

    @property
    def is_beaten(self) -> bool:
        """The rule for "clearly ahead": claimed in every column that both have."""
        return 0 < self.columns == self.ahead

    @property
    def undecided_claim(self) -> Claim | None:
        """The first contrast of several seeds from which nothing is claimed."""
        return next((claim for claim in self.claims.values() if not claim.claimed and claim.p is not None), None)


def standings(run: Comparison, leader: str, rivals: Sequence[str]) -> dict[str, Standing]:
    """The leader against each rival. The rivals in a column form one family for Holm's correction."""
    claims_by_rival: dict[str, dict[Column, Claim]] = {rival: {} for rival in rivals}
    for column in run.judged:
        family = {
            rival: contrast for rival in rivals if (contrast := run.contrasts.get(leader, rival, column)) is not None
        }
        for rival, claim in zip(family, claims(list(family.values())), strict=True):
            claims_by_rival[rival][column] = claim
    return {rival: Standing(rival, rival_claims) for rival, rival_claims in claims_by_rival.items()}


def gap_text(run: Comparison, standing: Standing) -> str:
    """The lead in words: difference and interval, or with several columns in how many the lead is claimed."""
    if standing.columns == 0:
        return "no combination has both"
    if standing.columns > 1:
        behind = f", clearly behind in {standing.behind}" if standing.behind else ""
        return f"clearly ahead in {standing.ahead} of {standing.columns} combinations{behind}"
    (claim,) = standing.claims.values()
    gap = f"difference {run.format.signed(claim.contrast.difference)}"
    return gap if claim.low is None else f"{gap}, {run.format.signed(claim.low)} to {run.format.signed(claim.high)}"


def more_data_advice(contrast: Contrast, *, alpha: float = ALPHA, what: str) -> str:
    """Advice on how many seeds or test rows would show a difference of the measured size with a power of 80 %.

    Computed from variance components: more seeds reduce the variance between seeds, more rows that between rows.
    "" if the contrast has one seed or no variance.
    """
    seeds, rows, difference = contrast.seeds, contrast.rows, abs(contrast.difference)
    if seeds < 2 or difference == 0 or contrast.se == 0:
        return ""
    cell = contrast.cell_variance
    seed_part = max(0.0, contrast.seed_variance - cell) * seeds
    row_part = max(0.0, contrast.row_variance - cell) * rows
    cell_part = cell * seeds * rows
    by_seeds = people_needed(
        VarianceComponents(seed_part, row_part, cell_part), difference=difference, items=rows, level=alpha
    )
    by_rows = people_needed(
        VarianceComponents(row_part, seed_part, cell_part), difference=difference, items=seeds, level=alpha
    )
    options = {}
    if by_seeds.people is not None and by_seeds.items == rows and seeds < by_seeds.people <= _MAX_SEEDS:
        options["seeds"] = f"about {by_seeds.people:,} seeds (--seeds {by_seeds.people})"
    if by_rows.people is not None and by_rows.items == seeds and rows < by_rows.people <= _MAX_ROWS:
        options["rows"] = f"about {by_rows.people:,} test rows (--test-rows {by_rows.people})"
    main_source = "seeds" if seed_part / seeds >= row_part / rows else "rows"
    start = (
        f"Most of the uncertainty about {what} comes from the {'students' if main_source == 'seeds' else 'test rows'}"
    )
    if not options:
        return (
            f"{start}; no realistic number of seeds or test rows would show a difference as small as the measured one."
        )
    order = sorted(options, key=lambda name: name != main_source)
    return f"{start}. To show a difference of the measured size, use {' or '.join(options[name] for name in order)}."
