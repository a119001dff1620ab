"""The leading method against its rivals: paired contrasts, Holm-corrected over the rivals of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from didact.results.comparison import Comparison
from didact.results.contrast import Column, Contrast
from didact.results.target_normalisation import band_arm
from didact.stats.claims import ALPHA, Claim, claims
from didact.stats.power import VarianceComponents, people_needed

_MAX_SEEDS, _MAX_ROWS = 1000, 1_000_000
SEEDS: Final = 8  # the recommended number if there are fewer


@dataclass(frozen=True)
class Standing:
    """The leader against one rival: a claim for each judged column that both have.

    `spans` has, by column, what temperature alone makes of the two: the larger of their spans, 0 without a band. A
    claimed difference within it is no lead (docs/compare.md states the rule).
    """

    rival: str
    claims: Mapping[Column, Claim] = field(default_factory=dict)
    spans: Mapping[Column, float] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        return len(self.claims)

    @property
    def ahead(self) -> int:
        """Columns in which the leader is claimed ahead."""
        return sum(claim.is_above and not self.is_within_span(column) for column, claim in self.claims.items())

    @property
    def behind(self) -> int:
        """Columns in which the rival is claimed ahead."""
        return sum(claim.is_below and not self.is_within_span(column) for column, claim in self.claims.items())

    def is_within_span(self, column: Column) -> bool:
        """Whether the difference in a column is not larger than what temperature alone makes of the two."""
        return abs(self.claims[column].contrast.difference) <= self.spans.get(column, 0.0)

    @property
    def alike(self) -> int:
        """Columns of a band in which temperature alone makes as much as the difference."""
        return sum(self.spans.get(column, 0.0) > 0 and self.is_within_span(column) for column in self.claims)

    @property
    def is_beaten(self) -> bool:
        """The rule for "clearly ahead": claimed in every column that both have."""
        return 0 < self.columns == self.ahead

    @property
    def undecided_claim(self) -> Claim | None:
        """The first contrast of several seeds from which nothing is claimed, and that more data could make a lead."""
        return next(
            (
                claim
                for column, claim in self.claims.items()
                if not claim.claimed and claim.p is not None and not self.is_within_span(column)
            ),
            None,
        )


def standings(run: Comparison, leader: str, rivals: Sequence[str]) -> dict[str, Standing]:
    """The leader against each rival. The rivals in a column form one family for Holm's correction."""
    claims_by_rival: dict[str, dict[Column, Claim]] = {rival: {} for rival in rivals}
    for column in run.judged:
        family = {
            rival: contrast for rival in rivals if (contrast := run.contrasts.get(leader, rival, column)) is not None
        }
        for rival, claim in zip(family, claims(list(family.values())), strict=True):
            claims_by_rival[rival][column] = claim
    return {
        rival: Standing(
            rival, rival_claims, {column: _larger_span(run, leader, rival, column) for column in rival_claims}
        )
        for rival, rival_claims in claims_by_rival.items()
    }


def _larger_span(run: Comparison, leader: str, rival: str, column: Column) -> float:
    rows = [row for name in (leader, rival) if (row := run.find(name, column)) is not None]
    return max((row.span for row in rows), default=0.0)


def gap_text(run: Comparison, standing: Standing) -> str:
    """The lead in words: difference and interval, or with several columns in how many the lead is claimed."""
    if standing.columns == 0:
        return "no combination has both"
    if standing.columns > 1:
        behind = f", clearly behind in {standing.behind}" if standing.behind else ""
        alike = f", within what temperature alone makes in {standing.alike}" if standing.alike else ""
        return f"clearly ahead in {standing.ahead} of {standing.columns} combinations{behind}{alike}"
    ((column, claim),) = standing.claims.items()
    gap = f"difference {run.format.signed(claim.contrast.difference)}"
    if claim.low is not None:
        gap += f", {run.format.signed(claim.low)} to {run.format.signed(claim.high)}"
    span = standing.spans.get(column, 0.0)
    return f"{gap}; temperature alone makes {run.format.plain(span)}" if span else gap


def same_temperature_text(run: Comparison, leader: str, rival: str) -> str:
    """In how many temperatures of a band the leader has the higher mean, both sent alike. "" without a band."""
    differences = []
    for row in run.judged_rows(leader):
        for point in row.band:
            first, second = (band_arm(name, point.temperature) for name in (leader, rival))
            contrast = run.contrasts.get(first, second, row.column)
            differences += [] if contrast is None else [contrast.difference]
    ahead = sum(difference > 0 for difference in differences)
    return f"At the same temperature it is above {rival} in {ahead} of {len(differences)}." if differences else ""


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
