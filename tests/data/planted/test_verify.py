"""`verify` tells a teacher that reads the planted units from one that does not."""

import numpy as np
import pytest

from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data.planted.sentiment import sentiment
from didact.data.planted.verify import Verification, verify
from didact.errors import OptionError, UnsupportedError


def test_the_oracle_is_verified(data):
    assert verify(data.oracle(), data) == Verification(unchanged=1.0, followed=1.0, rows=120, verified=True)


def test_a_teacher_that_reads_a_filler_word_is_not(planted):
    data = planted("sentiment")

    def reads_the(texts):
        return np.array([[0.0, 1.0] if " the " in text else [1.0, 0.0] for text in texts])

    found = verify(FunctionTeacher(reads_the, data.classes), data)
    assert found.unchanged < 0.8
    assert 0.4 < found.followed < 0.6
    assert not found.verified


def test_a_teacher_that_always_answers_the_same_keeps_but_does_not_follow(planted):
    data = planted("inference")
    found = verify(
        FunctionTeacher(lambda pairs: np.tile([1.0, 0.0, 0.0], (len(pairs), 1)), data.classes, task="pair"), data
    )
    assert found.unchanged == 1.0
    assert 0.25 < found.followed < 0.42
    assert not found.verified


def test_a_teacher_blind_to_negators_is_not_verified(planted):
    """It keeps every answer: only the new rationales give it away."""
    data = planted("sentiment")
    oracle = data.oracle()

    def blind(texts):
        bare = [text.replace("not ", "").replace("never ", "") for text in texts]
        return np.exp(oracle.predict([Row("", (text,)) for text in bare]).values)

    found = verify(FunctionTeacher(blind, data.classes), data)
    assert found.unchanged == 1.0
    assert 0.7 < found.followed < 0.9
    assert not found.verified


@pytest.mark.parametrize(("error", "followed"), [(0.124, 1.0), (0.126, 0.0)])
def test_a_score_follows_within_half_of_the_smallest_step(planted, error, followed):
    data = planted("quality")
    oracle = data.oracle()
    teacher = Shifted(oracle, error)
    found = verify(teacher, data, rows=100)
    assert (found.unchanged, found.followed) == (1.0, followed)


class Shifted:
    """Scores that are all wrong by the same amount."""

    name, classes = "shifted", None

    def __init__(self, oracle, error):
        self.oracle, self.error, self.task = oracle, error, oracle.task

    def predict(self, rows, *, batch_size=32):
        outputs = self.oracle.predict(rows, batch_size=batch_size)
        return Outputs(outputs.task, outputs.ids, outputs.values + self.error)


def test_another_span_with_the_same_text_counts_as_the_same_answer(planted):
    """Redrawn words move the answer by some characters; its text is what must stay."""
    data = planted("reading")
    row = data["test"][0]
    moved = [data.redraw(row, "rest", seed=seed) for seed in range(20)]
    assert len({other.label for other in moved}) > 1
    assert {other.text_of(other.label[0]) for other in moved} == {row.text_of(row.label[0])}


def test_it_needs_planted_rows():
    rows = Split("test", [Row("a", ("good",), label=1)])
    plain = Dataset("mine", CLASSIFICATION, {"test": rows}, classes=("no", "yes"))
    teacher = FunctionTeacher(lambda texts: np.tile([0.5, 0.5], (len(texts), 1)), plain.classes)
    with pytest.raises(UnsupportedError, match="mine is not planted data"):
        verify(teacher, plain)
    data = sentiment(teach=0, explain=0, train=0, dev=0, test=5)
    with pytest.raises(OptionError, match="'split' is 'dev', which has no rows"):
        verify(data.oracle(), data, split="dev")
    with pytest.raises(OptionError, match="'rows' must be an integer >= 1, not 0"):
        verify(data.oracle(), data, rows=0)
    assert verify(data.oracle(), data).rows == 5
