"""`f_fidelity` in an evaluation: where its rows come from, who is refused, what readers are told."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

import didact
import teachers
from didact.core.dataset import Dataset, Split
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.evaluation import tuned_metrics
from didact.evaluation.evaluate import run_evaluation
from didact.evaluation.tuned_metrics import rows_for_tuning
from didact.explaining.explain import explain
from didact.metrics.f_fidelity import FFidelityPlus
from didact.metrics.faithfulness import faithfulness
from didact.metrics.probe import Probe

NAMES = ("f_fidelity(epochs=1)", "f_fidelity_plus(epochs=1)", "f_fidelity_minus(epochs=1)")


@pytest.fixture
def maps(school):
    teacher, data = school()
    return [explain(teacher, data["test"], method) for method in ("gradient_input", "gradient_norm")]


def test_one_copy_answers_for_all_methods(school, maps, monkeypatch):
    teacher, data = school()
    copies = []
    real = tuned_metrics.tuned_copy
    monkeypatch.setattr(
        tuned_metrics, "tuned_copy", lambda *a, **o: copies.append((real(*a, **o), a[1])) or copies[-1][0]
    )
    found = run_evaluation(maps, teacher, data, metrics=["comprehensiveness", *NAMES])
    ((copy, rows),) = copies
    assert {row.id for row in rows} == set(data["teach"].ids)  # never those that are explained
    both, top, lowest = (found.values[1 + index] for index in range(3))
    np.testing.assert_allclose(both, top - lowest, atol=1e-6)
    assert found.methods == ("gradient_input", "gradient_norm", "random")
    labels = teacher.predict(data["test"].rows).labels
    targeted = replace(maps[0], targets=tuple(teacher.classes[label] for label in labels))
    alone = faithfulness([FFidelityPlus(epochs=1)], [targeted], Probe(copy, data["test"].rows))
    np.testing.assert_allclose(top[0], alone[0, 0], atol=1e-6)  # float32, in batches of other lengths
    np.testing.assert_array_equal(  # the others are of the teacher itself
        found.values[0], run_evaluation(maps, teacher, data, metrics="comprehensiveness").values[0]
    )
    (note,) = [note for note in found.notes if note.startswith("f_fidelity")]
    assert "tuned for 1 epoch on 40 other rows, with up to 10 % of their units removed at random" in note
    assert found.how[NAMES[0]].startswith("at most 10 % of the units are replaced by [MASK], read by a tuned copy")
    again = run_evaluation(maps, teacher, data, metrics=list(NAMES))
    np.testing.assert_array_equal(again.values, found.values[1:])


def test_the_explained_class_is_the_teachers(school, maps, monkeypatch):
    """Where none is stated, the copy's own prediction would be another class."""
    teacher, data = school()
    turned = deepcopy(teacher)
    with torch.no_grad():
        for parameter in turned.head.parameters():
            parameter.neg_()
    monkeypatch.setattr(tuned_metrics, "tuned_copy", lambda *_, **__: turned)
    unstated = replace(maps[0], targets=("",) * len(maps[0]))
    ask = {"metrics": "f_fidelity_plus", "control": False}
    found, stated = (run_evaluation(item, teacher, data, **ask) for item in (unstated, maps[0]))
    np.testing.assert_array_equal(found.values, stated.values)


def test_options_that_change_the_copy_have_their_own(school, maps):
    teacher, data = school()
    names = ["f_fidelity(epochs=1, samples=2)", "f_fidelity(epochs=1, samples=3)", "f_fidelity(epochs=1, beta=0.3)"]
    found = run_evaluation(maps, teacher, data, metrics=names, control=False)
    assert sum(note.startswith("f_fidelity") for note in found.notes) == 2
    assert np.isfinite(found.values).all()


