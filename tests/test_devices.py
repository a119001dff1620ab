"""Every path on a device that is not the CPU, as far as that can be tried without one: `far.py` tells how far."""

import copy

import numpy as np
import pytest
import torch

import didact
from didact.evaluation.cost import cost_of
from didact.evaluation.sanity import sanity
from didact.explainers import EXPLAINERS
from didact.explaining.explain import explain
from didact.learned.l2e import learn_l2e
from didact.learned.smat import learn_smat
from didact.learning.fit import Examples, Training, predict_examples
from didact.learning.teach import teach
from didact.learning.train import train_teacher
from didact.metrics import METRICS
from didact.models.build import build_model
from didact.registry import parse_spec
from didact.students import STRATEGIES
from didact.students.build import build_strategy
from explainers.test_explainer_contract import CASES, OPTIONS, rows_for
from far import FAR, FarTensor, far
from teachers import teacher

pytestmark = pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed

EXPLAINED = [case for case in CASES if case[0] != "l2e"]  # it is learned first, below
# One of each explainer, and a recurrent model, which runs in another way on devices.
USUAL = list({case[0]: case for case in reversed(EXPLAINED)}.values())
USUAL += [case for case in EXPLAINED if case[1:] == ("bilstm_attention", "pair") and case[0] in ("lrp", "occlusion")]


def moved(model, device):
    """The model there; the one that all tests share stays where it is."""
    found = copy.deepcopy(model).to(device)
    assert isinstance(next(found.parameters()), FarTensor)
    return found


class TestItself:
    """What the device refuses, and that it computes."""

    def test_it_computes(self):
        with far() as device:
            found = torch.arange(3.0, device=device) * 2 + torch.tensor(1.0)
            assert found.device == device
            assert found.cpu().tolist() == found.tolist() == [1.0, 3.0, 5.0]

    def test_a_module_learns_there(self):
        torch.manual_seed(0)
        here, inputs = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
        here(inputs)[0].square().sum().backward()
        with far() as device:
            there = copy.deepcopy(here).to(device)
            there.zero_grad()
            there(inputs.to(device))[0].square().sum().backward()
            for one, other in zip(here.parameters(), there.parameters(), strict=True):
                torch.testing.assert_close(other.grad.cpu(), one.grad)

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            (lambda there: there + torch.ones(3), "same device"),
            (lambda there: torch.cat([there, torch.ones(1)]), "same device"),
            (lambda there: torch.ones(3)[there.long()], "same device"),
            (lambda there: there.masked_fill(torch.ones(3, dtype=torch.bool), 0.0), "same device"),
            (lambda there: there.numpy(), "to numpy"),
            (lambda there: np.asarray(there), "to numpy"),
            (lambda there: there.double(), "float64"),
            (lambda there: torch.ones(3, dtype=torch.float64).to(there.device), "float64"),
            (lambda there: torch.rand(3, generator=torch.Generator(), device=there.device), "generator"),
            (lambda there: torch.rand(3, generator=torch.Generator(there.device)), "generator"),
        ],
    )  # fmt: skip
    def test_it_refuses(self, wrong, error):
        with far() as device, pytest.raises((RuntimeError, TypeError), match=error):
            wrong(torch.ones(3, device=device))


def same_there(name, kind, task):
    here = teacher(kind, task, torch.float32)
    rows = rows_for(name, here, task)
    asked = OPTIONS.get(name, {}) | ({"background_rows": rows} if name in ("gradient_shap", "deep_shap") else {})
    wanted = explain(here, rows, name, **asked)
    with far() as device:
        found = explain(moved(here, device), rows, name, **asked)
    assert found.tokens == wanted.tokens
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "kind", "task"), USUAL)
def test_every_explainer(name, kind, task):
    same_there(name, kind, task)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "task"), [case for case in EXPLAINED if case not in USUAL])
def test_every_explainer_of_everything(name, kind, task):
    same_there(name, kind, task)


def test_explainers_are_all_there():
    assert {case[0] for case in USUAL} | {"l2e"} == set(EXPLAINERS)


