"""F-Fidelity: which units it removes, and its values against the mean over every way to remove them."""

import math

import numpy as np
import pytest

from didact.core.function import FunctionTeacher
from didact.core.row import Row
from didact.errors import OptionError
from didact.explaining.explain import explain
from didact.metrics.f_fidelity import FFidelity, FFidelityMinus, FFidelityPlus, MaskTuning
from didact.metrics.faithfulness import faithfulness
from didact.metrics.probe import Probe
from didact.metrics.ranked import Ranked, TeacherAnswers
from references.removal import expected_fidelity

TEXT = "good bad fine dull great awful so so"
WEIGHTS = {"good": 1.0, "bad": -0.8, "fine": 0.5, "dull": -0.3, "great": 1.5, "awful": -1.4, "so": 0.1}


def chances(texts):
    """Not additive: a logistic function of the words' weights."""
    chance = np.array([1 / (1 + math.exp(-sum(WEIGHTS[word] for word in text.split()))) for text in texts])
    return np.stack([1 - chance, chance], 1)


TEACHER = FunctionTeacher(chances, ["no", "yes"])


def ranked(scores, row_id="r"):
    scores = np.asarray(scores, dtype=np.float64)
    return Ranked(row_id, scores, np.argsort(-scores, kind="stable"), True)


@pytest.mark.parametrize("answer", ["probability", "class"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.4), (1.0, 0.25), (0.3, 1.0)])
def test_against_every_way_to_remove(alpha, beta, answer):
    """With many samples, values are the exact expectation; the error of a sample mean shrinks with its root."""
    rows = [Row("r", (TEXT,))]
    maps = explain(TEACHER, rows, "occlusion", target="yes")
    words = TEXT.split()

    def chance(present):
        value = chances([" ".join(words[unit] for unit in present)])[0, 1]
        return value if answer == "probability" else float(value > 0.5)

    options = {"alpha": alpha, "beta": beta, "sizes": [0.2, 0.5, 0.9], "answer": answer, "samples": 3000}
    metrics = [FFidelity(**options), FFidelityPlus(**options), FFidelityMinus(**options)]
    both, top, lowest = faithfulness(metrics, [maps], Probe(TEACHER, rows))[:, 0, 0]
    wanted = expected_fidelity(maps.scores.tolist(), chance, alpha=alpha, beta=beta, sizes=[0.2, 0.5, 0.9])
    assert (top, lowest) == pytest.approx(wanted, abs=0.015)
    assert both == pytest.approx(top - lowest)
    assert top > lowest


def test_no_more_than_beta_is_removed():
    """The tuning removed no more, so the copy has seen as much; of a short row at least one unit goes."""
    for units, most in ((1, 1), (5, 1), (20, 2), (23, 3)):
        masks = FFidelity(samples=50).masks(ranked(np.arange(units)))
        removed = (~masks).sum(1)
        assert removed.min() >= 1
        assert removed.max() == most


def test_only_the_top_or_the_lowest_are_removed():
    scores = np.random.default_rng(0).permutation(20).astype(np.float64)
    options = {"sizes": [0.25], "samples": 40, "alpha": 1.0, "beta": 0.15}
    for metric, allowed in ((FFidelityPlus(**options), scores >= 15), (FFidelityMinus(**options), scores < 5)):
        removed = ~metric.masks(ranked(scores))
        assert (removed.sum(1) == 3).all()
        np.testing.assert_array_equal(removed.any(0), allowed)  # each of them at some time
    both = FFidelity(**options).masks(ranked(scores))
    single = [FFidelityPlus(**options).masks(ranked(scores)), FFidelityMinus(**options).masks(ranked(scores))]
    np.testing.assert_array_equal(both, np.concatenate(single))


def test_methods_lose_the_same_ranks():
    """So the luck of the draw is shared. Other rows and other seeds have their own."""
    first, second = np.random.default_rng(0).random((2, 30))
    metric = FFidelity()

    def removed_ranks(scores, metric=metric, row_id="r"):
        row = ranked(scores, row_id)
        return (~metric.masks(row))[:, row.order]

    np.testing.assert_array_equal(removed_ranks(first), removed_ranks(second))
    assert not np.array_equal(removed_ranks(first), removed_ranks(first, row_id="other"))
    assert not np.array_equal(removed_ranks(first), removed_ranks(first, FFidelity(seed=1)))


def test_the_explained_class_is_what_counts():
    answers = TeacherAnswers(np.array([0.3, 0.7]), np.array([[0.6, 0.4], [0.2, 0.8]]), 0, 5)
    assert FFidelity().value(answers) == pytest.approx(0.2 - 0.6)
    assert FFidelityPlus().value(answers) == pytest.approx(0.3 - 0.4)
    assert FFidelity(answer="class").value(answers) == pytest.approx(0.0 - 1.0)
    assert FFidelityMinus(answer="class").value(answers) == pytest.approx(0.0 - 0.5)


def test_options():
    with pytest.raises(OptionError, match="beta must.*alpha must.*sizes must.*samples must.*answer must"):
        FFidelity(beta=0, alpha=2, sizes=[0.5, 1.5], samples=0, answer="logit")
    with pytest.raises(OptionError, match="at least one share"):
        FFidelity(sizes=[])
    assert FFidelity(beta=1).tuning == FFidelityPlus(beta=1.0, samples=3).tuning == MaskTuning(beta=1.0)
