"""`smat` as an explainer of a comparison: its companions, its keys, and what happens when nothing can be learned."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch

import didact
from didact.comparing import cell as cell_module
from didact.core.row import fingerprint_of
from didact.errors import ExplanationWarning, OptionError, PlanError, TrainingError
from didact.files.store import key_of
from didact.learned.smat_spec import learner_of, parse_learner
from didact.learning.train import train_teacher
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.temperature import mean_entropy
from teachers import black_box

SMALL = {"training": {"epochs": 2, "batch_size": 4}}
COMPANIONS = {"smat", "smat(cotrained)", "smat(flattened)", "attention_all", "attention_all(sharpened)",
              "attention_all(matched)"}  # fmt: skip


@pytest.mark.slow
def test_companions_stand_beside_it_by_themselves(compare):
    found = compare(explainers=["smat"], **SMALL)
    assert set(found.explainers) == {"none", "random", "trivial", "human"} | COMPANIONS
    assert not found.failed
    asked = {row["explainer"] for row in found.rows if not row["is_control"]}
    assert asked == {"smat"}, "companions are controls: they do not share in Holm's correction"
    assert len(found.learned) == 2
    assert {one["seed"] for one in found.learned} == {0, 1}
    weights = [one["weights"] for one in found.learned]
    assert weights[0] != weights[1], "learned anew for each seed"
    view = found.mix("smat")
    assert view.grid is not None
    np.testing.assert_allclose(view.weights, np.mean(weights, 0), atol=1e-6)
    again = Comparison.load(found.folder)
    assert again.mix().weights == view.weights


def test_one_temperature_is_fixed_and_rows_are_spared(compare):
    found = compare(explainers=["smat"], temperatures=[0.5], skip_controls=["matched", "flattened"], **SMALL)
    assert set(found.explainers) == {"none", "random", "trivial", "human"} | COMPANIONS - {
        "smat(flattened)", "attention_all(matched)",
    }  # fmt: skip
    assert not found.failed
    records = [json.loads(path.read_text())["body"]["payload"] for path in (found.folder / "cells").glob("*.json")]
    sharp = [one["trials"] for one in records if one["cell"]["explainer"] == "attention_all(sharpened)"]
    assert [[trial["options"] for trial in trials] for trials in sharp] == [[{"temperature": 0.5}]] * 2
    told = "\n".join(found.notes)
    assert "the temperature is fixed at 0.5 and not chosen on dev" in told
    assert "Left out by skip_controls: matched, flattened." in told


@pytest.mark.slow
def test_outer_rows_from_dev_bring_the_control_that_got_them_too(compare):
    found = compare(explainers=["smat(outer=dev)"], **SMALL)
    assert {"none+extra", "smat(outer=dev, cotrained)", "attention_all(matched, smat(outer=dev))"} <= set(
        found.explainers
    )
    records = [json.loads(path.read_text())["body"] for path in (found.folder / "cells").glob("*.json")]
    extra = [one["payload"] for one in records if one["payload"]["cell"]["explainer"] == "none+extra"]
    assert len(extra) == 2
    assert all(one["cell"]["extra"] and one["epoch"] == 2 for one in extra), "its last epoch: dev chose nothing"


def test_matched_maps_are_as_sharp_as_each_other(compare):
    found = compare(explainers=["smat"], seeds=1, **SMALL)
    folder = found.folder / "explanations"
    names = ("smat", "smat-flattened", "attention_all-matched")
    files = {path.stem.rpartition("-")[0]: path for path in folder.glob("*.parquet")}
    maps = {name: Explanations.load(files[name]) for name in names}
    static = Explanations.load(next(folder.glob("parts-attention_mix-*.parquet")))
    chosen = static.select([static.ids.index(row) for row in maps["smat"].ids])
    assert mean_entropy(maps["smat-flattened"]) == pytest.approx(mean_entropy(chosen), rel=1e-5)
    assert mean_entropy(maps["attention_all-matched"]) == pytest.approx(mean_entropy(maps["smat"]), rel=1e-5)
    assert mean_entropy(maps["smat"]) != pytest.approx(mean_entropy(chosen), rel=1e-7)


@pytest.mark.slow
def test_a_blend_brings_its_members_and_serves_black_boxes(compare, school):
    _, data = school()
    teacher = black_box()
    found = compare(
        teacher, data, ["smat(family=blend, members='occlusion + lime(samples=16)')"], ["native/attention"], **SMALL
    )
    assert {"occlusion", "lime(samples=16)"} <= set(found.explainers)
    assert not found.failed
    assert found.mix(found.learned[0]["explainer"]).names == ("occlusion", "lime(samples=16)")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["inference", "quality", "shapes", "reading"])
def test_it_runs_on_every_task(compare, school, task):
    teacher, data = school(task)
    if task == "shapes":  # one that learnt next to nothing gives every image the same class
        teacher = train_teacher(data, "native(width=16, layers=1, heads=2)", epochs=25, rate=0.02, progress=False)
    found = compare(teacher, data, ["smat"], seeds=1, **SMALL)
    assert not found.failed
    assert "smat" in found.explainers


@pytest.mark.slow
def test_a_second_call_computes_nothing_and_gives_the_same_bytes(compare):
    first = compare(explainers=["smat"], **SMALL)
    before = (first.folder / "comparison.json").read_bytes(), (first.folder / "results.parquet").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in (first.folder / "cells").glob("*.json")}
    again = compare(explainers=["smat"], **SMALL)
    assert before == ((again.folder / "comparison.json").read_bytes(), (again.folder / "results.parquet").read_bytes())
    assert times == {path: path.stat().st_mtime_ns for path in (first.folder / "cells").glob("*.json")}
    # What was derived is made again where it is lost, from what was learned.
    for path in (first.folder / "explanations").glob("smat*.parquet"):
        path.unlink()
    shutil.rmtree(first.folder / "cells")
    compare(explainers=["smat"], **SMALL)
    assert before == ((again.folder / "comparison.json").read_bytes(), (again.folder / "results.parquet").read_bytes())


@pytest.mark.slow
def test_other_options_are_other_cells(compare):
    first = compare(explainers=["smat"], seeds=1, **SMALL)
    keys = {path.stem for path in (first.folder / "cells").glob("*.json")}
    compare(explainers=["smat(pilot=false)"], seeds=1, **SMALL)
    more = {path.stem for path in (first.folder / "cells").glob("*.json")} - keys
    assert len(more) == 4, "learned, fresh, flattened, matched; the static rows are shared"


@pytest.mark.slow
def test_a_cell_that_cannot_learn_takes_its_followers_with_it(compare, monkeypatch):
    tries = []

    def broken(*_, **__):
        tries.append(1)
        raise TrainingError("The mix collapsed in step 3.")

    monkeypatch.setattr(cell_module, "run_smat", broken)
    found = compare(explainers=["smat"], **SMALL)
    failed = {one["explainer"] for one in found.failed}
    assert failed == {"smat", "smat(cotrained)", "smat(flattened)", "attention_all(matched)"}
    errors = [one["error"] for one in found.failed if one["explainer"] == "smat"]
    assert all("could not be learned: The mix collapsed in step 3." in error for error in errors)
    assert {"none", "attention_all(sharpened)"} <= set(found.explainers)
    assert len(tries) == 2, "one for each seed"
    monkeypatch.undo()
    assert not compare(explainers=["smat"], **SMALL).failed, "the next call tries again"


def test_what_cannot_be_asked_is_told_before_anything_is_computed(compare, school):
    _, data = school()
    with pytest.raises(PlanError) as told:
        compare(explainers=["smat(outr=dev)", "smat(outer=test)", "smat(family=attention)"])
    assert len(told.value.faults) == 3
    with pytest.raises(PlanError, match="needs at least 8 rows"):
        compare(explainers=["smat"], train_sizes=[6, 12], **SMALL)
    with pytest.raises(PlanError, match="needs gradients or attention"):
        compare(black_box(), data, ["smat"], ["native/attention"], **SMALL)
    found = compare(explainers=["smat", "gradient_norm"], students=["same/attention(send=top)"], **SMALL)
    assert "smat" not in found.explainers
    assert any("attention(send=whole)" in note for note in found.notes)


def test_learned_alone_it_is_a_method_and_an_explainer(compare, school, tmp_path):
    teacher, data = school()
    out = tmp_path / "mine"
    learned = didact.learn_smat(teacher, data, size=10, training=SMALL["training"], out=out)
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "README.md", "metrics.json", "mix.png", "mix.svg",
    }  # fmt: skip
    assert not out.with_name("mine.learning").exists()
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["test_accuracy"] == learned.learned["metrics"]["test_accuracy"]
    seen = [*data["explain"], *data["dev"]]
    assert set(learned.learned["rows"]) == {fingerprint_of([row]) for row in seen}
    maps = didact.explain(teacher, data["test"], str(out))
    assert maps.method == "attention_mix"
    found = compare(explainers=[str(out), learned], seeds=1, **SMALL)
    assert {"mine", "attention_mix"} <= set(found.explainers)
    one, other = found.row("mine"), found.row("attention_mix")
    assert one["mean"] == other["mean"]


@pytest.mark.slow
def test_a_plan_that_grows_learns_only_what_is_new(compare):
    first = compare(explainers=["smat"], seeds=1, **SMALL)
    keys = {path.stem for path in (first.folder / "cells").glob("*.json")}
    again = compare(explainers=["smat"], seeds=2, train_sizes=[12, 16], **SMALL)
    learned = [
        json.loads(path.read_text())["body"]["payload"]["cell"] for path in (again.folder / "cells").glob("*.json")
    ]
    learned = [cell for cell in learned if cell["learner"] is not None]
    assert len(learned) == 4, "two seeds, two sizes; the first is not learned twice"
    assert keys <= {path.stem for path in (again.folder / "cells").glob("*.json")}


@pytest.mark.slow
def test_how_sharp_a_matched_row_is_sent_is_not_tuned(compare):
    found = compare(explainers=["smat"], students=["same/attention", "bilstm/multitask"], seeds=1,
                    search_space={"temperature": [1.0, 0.5]}, **SMALL)  # fmt: skip
    assert not found.failed
    cells = [
        json.loads(path.read_text())["body"]["payload"]["cell"] for path in (found.folder / "cells").glob("*.json")
    ]
    trials = {cell["explainer"]: cell["trials"] for cell in cells if "multitask" not in cell["student"]}
    assert trials["smat(flattened)"] == trials["attention_all(matched)"] == [{}]
    assert [one["temperature"] for one in trials["attention_all(sharpened)"]] == [1.0, 0.5, 0.2, 0.1]
    assert trials["smat"] == [{"temperature": 1.0}, {"temperature": 0.5}]
    assert "attention_all(sharpened)" not in {cell["explainer"] for cell in cells if "multitask" in cell["student"]}


def test_another_teacher_of_the_same_shape_is_told(school):
    teacher, data = school()
    learned = didact.learn_smat(teacher, data, size=10, training=SMALL["training"])
    other = copy.deepcopy(teacher)
    with torch.no_grad():
        next(other.parameters()).add_(0.1)
    # The command line prints warnings of this category as messages, without a line of source.
    with pytest.warns(ExplanationWarning, match="learned for another teacher"):
        didact.explain(other, data["test"][:2], learned)


def test_training_that_nobody_knows_is_told(school):
    teacher, data = school()
    for wrong in ({"epoch": 3}, {"seed": 3}):
        with pytest.raises(OptionError, match="entry of training"):
            didact.learn_smat(teacher, data, training=wrong)


def test_an_explainer_that_saw_the_test_rows_is_refused(compare, school):
    teacher, data = school()
    learned = didact.learn_smat(teacher, data, size=10, training=SMALL["training"])
    learned.learned = {**learned.learned, "rows": [fingerprint_of([row]) for row in data["test"][:3]]}
    with pytest.raises(PlanError, match="learned from 3 rows of the test split"):
        compare(explainers=[learned])
    learned.learned = {**learned.learned, "rows": [fingerprint_of([row]) for row in data["train"]]}
    assert any(
        "learned from the teacher's answers to 30 rows" in note for note in compare(explainers=[learned], seeds=1).notes
    )


def test_specs_have_one_spelling():
    assert parse_learner("smat( outer = dev )").label == "smat(outer=dev)"
    assert learner_of({}).label == "smat"
    assert learner_of({"outer": "dev", "members": None}).label == "smat(outer=dev)"
    assert parse_learner("smat(outer=dev)").companion_label("cotrained") == "smat(outer=dev, cotrained)"


def test_keys_are_those_of_versions_that_chose_a_route_by_memory(caplog):
    assert key_of(parse_learner("smat").identity()) == "01ba83b626931f76"
    assert (
        key_of(parse_learner("smat(family=blend, route=difference)").identity()) == "c7d2478e7752fb59"
    )  # since members mask (docs/decisions/030-one-perturbation-engine.md)
    assert not caplog.text
    assert parse_learner("smat(memory=8, outer=dev)") == parse_learner("smat(outer=dev)")
    assert (
        "memory: no longer an option of smat, and ignored. If memory is short, choose route='difference'" in caplog.text
    )
