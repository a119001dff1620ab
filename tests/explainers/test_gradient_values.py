"""Gradient methods: equal to captum, to closed forms, and complete where they promise it."""

import numpy as np
import pytest
import torch
from captum.attr import GradientShap, InputXGradient, IntegratedGradients, LayerConductance, Saliency

import tiny
from didact.core.baseline import baseline_of
from didact.core.target import Target
from didact.errors import OptionError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.models.huggingface import HuggingFaceModel
from teachers import Forward, examples, scores, setting, teacher

KINDS = ["hf", "native", "bilstm_attention"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", ["word", "embedding"])
@pytest.mark.parametrize("scale", ["logit", "probability", "log_probability"])
def test_gradients_are_captums(kind, at, scale):
    model, batch, target, forward = setting(kind, at=at, scale=scale)
    inputs = model.embed(batch, at=at).detach()
    slopes = Saliency(forward).attribute(inputs.clone().requires_grad_(), abs=False)
    ours = scores("gradient_norm", model, batch, target, at=at).scores
    torch.testing.assert_close(ours, slopes.norm(dim=-1) * batch.units, atol=1e-10, rtol=0)
    product = InputXGradient(forward).attribute(inputs.clone().requires_grad_()).sum(-1)
    ours = scores("gradient_input", model, batch, target, at=at).scores
    torch.testing.assert_close(ours, product * batch.units, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["classification", "pair", "regression"])
@pytest.mark.parametrize("baseline", ["zero", "pad", "mask"])
def test_integrated_gradients_are_captums(kind, task, baseline):
    model, batch, target, forward = setting(kind, task)
    inputs = model.embed(batch).detach()
    empty = baseline_of(model, batch, baseline=baseline).detach()
    theirs = IntegratedGradients(forward).attribute(inputs, empty, n_steps=12, method="gausslegendre").sum(-1)
    ours = scores("integrated_gradients", model, batch, target, steps=12, baseline=baseline).scores
    torch.testing.assert_close(ours, theirs * batch.units, atol=1e-8, rtol=0)
    assert (theirs[~batch.units] == 0).all(), "special tokens stay what they are, so captum gives them nothing either"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_integrated_gradients_leave_little_at_words(dtype):
    """≤ 1 % at 50 steps; and the residual is what it says it is."""
    model, batch, target, forward = setting("hf", dtype=dtype)
    found = scores("integrated_gradients", model, batch, target, steps=50)
    assert (found.residual <= 0.01).all(), found.residual
    with torch.no_grad():
        change = forward(model.embed(batch)) - forward(baseline_of(model, batch, baseline="zero"))
    gap = (found.scores.sum(-1) - change).abs() / torch.maximum(change.abs(), 0.01 * found.scores.abs().sum(-1))
    torch.testing.assert_close(found.residual, gap, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("kind", ["hf", "native"])
@pytest.mark.slow
def test_automatic_steps_leave_little_at_embeddings(kind):
    model, batch, target, _ = setting(kind)
    few = scores("integrated_gradients", model, batch, target, steps=5, at="embedding")
    auto = scores("integrated_gradients", model, batch, target, steps="auto", at="embedding")
    assert (auto.residual <= 0.01).all(), auto.residual
    assert kind == "native" or few.residual.max() > 0.01, "or the test says nothing: five steps are enough here"
    many = scores("integrated_gradients", model, batch, target, steps=3000, at="embedding")
    torch.testing.assert_close(auto.scores, many.scores, atol=0.02 * float(many.scores.abs().max()), rtol=0)


def test_automatic_steps_stop_at_rounding(monkeypatch):
    """A large constant hides the change below what the numbers can hold: no halving finds it."""
    from didact.explainers import integrated_gradients

    model, batch, target, _ = setting("native", dtype=torch.float32)

    class Raised(type(model)):
        def run(self, embeddings, batch, **options):
            from didact.core.trace import Trace

            return Trace(super().run(embeddings, batch, **options).logits + 1e6)

    raised = object.__new__(Raised)
    raised.__dict__.update(model.__dict__)
    count, plain = [0], integrated_gradients.input_gradient
    monkeypatch.setattr(
        integrated_gradients,
        "input_gradient",
        lambda *a, **k: count.__setitem__(0, count[0] + len(a[1])) or plain(*a, **k),
    )
    scores("integrated_gradients", raised, batch, target)
    assert count[0] <= 100 * len(batch)


def test_automatic_steps_on_a_sharp_corner():
    """f(x) = tanh(500 · Σx): one step of the path holds all of the change, and halving finds it."""
    model, batch, target, _ = setting("native")

    class Sharp(type(model)):
        def run(self, embeddings, batch, **_):
            from didact.core.trace import Trace

            total = (embeddings * batch.units[..., None]).sum((1, 2))
            return Trace(torch.tanh(500 * total)[:, None].repeat(1, 3))

    sharp = object.__new__(Sharp)
    sharp.__dict__.update(model.__dict__)
    auto = scores("integrated_gradients", sharp, batch, target, steps="auto")
    coarse = scores("integrated_gradients", sharp, batch, target, steps=10)
    assert (auto.residual <= 0.01).all()
    assert coarse.residual.max() > 0.05
    inputs = sharp.embed(batch).detach() * batch.units[..., None]
    share = inputs.sum(-1) / inputs.sum((1, 2))[:, None]
    expected = share * torch.tanh(500 * inputs.sum((1, 2)))[:, None]
    torch.testing.assert_close(auto.scores, expected, atol=0.02 * float(expected.abs().max()), rtol=0)


def test_steps_that_cancel_in_the_sum_are_found():
    """f = g(x₀) − g(x₁) + x₂ / 10, g a steep step: the sum knows nothing of the two, and version 1 gave both 0."""
    model, batch, _, _ = setting("native", "regression")
    batch = batch.select([int(batch.units.sum(-1).argmax())])

    class Cancelling(type(model)):
        def embed(self, batch, *, at="word"):  # noqa: ARG002
            return torch.ones(*batch.tokens.shape, 1, dtype=torch.float64) * batch.mask[..., None]

        def run(self, embeddings, batch, **_):
            from didact.core.trace import Trace

            first, second, third = embeddings[:, batch.units[0], 0][:, :3].T
            return Trace(
                (torch.sigmoid(300 * (first - 0.371)) - torch.sigmoid(300 * (second - 0.371)) + third / 10)[:, None]
            )

    cancelling = object.__new__(Cancelling)
    cancelling.__dict__.update(model.__dict__)
    found = scores("integrated_gradients", cancelling, batch, Target.value())
    expected = torch.tensor([1.0, -1.0, 0.1], dtype=torch.float64)
    torch.testing.assert_close(found.scores[batch.units][:3], expected, atol=0.01, rtol=0)
    assert found.residual.max() < 0.01


@pytest.mark.parametrize("kind", ["hf", "native"])
def test_gradient_shap_is_captums_on_the_same_draws(kind, monkeypatch):
    """captum draws one background row and one place per sample; we hand it ours."""
    model, batch, _, _ = setting(kind)
    rows = examples("classification")
    batch = batch.select([1])
    with torch.no_grad():
        target = Target.predicted(model.task, model(batch).logits)
    explainer = build_explainer("gradient_shap", samples=6, background=3).explainer
    explainer.prepare(model, rows)
    ours = explainer(model, batch, target)
    with torch.no_grad():
        others = torch.cat([model.embed(explainer.background.of(batch, torch.tensor([number]))) for number in range(3)])
    alphas = explainer.alphas(batch.ids[0])
    monkeypatch.setattr(np.random, "choice", lambda *_, **__: np.array([sample % 3 for sample in range(6)]))
    monkeypatch.setattr(np.random, "uniform", lambda *_, **__: np.array(alphas))
    forward = Forward(model, batch, target)
    theirs = GradientShap(forward).attribute(model.embed(batch).detach(), others, n_samples=6, stdevs=0.0).sum(-1)
    torch.testing.assert_close(ours.scores, theirs * batch.units, atol=1e-8, rtol=0)


def test_background_rows_count_alike_however_samples_fall():
    """Seven samples for three rows: f is linear in the embeddings here, so the mean must be exact."""
    model, batch, target, _ = setting("native")

    class Linear(type(model)):
        def run(self, embeddings, batch, **_):
            from didact.core.trace import Trace

            return Trace((embeddings * batch.units[..., None]).sum((1, 2))[:, None].repeat(1, 3))

    linear = object.__new__(Linear)
    linear.__dict__.update(model.__dict__)
    explainer = build_explainer("gradient_shap", samples=7, background=3).explainer
    explainer.prepare(linear, examples("classification"))
    assert (explainer(linear, batch, target).residual < 1e-9).all()


def test_gradient_shap_is_complete_in_the_mean():
    """More samples on the way from the same background rows leave less over; the residual says how much."""
    model, batch, target, _ = setting("hf")
    left = []
    for samples in (4, 400):
        explainer = build_explainer("gradient_shap", samples=samples, background=4).explainer
        explainer.prepare(model, examples("classification"))
        left.append(float(explainer(model, batch, target).residual.mean()))
    assert left[1] < 0.01 < left[0]


@pytest.mark.parametrize("kind", ["native", "hf"])
@pytest.mark.parametrize("layer", [1, 2])
def test_layer_conductance_is_captums(kind, layer):
    """captum takes gradients at the left end of each part; ours is the mean of that and the same path backwards."""
    model, batch, target, forward = setting(kind)
    module = model.layers_in_order[layer - 1]
    inputs, empty = model.embed(batch).detach(), baseline_of(model, batch, baseline="zero").detach()
    conductance = LayerConductance(forward, module)
    steps = {"n_steps": 6, "method": "riemann_trapezoid"}  # 7 even places, both ends among them
    there = conductance.attribute(inputs, empty, **steps)
    back = conductance.attribute(empty, inputs, **steps)
    theirs = ((there - back) / 2).sum(-1)
    ours = scores("layer_conductance", model, batch, target, steps=6, layer=layer).scores
    torch.testing.assert_close(ours, theirs * batch.units, atol=1e-8, rtol=0)
    last = scores("layer_conductance", model, batch, target, steps=6, layer=-1).scores
    assert torch.equal(last, ours) == (layer == 2)


def test_conductance_of_all_positions_adds_up():
    """With special tokens scored too, all the change flows through the layer."""
    from dataclasses import replace

    model, batch, target, forward = setting("hf")
    everything = replace(batch, units=batch.mask)
    found = scores("layer_conductance", model, everything, target, steps=400)
    with torch.no_grad():
        change = forward(model.embed(batch)) - forward(baseline_of(model, everything, baseline="zero"))
    torch.testing.assert_close(found.scores.sum(-1), change, atol=1e-4, rtol=1e-3)


def test_smooth_gradient_without_noise_is_the_gradient():
    model, batch, target, _ = setting("native")
    plain = scores("gradient_norm", model, batch, target).scores
    torch.testing.assert_close(scores("smooth_gradient", model, batch, target, noise=0.0, samples=3).scores, plain)


def test_smooth_gradient_is_the_mean_of_gradients_under_its_noise():
    """Written out: one gradient per draw, for a row of the batch."""
    model, batch, target, _ = setting("native")
    explainer = build_explainer("smooth_gradient", samples=5, noise=0.3, batch_size=4).explainer
    found = explainer(model, batch, target).scores
    inputs = model.embed(batch).detach()
    row, mean = torch.tensor([1]), 0
    one, aimed = batch.select(row), target.select(row)
    for sample in range(5):
        noise = explainer._noise(inputs, batch, row, torch.tensor([sample]), one.tokens.shape[1])
        units = one.units[0]
        spread = 0.3 * (inputs[1][batch.units[1]].max() - inputs[1][batch.units[1]].min())
        assert (noise[0, ~units] == 0).all()
        assert 0.5 * spread < noise[0, units].std() < 1.5 * spread
        point = (inputs[row, : one.tokens.shape[1]] + noise).requires_grad_()
        mean = mean + torch.autograd.grad(aimed.of(model.run(point, one).logits).sum(), point)[0] / 5
    torch.testing.assert_close(found[1, : one.tokens.shape[1]], (mean.norm(dim=-1) * one.units)[0])


def test_options_that_make_no_sense_are_refused():
    for name, options in [
        ("integrated_gradients", {"steps": 0}),
        ("integrated_gradients", {"steps": "many"}),
        ("gradient_norm", {"at": "output"}),
        ("smooth_gradient", {"samples": 0}),
        ("layer_conductance", {"steps": 0}),
        ("gradient_shap", {"samples": 3}),
        ("gradient_shap", {"background": 0}),
    ]:
        with pytest.raises(OptionError):
            build_explainer(name, **options)
    model, batch, target, _ = setting("native")
    with pytest.raises(OptionError, match="layers 1 to 2"):
        scores("layer_conductance", model, batch, target, layer=3)
    with pytest.raises(OptionError, match="baseline"):
        scores("integrated_gradients", model, batch, target, baseline="noise")
    image = teacher("hf", "image")
    pictures = image.encode(examples("image"))
    with pytest.raises(UnsupportedError, match="zero"):
        scores("integrated_gradients", image, pictures, Target.label(torch.zeros(3, dtype=torch.long)), baseline="mask")


def test_a_background_is_asked_for_before_it_is_used():
    model, batch, target, _ = setting("native")
    with pytest.raises(UnsupportedError, match="prepare"):
        scores("gradient_shap", model, batch, target)


def test_gradient_input_is_taken_behind_the_embedding_block():
    """Where a LayerNorm follows the words, the model does not depend on their scale, and nothing is left at `word`."""
    model = HuggingFaceModel(*tiny.huggingface("deberta-v2", position_biased_input=False))
    batch = model.encode(examples("classification"))
    with torch.no_grad():
        target = Target.predicted(model.task, model(batch).logits)
    found = scores("gradient_input", model, batch, target).scores
    torch.testing.assert_close(found, scores("gradient_input", model, batch, target, at="embedding").scores)
    at_words = scores("gradient_input", model, batch, target, at="word").scores
    assert found.abs().max() > 1e3 * at_words.abs().max()
