"""How often a verdict tells methods apart that differ, and how often it claims a lead where there is none.

Simulated answers of students (8 seeds, 1,000 test rows) go the whole way of a comparison: contrasts, table,
comparison.json, verdict. Methods are strongly paired: students of one seed share what they learned, and most answers
to a row are right or wrong alike. Writes claims.json beside this file; docs/decisions/028-one-rule.md quotes it.

    python benchmarks/bench_claims.py
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from didact.comparing.statistics import contrasts_of, gain_rows, ranking_agreement
from didact.reports.verdict import Verdict, verdict_of
from didact.results.comparison import Comparison
from didact.results.run_record import RunInfo

SEEDS, ROWS = 8, 1000
COLUMN = ("same/attention", 500)
NONE = 0.62  # agreement of students without explanations


def simulate(
    dice: np.random.Generator,
    gains: Mapping[str, float],
    *,
    seeds: int = SEEDS,
    rows: int = ROWS,
    own: float = 0.2,
    seed_sd: float = 0.03,
    own_seed_sd: float = 0.005,
) -> dict[tuple[str, str, int], dict[int, np.ndarray]]:
    """Agreement per seed and row of `none` and of each method.

    `own` is the share of answers that a method draws for itself; the others are right or wrong together. Seeds move all
    methods by `seed_sd` and each by `own_seed_sd`.
    """
    hard = dice.normal(0, 0.2, rows)
    shared, skill = dice.random((seeds, rows)), dice.normal(0, seed_sd, (seeds, 1))
    scores = {}
    for name, gain in {"none": 0.0, **gains}.items():
        draws = np.where(
            dice.random((seeds, rows)) < (1.0 if name == "none" else own), dice.random((seeds, rows)), shared
        )
        effect = 0.0 if name == "none" else skill + dice.normal(0, own_seed_sd, (seeds, 1))
        right = (draws < np.clip(NONE + gain + hard + effect, 0, 1)).astype(np.float64)
        scores[name, *COLUMN] = dict(enumerate(right))
    return scores


def verdict(scores: Mapping[tuple[str, str, int], Mapping[int, np.ndarray]], folder: Path) -> Verdict:
    """What a report says of these answers."""
    names = [name for name, *_ in scores]
    contrasts = contrasts_of(scores, explainers=names, columns=[COLUMN])
    rows = gain_rows(
        scores, contrasts, explainers=names, controls=["none"], columns=[COLUMN], measure="accuracy", lost={},
        test_rows=len(next(iter(scores["none", *COLUMN].values()))),
    )  # fmt: skip
    about = RunInfo(measure="accuracy", controls=("none",))
    agreement = ranking_agreement(rows, [COLUMN])
    found = Comparison(tuple(rows), (), (), about, agreement, folder, contrasts=contrasts)
    found.save(folder / "comparison.json")
    return verdict_of(Comparison.load(folder))


def share(repetitions: int, gains: Mapping[str, float], *, seed: int, **options: Any) -> dict[str, float]:
    """How often the best method is claimed to lead all others (`clear`), and at least one of them (`any`)."""
    dice = np.random.default_rng(seed)
    clear = some = right = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repetitions):
            found = verdict(simulate(dice, gains, **options), Path(folder))
            clear += found.level == "clear"
            right += found.level == "clear" and found.best == max(gains, key=lambda name: gains[name])
            some += len(found.tied) < len(gains)
    return {
        "repetitions": repetitions, "clear": clear / repetitions, "clear_and_right": right / repetitions,
        "any": some / repetitions,
    }  # fmt: skip


def main(repetitions: int = 500) -> dict[str, Any]:
    equal = {f"m{number}": 0.15 for number in range(6)}
    return {
        "seeds": SEEDS,
        "rows": ROWS,
        "two methods, 3 points apart": share(200, {"a": 0.18, "b": 0.15}, seed=0),
        "two equal methods": share(repetitions, {"a": 0.15, "b": 0.15}, seed=1),
        "two equal methods, not paired": share(repetitions, {"a": 0.15, "b": 0.15}, seed=2, own=1.0, own_seed_sd=0.03),
        "six equal methods": share(repetitions, equal, seed=3),
        "six equal methods, not paired": share(repetitions, equal, seed=4, own=1.0, own_seed_sd=0.03),
    }


if __name__ == "__main__":
    results = main(*map(int, sys.argv[1:]))
    Path(__file__).with_name("claims.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
