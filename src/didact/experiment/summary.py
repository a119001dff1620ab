"""From cells to a table: paired gains with crossed intervals, exact tests, ranks, and agreement between rankings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from didact.core.measure import agreement, class_weights, pearson
from didact.core.outputs import Outputs
from didact.experiment.cell import Cell, load_outputs
from didact.experiment.classroom import Labelled
from didact.experiment.comparison import REFERENCE
from didact.records.store import Record, Store
from didact.stats.bootstrap import Interval, crossed_bootstrap, crossed_bootstrap_pearson
from didact.stats.holm import holm
from didact.stats.paired import paired_test
from didact.stats.ranking import kendall_matrix, ranks
from didact.stats.summary import Summary

Key = tuple[str, str, int]
LEVEL: Final = 0.05


def scores_of(
    cells: Sequence[Cell], records: Mapping[str, Record], store: Store, test: Labelled
) -> dict[Key, dict[int, Float[np.ndarray, " row"]]]:
    """By explainer, student and size, for each seed one number per test row: agreement, or a regression's answer."""
    found: dict[Key, dict[int, np.ndarray]] = {}
    task = test.outputs.task
    if task.measure == "pearson":
        found[REFERENCE] = {0: test.outputs.values[:, 0]}
    for cell in cells:
        record = records[cell.key]
        if record.status != "done":
            continue
        table = load_outputs(store, record)
        values = np.array(table.columns["values"], dtype=np.float64)
        said = tuple(tuple(one or ()) for one in table.columns["answers"]) if task.name == "reading" else None
        outputs = Outputs(task, test.outputs.ids, values, said)
        row = values[:, 0] if task.measure == "pearson" else agreement(outputs, test.outputs)
        found.setdefault((cell.explainer, cell.student, cell.size), {})[cell.seed] = row
    return found


def interval_of(
    arm: Sequence[Float[np.ndarray, " row"]],
    control: Sequence[Float[np.ndarray, " row"]],
    reference: Float[np.ndarray, " row"] | None,
    *,
    replicates: int,
    strata: Int[np.ndarray, " row"] | None = None,
    level: float = 0.95,
) -> Interval:
    """The gain of one arm over the other. `reference` is there where the measure is a correlation.

    `strata` are the teacher's classes of the rows, where every class counts the same.
    """
    first, second = np.stack(arm), np.stack(control)
    if reference is not None:
        found = crossed_bootstrap_pearson(first, second, reference, replicates=replicates, level=level)
        return _within(found, 2.0)
    if strata is not None:
        weights = class_weights(strata)
        first, second = first * weights, second * weights
    return _within(crossed_bootstrap(first, second, replicates=replicates, level=level, strata=strata), 1.0)


def _within(found: Interval, most: float) -> Interval:
    """The interval within what a gain can be: two or three seeds can stretch it beyond."""
    return Interval(found.gain, max(found.low, -most), min(found.high, most))


def rows_of_table(
    scores: Mapping[Key, Mapping[int, Float[np.ndarray, " row"]]],
    *,
    explainers: Sequence[str],
    controls: Sequence[str],
    columns: Sequence[tuple[str, int]],
    measure: str,
    test: str,
    replicates: int,
    lost: Mapping[Key, int],
    test_rows: int,
    strata: Int[np.ndarray, " row"] | None = None,
) -> list[dict[str, Any]]:
    """The table's rows, one per explainer and column. Seeds that failed in either arm are left out of the pair.

    Without `replicates` there are no intervals.
    """
    reference = scores.get(REFERENCE, {}).get(0)
    rows: list[dict[str, Any]] = []
    for student, size in columns:
        plain = scores.get(("none", student, size), {})
        tested_names = [name for name in explainers if name not in controls and (name, student, size) in scores]
        column = []
        for name in explainers:
            own = scores.get((name, student, size), {})
            if not own:
                continue
            values = {seed: value_of(row, reference, strata) for seed, row in own.items()}
            about = Summary.of(np.array(list(values.values())))
            row: dict[str, Any] = {
                "explainer": name, "student": student, "size": size, "seeds": len(own), "measure": measure,
                "mean": float(np.mean(list(values.values()))), "median": about.median, "q25": about.q25,
                "q75": about.q75, "gain": None, "low": None, "high": None, "p": None, "p_reason": "", "rank": None,
                "test_rows": test_rows, "is_control": name in controls, "lost_rows": lost.get((name, student, size), 0),
            }  # fmt: skip
            seeds = sorted(own.keys() & plain.keys())
            if name != "none" and seeds:
                differences = np.array([values[seed] - value_of(plain[seed], reference, strata) for seed in seeds])
                gain = Interval(float(differences.mean()), np.nan, np.nan)
                if replicates:
                    gain = interval_of(
                        [own[seed] for seed in seeds], [plain[seed] for seed in seeds], reference,
                        replicates=replicates, strata=strata,
                    )  # fmt: skip
                shared = max(len(tested_names), 1) if name in tested_names else 1
                tested = paired_test(differences, kind=test, level=LEVEL / shared)
                row |= {"seeds": len(seeds), "gain": gain.gain, "p": tested.p}
                row |= {"low": gain.low, "high": gain.high} if replicates else {}
                if tested.p is None:
                    row["p_reason"] = tested.reason + (f" ({LEVEL:g} over {shared} explainers)" if shared > 1 else "")
            column.append(row)
        asked = [row for row in column if not row["is_control"]]
        for row, p in zip(asked, holm([row["p"] for row in asked]), strict=True):
            row["p"] = p
        if len(column) > 1:  # alone, nobody is first
            whole = len({frozenset(scores[row["explainer"], student, size]) for row in column}) == 1
            for row, rank in zip(
                column, ranks(np.array([_standing(row, column, whole) for row in column])), strict=True
            ):
                row["rank"] = float(rank)
        rows += column
    return rows


def _standing(row: Mapping[str, Any], column: Sequence[Mapping[str, Any]], whole: bool) -> float:
    """What a row is ranked by: its mean. Where seeds failed, means are of other seeds each, and gains are paired."""
    mean: float = row["mean"]
    plain = next((one["mean"] for one in column if one["explainer"] == "none"), None)
    return mean if whole or plain is None or row["gain"] is None else plain + row["gain"]


def agreement_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Kendall's τ between the rankings that the columns give, `none` included (Pruthi et al., Table 10)."""
    names = list(dict.fromkeys(row["explainer"] for row in rows))
    table = np.full((len(columns), len(names)), np.nan)
    for row in rows:
        if row["rank"] is not None:
            table[columns.index((row["student"], row["size"])), names.index(row["explainer"])] = -row["rank"]
    matrix = kendall_matrix(table)
    return {
        "columns": [{"student": student, "size": size} for student, size in columns],
        "tau": [[None if np.isnan(value) else float(value) for value in line] for line in matrix],
    }


def value_of(
    row: Float[np.ndarray, " row"],
    reference: Float[np.ndarray, " row"] | None,
    strata: Int[np.ndarray, " row"] | None = None,
) -> float:
    """The measure of one student: a mean over rows, or Pearson's r with the teacher (0 where it is undefined)."""
    if reference is not None:
        return float(np.nan_to_num(pearson(row, reference), nan=0.0))
    return float(row.mean() if strata is None else (row * class_weights(strata)).mean())
