"""Statistics of a comparison: contrasts of all arms, claims about gains, ranks, and agreement between rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from didact.comparing.bands import Bands
from didact.comparing.cell import load_outputs
from didact.comparing.run_inputs import LabelledSplit
from didact.core.measure import agreement, class_weights, pearson
from didact.core.outputs import Outputs
from didact.errors import OptionError
from didact.files.store import Store
from didact.results.comparison import Arm, Scores
from didact.results.contrast import Contrast, ContrastTable
from didact.results.gains import NONE, GainRow
from didact.results.training_record import TrainingRecord
from didact.stats.claims import Claim, claims
from didact.stats.contrast import crossed_contrast, pairwise_contrasts, pearson_terms
from didact.stats.modes import lower_group_size
from didact.stats.ranking import kendall_matrix, ranks
from didact.stats.remaining_gap import closed_gap

# Key of the teacher's own answers among the scores, for measures that are correlations.
REFERENCE: Final = ("", "", 0)


@runtime_checkable
class ArmCell(Protocol):
    """A student by its key, arm and seed: a `Cell`, or a line of results.parquet."""

    @property
    def key(self) -> str: ...
    @property
    def explainer(self) -> str: ...
    @property
    def student(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def seed(self) -> int: ...


def scores_by_arm(
    cells: Sequence[ArmCell], records: Mapping[str, TrainingRecord], store: Store, test: LabelledSplit
) -> dict[Arm, dict[int, Float[np.ndarray, " row"]]]:
    """For every arm and seed, one number per test row: agreement with the teacher, or the answer of a regression."""
    scores: dict[Arm, dict[int, np.ndarray]] = {}
    task = test.outputs.task
    if task.is_score:
        scores[REFERENCE] = {0: test.outputs.values[:, 0]}
    for cell in cells:
        record = records[cell.key]
        if not record.is_done:
            continue
        table = load_outputs(store, record)
        rows = len(test.rows)  # answers to edited rows may follow
        values = np.array(table.columns["values"][:rows], dtype=np.float64)
        texts = (
            tuple(tuple(answers or ()) for answers in table.columns["answers"][:rows]) if task.is_per_token else None
        )
        outputs = Outputs(task, test.outputs.ids, values, texts)
        row = values[:, 0] if task.is_score else agreement(outputs, test.outputs)
        scores.setdefault((cell.explainer, cell.student, cell.size), {})[cell.seed] = row
    return scores


def row_contributions(
    row: Float[np.ndarray, " row"],
    reference: Float[np.ndarray, " _"] | None,
    strata: Int[np.ndarray, " _"] | None,
) -> Float[np.ndarray, " row"]:
    """The contribution of each test row to the measure of one student; the measure is their mean.

    `reference` (the teacher's answers) is given if the measure is a correlation, `strata` (the teacher's classes) if
    every class has the same weight.
    """
    if reference is not None:
        return pearson_terms(row[None], reference)[0]
    return row if strata is None else row * class_weights(strata)


def contrast_of(
    first: Sequence[Float[np.ndarray, " row"]],
    second: Sequence[Float[np.ndarray, " row"]],
    reference: Float[np.ndarray, " row"] | None,
    strata: Int[np.ndarray, " row"] | None = None,
) -> Contrast:
    """The contrast of two arms, each with one student per seed, in the same order."""
    arms = [np.stack([row_contributions(row, reference, strata) for row in arm]) for arm in (first, second)]
    return crossed_contrast(*arms, strata=strata)


def contrast_of_arms(scores: Scores, strata: Int[np.ndarray, " row"] | None, first: Arm, second: Arm) -> Contrast:
    """The contrast of any two arms, also of different columns, over the seeds that they share.

    Raises:
        OptionError: they share no seed.
    """
    seeds = sorted(scores[first].keys() & scores[second].keys())
    if not seeds:
        raise OptionError(f"{first} and {second} share no seed.")
    first_students, second_students = ([scores[arm][seed] for seed in seeds] for arm in (first, second))
    return contrast_of(first_students, second_students, scores.get(REFERENCE, {}).get(0), strata)


def contrasts_of(
    scores: Scores,
    *,
    explainers: Sequence[str],
    columns: Sequence[tuple[str, int]],
    strata: Int[np.ndarray, " row"] | None = None,
) -> ContrastTable:
    """The contrasts of all pairs of arms in every column."""
    reference = scores.get(REFERENCE, {}).get(0)
    entries = {}
    for column in columns:
        arms = {
            name: {seed: row_contributions(row, reference, strata) for seed, row in scores[name, *column].items()}
            for name in explainers
            if (name, *column) in scores
        }
        for first, second, contrast in pairwise_contrasts(arms, strata=strata):
            entries[first, second, column] = contrast
    return ContrastTable(entries)


def gain_rows(
    scores: Scores,
    contrasts: ContrastTable,
    *,
    explainers: Sequence[str],
    controls: Sequence[str],
    columns: Sequence[tuple[str, int]],
    measure: str,
    lost: Mapping[Arm, int],
    test_rows: int,
    strata: Int[np.ndarray, " row"] | None = None,
    bands: Bands = Bands(),  # noqa: B008 - it is frozen
    has_shares: bool = True,
) -> list[GainRow]:
    """The rows of the table, one per explainer and column. A seed that failed in either arm is left out of the pair.

    In each column, Holm's correction covers all methods together; each control is tested alone. With `bands`,
    `explainers` and `controls` are arms, which become one row per method. `has_shares` adds the normalised gain and the
    shares of answers that were helped and misled, which need the same test rows for all students.
    """
    reference = scores.get(REFERENCE, {}).get(0)
    rows: list[GainRow] = []
    for student, size in columns:
        column_rows = []
        none_scores = scores.get((NONE, student, size), {})
        for name in explainers:
            by_seed = scores.get((name, student, size), {})
            if not by_seed:
                continue
            values = np.array([simulability(row, reference, strata) for row in by_seed.values()])
            q25, median, q75 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
            paired = [seed in none_scores or not none_scores for seed in by_seed]  # seeds that enter the gain
            column_rows.append(
                GainRow(
                    explainer=name,
                    student=student,
                    size=size,
                    seeds=len(by_seed),
                    measure=measure,
                    mean=float(values.mean()),
                    median=median,
                    q25=q25,
                    q75=q75,
                    test_rows=test_rows,
                    is_control=name in controls,
                    lost_rows=lost.get((name, student, size), 0),
                    low_seeds=lower_group_size(values[paired]),
                )
            )
        column_rows = _with_claims(column_rows, contrasts, bands, limit=1.0 if reference is None else 2.0)
        if has_shares and reference is None:  # a correlation is no share of rows
            column_rows = [_with_shares(row, scores, strata) for row in column_rows]
        same_seeds = len({frozenset(scores[row.explainer, student, size]) for row in column_rows}) == 1
        column_rows = bands.joined(column_rows)
        if len(column_rows) > 1:  # a single row has no rank
            order = ranks(np.array([_ranking_value(row, column_rows, same_seeds) for row in column_rows]))
            column_rows = [replace(row, rank=float(rank)) for row, rank in zip(column_rows, order, strict=True)]
        rows += column_rows
    return rows


def _with_claims(rows: Sequence[GainRow], contrasts: ContrastTable, bands: Bands, *, limit: float) -> list[GainRow]:
    """Add gains over `none` with intervals and p-values. Intervals are clipped to the possible range of a gain."""
    gains = {
        row.explainer: contrast
        for row in rows
        if (contrast := contrasts.get(row.explainer, NONE, row.column)) is not None
    }
    methods = [row.explainer for row in rows if not row.is_control and row.explainer in gains]
    families = [methods, *bands.families([name for name in gains if name not in methods])]
    claimed = {
        name: claim
        for family in families
        for name, claim in zip(family, claims([gains[name] for name in family]), strict=True)
    }
    return [_with_claim(row, claimed.get(row.explainer), limit) for row in rows]


def _with_claim(row: GainRow, claim: Claim | None, limit: float) -> GainRow:
    if claim is None:
        return row
    return replace(
        row,
        seeds=claim.contrast.seeds,
        gain=claim.contrast.difference,
        level=claim.level,
        p=claim.p,
        p_reason=claim.reason,
        claimed=claim.claimed,
        low=None if claim.low is None else max(claim.low, -limit),
        high=None if claim.high is None else min(claim.high, limit),
    )


def _with_shares(row: GainRow, scores: Scores, strata: Int[np.ndarray, " row"] | None) -> GainRow:
    """Add the normalised gain, and the shares of pairs of seed and test row that explanations corrected and misled.

    For graded agreement (token F1) the shares are the mean agreement that rows gained, and that rows lost.
    """
    if row.gain is None:
        return row
    by_seed, none_by_seed = (scores[name, row.student, row.size] for name in (row.explainer, NONE))
    seeds = sorted(by_seed.keys() & none_by_seed.keys())
    method, none = (
        np.stack([row_contributions(arm[seed], None, strata) for seed in seeds]) for arm in (by_seed, none_by_seed)
    )
    closed = closed_gap(method, none, level=row.level, strata=strata)
    helped, misled = (float(np.maximum(gains, 0).mean()) for gains in (method - none, none - method))
    row = replace(row, helped=helped, misled=misled)
    if closed is None:
        return row
    return replace(row, normalised_gain=closed.share, normalised_low=closed.low, normalised_high=closed.high)


def _ranking_value(row: GainRow, rows: Sequence[GainRow], same_seeds: bool) -> float:
    """The value that ranks a row: its mean, or the paired gain plus the mean of `none` if rows have different seeds."""
    assert row.mean is not None
    none_mean = next((none_row.mean for none_row in rows if none_row.explainer == NONE), None)
    return row.mean if same_seeds or none_mean is None or row.gain is None else none_mean + row.gain


def ranking_agreement(rows: Sequence[GainRow], columns: Sequence[tuple[str, int]]) -> dict[str, object]:
    """Kendall's τ between the rankings of the columns, with `none` (Pruthi et al., Table 10)."""
    names = list(dict.fromkeys(row.explainer for row in rows))
    table = np.full((len(columns), len(names)), np.nan)
    for row in rows:
        if row.rank is not None:
            table[columns.index(row.column), names.index(row.explainer)] = -row.rank
    matrix = kendall_matrix(table)
    return {
        "columns": [{"student": student, "size": size} for student, size in columns],
        "tau": [[None if np.isnan(value) else float(value) for value in tau_row] for tau_row in matrix],
    }


def simulability(
    row: Float[np.ndarray, " row"],
    reference: Float[np.ndarray, " row"] | None,
    strata: Int[np.ndarray, " row"] | None = None,
) -> float:
    """The simulability of one student: a mean over test rows, or Pearson's r with the teacher (0 if undefined)."""
    if reference is not None:
        return float(np.nan_to_num(pearson(row, reference), nan=0.0))
    return float(row.mean() if strata is None else (row * class_weights(strata)).mean())
