"""Synthetic people: they walk through their steps, answer as they were made to, and are told as synthetic."""

from collections import Counter

import numpy as np
import pytest

from didact.errors import OptionError
from didact.study.design import Design, Item
from didact.study.schedule import steps_of
from didact.study.synthetic_annotators import simulate_answers

METHODS = ("a", "b", "c")


def design_of(kind, items=40, methods=METHODS, **changes):
    listed = tuple(
        Item(f"r{one}", ("no", "yes")[one % 2], ("no", "yes")[one // 2 % 2], _phase(kind, one, items))
        for one in range(items)
    )
    facts = {"title": "t", "question": "q", "task": "classification", "classes": ("no", "yes", "maybe"), "people": 3}
    return Design(kind=kind, methods=methods, items=listed, **(facts | changes))


def _phase(kind, number, items):
    return "" if kind != "simulation" else "learning" if number < items // 2 else "test"


@pytest.mark.parametrize("kind", ["ranking", "simulation", "rating"])
def test_everybody_walks_through_all_steps(kind):
    design = design_of(kind)
    answers = simulate_answers(design, people=5, first=3, seed=1)
    assert {one.person for one in answers} == {"p03", "p04", "p05", "p06", "p07"}
    for number in range(3, 8):
        own = [one for one in answers if one.person == f"p{number:02d}"]
        steps = steps_of(design, number)
        assert [(one.step, one.phase, one.item, one.shown) for one in own] == [
            (step.number, step.phase, step.item.id, step.shown) for step in steps
        ]
        assert {one.cohort for one in own} == {design.cohort_of(number)}
    assert all(one.is_synthetic and one.seconds > 0 for one in answers)
    assert answers == simulate_answers(design, people=5, first=3, seed=1)
    assert answers != simulate_answers(design, people=5, first=3, seed=2)
    assert answers[: len(answers) // 5] == simulate_answers(design, people=1, first=3, seed=1), (
        "more people change nobody"
    )


def test_ranks_are_competition_ranks_with_the_planted_odds():
    design = design_of("ranking", items=200, methods=("a", "b"))
    answers = simulate_answers(design, people=10, worths={"a": np.log(2.5)}, ties=0.5)
    counts = Counter((one.ranks["a"], one.ranks["b"]) for one in answers)
    # Davidson: 2.5 : 0.5·√2.5 : 1.
    total = 2.5 + 0.5 * np.sqrt(2.5) + 1
    assert counts[1, 2] / 2000 == pytest.approx(2.5 / total, abs=0.03)
    assert counts[1, 1] / 2000 == pytest.approx(0.5 * np.sqrt(2.5) / total, abs=0.03)
    assert set(counts) == {(1, 2), (1, 1), (2, 1)}
    three = simulate_answers(design_of("ranking"), people=3, ties=1.0)
    assert {tuple(sorted(one.ranks.values())) for one in three} <= {(1, 2, 3), (1, 1, 3), (1, 2, 2)}


def test_accuracies_are_the_planted_ones():
    design = design_of("simulation", items=100)
    said = {item.id: item.prediction for item in design.items}
    answers = simulate_answers(design, people=24, accuracies={"none": 0.5, "a": 0.9})
    for cohort, chance in (("none", 0.5), ("a", 0.9), ("b", 0.65)):
        own = [one.choice == said[one.item] for one in answers if one.cohort == cohort]
        assert np.mean(own) == pytest.approx(chance, abs=0.06)
    wrong = Counter(one.choice for one in answers if said[one.item] == "yes")
    assert wrong["no"] == pytest.approx(wrong["maybe"], rel=0.2)


def test_means_and_their_scale():
    design = design_of("rating", items=300)
    answers = simulate_answers(design, people=9, means={"a": 4.0, "b": 3.0, "c": 9.0})
    means = {m: np.mean([one.rating for one in answers if one.shown == (m,)]) for m in METHODS}
    assert means["b"] == pytest.approx(3, abs=0.1)
    assert 3.7 < means["a"] < 4.1
    assert means["c"] == 5


def test_people_differ_by_their_spread():
    design = design_of("rating", items=90)
    alike, apart = (simulate_answers(design, people=12, means={"a": 3.0}, spread=one) for one in (0.0, 1.0))

    def between(answers):
        return np.std(
            [
                np.mean([a.rating for a in answers if a.person == f"p{n:02d}" and a.shown == ("a",)])
                for n in range(1, 13)
            ]
        )

    assert between(apart) > 2 * between(alike)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"people": 0}, "people and first must be at least 1"),
        ({"people": 1, "first": 0}, "must be at least 1, got 1 and 0"),
        ({"people": 1, "ties": -1.0}, "at least 0"),
        ({"people": 1, "spread": float("nan")}, "at least 0"),
        ({"people": 1, "worths": {"x": 1.0}}, "has no x"),
        ({"people": 1, "means": {"a": 1.0}}, "takes worths, not means"),
        ({"people": 1, "worths": {"a": float("inf")}}, "must be finite numbers"),
    ],
)
def test_refused(options, message):
    with pytest.raises(OptionError, match=message):
        simulate_answers(design_of("ranking"), **options)


def test_an_accuracy_is_a_share():
    with pytest.raises(OptionError, match="between 0 and 1"):
        simulate_answers(design_of("simulation"), people=1, accuracies={"a": 1.5})