def test_where_the_rows_come_from(school):
    _, data = school()
    test = data["test"].rows
    assert rows_for_tuning(data, test) == list(data["teach"])
    parts = Dataset("d", data.task, {name: data[name] for name in ("dev", "train", "test")}, data.classes)
    assert rows_for_tuning(parts, test) == list(data["train"])
    only = Dataset("d", data.task, {"test": Split("test", test)}, data.classes)
    assert rows_for_tuning(only, test[:4]) == list(test[4:])
    assert rows_for_tuning(only, test) == []
    assert rows_for_tuning(list(test), test[:10]) == list(test[10:])
    assert rows_for_tuning(None, test) == []
    twins = [replace(row, id=f"twin {row.id}") for row in test[:3]]  # the same text under another id
    assert rows_for_tuning([*twins, *test], test[:2]) == [twins[2], *test[2:]]


class TestRefusals:
    def test_only_who_names_it_waits_for_it(self, school, maps):
        teacher, data = school()
        assert not [name for name in run_evaluation(maps, teacher, data).metrics if name.startswith("f_fidelity")]

    def test_black_boxes(self, school):
        _, data = school()
        box = teachers.black_box()
        maps = explain(box, data["test"][:3], "occlusion")
        with pytest.raises(
            OptionError, match=r"1 of 2 .* f_fidelity: it tunes a copy of the teacher, but .* black box"
        ):
            run_evaluation(maps, box, data, metrics=["f_fidelity", "srg"])
        oracle = data.oracle()
        with pytest.raises(OptionError, match="f_fidelity: it tunes a copy of the teacher, but"):
            run_evaluation(explain(oracle, data["test"][:3], "occlusion"), oracle, data, metrics="f_fidelity")

    def test_scores(self, school):
        teacher, data = school("quality")
        maps = explain(teacher, data["test"][:3], "gradient_input")
        with pytest.raises(OptionError, match="f_fidelity: it needs classes, but"):
            run_evaluation(maps, teacher, data, metrics="f_fidelity")

    def test_no_other_rows(self, school, maps):
        teacher, data = school()
        for given in (None, data["test"]):
            with pytest.raises(OptionError, match="rows that are not explained: give the data set"):
                run_evaluation(maps, teacher, given, metrics="f_fidelity")
        with pytest.raises(OptionError, match="needs the teacher"):
            run_evaluation(maps, None, data, metrics="f_fidelity")


def test_images(school):
    teacher, data = school("shapes")
    maps = explain(teacher, data["test"][:4], "gradient_input")
    found = run_evaluation(maps, teacher, data, metrics="f_fidelity(epochs=1)", control=False)
    assert np.isfinite(found.values).all()
    assert "embedding 0" in found.how["f_fidelity(epochs=1)"]


@pytest.mark.slow
def test_degraded_explanations_are_ranked_by_their_damage():
    """The scores of more and more units of a row are swapped: sharpness stays, information falls, and FFid follows."""
    data = didact.load_data("planted/sentiment(teach=3000, explain=10, train=10, dev=200, test=100)")
    teacher = didact.train_teacher(data, "native(layers=1, width=32, heads=2)", progress=False)
    base = explain(teacher, data["test"], "integrated_gradients")
    series = [_swapped(base, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    names = ["f_fidelity", "f_fidelity_plus", "f_fidelity_minus", "srg"]
    means = run_evaluation(series, teacher, data, metrics=names, control=False).values.mean(-1)
    for name, line in zip(names, means, strict=True):
        ordered = line if name == "f_fidelity_minus" else -line
        assert (np.diff(ordered) > 0).all(), (name, line)


def _swapped(maps, share):
    """The explanations with the scores of a share of each row's units swapped among themselves."""
    scores = maps.scores.copy()
    for start, end, name in zip(maps.bounds[:-1], maps.bounds[1:], maps.ids, strict=True):
        order = numpy_generator("swap", name).permutation(end - start)
        chosen = start + order[: round(share * (end - start))]
        scores[chosen] = scores[np.roll(chosen, 1)]
    return replace(maps, scores=scores, method=f"swapped {share}")
