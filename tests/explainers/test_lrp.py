"""LRP: closed forms, the paper's rules by slow loops, and conservation on every architecture."""

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_deeplift import (
    ARCHITECTURES,
    BATCH,
    FIRST,
    OTHER_TASKS,
    SCALES,
    SINGLE,
    Stub,
    asked,
    batch_of,
    build,
    matrix,
    perceptron,
)
from torch import Tensor, nn

from didact.core.function import FunctionTeacher
from didact.core.target import Target
from didact.errors import OptionError, UnsupportedError
from didact.explainers.gradients import GradientInput
from didact.explainers.lrp import AttnLRPRules, Lrp
from pairwise import thinned


def conserved(model: Stub, batch=BATCH, target=FIRST) -> tuple[Tensor, Tensor]:
    """Scores and share, once their sum is seen to be the model's own answer."""
    scores, share, output = Lrp().relevance(model, batch, target)
    with torch.no_grad():
        torch.testing.assert_close(output, target.of(model(batch).logits))
    torch.testing.assert_close(scores.sum(-1) + share, output)
    return scores, share


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_a_linear_model_scores_its_own_terms_and_its_bias_is_nobodys():
    weight, bias = matrix(2, 12), matrix(2, seed=1)
    model = Stub(lambda x: F.linear(x.flatten(1), weight, bias))
    scores, share = conserved(model)
    torch.testing.assert_close(scores, (weight[FIRST.first].unflatten(1, (3, 4)) * model.embed(BATCH)).sum(-1).detach())
    torch.testing.assert_close(share, bias[FIRST.first])


def test_special_tokens_keep_their_share():
    weight = matrix(2, 12)
    model = Stub(lambda x: F.linear(x.flatten(1), weight))
    batch = batch_of([[9, 2, 3], [9, 5, 1]], special=9)
    scores, share = conserved(model, batch)
    terms = (weight[FIRST.first].unflatten(1, (3, 4)) * model.embed(batch)).sum(-1).detach()
    torch.testing.assert_close(share, terms[:, 0])
    assert (scores[:, 0] == 0).all()


def test_without_biases_and_with_relu_it_is_gradient_times_input():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(1), nn.Linear(12, 9, bias=False), nn.ReLU(), nn.Linear(9, 9, bias=False), nn.ReLU(),
        nn.Linear(9, 2, bias=False),
    ).double()  # fmt: skip
    model = Stub(net)
    scores, share = conserved(model)
    torch.testing.assert_close(scores, GradientInput()(model, BATCH, FIRST).scores.detach())
    assert share.abs().max() == 0


def test_with_tanh_it_is_not_gradient_times_input():
    model = Stub(perceptron())
    scores, _ = conserved(model)
    assert (scores - GradientInput()(model, BATCH, FIRST).scores).abs().max() > 0.01 * scores.abs().max()


