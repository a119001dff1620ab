"""Plausibility against scikit-learn, ERASER's definitions, and cases with known answers."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

import teachers
from didact.core.row import Box, Row, Span
from didact.errors import OptionError
from didact.explaining.explain import explain
from didact.metrics import plausibility as module
from didact.results.explanations import Explanations

TEXT = "a good film with a bad end"  # seven words


def explained(scores, kind="signed", text=TEXT):
    """A set of one row whose words have these scores."""
    words = text.split()
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    return Explanations(
        method="m", options={}, task="classification", kind=kind, teacher="t", classes=None, fingerprints={},
        ids=("r",), texts=((text,),),
        bounds=np.array([0, len(words)]), tokens=tuple(words), segments=np.zeros(len(words), dtype=np.int64),
        word_index=np.arange(len(words)), offsets=np.stack([starts, starts + [len(word) for word in words]], 1),
        scores=np.array(scores, dtype=float), targets=("",), predictions=("",), residuals=np.array([math.nan]),
    )  # fmt: skip


def row(*marked, text=TEXT):
    """The row with the words of these numbers marked."""
    words = text.split()
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    return Row("r", (text,), rationale=tuple(Span(0, int(starts[w]), int(starts[w]) + len(words[w])) for w in marked))


class TestAgainstScikitLearn:
    """Random rows with ties: the same numbers to the last digits."""

    def cases(self):
        dice = np.random.default_rng(0)
        for _ in range(50):
            count = int(dice.integers(2, 12))
            marked = dice.random(count) < 0.4
            marked[0], marked[1] = True, False
            yield dice.integers(-3, 4, count).astype(float), marked

    def test_areas(self):
        for scores, marked in self.cases():
            assert module.RocAuc().value(scores, marked) == pytest.approx(roc_auc_score(marked, scores))
            found = module.AveragePrecision().value(scores, marked)
            assert found == pytest.approx(average_precision_score(marked, scores))

    @pytest.mark.parametrize("k", [None, 0.3, 2])
    def test_at_the_top(self, k):
        for scores, marked in self.cases():
            count = int(marked.sum()) if k is None else math.ceil(0.3 * len(scores)) if k == 0.3 else 2
            top = np.isin(np.arange(len(scores)), sorted(range(len(scores)), key=lambda unit: -scores[unit])[:count])
            for metric, wanted in (
                (module.Precision, precision_score), (module.Recall, recall_score), (module.F1, f1_score),
            ):  # fmt: skip
                assert metric(k=k).value(scores, marked) == pytest.approx(wanted(marked, top))


def test_a_fixture_of_eraser():
    """By the published scorer's definitions, reckoned by hand: words 1-2 and 5 marked; 1, 5 and 6 chosen."""
    maps, marked = explained([0, 5, 1, 0, 0, 4, 3]), row(1, 2, 5)
    # Chosen runs: {1}, {5, 6}. {1} shares 1 of 2 with {1, 2}; {5, 6} shares 1 of 2 with {5}. All meet at one half.
    assert module.IouF1()(maps, [marked])[0] == 1.0
    assert module.IouF1(least=0.6)(maps, [marked])[0] == 0.0
    assert module.Precision()(maps, [marked])[0] == pytest.approx(2 / 3)
    assert module.F1(k=2)(maps, [marked])[0] == pytest.approx(2 * 1.0 * (2 / 3) / (1.0 + 2 / 3))
    # One of three chosen runs meets one of two marked ones: F1 of 1/3 and 1/2.
    scattered = explained([5, 0, 0, 3, 0, 4, 0])
    assert module.IouF1()(scattered, [marked])[0] == pytest.approx(2 * (1 / 3) * 0.5 / (1 / 3 + 0.5))


def test_a_marked_run_is_found_once():
    """Two halves of a marked run meet it both; recall stays 1."""
    marked = row(0, 1, 2, 3)
    halves = explained([4, 3, 0, 2, 1, 0, 0])
    assert module.IouF1()(halves, [marked])[0] == pytest.approx(2 * 0.5 * 1.0 / 1.5)


def test_size_or_sign():
    maps, marked = explained([0, -5, 1, 0, 0, 0, 0]), row(1)
    assert module.RocAuc()(maps, [marked])[0] == 1.0
    assert module.RocAuc(signed=True)(maps, [marked])[0] == 0.0


def test_nothing_to_compare_is_no_number():
    for one in (Row("r", (TEXT,)), Row("r", (TEXT,), rationale=()), row(*range(7))):
        for metric in (
            module.RocAuc,
            module.AveragePrecision,
            module.F1,
            module.IouF1,
            module.Precision,
            module.Recall,
        ):
            assert np.isnan(metric()(explained([1.0] * 7), [one])).all()


def test_equal_scores():
    maps, marked = explained([1.0] * 7), row(1, 2)
    assert module.RocAuc()(maps, [marked])[0] == 0.5
    assert module.AveragePrecision()(maps, [marked])[0] == pytest.approx(2 / 7)


def test_one_text_of_two():
    teacher, rows = teachers.teacher("native", "pair"), teachers.examples("pair")
    rows = [Row(one.id, one.texts, label=0, rationale=(Span(0, 0, 2), Span(1, 0, 1))) for one in rows]
    maps = explain(teacher, rows, "gradient_input").words()
    both, first, second = (module.RocAuc(segment=segment)(maps, rows) for segment in (None, 0, 1))
    for index, one in enumerate(maps):
        sizes = np.abs(one.scores)
        marked = np.array(
            [start < end for start, end in zip(one.offsets[:, 0], np.where(one.segments == 0, 2, 1), strict=True)]
        )
        for found, here in ((both, one.segments >= 0), (first, one.segments == 0), (second, one.segments == 1)):
            known = 0 < marked[here].sum() < here.sum()
            wanted = roc_auc_score(marked[here], sizes[here]) if known else math.nan
            assert found[index] == pytest.approx(wanted, nan_ok=True)


def test_patches():
    teacher, rows = teachers.teacher("native", "image"), teachers.examples("image")
    maps = explain(teacher, rows, "gradient_input")
    boxes = [Row(one.id, image=one.image, rationale=(Box(0, 0, 9, 8),)) for one in rows]
    top, left = maps.offsets[:, 0], maps.offsets[:, 1]
    for index, found in enumerate(module.RocAuc()(maps, boxes)):
        units = slice(*maps.bounds[index : index + 2])
        marked = (top[units] < 9) & (left[units] < 8)
        assert found == pytest.approx(roc_auc_score(marked, np.abs(maps.scores[units])))


def test_a_run_ends_with_its_text():
    """The last word of one text and the first of the next are two runs."""
    scores, marked = np.array([0.0, 2.0, 1.0, 0.0]), np.array([False, True, True, False])
    found = module.IouF1(k=1).of_row(scores, marked, np.array([0, 0, 1, 1]))
    assert found == pytest.approx(2 * 1.0 * 0.5 / 1.5)
    assert module.IouF1(k=1).of_row(scores, marked, np.zeros(4, dtype=np.int64)) == 1.0


def test_wrong_options():
    with pytest.raises(OptionError):
        module.F1(k=-1)
    with pytest.raises(OptionError):
        module.IouF1(least=0.0)
