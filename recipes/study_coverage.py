"""How far the analysis of studies with people can be believed: simulated studies whose truth is known.

    python recipes/study_coverage.py [--studies 200] [--part sizes|order|simulation|rating] [--quick]

SMaT's user study had three people who ranked four explanations of each image. Here such studies are simulated, with
log-worths that are known: how often do 95 % intervals hold the planted differences, and how often is the order right?
Once with people who are alike, once with people who differ (a standard deviation of 0.3 in every log-worth). Then the
same for Pruthi's kind of study (cohorts that foresee the model) and for ratings. Takes some minutes on one core.
"""

import argparse
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from recipe_tools import print_table, say

from didact.study.analyze import analyze
from didact.study.analyze_ranking import compare_methods
from didact.study.design import Design, Item
from didact.study.findings import Settings
from didact.study.synthetic_annotators import simulate_answers

METHODS = ("smat", "attention_all", "integrated_gradients", "gradient_input")
SIZES = ((3, 60), (5, 40), (10, 20))
SPREADS = ((0.0, 0.0), (0.3, 0.0), (0.3, 0.3))
REPLICATES = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200, help="simulated for each line; default: 200")
    parser.add_argument("--gap", type=float, default=0.5, help="log-worth between neighbours; default: 0.5")
    parser.add_argument("--part", default=None, choices=("sizes", "order", "simulation", "rating"), help="default: all")
    parser.add_argument("--quick", action="store_true", help="two studies for each line: does it run?")
    asked = parser.parse_args()
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
        asked.studies = 2
    parts = {"sizes": sizes, "order": order, "simulation": simulation, "rating": rating}
    for name, part in parts.items():
        if asked.part in (None, name):
            part(asked)


def sizes(asked: Any) -> None:
    """Intervals of differences between log-worths."""
    lines = []
    for people, items in SIZES:
        for spread, item_spread in SPREADS:
            found = rankings(asked.studies, people, items, asked.gap, spread, item_spread)
            lines.append([f"{people} × {items}", f"{spread:g}", f"{item_spread:g}", *found])
    head = ["people × items", "people differ", "items differ", "held", "worst pair", "best pair", "all six held",
            "order right", "told apart", "told wrongly"]  # fmt: skip
    print_table(f"Rankings: 95 % intervals of planted differences, neighbours {asked.gap:g} apart", head, lines)
    say(
        "held: share of the six differences whose interval holds the planted one; all six held: by the intervals that "
        "decide the order; order right: of the estimates; told apart: share of pairs that are declared different; told "
        "wrongly: share of studies in which some pair is declared the wrong way round."
    )


def order(asked: Any) -> None:
    """How large a gap three people on 60 items order rightly."""
    lines = []
    for gap in (0.25, 0.5, 0.75, 1.0):
        cells = []
        for spread in (0.0, 0.3):
            *_, right, apart, _ = rankings(asked.studies, 3, 60, gap, spread, 0.0)
            cells += [right, apart]
        lines.append([f"{gap:g}", *cells])
    head = ["gap", "order right, alike", "told apart, alike", "order right, differ", "told apart, differ"]
    print_table("Rankings: order of four methods by 3 people × 60 items", head, lines)


def rankings(studies: int, people: int, items: int, gap: float, spread: float, item_spread: float) -> list[str]:
    design = design_of("ranking", items)
    worths = {method: gap * (1.5 - place) for place, method in enumerate(METHODS)}
    truth = np.array([worths[one] - worths[other] for one, other in combinations(METHODS, 2)])
    held, together, right, apart, wrong = [], [], [], [], []
    for study in range(studies):
        answers = simulate_answers(
            design, people=people, worths=worths, spread=spread, item_spread=item_spread, seed=1000 + study
        )
        fitted, found = compare_methods(answers, METHODS, Settings(REPLICATES, 0.95, study))
        held.append((found.pair_intervals.low <= truth) & (truth <= found.pair_intervals.high))
        together.append(
            bool(((found.simultaneous_intervals.low <= truth) & (truth <= found.simultaneous_intervals.high)).all())
        )
        right.append(bool((np.diff(fitted.log_worths) < 0).all()))
        apart.append(float(((found.simultaneous_intervals.low > 0) | (found.simultaneous_intervals.high < 0)).mean()))
        wrong.append(bool((found.simultaneous_intervals.high < 0).any()))
    pairs = np.mean(held, axis=0)
    return [share(one) for one in (pairs.mean(), pairs.min(), pairs.max(), np.mean(together), np.mean(right),
                                   np.mean(apart), np.mean(wrong))]  # fmt: skip


