"""What a teacher predicts from the units of one method and of another: against a literal loop, and by hand."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.function import FunctionTeacher
from didact.errors import OptionError, UnsupportedError
from didact.explaining.explain import explain
from didact.metrics import prediction as module
from didact.metrics.agreement import agreement, parse_measure, resolve_by
from didact.metrics.prediction import Prediction
from didact.metrics.probe import Probe
from scored import maps_of
from teachers import black_box, examples, teacher

NAN = float("nan")


def undecided(kind, task):
    """A teacher that has no favourite class, so that what is left of a row decides."""
    model = copy.deepcopy(teacher(kind, task))
    rows = examples(task)
    bare = Probe(model, rows)
    answers = bare.predict_masked([np.zeros((1, bare.masked.units.shape[1]), dtype=bool)] * len(rows))
    (bias,) = [one for name, one in model.named_parameters() if name.endswith("bias") and one.shape == (3,)]
    with torch.no_grad():
        bias -= torch.from_numpy(np.log(np.concatenate(answers)).mean(0))
    return model


def several(model, rows):
    """Signed scores, sizes, and six more that choose other units."""
    maps = [explain(model, rows, method) for method in ("gradient_input", "gradient_norm")]
    return [*maps, *(replace(explain(model, rows, "random", seed=seed), method=f"random{seed}") for seed in range(6))]


def loop(model, rows, maps, k, remove, *, by_size):
    """One row, one method, one pass at a time; then each two predictions beside each other."""
    found = np.full((len(rows), len(maps), len(maps)), NAN)
    for number, row in enumerate(rows):
        said = []
        for one in maps:
            scores = one[number].scores.tolist()
            keys = [abs(score) for score in scores] if by_size or one.kind != "signed" else scores
            order = sorted(range(len(keys)), key=lambda unit, keys=keys: (-keys[unit], unit))
            batch = model.encode([row])
            places = batch.units[0].nonzero()[:, 0].tolist()
            gone = [places[unit] for unit in order[math.ceil(k * len(keys)) :]]
            if not gone or len(set(scores)) == 1:
                said.append(NAN)
                continue
            if remove != "zero":
                tokens = batch.tokens.clone()
                tokens[0, gone] = model.special_token_id(remove)
                batch = replace(batch, tokens=tokens)
            inputs = model.embed(batch).detach().clone()
            if remove == "zero":
                inputs[0, gone] = 0.0
            with torch.no_grad():
                said.append(int(model.run(inputs, batch).logits[0].argmax()))
        for one, first in enumerate(said):
            for two, second in enumerate(said):
                found[number, one, two] = NAN if math.isnan(first + second) else float(first == second)
    return found


@pytest.mark.parametrize("task", ["classification", "pair"])
@pytest.mark.parametrize("kind", ["native", "bilstm_attention", "hf"])
def test_as_a_literal_loop_has_it(kind, task):
    model, rows = undecided(kind, task), examples(task)
    maps = several(model, rows)
    differing = 0
    for options, by in (
        ("", "auto"),
        ("(k=0.5)", "auto"),
        ("(replace=zero)", "auto"),
        ("(k=0.2, replace=pad)", "size"),
    ):
        spec = parse_measure(f"prediction{options}")
        found = agreement(maps, spec, by=by, probe=Prediction(**spec.options).probe(model, maps[0]))
        asked = {"k": 0.3, "replace": "mask"} | dict(spec.options)
        expected = loop(model, rows, maps, asked["k"], asked["replace"], by_size=by == "size")
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, found.swapaxes(1, 2))
        own = np.einsum("rmm->rm", found)
        assert (own[~np.isnan(own)] == 1).all()
        differing += int((found == 0).sum())
    assert differing, "else the loop could not tell a wrong choice"


def good_or_bad(texts):
    """Positive where more good words than bad ones are left."""
    chance = np.array([1 / (1 + math.exp(-text.count("good") + text.count("bad"))) for text in texts])
    return np.stack([1 - chance, chance], 1)


def scored(*rows, text="good bad film plot", **changes):
    words = text.split()
    starts = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words))]
    offsets = [[start, start + len(word)] for start, word in zip(starts, words, strict=True)]
    return maps_of(
        *rows, texts=((text,),) * len(rows), tokens=tuple(words) * len(rows), offsets=np.array(offsets * len(rows)),
        **changes,
    )  # fmt: skip


class TestByHand:
    """`good` alone is positive, `bad` alone is not, and neither is a tie that the first class wins."""

    model = FunctionTeacher(good_or_bad, ["no", "yes"])
    first = scored([4, 1, 2, 3], [4, 1, 2, 3], [-4, 1, 2, 3], [1, 1, 1, 1])
    second = scored([1, 4, 2, 3], [4, 3, 2, 1], [-4, 1, 2, 3], [4, 3, 2, 1], method="other")

    def found(self, measure="prediction(k=1)", by="auto", maps=None):
        maps = maps or [self.first, self.second]
        spec = parse_measure(measure)
        return agreement(maps, spec, by=by, probe=Prediction(**spec.options).probe(self.model, maps[0]))

    def test_pairs(self):
        assert self.found()[:3, 0, 1].tolist() == [0, 1, 1]

    def test_what_ranks_nothing_or_leaves_nothing_out_has_no_answer(self):
        assert np.isnan(self.found()[3, 0]).all()
        assert self.found()[3, 1, 1] == 1
        assert np.isnan(self.found("prediction(k=4)")).all()
        assert np.isnan(self.found("prediction(k=1.0)")).all()

    def test_by_sign_unless_told(self):
        """−4 on `good` is the largest by size and the last as it is."""
        third = [self.first.select([2]), scored([4, 1, 2, 3], method="other", ids=("r2",))]
        assert self.found(maps=third)[0, 0, 1] == 0
        assert self.found(maps=third, by="size")[0, 0, 1] == 1
        assert resolve_by(parse_measure("prediction"), "auto") == "signed"

    def test_each_question_once(self):
        maps = [self.first.select([1]), self.second.select([1]), replace(self.first.select([1]), method="again")]
        measure = Prediction(k=1)
        probe = measure.probe(self.model, maps[0])
        assert measure(maps, probe).min() == 1
        assert probe.masked.passes == 1

    def test_few_rows_at_a_time_change_nothing(self, monkeypatch):
        whole = self.found()
        monkeypatch.setattr(module, "ROWS", 1)
        np.testing.assert_array_equal(self.found(), whole)


class TestRefused:
    def test_no_teacher(self):
        with pytest.raises(OptionError, match=r"'prediction\(k=2\)' asks the teacher .*teacher=… \(--model\)"):
            agreement([maps_of([1, 2]), maps_of([2, 1], method="b")], "prediction(k=2)")

    def test_no_classes(self):
        with pytest.raises(UnsupportedError, match="compares predicted classes, .* answers a score. Choose .*kendall"):
            Prediction().probe(black_box("regression"), maps_of([1, 2]))
        with pytest.raises(UnsupportedError, match="answers spans"):
            Prediction().probe(teacher("native", "reading"), maps_of([1, 2]))

    @pytest.mark.parametrize(
        ("measure", "message"),
        [
            ("prediction(k=0)", "k must be"),
            ("prediction(k=half)", "'k' of prediction must be a number"),
            ("prediction(replace=burn)", "'replace' of prediction must be one of mask, delete, pad, zero, got 'burn'"),
            ("prediction(p=1)", "no option of prediction named 'p'"),
        ],
    )
    def test_options(self, measure, message):
        with pytest.raises(OptionError, match=message):
            parse_measure(measure)