def test_a_teacher_is_trained(school, tmp_path):
    _, data = school()
    options = {"epochs": 2, "progress": False, "seed": 3}
    here = train_teacher(data, "native(width=16, layers=1, heads=2, dropout=0.0)", **options)
    with far():
        there = train_teacher(
            data, "native(width=16, layers=1, heads=2, dropout=0.0)", device=FAR, out=tmp_path / "kept", **options
        )
        assert there.device.type == "far"
        answers = there.predict(data["test"].rows).values
    np.testing.assert_allclose(answers, here.predict(data["test"].rows).values, atol=1e-4)
    kept = didact.load_teacher(tmp_path / "kept")  # weights come back to the CPU with the folder
    np.testing.assert_allclose(kept.predict(data["test"].rows).values, answers, atol=1e-5)


STRATEGIES_TRIED = {
    "attention": ("attention", {}),
    "attention of one position": ("attention(side=cls, send=top)", {}),
    "sgd": ("attention", {"optimiser": "sgd"}),
    "multitask": ("multitask", {}),
    "gradient": ("gradient", {}),
    "soft": ("attention", {}),
    "by answers alone": (None, {}),
}


class Lesson:
    """A student that was not taught yet, and all it takes."""

    def __init__(
        self, school, *, student="native(width=8, heads=2)", task="sentiment", method="gradient_norm", soft=False
    ):
        model, data = school(task)
        rows = {name: tuple(data[name].rows[:12]) for name in ("train", "dev")}
        self.student = build_model(student, data, seed=1)
        self.sets = [Examples.of(self.student, one, model.predict(one), soft=soft) for one in rows.values()]
        self.maps = explain(model, list(rows["train"]), method)

    def taught(self, strategy, device, **training):
        """What the student answers after an epoch on the device."""
        student = copy.deepcopy(self.student).to(device)
        chosen = build_strategy(parse_spec(strategy or "attention"))
        known = Training(epochs=1, batch_size=4, **training)
        teach(student, chosen, None if strategy is None else self.maps, *self.sets, known)
        return predict_examples(student, self.sets[1].batches(8)).values


@pytest.mark.parametrize("case", STRATEGIES_TRIED)
def test_students_are_taught(school, case):
    strategy, training = STRATEGIES_TRIED[case]
    lesson = Lesson(school, student="native(width=8, heads=2, dropout=0.0)", soft=case == "soft")
    here = lesson.taught(strategy, "cpu", **training)
    with far():
        np.testing.assert_allclose(lesson.taught(strategy, FAR, **training), here, atol=1e-3)


@pytest.mark.parametrize("student", ["bilstm(width=8)", "bilstm_attention(width=8)", "pool(width=8)"])
def test_students_of_every_architecture(school, student):
    strategy = "multitask" if student.startswith("bilstm(") else "attention"
    lesson = Lesson(school, student=student)
    here = lesson.taught(strategy, "cpu")
    with far():
        np.testing.assert_allclose(lesson.taught(strategy, FAR), here, atol=1e-3)


def test_alignments_are_taught(school):
    lesson = Lesson(
        school, task="reading", method="attention_alignment", student="native(width=8, heads=2, dropout=0.0)"
    )
    here = lesson.taught("alignment", "cpu")
    with far():
        there = lesson.taught("alignment", FAR)
    assert here.shape == there.shape


def test_every_strategy_is_there():
    tried = {str(strategy).partition("(")[0] for strategy, _ in STRATEGIES_TRIED.values()} | {"alignment"}
    assert tried | {"none"} >= set(STRATEGIES)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"tune": {"beta": [1.0, 5.0]}}, {"eval_rows": 6}])
def test_whole_comparisons(school, compare, options):
    model, data = school()
    with far() as device:
        result = compare(moved(model, device), data, ["gradient_norm"], ["same/attention"], device=FAR, **options)
    assert not result.failed, result.failed[0]["error"]
    assert len(result.rows) > 3


@pytest.mark.parametrize("route", ["double", "forward", "difference"])
def test_explanations_that_teach(school, route):
    model, data = school()
    asked = {"size": 10, "training": {"epochs": 1, "batch_size": 4}, "route": route, "seed": 1}
    with far() as device:
        found = learn_smat(moved(model, device), data, **asked)
        assert len(found.view().weights) > 1
        assert np.isfinite(found.learned["metrics"]["dev_accuracy"])


