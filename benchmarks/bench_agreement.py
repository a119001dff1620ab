"""What agreement costs: 12 methods, 1,000 rows of about 25 units. All in one run, on the same scores, one thread.

- seconds: each measure for all pairs of methods, against scipy asked row by row and pair by pair (the overlap and the
  top k, which scipy does not have, against sets and a double loop in Python, on fewer rows);
- the whole: files on disk to all measures, with reading and matching;
- memory: the most that τ-b holds beyond the scores, for rows of 512 and 2,048 units.
"""

import os
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from didact.evaluation.agree import agreements
from didact.metrics.agreement import AGREEMENT, agreement
from didact.results.explanations import Explanations
from didact.results.row_explanation import top_count

METHODS, ROWS, FEW = 12, 1000, 50
MEASURES = [name for name, entry in AGREEMENT.items() if not entry.needs_teacher]
LIMITS = {"kendall": 5.0, "all": 30.0}  # seconds


def maps_of(counts: np.ndarray, scores: np.ndarray, method: str) -> Explanations:
    """Made-up rows of one-letter words."""
    places = np.concatenate([np.arange(count) for count in counts])
    return Explanations(
        method=method, kind="signed", options={}, task="classification", classes=("no", "yes"), teacher="none",
        fingerprints={}, ids=tuple(f"r{row}" for row in range(len(counts))),
        texts=tuple((" ".join("x" * count),) for count in counts.tolist()),
        bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), tokens=("x",) * len(places),
        segments=np.zeros(len(places), dtype=np.int64), word_index=places,
        offsets=np.stack([2 * places, 2 * places + 1], 1), scores=scores, targets=("yes",) * len(counts),
        predictions=("yes",) * len(counts), residuals=np.full(len(counts), np.nan),
    )  # fmt: skip


def sets(rows: int, units: int | None = None) -> list[Explanations]:
    dice = np.random.default_rng(0)
    counts = np.full(rows, units) if units else np.clip(np.round(dice.normal(25, 8, rows)), 5, 60).astype(np.int64)
    common = dice.normal(size=counts.sum())
    return [maps_of(counts, common + dice.normal(size=len(common)), f"method{number}") for number in range(METHODS)]


def highest(scores: np.ndarray, size: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda unit: (-scores[unit], unit))[:size]


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    size = top_count(0.1, len(first))
    return len(set(highest(first, size)) & set(highest(second, size))) / size


def fagin(first: np.ndarray, second: np.ndarray) -> float:
    size = top_count(0.1, len(first))
    one, two = set(highest(first, size)), set(highest(second, size))
    distance = 0.0
    for i, j in combinations(sorted(one | two), 2):
        a = np.sign((first[i] if i in one else -1) - (first[j] if j in one else -1))
        b = np.sign((second[i] if i in two else -1) - (second[j] if j in two else -1))
        distance += abs(a - b) / 2
    return 1 - 2 * distance / (size * (size - 1) / 2 + size * min(size, len(first) - size))


def signs(first: np.ndarray, second: np.ndarray) -> float:
    both = (first != 0) & (second != 0)
    return float((np.sign(first[both]) == np.sign(second[both])).mean())


BASELINES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "kendall": lambda a, b: stats.kendalltau(a, b).statistic,
    "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
    "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
    "weighted_tau": lambda a, b: stats.weightedtau(a, b).statistic,
    "top_overlap": overlap,
    "top_tau": fagin,
    "sign": signs,
}


def timed(work: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def row_by_row(maps: list[Explanations], name: str) -> np.ndarray:
    found = np.full((len(maps[0]), METHODS, METHODS), np.nan)
    for row in range(len(maps[0])):
        scores = [one[row].scores if name == "sign" else np.abs(one[row].scores) for one in maps]
        for one, two in combinations(range(METHODS), 2):
            found[row, one, two] = BASELINES[name](scores[one], scores[two])
    return found


def speed(maps: list[Explanations]) -> None:
    few, upper = [one[:FEW] for one in maps], np.triu_indices(METHODS, 1)
    total = 0.0
    agreement(few, "kendall")  # scipy is imported
    print(f"| measure | seconds, {ROWS:,} rows | row by row (from {FEW} rows) | faster | largest difference |")
    print("|---|---|---|---|---|", flush=True)
    for name in MEASURES:
        fast, found = timed(lambda name=name: agreement(maps, name))
        slow, expected = timed(lambda name=name: row_by_row(few, name))
        slow *= ROWS / FEW
        total += fast
        gap = np.nanmax(np.abs(found[:FEW][:, *upper] - expected[:, *upper]))
        limit = f" {_verdict(fast, LIMITS[name])}" if name in LIMITS else ""
        print(f"| {name} | {fast:.2f}{limit} | {slow:.0f} | {slow / fast:,.0f} | {gap:.0e} |", flush=True)
    print(f"| all | {total:.2f} {_verdict(total, LIMITS['all'])} | | | |", flush=True)


def _verdict(seconds: float, most: float) -> str:
    return f"{'pass' if seconds <= most else 'miss'} (≤ {most:.0f})"


def whole(maps: list[Explanations]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{one.method}.parquet" for one in maps]
        for one, path in zip(maps, paths, strict=True):
            one.save(path)
        seconds, _ = timed(lambda: [one.matrix for one in agreements(paths, MEASURES)])
    print(f"\nFrom {METHODS} files to all measures: {seconds:.1f} s.", flush=True)


def memory() -> None:
    print("\n| one row of | τ-b, seconds | peak MB beyond the scores | all pairs at once would be |\n|---|---|---|---|")
    for units in (512, 2048):
        maps = sets(1, units)
        seconds, _ = timed(lambda maps=maps: agreement(maps, "kendall"))
        tracemalloc.start()
        agreement(maps, "kendall")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pairs = METHODS * units * (units - 1) / 2 * 8 / 1e6
        print(f"| {units} units | {seconds:.2f} | {peak / 1e6:.1f} | {pairs:.0f} |", flush=True)


def main() -> None:
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores.\n")
    warnings.simplefilter("ignore")  # scipy's, of rows that are constant
    maps = sets(ROWS)
    speed(maps)
    whole(maps)
    memory()


if __name__ == "__main__":
    main()
