"""Sanity: redrawn weights, shuffled labels, trivial explanations; and what explaining costs."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

import teachers
from didact.core.model import Model
from didact.errors import OptionError, UnsupportedError
from didact.evaluation import cost
from didact.evaluation import sanity as module
from didact.evaluation.cost import cost_of
from didact.evaluation.sanity import ORIGINAL, SHUFFLED, _randomise, _shuffled, _steps, sanity
from didact.explaining.explain import explain
from didact.metrics import METRICS


def lines(found, method):
    return {one["step"]: one for one in found if one["method"] == method}


def test_weights_are_drawn_anew_from_the_top(school):
    teacher, data = school()
    before = {name: one.clone() for name, one in teacher.state_dict().items()}
    found = sanity(teacher, data, ["gradient_input", "random"], checks=["weights"], rows=6)
    steps = lines(found.weights, "gradient_input")
    assert list(steps) == [ORIGINAL, "head", "layer 1", "embeddings"]
    assert steps[ORIGINAL]["similarity"] == pytest.approx(1)
    assert steps["embeddings"]["similarity"] < 0.9
    assert all(one["similarity"] == pytest.approx(1) for one in lines(found.weights, "random").values())
    assert all(torch.equal(before[name], one) for name, one in teacher.state_dict().items())  # a twin was changed


@pytest.mark.parametrize("kind", ["hf", "native", "bilstm", "pool"])
def test_every_weight_is_reached_once(kind):
    model = teachers.teacher(kind, "classification")
    named = [name for _, names in _steps(model) for name in names]
    assert sorted(named) == sorted(name for name, _ in model.named_parameters())
    assert next(step for step, _ in _steps(model)) == "head"
    words = next(names for step, names in _steps(model) if step == "embeddings")
    assert any("word" in name for name in words), words


def test_a_redrawn_tensor_keeps_its_scale():
    torch.manual_seed(0)
    model = teachers.teacher("native", "classification", torch.float32)
    twin = type(model)(model.task, model.classes, model.reader, **model.options)
    twin.load_state_dict(model.state_dict())
    name, one = max(twin.named_parameters(), key=lambda pair: pair[1].numel())
    _randomise(twin, [name], seed=0)
    old = dict(model.named_parameters())[name]
    assert not torch.equal(one, old)
    assert one.std().item() == pytest.approx(old.std().item(), rel=0.1)
    for other, kept in twin.named_parameters():
        assert other == name or torch.equal(kept, dict(model.named_parameters())[other])


def test_the_same_class_is_explained(school):
    """What changes is the model, not the question: the twin is asked about the class the teacher predicts."""
    teacher, data = school()
    predicted = explain(teacher, data["test"][:6], "gradient_input")
    order = [list(teacher.classes).index(name) for name in predicted.targets]
    rows = [replace(row, label=label) for row, label in zip(data["test"][:6], order, strict=True)]
    again = explain(teacher, rows, "gradient_input", target="gold")
    assert again.targets == predicted.targets
    np.testing.assert_array_equal(again.scores, predicted.scores)


def test_shuffled_labels(school):
    teacher, data = school()
    found = sanity(teacher, data, ["gradient_input"], checks=["labels"], rows=6, epochs=1)
    steps = lines(found.labels, "gradient_input")
    assert list(steps) == [ORIGINAL, SHUFFLED]
    assert "40 rows for 1 epochs" in found.notes[0]


def test_labels_are_shuffled_not_changed(school):
    from didact.core.human import HumanTeacher

    _, data = school()
    gold = HumanTeacher(data.task, data.classes).predict(data["teach"].rows)
    mixed = _shuffled(gold, 0)
    assert mixed.ids == gold.ids
    assert not np.array_equal(mixed.labels, gold.labels)
    assert sorted(mixed.labels) == sorted(gold.labels)


def test_trivial_explanations_are_measured(school):
    teacher, data = school()
    found = sanity(teacher, data, ["gradient_input"], checks=["trivial"], rows=8)
    named = {one["metric"] for one in found.trivial}
    default = {name for name, entry in METRICS.items() if entry.is_default}
    assert named == default - {"truth_tau"}  # these data have no true scores
    for one in found.trivial:
        worse = one["low"] <= 0 if one["better"] == "higher" else one["high"] >= 0
        if one["rows"]:
            assert one["fooled"] != worse
    assert set(found.to_pandas()) == {"trivial"}


def test_what_cannot_be_checked(school):
    teacher, data = school()
    with pytest.raises(OptionError, match="'weights'"):
        sanity(teacher, data, ["random"], checks=["weigths"])
    with pytest.raises(UnsupportedError, match="trivial"):
        sanity(teachers.black_box(), data, ["occlusion"], checks=["weights"], rows=2)
    scores, quality = school("quality")
    with pytest.raises(UnsupportedError, match="'weights'"):
        sanity(scores, quality, ["random"], checks=["trivial"], rows=2)
    assert not sanity(scores, quality, ["random"], rows=2).trivial  # by default: what can be checked
    with pytest.raises(OptionError, match="nothing to check"):
        sanity(teacher, data, ["random"], rows=0)


class TestCost:
    def test_passes(self, school):
        teacher, data = school()
        rows = data["test"][:4]
        found = {one.method: one for one in cost_of(teacher, rows, ["gradient_input", "occlusion", "random"])}
        units = np.mean([len(one) for one in explain(teacher, rows, "random")])
        # Each row is asked once for its class.
        assert found["random"].forward == 1
        assert found["random"].backward == 0
        assert found["gradient_input"].forward == 2
        assert found["gradient_input"].backward == 1
        assert found["occlusion"].forward == pytest.approx(2 + units)
        assert found["occlusion"].seconds > 0
        assert found["occlusion"].memory >= 0
        assert type(teacher).run is teacher.run.__func__  # left as it was

    def test_black_boxes(self, school):
        _, data = school()
        box = teachers.black_box()
        function = box.function
        found = cost_of(box, data["test"][:3], ["occlusion"])[0]
        assert found.forward > 2
        assert found.backward == 0
        assert box.function is function
        assert not isinstance(box, Model)


def test_batch_size_and_seed_reach_every_explanation(school, monkeypatch):
    teacher, data = school()
    asked = []

    def watched(teacher, rows, method, **options):
        asked.append((method, options.get("batch_size"), options.get("seed")))
        return explain(teacher, rows, method, **options)

    monkeypatch.setattr(module, "explain", watched)
    methods = ["random", "random(seed=3)", "occlusion(batch_size=2)"]
    sanity(teacher, data, methods, checks=["weights", "trivial"], rows=4, batch_size=5, seed=7)
    assert set(asked) == {
        ("random", 5, 7), ("random(seed=3)", 5, None), ("occlusion(batch_size=2)", None, 7), ("trivial", 5, None),
    }  # fmt: skip
    other = sanity(teacher, data, ["random"], checks=["weights"], rows=4, seed=8)
    assert len({one["method"] for one in other.weights}) == 1


@pytest.mark.skipif(not cost._STATUS.is_file(), reason="memory is read from /proc")
def test_memory_is_counted_in_pages_of_this_machine(monkeypatch):
    held = cost._PeakMemory(torch.device("cpu"))._used_memory()
    page = os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(os, "sysconf", lambda name: 4 * page if name == "SC_PAGE_SIZE" else None)
    assert cost._PeakMemory(torch.device("cpu"))._used_memory() == pytest.approx(4 * held, rel=0.1)