@pytest.mark.slow
def test_smat_inside_a_comparison(school, compare):
    model, data = school()
    learner = "smat(family=blend, members='gradient_norm + occlusion')"
    with far() as device:
        result = compare(
            moved(model, device), data, [learner], ["same/attention"], device=FAR, seeds=1, train_sizes=[24],
            training={"epochs": 1, "batch_size": 8},
        )  # fmt: skip
    assert not result.failed, result.failed[0]["error"]


@pytest.mark.parametrize("formulation", ["labelling", "ranking", "regression"])
def test_distilled_explainers(school, tmp_path, formulation):
    model, data = school()
    small = {"width": 8, "layers": 1, "heads": 2, "training": {"epochs": 2, "batch_size": 4}, "initialisations": 1}
    with far() as device:
        there = moved(model, device)
        found = learn_l2e(
            there, data, imitate="gradient_input", formulation=formulation, out=tmp_path / "mine", **small
        )
        maps = explain(there, data["test"][:4], found)
        again = explain(there, data["test"][:4], str(tmp_path / "mine"))
    np.testing.assert_allclose(maps.scores, again.scores, atol=1e-6)
    here = explain(model, data["test"][:4], str(tmp_path / "mine"))
    np.testing.assert_allclose(maps.scores, here.scores, atol=1e-4)


def test_every_metric(school):
    model, data = school()
    methods = ("gradient_input", "attention_all")
    rows = data["test"][:6]
    here = didact.evaluate([explain(model, rows, one) for one in methods], model, data)
    with far() as device:
        there = moved(model, device)
        found = didact.evaluate([explain(there, rows, one) for one in methods], there, data)
    default = {name for name, entry in METRICS.items() if entry.is_default}
    assert set(found["metric"]) == default - {"truth_tau"}  # these data have no true scores
    np.testing.assert_allclose(found["value"], here["value"], atol=1e-3)


def test_a_tuned_copy(school):
    """`f_fidelity` trains on the device, with masks drawn on the CPU."""
    model, data = school()
    rows, metric = data["test"][:6], "f_fidelity(epochs=1)"
    here = didact.evaluate(explain(model, rows, "gradient_input"), model, data, metrics=metric)
    with far() as device:
        there = moved(model, device)
        found = didact.evaluate(explain(there, rows, "gradient_input"), there, data, metrics=metric)
    np.testing.assert_allclose(found["value"], here["value"], atol=1e-3)


@pytest.mark.parametrize("remove", ["zero", "mask", "delete"])
def test_every_way_to_remove(school, remove):
    model, data = school("inference")
    rows = data["test"][:4]
    with far() as device:
        there = moved(model, device)
        found = didact.evaluate(
            [explain(there, rows, "gradient_input")], there, data, metrics=["comprehensiveness"], replace=remove
        )
    assert found["value"].notna().all()


def test_sanity_cost_and_agreement(school):
    model, data = school()
    with far() as device:
        there = moved(model, device)
        found = sanity(there, data, ["gradient_input"], rows=4, epochs=1)
        assert found.weights
        assert cost_of(there, data["test"][:4], ["gradient_input", "occlusion"])[0].seconds > 0
        maps = [explain(there, data["test"], one) for one in ("gradient_input", "lime(samples=16)")]
        assert didact.agree(maps, teacher=there, data=data) is not None


def test_streams(school, tmp_path):
    model, data = school()
    wanted = explain(model, data["test"], "gradient_input")
    with far() as device:
        didact.explain_stream(
            moved(model, device), iter(data["test"].rows), "gradient_input", out=tmp_path / "maps.parquet", shard=5
        )
    np.testing.assert_allclose(didact.Explanations.load(tmp_path / "maps.parquet").scores, wanted.scores, atol=1e-5)


def test_fingerprints_do_not_move(school):
    model, _ = school()
    with far() as device:
        assert moved(model, device).fingerprint() == model.fingerprint()
