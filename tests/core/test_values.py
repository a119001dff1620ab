"""Batches, targets, explanations, losses, black boxes: the values everything else stands on."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from didact.core.dataset import Dataset, Split
from didact.core.explanation import Explanation
from didact.core.function import FunctionTeacher
from didact.core.outputs import Outputs
from didact.core.row import Row, Span
from didact.core.seeds import numpy_generator, seed_from
from didact.core.target import Target, best_span
from didact.core.task import CLASSIFICATION, PAIR, READING, REGRESSION, task_named
from didact.core.teacher import Teacher
from didact.errors import DataError, OptionError, ShapeError, UnknownNameError, UnsupportedError
from didact.models.tokenizer import WordTokenizer
from tiny import rows


class TestTask:
    def test_kinds_not_served_are_refused_with_the_reason(self):
        for name, reason in (("generation", "no single output"), ("multi-label", "no single predicted class")):
            with pytest.raises(UnsupportedError, match=reason):
                task_named(name)
        with pytest.raises(UnknownNameError, match="Did you mean 'regression'"):
            task_named("regresion")


class TestOutputs:
    def test_probabilities_of_huge_logits_are_numbers(self):
        outputs = Outputs(CLASSIFICATION, ("a", "b"), np.array([[1000.0, 0.0], [-2000.0, -2000.0]]))
        np.testing.assert_array_equal(outputs.probabilities, [[1.0, 0.0], [0.5, 0.5]])


class TestDataset:
    data = Dataset("toy", CLASSIFICATION, {"test": Split("test", rows())}, classes=("a", "b"))

    def test_a_slice_is_a_split_and_an_index_a_row(self):
        split = self.data["test"]
        assert isinstance(split[:2], Split)
        assert split[:2].name == "test"
        assert split[1].id == "r1"
        assert split.select([2, 0]).ids == ("r2", "r0")

    def test_unknown_splits_are_answered(self):
        with pytest.raises(UnknownNameError, match="no split of toy named 'tset'. Did you mean 'test'"):
            self.data["tset"]

    def test_fingerprint_follows_every_character_label_and_mark(self):
        def printed(*rows):
            return Dataset("toy", CLASSIFICATION, {"test": Split("test", rows)}, classes=("a", "b")).fingerprint

        base = Row("r", ("text",), label=1, rationale=(Span(0, 0, 1),))
        others = [
            Row("s", ("text",), label=1, rationale=(Span(0, 0, 1),)),
            Row("r", ("texts",), label=1, rationale=(Span(0, 0, 1),)),
            Row("r", ("text",), label=0, rationale=(Span(0, 0, 1),)),
            Row("r", ("text",), label=1, rationale=(Span(0, 0, 2),)),
            Row("r", ("text",), label=1),
        ]
        assert printed(base) == printed(Row("r", ("text",), label=1, rationale=(Span(0, 0, 1),)))
        assert len({printed(base), *(printed(other) for other in others)}) == 6

    def test_only_planted_data_has_an_oracle(self):
        with pytest.raises(UnsupportedError, match="toy is not planted data"):
            self.data.oracle()


class TestBatch:
    batch = WordTokenizer.from_rows(rows()).encode(rows())

    def test_a_selection_is_cut_to_its_longest_row(self):
        few = self.batch.select([2, 0, 2])
        assert few.ids == ("r2", "r0", "r2")
        assert few.tokens.shape == (3, 5)
        assert few.mask.sum(-1).tolist() == [3, 5, 3]

    def test_repeats_side_by_side(self):
        assert self.batch.repeat(2).ids == ("r0", "r0", "r1", "r1", "r2", "r2")

    def test_moves_as_a_whole(self):
        moved = self.batch.to("meta")
        assert moved.tokens.device.type == moved.offsets.device.type == "meta"


class TestTarget:
    logits = torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 1.0]])

    def test_predicted_class_on_each_scale(self):
        for scale, expected in (
            ("logit", self.logits),
            ("probability", self.logits.softmax(-1)),
            ("log_probability", self.logits.log_softmax(-1)),
        ):
            found = Target.predicted(CLASSIFICATION, self.logits, scale=scale).of(self.logits)
            torch.testing.assert_close(found, torch.stack([expected[0, 2], expected[1, 0]]))

    def test_contrast_is_a_difference(self):
        found = Target.contrast(torch.tensor([2, 0]), torch.tensor([0, 2])).of(self.logits)
        torch.testing.assert_close(found, torch.tensor([3.0, 2.0]))

    def test_value(self):
        torch.testing.assert_close(
            Target.predicted(REGRESSION, self.logits[:, :1]).of(self.logits[:, :1]), self.logits[:, 0]
        )

    def test_the_best_span_by_brute_force(self):
        logits = torch.randn(20, 2, 9)
        starts, ends = best_span(logits, longest=4)
        for row in range(20):
            scores = {(a, b): logits[row, 0, a] + logits[row, 1, b] for a in range(9) for b in range(a, min(9, a + 4))}
            assert (int(starts[row]), int(ends[row])) == max(scores, key=scores.get)
        found = Target.predicted(READING, logits).of(logits)
        assert found.shape == (20,)

    def test_a_class_target_needs_classes(self):
        with pytest.raises(ShapeError, match="needs a class per row"):
            Target("label").of(self.logits)


class TestExplanation:
    mask = torch.tensor([[True, True, True, True, False]])
    units = torch.tensor([[False, True, True, True, False]])

    def explanation(self, scores, kind):
        return Explanation(torch.tensor([scores]), self.mask, self.units, kind)

    def test_what_is_sent_by_kind(self):
        signed = self.explanation([9.0, 1.0, -2.0, 1.0, 9.0], "signed").as_distribution()
        torch.testing.assert_close(signed, torch.tensor([[0.0, 0.25, 0.5, 0.25, 0.0]]))
        given = self.explanation([0.4, 0.2, 0.3, 0.1, 0.0], "distribution").as_distribution()
        torch.testing.assert_close(given, torch.tensor([[0.0, 2 / 6, 3 / 6, 1 / 6, 0.0]]))
        marks = self.explanation([0.0, 1.0, 0.0, 1.0, 0.0], "binary").as_distribution()
        torch.testing.assert_close(marks, torch.tensor([[0.0, 1.0, 1e-3, 1.0, 0.0]]) / 2.001)

    def test_temperature_sharpens(self):
        sent = self.explanation([0.0, 1.0, 2.0, 1.0, 0.0], "magnitude").as_distribution(temperature=0.5)
        torch.testing.assert_close(sent, torch.tensor([[0.0, 1 / 6, 4 / 6, 1 / 6, 0.0]]))
        tiny = self.explanation([0.0, 1e-20, 2e-20, 1e-20, 0.0], "magnitude").as_distribution(temperature=0.1)
        torch.testing.assert_close(tiny.sum(-1), torch.ones(1))
        with pytest.raises(OptionError, match="above 0"):
            self.explanation([0.0] * 5, "signed").as_distribution(temperature=0.0)

    def test_a_row_without_units_is_sent_nothing_in_any_precision(self):
        empty = torch.zeros(1, 2, dtype=torch.bool)
        for dtype in (torch.float16, torch.float32, torch.float64):
            for temperature in (1.0, 0.5):
                sent = Explanation(torch.ones(1, 2, dtype=dtype), empty, empty, "signed")
                assert sent.as_distribution(temperature=temperature).tolist() == [[0.0, 0.0]]

    def test_nothing_marked_is_uniform(self):
        sent = self.explanation([0.0] * 5, "magnitude").as_distribution()
        torch.testing.assert_close(sent, torch.tensor([[0.0, 1 / 3, 1 / 3, 1 / 3, 0.0]]))


class TestLoss:
    def test_classes_and_scores(self):
        logits = torch.randn(4, 3)
        torch.testing.assert_close(
            CLASSIFICATION.loss(logits, torch.tensor([0, 1, 2, 0])),
            -logits.log_softmax(-1)[range(4), [0, 1, 2, 0]],
        )
        torch.testing.assert_close(
            REGRESSION.loss(logits[:, :1], torch.zeros(4, dtype=torch.float64)), logits[:, 0] ** 2
        )

    def test_spans_become_tokens_and_a_span_cut_off_teaches_nothing(self):
        data = [Row("a", ("who", "anna and ben sing")), Row("b", ("who", "anna and ben sing"))]
        batch = WordTokenizer.from_rows(data).encode(data)
        outputs = Outputs(READING, ("a", "b"), np.array([[9.0, 17.0], [40.0, 44.0]]), (("ben sing",), ("x",)))
        goal = READING.training_targets(outputs, batch)
        assert goal.tolist() == [[5, 6], [-100, -100]]
        logits = torch.randn(2, 2, 8)
        losses = READING.loss(logits, goal)
        expected = (F.cross_entropy(logits[:1, 0], goal[:1, 0]) + F.cross_entropy(logits[:1, 1], goal[:1, 1])) / 2
        torch.testing.assert_close(losses, torch.stack([expected, torch.zeros(())]))


class TestFunctionTeacher:
    def test_probabilities_become_logarithms(self):
        teacher = FunctionTeacher(lambda texts: [[0.25, 0.75]] * len(texts), ["a", "b"])
        assert isinstance(teacher, Teacher)
        np.testing.assert_allclose(teacher.predict(rows()).probabilities, [[0.25, 0.75]] * 3)

    def test_is_asked_in_batches_with_plain_inputs(self):
        asked = []

        def predict(inputs):
            asked.append(inputs)
            return np.zeros((len(inputs), 2))

        FunctionTeacher(predict, ["a", "b"], output="logit", task=PAIR).predict(rows(2), batch_size=2)
        assert [len(batch) for batch in asked] == [2, 1]
        assert asked[0][0] == ("who sings", "the music was great anna sings")
        FunctionTeacher(predict, ["a", "b"], output="logit").predict(rows())
        assert asked[-1][0] == "a good film"

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ([[0.5, 0.5]], r"shape \(3, 2\).*returned shape \(1, 2\)"),
            ([[0.5, 0.5, 0.0]] * 3, r"returned shape \(3, 3\)"),
            ([[0.5, 0.6]] * 3, "does not sum to 1.*output='logit'"),
            ([[0.5, float("nan")]] * 3, "not finite for row 'r0'"),
            ([[0.5], [0.5, 0.5], [1.0]], "must return an array of numbers"),
            ("words", "must return an array of numbers"),
        ],
    )
    def test_what_it_returns_is_checked(self, answer, message):
        with pytest.raises(ShapeError, match=f"(?s){message}"):
            FunctionTeacher(lambda _: answer, ["a", "b"]).predict(rows())

    def test_what_was_asked_is_checked(self):
        with pytest.raises(OptionError, match="needs class names in the order of the columns"):
            FunctionTeacher(len)
        with pytest.raises(UnsupportedError, match="reading"):
            FunctionTeacher(len, task="reading")
        with pytest.raises(OptionError, match="got 'probabilities'"):
            FunctionTeacher(len, ["a", "b"], output="probabilities")
        with pytest.raises(OptionError, match="output must be 'probability' or 'logit'"):
            FunctionTeacher(len, ["a", "b"], output="value")

    def test_a_removed_unit_becomes_absent(self):
        teacher = FunctionTeacher(len, ["a", "b"], task=PAIR, absent="_")
        row = Row("r", ("a good film", "bad"))
        units = teacher.units(row)
        assert teacher.without(row, [units[1], units[3], units[0]]).texts == ("_ _ film", "_")

    def test_regression_scores_need_no_second_axis(self):
        teacher = FunctionTeacher(lambda texts: [len(text) for text in texts], task=REGRESSION)
        assert teacher.predict(rows()).values.tolist() == [[11.0], [51.0], [3.0]]

    def test_fingerprint_follows_behaviour(self):
        one = FunctionTeacher(lambda texts: [len(text) for text in texts], task=REGRESSION)
        other = FunctionTeacher(lambda texts: [len(text) + 1 for text in texts], task=REGRESSION)
        assert one.fingerprint(rows()) == one.fingerprint(rows()) != other.fingerprint(rows())


def test_seeds_depend_on_what_they_are_for():
    assert seed_from(0, "a") == seed_from(0, "a")
    assert len({seed_from(0, "a"), seed_from(0, "b"), seed_from(1, "a"), seed_from("0a")}) == 4
    assert numpy_generator(0, "x").integers(1 << 30) == numpy_generator(0, "x").integers(1 << 30)


def test_data_errors_show_ten_faults_and_count_the_rest():
    error = DataError("Bad file.", [f"line {number}" for number in range(14)])
    assert str(error).count("line") == 10
    assert str(error).endswith("… and 4 more")
    assert isinstance(error, ValueError)