def relevance(function, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the inputs of a function of whole rows are given, and what nobody is."""
    x = x.clone().requires_grad_()
    with AttnLRPRules(len(x)) as shares:
        out = function(x)
    if not out.requires_grad:
        return torch.zeros_like(x), out
    (slope,) = torch.autograd.grad(out.sum(), x)
    return (x * slope).detach(), shares.absorbed_by_row(slope)


a, b = matrix(3), matrix(3, seed=1)
ROWS = torch.stack([a, b], 1)
ZERO, ONE = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
# function of the columns a and b: what a, b and nobody are given
RULES = {
    "product": (lambda x: x[:, 0] * x[:, 1], a * b / 2, a * b / 2, ZERO),
    "product in place": (lambda x: (x[:, 0] + 0).mul_(x[:, 1]), a * b / 2, a * b / 2, ZERO),
    "square": (lambda x: x[:, 0] ** 2, a**2, ZERO, ZERO),
    "square root of squares": (lambda x: x[:, 0] / (x[:, 1] ** 2).sqrt(), a / b.abs(), ZERO, ZERO),
    "inverse root": (lambda x: x[:, 0] * torch.rsqrt(x[:, 1] ** 2), a / b.abs(), ZERO, ZERO),
    "divisor": (lambda x: x[:, 0] / x[:, 1], a / b, ZERO, ZERO),
    "gate": (lambda x: x[:, 0].tanh() * x[:, 1].sigmoid(), a.tanh() * b.sigmoid(), ZERO, ZERO),
    "glu": (lambda x: F.glu(x, 1)[:, 0], a * b.sigmoid(), ZERO, ZERO),
    "silu as written": (lambda x: x[:, 0] * torch.sigmoid(x[:, 0]), F.silu(a), ZERO, ZERO),
    "gated by silu": (lambda x: F.silu(x[:, 0]) * x[:, 1], F.silu(a) * b / 2, F.silu(a) * b / 2, ZERO),
    "gelu": (lambda x: F.gelu(x[:, 0]), F.gelu(a), ZERO, ZERO),
    "cube": (lambda x: torch.pow(x[:, 0], 3), a**3, ZERO, ZERO),
    "sigmoid alone": (
        lambda x: x[:, 0].sigmoid(),
        a * a.sigmoid() * (1 - a.sigmoid()),
        ZERO,
        a.sigmoid() * (1 - a * (1 - a.sigmoid())),
    ),
    "exp": (lambda x: x[:, 0].exp(), a * a.exp(), ZERO, (1 - a) * a.exp()),
    "plus a number": (lambda x: 2 - x[:, 0], -a, ZERO, 2 * ONE),
    "plus in place": (lambda x: (x[:, 0] + 0).add_(b).sub_(1), a, ZERO, b - 1),
    "to a constant in place": (lambda x: b.clone().add_(x[:, 0]), a, ZERO, b),
    "joined": (lambda x: torch.cat([x, ROWS], 1) @ matrix(4), a * matrix(4)[0], b * matrix(4)[1], ROWS @ matrix(4)[2:]),
    "chosen": (
        lambda x: torch.where(a > 0, x[:, 0], 3.0).masked_fill(b > 0, 7.0),
        torch.where((a > 0) & (b <= 0), a, 0.0), ZERO, torch.where(b > 0, 7.0, torch.where(a > 0, 0.0, 3 * ONE)),
    ),
    "addmm": (
        lambda x: torch.addmm(ONE[:2], x, matrix(2, 2), beta=2)[:, 0],
        a * matrix(2, 2)[0, 0], b * matrix(2, 2)[1, 0], 2 * ONE,
    ),
    "layer norm": (
        lambda x: F.layer_norm(x, (2,), 2 * ONE[:2], ONE[:2], 0.0)[:, 0],
        a / (a - b).abs() * 2, -b / (a - b).abs() * 2, ONE,
    ),
    "log softmax": (
        lambda x: F.log_softmax(x, -1)[:, 0],
        a * (b - a).sigmoid(), -b * (b - a).sigmoid(), F.logsigmoid(a - b) - (a - b) * (b - a).sigmoid(),
    ),
    "convolution": (
        lambda x: F.conv1d(x[:, None], 3 * ONE[None, None, :1], ONE[:1]).sum((1, 2)), 3 * a, 3 * b, 2 * ONE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_each_rule(name):
    function, of_a, of_b, nobodys = RULES[name]
    found, left = relevance(function, ROWS)
    torch.testing.assert_close(found, torch.stack([of_a, of_b], 1))
    torch.testing.assert_close(left, nobodys)


def test_at_zero_a_function_has_its_derivative():
    x = torch.zeros(2, 1, dtype=torch.float64, requires_grad=True)
    with AttnLRPRules(2):
        out = torch.tanh(x) + F.gelu(x)
    (slope,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(slope, torch.full((2, 1), 1.5, dtype=torch.float64))


def test_written_out_gelu_is_one_function():
    """GPT-2's activation against the same number from `F.gelu`: f(x)/x, nothing to the 1 in 1 + tanh."""
    model, some = build("gpt2")
    batch = model.encode(some)
    target = asked(model, batch)
    ours = Lrp()(model, batch, target).scores
    for layer in model.model.transformer.h:
        layer.mlp.act = nn.GELU(approximate="tanh")
    torch.testing.assert_close(ours, Lrp()(model, batch, target).scores)


# -- attention, by loops ----------------------------------------------------------------------------------------------


def softmax_rows(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def back_through_linear(x, weight, bias, z, relevance):
    """R_i = Σ_j w_ji x_i / z_j · R_j; the bias keeps b_j / z_j · R_j."""
    given, kept = np.zeros_like(x), 0.0
    for token in range(x.shape[0]):
        for j in range(z.shape[1]):
            for i in range(x.shape[1]):
                given[token, i] += weight[j, i] * x[token, i] / z[token, j] * relevance[token, j]
            kept += bias[j] / z[token, j] * relevance[token, j]
    return given, kept


def back_through_product(left, right, out, relevance):
    """AttnLRP, proposition 3.3: each term of Σ_k l_ik r_kj gives half of its share to either factor."""
    of_left, of_right = np.zeros_like(left), np.zeros_like(right)
    for i in range(left.shape[0]):
        for k in range(left.shape[1]):
            for j in range(right.shape[1]):
                part = left[i, k] * right[k, j] / out[i, j] * relevance[i, j] / 2
                of_left[i, k] += part
                of_right[k, j] += part
    return of_left, of_right


def back_through_softmax(x, s, relevance):
    """AttnLRP, proposition 3.1: R_i = x_i (R_i − s_i Σ_j R_j), with the relevance of the weights on the right."""
    given = np.zeros_like(x)
    for row in range(x.shape[0]):
        total = sum(relevance[row])
        for i in range(x.shape[1]):
            given[row, i] = x[row, i] * (relevance[row, i] - s[row, i] * total)
    return given, relevance.sum() - given.sum()


def test_one_attention_layer_against_loops():
    weights = {name: matrix(4, 4, seed=seed) for seed, name in enumerate(("q", "k", "v", "o"))}
    biases = {name: matrix(4, seed=9 + seed) for seed, name in enumerate(("q", "k", "v", "o"))}

    def net(x: Tensor) -> Tensor:
        q, k, v = (F.linear(x, weights[name], biases[name]) for name in "qkv")
        mixed = (q @ k.transpose(1, 2) / 2).softmax(-1) @ v
        return F.linear(mixed, weights["o"], biases["o"])[:, 0, :2]

    model = Stub(net)
    scores, share = conserved(model)
    for row in range(2):
        x = model.embed(BATCH)[row].detach().numpy()
        w, c = ({name: part.numpy() for name, part in group.items()} for group in (weights, biases))
        q, k, v = (x @ w[name].T + c[name] for name in "qkv")
        product = q @ k.T
        s = softmax_rows(product / 2)
        mixed = s @ v
        out = mixed @ w["o"].T + c["o"]
        last = np.zeros_like(out)
        last[0, row] = out[0, row]  # the class explained in this row
        of_mixed, kept = back_through_linear(mixed, w["o"], c["o"], out, last)
        of_s, of_v = back_through_product(s, v, mixed, of_mixed)
        of_product, lost = back_through_softmax(product / 2, s, of_s)
        of_q, of_k = back_through_product(q, k.T, product, of_product)
        expected, nobodys = np.zeros(3), kept + lost
        for name, z, part in (("q", q, of_q), ("k", k, of_k.T), ("v", v, of_v)):
            given, kept = back_through_linear(x, w[name], c[name], z, part)
            expected += given.sum(-1)
            nobodys += kept
        np.testing.assert_allclose(scores[row].numpy(), expected, rtol=1e-9)
        np.testing.assert_allclose(share[row].item(), nobodys, rtol=1e-9)


# -- every architecture -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "at"), thinned(product(ARCHITECTURES, ["word", "embedding"])))
def test_relevance_is_conserved(name, at):
    model, some = build(name)
    batch = model.encode(some)
    for scale in SCALES:
        target = asked(model, batch, scale)
        found = Lrp(at=at)(model, batch, target)
        assert found.residual.max() < (1e-5 if name in SINGLE else 1e-9)
        assert found.scores[~batch.units].abs().sum() == 0
        assert found.scores.abs().sum() > 0
    scores, share, output = Lrp(at=at).relevance(model, batch, asked(model, batch))
    with torch.no_grad():  # outside the rules
        torch.testing.assert_close(output, asked(model, batch).of(model(batch).logits))
    torch.testing.assert_close(scores.sum(-1) + share, output, rtol=1e-5, atol=1e-6)
    model.float()
    assert Lrp(at=at)(model, model.encode(some), asked(model, batch)).residual.max() < 1e-3


@pytest.mark.parametrize(("name", "task"), OTHER_TASKS)
def test_other_tasks(name, task):
    model, some = build(name, task)
    batch = model.encode(some)
    for scale in SCALES if task != "regression" else ("logit",):
        found = Lrp()(model, batch, asked(model, batch, scale))
        assert found.scores.isfinite().all()
        assert found.residual.max() < 1e-9


def plainly(_, call):
    return call.result()


BROKEN = {
    "no halves": ("bert", "product", plainly),
    "ordinary derivatives": ("bert", "elementwise", lambda _, __, function, values: function(values)),
    "norms that vary": ("bert", "_decompose", lambda _, call: call.result()),
    "softmax keeps nothing": ("bert", "softmax", lambda _, values, dim: values.softmax(dim)),
    "biases keep nothing": ("bert", "linear", lambda _, x, weight, bias=None: F.linear(x, weight, bias)),
    "constants keep nothing": ("bert", "sum", plainly),
    "gates without a rule": ("bilstm", "product", plainly),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_shows(case, monkeypatch):
    name, rule, plain = BROKEN[case]
    model, some = build(name)
    batch = model.encode(some)
    target = asked(model, batch)
    assert Lrp()(model, batch, target).residual.max() < 1e-9
    monkeypatch.setattr(AttnLRPRules, rule, plain)
    assert Lrp()(model, batch, target).residual.max() > 0.01


def test_an_operation_without_a_rule_keeps_its_derivative():
    model = Stub(lambda x: torch.erfc(x.flatten(1)) @ matrix(12, 2))
    found = Lrp()(model, BATCH, FIRST)
    assert found.scores.isfinite().all()
    assert found.residual.max() > 0.01


def test_rows_need_not_come_first():
    """Three positions are no multiple of two rows: what constants add is counted for each row alone."""
    model = Stub(lambda x: (x.transpose(0, 1) + 1.0).sum((0, 2))[:, None].expand(-1, 2))
    _, share = conserved(model)
    torch.testing.assert_close(share, torch.full((2,), 12.0, dtype=torch.float64))


# -- rows and models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "gpt2", "native", "bilstm_attention", "vit"])
def test_a_row_alone_and_in_a_batch(name):
    model, some = build(name)
    batch = model.encode(some)
    target = asked(model, batch)
    together, shares, _ = Lrp().relevance(model, batch, target)
    assert name == "vit" or not batch.mask.all(), "the batch must be ragged to test padding"
    for index in range(len(batch)):
        alone, share, _ = Lrp().relevance(model, model.encode([some[index]]), target.select(torch.tensor([index])))
        length, scale = alone.shape[1], alone.abs().max()
        assert (together[index, :length] - alone[0]).abs().max() < 1e-8 * scale
        assert together[index, length:].abs().sum() == 0
        torch.testing.assert_close(shares[index], share[0])


def test_the_model_is_left_as_it_was():
    model, some = build("gpt2")
    model.train()
    still = [name for name, _ in model.named_parameters()][::2]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in still)
    Lrp()(model, model.encode(some), Target.label(torch.tensor([0, 1, 2])))
    assert all(part.training for part in model.modules())
    assert [name for name, parameter in model.named_parameters() if not parameter.requires_grad] == still
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())


def test_options_and_black_boxes_are_refused():
    with pytest.raises(OptionError, match="at"):
        Lrp(at="layer")
    with pytest.raises(UnsupportedError, match="lrp"):
        Lrp()(FunctionTeacher(len, ["a", "b"], name="box"), BATCH, FIRST)
