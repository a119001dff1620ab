"""`teacher.predict` takes what `explain` takes; teachers and their outputs print in a few lines."""

from collections import OrderedDict

import numpy as np
import pytest
import torch

from didact.core.explanation import Explanation
from didact.core.human import HumanTeacher
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.rows import as_rows
from didact.core.task import CLASSIFICATION, REGRESSION
from didact.errors import DataError
from didact.explaining.explain import explain
from didact.viz.text_spans import percent
from teachers import black_box, teacher


@pytest.mark.parametrize("kind", ["hf", "native"])
class TestModels:
    def test_texts_are_answered_like_rows(self, kind):
        model = teacher(kind, "classification")
        texts = ["a good film", "bad"]
        expected = model.predict([Row(str(index), (text,)) for index, text in enumerate(texts)])
        np.testing.assert_array_equal(model.predict(texts).values, expected.values)
        np.testing.assert_array_equal(model.predict("bad").values, model.predict(["bad"]).values)

    def test_pairs_are_tuples(self, kind):
        model = teacher(kind, "pair")
        expected = model.predict([Row("a", ("a film", "bad"))])
        np.testing.assert_array_equal(model.predict([("a film", "bad")]).values, expected.values)
        np.testing.assert_array_equal(model.predict(("a film", "bad")).values, expected.values)

    def test_it_prints_in_a_few_lines(self, kind):
        model = teacher(kind, "classification")
        shown = repr(model)
        assert len(shown.splitlines()) <= 7
        assert model.name in shown
        assert "classification" in shown
        assert all(name in shown for name in model.classes)
        assert f"{sum(one.numel() for one in model.parameters()):,}" in shown
        assert ("BertForSequenceClassification" in shown) == (kind == "hf")

    def test_rows_that_share_an_id_are_answered_as_before(self, kind):
        assert len(teacher(kind, "classification").predict([Row("a", ("good",)), Row("a", ("bad",))])) == 2


def test_functions_take_texts_and_print():
    model = black_box()
    assert model.predict("no more").labels.tolist() == model.predict([Row("a", ("no more",))]).labels.tolist()
    assert "function" in repr(model)
    assert len(repr(model).splitlines()) <= 6


def test_a_data_set_is_no_list_of_texts():
    with pytest.raises(DataError, match=r"Choose one: data\['train'\], data\['test'\]"):
        as_rows(OrderedDict(train=[], test=[]))


def test_people_have_no_answer_to_a_bare_text():
    people = HumanTeacher(CLASSIFICATION, ["no", "yes"])
    with pytest.raises(DataError, match="no gold label"):
        people.predict("a good film")
    assert "classes  no, yes" in repr(people)


class TestOutputs:
    def test_classes_and_probabilities(self):
        values = np.log(np.array([[0.9, 0.1], [0.25, 0.75]]))
        outputs = Outputs(CLASSIFICATION, ("a", "b"), values, classes=("bad", "good"))
        assert repr(outputs) == "Outputs of 2 rows (classification)\n  a: bad (90.0 %)\n  b: good (75.0 %)"
        assert outputs.select(np.array([1])).format_answers() == ["good (75.0 %)"]
        assert Outputs.joined([outputs, outputs]).classes == ("bad", "good")
        assert Outputs(CLASSIFICATION, ("a",), values[:1]).format_answers() == ["class 0 (90.0 %)"]

    def test_numbers_and_many_rows(self):
        outputs = Outputs(REGRESSION, tuple(map(str, range(12))), np.arange(12.0)[:, None])
        assert repr(outputs).splitlines()[-1] == "  … and 2 more"
        assert repr(outputs).splitlines()[4] == "  3: 3"

    def test_nothing_but_certainty_reads_as_certain(self):
        assert [percent(value) for value in (1.0, 0.99999, 0.9994, 0.5, 0.0001, 0.0)] == [
            "100.0 %", ">99.9 %", "99.9 %", "50.0 %", "<0.1 %", "0.0 %",
        ]  # fmt: skip


class TestExplanationsOfArrays:
    def test_arrays_become_tensors(self):
        found = Explanation(np.ones((2, 3), dtype=np.float32), torch.ones(2, 3, dtype=torch.bool),
                            np.ones((2, 3), dtype=bool), kind="signed", residual=np.array([0.0, 0.5]))  # fmt: skip
        assert found.scores.dtype == torch.get_default_dtype()
        assert found.units.dtype == torch.bool
        assert found.residual.tolist() == [0.0, 0.5]

    def test_a_method_of_ones_own_may_return_them(self):
        def lengths(model, batch, target):  # noqa: ARG001
            width = (batch.offsets[..., 1] - batch.offsets[..., 0]).numpy().astype(float)
            return Explanation(width * batch.units.numpy(), batch.mask, batch.units, kind="magnitude")

        maps = explain(teacher("hf", "classification"), ["a good film"], lengths)
        assert maps[0].scores.tolist() == [1.0, 4.0, 4.0]
