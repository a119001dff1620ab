"""How often 95 % intervals over teachers hold the truth, by simulation. docs/combine.md and decision 052 quote it.

Five teachers with 8 students per arm, 500 test rows, answers right or wrong. The true gain of a teacher varies with a
standard deviation of 0, .5 or 2 times that of its estimate. Teachers share nothing, their test rows, or also what makes
a seed easy (students of one seed learn from the same rows). Beside `teacher_contrast`, as `didact.combine` uses it:
one that takes seeds as nested in teachers, and Student's t over teachers alone.

    python benchmarks/bench_teachers.py [repetitions]
"""

import sys
from dataclasses import replace

import numpy as np

from didact.stats.teachers import TeacherTable, teacher_contrast

TEACHERS, SEEDS, ROWS = 5, 8, 500
BASE, GAIN, SEED_SD, ROW_SD = 0.7, 0.03, 0.02, 0.15
# Of one teacher's gain: its students, how differently rows profit, and single answers.
SAMPLING_SD = float(np.sqrt(2 * SEED_SD**2 / SEEDS + ROW_SD**2 / 4 / ROWS + 2 * 0.19 / (SEEDS * ROWS)))
SHARED = ("nothing", "rows", "rows and seeds")
SPREADS = (0.0, 0.5, 2.0)


def simulate(dice: np.random.Generator, shared: str, spread: float, teachers: int = TEACHERS) -> list[TeacherTable]:
    """One table of paired differences per teacher."""
    row_sets = teachers if shared == "nothing" else 1
    seed_sets = 1 if shared == "rows and seeds" else teachers
    hard, taste = dice.normal(0, ROW_SD, (row_sets, 1, ROWS)), dice.normal(0, ROW_SD / 2, (row_sets, 1, ROWS))
    skills = dice.normal(0, SEED_SD, (2, seed_sets, SEEDS, 1))
    own = dice.normal(0, spread * SAMPLING_SD, (teachers, 1, 1))
    chances = (
        BASE + GAIN + hard + taste + skills[0] + own,
        np.broadcast_to(BASE + hard + skills[1], (teachers, SEEDS, ROWS)),
    )
    first, second = ((dice.random((teachers, SEEDS, ROWS)) < chance).astype(np.float64) for chance in chances)
    keys = (None, None) if shared == "nothing" else (tuple(range(ROWS)), tuple(range(SEEDS)))
    return [TeacherTable(differences, *keys) for differences in first - second]


def true_gain(spread: float) -> float:
    """The mean gain of clipped normal chances, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    wide = np.sqrt(1.25 * ROW_SD**2 + SEED_SD**2 + (spread * SAMPLING_SD) ** 2)
    narrow = np.sqrt(ROW_SD**2 + SEED_SD**2)
    gains = np.clip(BASE + GAIN + wide * nodes, 0, 1) - np.clip(BASE + narrow * nodes, 0, 1)
    return float(weights @ gains / weights.sum())


def coverage(
    shared: str, spread: float, *, repetitions: int, teachers: int = TEACHERS, seed: int = 0
) -> dict[str, float]:
    """The share of intervals that hold the truth, by estimator, and the mean half widths of the first two."""
    dice, truth = np.random.default_rng(seed), true_gain(spread)
    hits, widths = np.zeros(3), np.zeros(3)
    for _ in range(repetitions):
        tables = simulate(dice, shared, spread, teachers)
        nested = [replace(table, seed_keys=None) for table in tables]
        alone = [replace(table, row_keys=None, seed_keys=None) for table in tables]
        contrasts = [teacher_contrast(each) for each in (tables, nested, alone)]
        hits += [contrast.low <= truth <= contrast.high for contrast in contrasts]
        widths += [(contrast.high - contrast.low) / 2 for contrast in contrasts]
    names = ("combine", "seeds nested", "t over teachers")
    return dict(zip(names, (hits / repetitions).tolist(), strict=True)) | {
        "±": widths[0] / repetitions, "nested ±": widths[1] / repetitions,
    }  # fmt: skip


def main(repetitions: int = 2000) -> None:
    print(f"{repetitions:,} repetitions; sampling sd {100 * SAMPLING_SD:.2f} points")
    print(
        f"{'shared':>16} {'teachers':>8} {'sd':>4} {'combine':>8} {'nested':>8} {'t alone':>8} {'±':>6} {'nested ±':>8}"
    )
    settings = [(shared, spread, TEACHERS) for shared in SHARED for spread in SPREADS]
    settings += [("rows and seeds", 0.5, teachers) for teachers in (2, 3, 10)]
    for shared, spread, teachers in settings:
        result = coverage(shared, spread, repetitions=repetitions, teachers=teachers)
        shares = " ".join(f"{100 * result[name]:8.1f}" for name in ("combine", "seeds nested", "t over teachers"))
        print(
            f"{shared:>16} {teachers:>8} {spread:>4} {shares} {100 * result['±']:6.2f} {100 * result['nested ±']:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