def simulation(asked: Any) -> None:
    """Cohorts that foresee the model: half of the items are errors, a third of them tests."""
    lines = []
    accuracies = {"none": 0.6, "smat": 0.75, "attention_all": 0.6}
    for people, tests in ((5, 20), (10, 20)):
        for spread, item_spread in ((0.0, 0.0), (0.5, 0.5)):
            design = design_of("simulation", 3 * tests, METHODS[:2])
            reached = {name: accuracy(one, np.hypot(spread, item_spread)) for name, one in accuracies.items()}
            held, helped, alarm = [], [], []
            for study in range(asked.studies):
                answers = simulate_answers(design, people=3 * people, accuracies=accuracies, spread=spread,
                                    item_spread=item_spread, seed=1000 + study)  # fmt: skip
                pairs = analyze(design, answers, replicates=REPLICATES, seed=study).to_document()["pairs"]
                held += [_holds(row, reached[row["better"]] - reached[row["worse"]]) for row in pairs]
                tests_ = {frozenset((row["better"], row["worse"])): row["p"] for row in pairs}
                helped.append(tests_[frozenset(("smat", "none"))] < 0.05)
                alarm.append(tests_[frozenset(("attention_all", "none"))] < 0.05)
            lines.append([f"{people} × {tests}", f"{spread:g}", *map(share, map(np.mean, (held, helped, alarm)))])
    head = ["people in a cohort × items", "people and items differ", "held", "p < .05 for 60 against 75 %",
            "p < .05 for no difference"]  # fmt: skip
    print_table("Simulations: 95 % intervals of planted differences in accuracy, and the permutation test", head, lines)


def rating(asked: Any) -> None:
    """Means of ratings, cleared of people and items."""
    lines = []
    means = {method: 3.6 - 0.4 * place for place, method in enumerate(METHODS)}
    for people, items in ((4, 60), (8, 40), (16, 20)):
        for spread, item_spread in ((0.0, 0.0), (0.4, 0.0), (0.4, 0.4)):
            reached = {name: rounded(one, np.sqrt(1 + spread**2 + item_spread**2)) for name, one in means.items()}
            design = design_of("rating", items)
            held, apart = [], []
            for study in range(asked.studies):
                answers = simulate_answers(design, people=people, means=means, spread=spread, item_spread=item_spread,
                                    seed=1000 + study)  # fmt: skip
                pairs = analyze(design, answers, replicates=REPLICATES, seed=study).to_document()["pairs"]
                held += [_holds(row, reached[row["better"]] - reached[row["worse"]]) for row in pairs]
                apart += [row["is_sure"] for row in pairs]
            lines.append([f"{people} × {items}", f"{spread:g}", f"{item_spread:g}", share(np.mean(held)),
                          share(np.mean(apart))])  # fmt: skip
    head = ["people × items", "people differ", "items differ", "held", "told apart"]
    print_table("Ratings: 95 % intervals of planted differences, neighbours 0.4 points apart", head, lines)


def design_of(kind: str, items: int, methods: Sequence[str] = METHODS) -> Design:
    """A study of made-up rows."""
    rows = tuple(
        Item(f"r{one}", ("no", "yes")[one % 2], ("no", "yes")[one // 2 % 2],
             "" if kind != "simulation" else "learning" if one < items * 2 // 3 else "test")
        for one in range(items)
    )  # fmt: skip
    return Design(kind, "coverage", "", "classification", ("no", "yes"), tuple(methods), rows, people=3)


def accuracy(chance: float, spread: float) -> float:
    """The mean over people and items whose logits vary by `spread`."""
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    logits = np.log(chance / (1 - chance)) + spread * points
    return float(weights @ (1 / (1 + np.exp(-logits))) / weights.sum())


def rounded(mean: float, spread: float) -> float:
    """The mean of a normal number, rounded and cut to 1 to 5."""
    from scipy import stats

    return float(1 + sum(stats.norm.sf(cut, mean, spread) for cut in (1.5, 2.5, 3.5, 4.5)))


def share(value: Any) -> str:
    return f"{100 * float(value):.1f} %"


def _holds(row: Any, truth: float) -> bool:
    return row["low"] is not None and row["low"] <= truth <= row["high"]


if __name__ == "__main__":
    main()
