"""`didact.check_explainer`: a right explainer passes, and every promise can be seen broken by a wrong one."""

import json
import subprocess
import sys
from itertools import islice

import pytest
import torch
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.errors import ContractError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.explainers.contract import PROMISES
from didact.explaining import check_explainer as check


def by_hand(teacher, batch, target, *, kind="signed"):
    """Gradient × input, as docs/extending.md has it."""
    words = teacher.embed(batch).detach().requires_grad_()
    chosen = target.of(teacher.run(words, batch).logits)
    (slope,) = torch.autograd.grad(chosen.sum(), words)
    scores = (words * slope).sum(-1).detach() * batch.units
    return Explanation(scores if kind == "signed" else scores.abs(), batch.mask, batch.units, kind)


def changed(result, **values):
    """The explanation with other values, past its own checks of shapes."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


def no_explanation(teacher, batch, target):
    return by_hand(teacher, batch, target).scores


def wrong_shape(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return Explanation(result.scores[:, :-1], batch.mask[:, :-1], batch.units[:, :-1], "signed")


def wrong_kind(teacher, batch, target):
    return changed(by_hand(teacher, batch, target), kind="positive")


def not_a_number(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return changed(result, scores=torch.where(result.scores > result.scores.max() / 2, torch.nan, result.scores))


def scores_padding(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return changed(result, scores=result.scores + 1.0)


def negative_magnitudes(teacher, batch, target):
    return changed(by_hand(teacher, batch, target), kind="magnitude")


def no_distribution(teacher, batch, target):
    return by_hand(teacher, batch, target, kind="distribution")


def nothing(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return changed(result, scores=result.scores * 0)


def bad_residual(teacher, batch, target):
    return changed(by_hand(teacher, batch, target), residual=torch.full((len(batch),), -1.0))


def keeps_the_graph(teacher, batch, target):
    words = teacher.embed(batch)
    chosen = target.of(teacher.run(words, batch).logits)
    (slope,) = torch.autograd.grad(chosen.sum(), words, create_graph=True)
    return Explanation((words * slope).sum(-1) * batch.units, batch.mask, batch.units, "signed")


def trains_the_model(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    with torch.no_grad():
        next(teacher.parameters()).mul_(1.01)
    return result


def leaves_gradients(teacher, batch, target):
    target.of(teacher.run(teacher.embed(batch), batch).logits).sum().backward()
    return by_hand(teacher, batch, target)


def switches_modes(teacher, batch, target):
    teacher.eval()
    return by_hand(teacher, batch, target)


def freezes_the_model(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    teacher.requires_grad_(False)
    return result


def leaves_hooks(teacher, batch, target):
    next(iter(teacher.children())).register_forward_hook(lambda *_: None)
    return by_hand(teacher, batch, target)


def draws(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return changed(result, scores=result.scores * (1 + 0.01 * torch.rand_like(result.scores)))


def looks_at_its_neighbours(teacher, batch, target):
    result = by_hand(teacher, batch, target)
    return changed(result, scores=result.scores - result.scores.mean(0, keepdim=True) * batch.units)


WRONG = [
    (no_explanation, "result", "It returned Tensor."),
    (wrong_shape, "shape", "scores for (3, "),
    (wrong_kind, "kind", "Its kind is 'positive'"),
    (not_a_number, "finite", "NaN or infinite"),
    (scores_padding, "units", "outside `batch.units` are not 0"),
    (negative_magnitudes, "range", "scores of kind 'magnitude' are negative"),
    (no_distribution, "range", "A row of the distribution sums to"),
    (nothing, "content", "All scores of row 'text 0' are 0"),
    (bad_residual, "residual", "Residuals are [-1.0"),
    (keeps_the_graph, "detached", "detach them"),
    (trains_the_model, "model", "Weights of the model changed"),
    (leaves_gradients, "model", "Gradients of parameters of the model changed"),
    (switches_modes, "model", "Training modes of the model changed"),
    (freezes_the_model, "model", "requires_grad of parameters of the model changed"),
    (leaves_hooks, "model", "Hooks of the model changed"),
    (draws, "deterministic", "A second call differs by"),
    (looks_at_its_neighbours, "alone", "Alone, row 'text 0' differs by"),
]


def test_a_right_explainer_passes():
    found = didact.check_explainer(by_hand)
    assert found.passed
    assert found.method == "by_hand"
    assert str(found).startswith("by_hand keeps its promises.\n✓ It returns an Explanation.")
    assert len(found.promises) == len(PROMISES) + 2
    assert {one.outcome for one in found.promises} == {"passed", "not applicable"}


@pytest.fixture
def one_model(monkeypatch):
    """The first of the models alone: what is wrong shows on any."""
    every = check._subjects
    monkeypatch.setattr(check, "_subjects", lambda **given: islice(every(**given), 1))


@pytest.mark.usefixtures("one_model")
@pytest.mark.parametrize(("wrong", "promise", "seen"), WRONG)
def test_every_broken_promise_is_seen(wrong, promise, seen):
    found = didact.check_explainer(wrong, raises=False)
    assert not found.passed
    failed = {one.promise: one.seen for one in found.failed}
    assert PROMISES[promise] in failed
    assert seen in failed[PROMISES[promise]]
    assert f"✗ {PROMISES[promise]}" in str(found)


def test_every_promise_has_a_wrong_explainer():
    assert {promise for _, promise, _ in WRONG} == set(PROMISES)


@pytest.mark.usefixtures("one_model")
def test_a_broken_promise_raises():
    with pytest.raises(
        ContractError, match=r"(?s)scores_padding breaks .*✗ Padding and special tokens score exactly 0"
    ) as told:
        didact.check_explainer(scores_padding)
    assert isinstance(told.value, AssertionError), "a test of the user's fails"


def test_one_that_crashes_and_one_that_refuses_everything():
    def crashes(teacher, batch, target):
        if teacher.task.name == "pair":
            raise IndexError("no second text")
        return by_hand(teacher, batch, target)

    def refuses(teacher, batch, target):  # noqa: ARG001
        raise UnsupportedError("Only images. Choose an image model.")

    (failed,) = didact.check_explainer(crashes, raises=False).failed
    assert failed.promise.startswith("It refuses what it cannot explain")
    assert failed.seen == "transformer, pair: IndexError: no second text"
    (failed,) = didact.check_explainer(refuses, raises=False).failed
    assert failed.promise == "It explains at least one of the models."
    assert "Only images" in failed.seen


@pytest.mark.usefixtures("one_model")
def test_a_class_with_state_and_a_registered_kind():
    class Counts(Explainer):
        def __init__(self, *, power: float = 1.0) -> None:
            super().__init__()
            self.power, self.calls = power, 0

        def prepare(self, teacher, rows):
            self.counts = torch.bincount(teacher.encode(rows).tokens.flatten(), minlength=60)

        def forward(self, teacher, batch, target):  # noqa: ARG002
            self.calls += 1
            scores = self.counts[batch.tokens].clamp_min(1).float() ** -self.power * batch.units
            return Explanation(scores * self.calls, batch.mask, batch.units, "magnitude")

    failed = {one.promise for one in didact.check_explainer(Counts(), raises=False).failed}
    assert PROMISES["deterministic"] in failed


@pytest.mark.parametrize("name", ["lrp", "random", "attention_rollout"])
def test_our_own_pass_by_name(name):
    assert didact.check_explainer(name).passed


@pytest.mark.usefixtures("one_model")
def test_a_kind_that_is_not_the_registered_one(monkeypatch):
    from dataclasses import replace

    monkeypatch.setitem(EXPLAINERS._builtin, "lrp", replace(EXPLAINERS["lrp"], kind="magnitude"))
    (failed,) = didact.check_explainer("lrp", raises=False).failed
    assert failed.seen == "transformer, classification: Its kind is 'signed', declared is 'magnitude'."


def test_the_command():
    result = CliRunner().invoke(app, ["methods", "gradient_norm", "--check"])
    assert result.exit_code == 0, result.output
    assert "✓ A row's scores do not depend on the other rows of its batch." in result.stdout
    result = CliRunner().invoke(app, ["methods", "l2e", "--check", "--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["passed"] is False
    assert document["promises"][-2]["outcome"] == "failed"
    assert "needs the NAME" in str(CliRunner().invoke(app, ["methods", "--check"]).exception)


@pytest.mark.slow
def test_it_needs_no_tests_of_ours():
    code = (
        "import sys, didact; didact.check_explainer('random'); "
        "print(sorted({'pytest', 'tiny', 'teachers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
