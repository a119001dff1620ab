"""DeepLIFT and DeepSHAP: closed forms, captum where captum is right, and completeness on every architecture."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.row import Row
from didact.core.target import Target
from didact.core.task import CLASSIFICATION, PAIR, TASKS
from didact.core.trace import Trace
from didact.errors import OptionError, UnsupportedError
from didact.explainers import deeplift as module
from didact.explainers.deeplift import DeepLift, DeepShap, _explain
from didact.explainers.deeplift_rules import DeepLiftRules
from didact.models import MODELS
from didact.models.huggingface import HuggingFaceModel
from didact.models.tokenizer import PatchReader, WordTokenizer
from pairwise import thinned
from tiny import IMAGE_ARCHITECTURES, TEXT_ARCHITECTURES, huggingface, images, rows

NATIVE = ("native", "bilstm", "bilstm_attention")
ARCHITECTURES = (*TEXT_ARCHITECTURES, *IMAGE_ARCHITECTURES, "deberta-v2", "mpnet", *NATIVE)
SCALES = ("logit", "probability", "log_probability")
# Inside they compute in single precision, whatever they are given.
SINGLE = ("modernbert", "llama", "qwen2")


def build(name: str, task: str = "classification", **changes: object) -> tuple[Model, list[Row]]:
    """A tiny model in double precision with random biases, and three ragged rows for it."""
    if name in IMAGE_ARCHITECTURES:
        task = "image"
    some = images() if task == "image" else rows(1 if task == "classification" else 2)
    if name not in NATIVE:
        head = {"image": "ForImageClassification", "reading": "ForQuestionAnswering"}
        labels = {"reading": 2, "regression": 1}.get(task, 3)
        model, tokenizer = huggingface(name, head.get(task, "ForSequenceClassification"), labels=labels, **changes)
        return HuggingFaceModel(model, tokenizer, task=PAIR if task == "pair" else None).double(), some
    torch.manual_seed(0)
    reader = PatchReader(32, 32) if task == "image" else WordTokenizer.from_rows(some)
    options = {"width": 16, **({"heads": 4} if name == "native" else {}), **changes}
    classes = ("a", "b", "c") if TASKS[task].has_classes else None
    own = MODELS.load(name)(TASKS[task], classes, reader, **options).eval()
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return own.double(), some


def asked(model: Model, batch: Batch, scale: str = "logit") -> Target:
    with torch.no_grad():
        return Target.predicted(model.task, model(batch).logits, scale=scale)


class Stub(Model):
    """A model written as one function of its embeddings, for closed forms."""

    def __init__(self, net: Callable[[Tensor], Tensor], *, dim: int = 4, size: int = 12) -> None:
        super().__init__()
        self.net, self.name, self.task, self.classes, self.pooling_position = (
            net,
            "stub",
            CLASSIFICATION,
            ("a", "b"),
            "mean",
        )
        self.max_length = 100
        generator = torch.Generator().manual_seed(1)
        self.table = nn.Parameter(torch.randn(size, dim, generator=generator, dtype=torch.float64))

    def embed(self, batch, *, at="word"):  # noqa: ARG002
        return F.embedding(batch.tokens, self.table)

    def run(self, embeddings, batch, *, at="word", listen=(), zero_values_at=None):  # noqa: ARG002
        return Trace(self.net(embeddings))

    def encode(self, rows: Sequence[Row]) -> Batch:
        raise NotImplementedError

    def special_token_id(self, name):  # noqa: ARG002
        return 0

    def token_name(self, token):
        return str(token)

    layers_in_order = ()

    def facts(self):
        return {}

    def save(self, folder):
        raise NotImplementedError


def batch_of(tokens: list[list[int]], special: int = -1) -> Batch:
    """Rows of equal length; the token `special` is no unit."""
    ids = torch.tensor(tokens)
    units = ids != special
    return Batch(
        ids=tuple(f"r{index}" for index in range(len(ids))),
        tokens=ids,
        mask=torch.ones_like(units),
        units=units,
        segments=torch.where(units, 0, -1),
        words=torch.where(units, torch.arange(ids.shape[1]), -1),
        offsets=torch.zeros(*ids.shape, 2, dtype=torch.long),
    )


BATCH = batch_of([[1, 2, 3], [4, 5, 1]])
FIRST = Target.label(torch.tensor([0, 1]))


def matrix(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def perceptron(*, biases: bool = True, sizes: tuple[int, ...] = (12, 7, 5, 2)) -> nn.Sequential:
    torch.manual_seed(3)
    first, second, third = (nn.Linear(a, b, bias=biases) for a, b in pairwise(sizes))
    return nn.Sequential(nn.Flatten(1), first, nn.ReLU(), second, nn.Tanh(), third).double()


# -- closed forms -----------------------------------------------------------------------------------------------------


def test_a_linear_model_scores_its_own_terms():
    weight, bias = matrix(2, 12), matrix(2, seed=1)
    model = Stub(lambda x: F.linear(x.flatten(1), weight, bias))
    found = DeepLift()(model, BATCH, FIRST)
    terms = weight[FIRST.first].unflatten(1, (3, 4)) * model.embed(BATCH)
    torch.testing.assert_close(found.scores, terms.sum(-1).detach())
    assert found.residual.max() < 1e-12


def differences(function: Callable[[Tensor], Tensor], here: Tensor, there: Tensor) -> Tensor:
    """The multipliers of a function of whole rows, straight from the rules."""
    rules = DeepLiftRules()
    with rules.reference():
        function(there.clone().requires_grad_())
    here = here.clone().requires_grad_()
    with rules:
        values = function(here)
    rules.check_finished()
    (found,) = torch.autograd.grad(values.sum(), here)
    return found


SPELLINGS = {
    "tanh": (torch.tanh, torch.tanh),
    "Tensor.sigmoid": (lambda x: x.sigmoid(), torch.sigmoid),
    "F.gelu": (F.gelu, F.gelu),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
    "silu in place": (lambda x: F.silu(x + 0, inplace=True), F.silu),
    "relu_": (lambda x: (x + 0).relu_(), torch.relu),
    "relu by name": (lambda x: F.relu(input=x), torch.relu),
    "abs": (abs, torch.abs),
    "exp": (torch.exp, torch.exp),
    "cube": (lambda x: x**3, lambda x: x**3),
    "power of two": (lambda x: 2**x, lambda x: 2**x),
    "square": (lambda x: x**2, torch.square),
    "product with itself": (lambda x: x * x, torch.square),
    "itself in place": (lambda x: (x + 0).mul_(x), torch.square),
    "1 / x": (lambda x: 1 / (x + 5), lambda x: 1 / (x + 5)),
    "divided": (lambda x: torch.div(2, x + 5), lambda x: 2 / (x + 5)),
    "rsqrt": (lambda x: torch.rsqrt(x + 5), lambda x: (x + 5) ** -0.5),
    "sqrt": (lambda x: (x + 5).sqrt(), lambda x: (x + 5) ** 0.5),
    "log": (lambda x: (x + 5).log(), lambda x: (x + 5).log()),
    "clamp": (lambda x: x.clamp(min=-0.5), lambda x: x.clamp(min=-0.5)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_functions_of_each_number_by_difference_quotient(spelling):
    ours, plain = SPELLINGS[spelling]
    here, there = matrix(3, 5), matrix(3, 5, seed=1)
    torch.testing.assert_close(differences(ours, here, there), (plain(here) - plain(there)) / (here - there))


@pytest.mark.parametrize("spelling", sorted(set(SPELLINGS) - {"relu_", "relu by name", "abs", "clamp"}))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_close_inputs_are_as_exact_as_far_ones(spelling, dtype):
    """In single precision a bare quotient would be off by 10 % here, and undefined for equal inputs."""
    ours, plain = SPELLINGS[spelling]
    here = matrix(200, 5)
    exact = torch.autograd.functional.jvp(plain, here, torch.ones_like(here))[1]
    found = differences(ours, here.to(dtype), (here + 1e-6).to(dtype)).double()
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(differences(ours, here, here), exact)


def test_a_bend_between_close_inputs_is_not_smoothed_over():
    here, there = torch.full((1, 1), 3e-7), torch.full((1, 1), -1e-7)
    torch.testing.assert_close(differences(torch.relu, here, there), torch.full((1, 1), 0.75))


@pytest.mark.parametrize(
    "product",
    [
        lambda a, b: a @ b,
        torch.bmm,
        lambda a, b: torch.matmul(input=a, other=b),
        lambda a, b: torch.einsum("bij,bjk->bik", a, b),
        lambda a, b: torch.baddbmm(torch.zeros(1, dtype=a.dtype), a, b),
        lambda a, b: torch.zeros(2, 3, 3, dtype=a.dtype).baddbmm(batch1=a, batch2=b, beta=0.5),
    ],
)
def test_a_product_shares_by_the_means(product):
    a, other_a = (matrix(2, 3, 4, seed=seed).requires_grad_() for seed in range(2))
    b, other_b = (matrix(2, 4, 3, seed=seed).requires_grad_() for seed in range(2, 4))
    weights = matrix(2, 3, 3, seed=9)
    rules = DeepLiftRules()
    with rules.reference():
        product(other_a, other_b)
    with rules:
        out = product(a, b)
    of_a, of_b = torch.autograd.grad((out * weights).sum(), (a, b))
    mean_a, mean_b = (a + other_a).detach() / 2, (b + other_b).detach() / 2
    torch.testing.assert_close(of_a, weights @ mean_b.transpose(1, 2))
    torch.testing.assert_close(of_b, mean_a.transpose(1, 2) @ weights)


def test_a_quotient_is_the_product_read_backwards():
    """y = a/b gives Δa / mean(b) and −Δb · mean(y) / mean(b), also where it is written as a product with an inverse."""
    here, there = matrix(3, 2).abs() + 0.1, matrix(3, 2, seed=1).abs() + 0.1
    (a, b), (c, d) = here.T, there.T
    expected = torch.stack([2 / (b + d), -(a / b + c / d) / (b + d)], 1)
    torch.testing.assert_close(differences(lambda x: x[:, 0] / x[:, 1], here, there), expected)
    torch.testing.assert_close(differences(lambda x: x[:, 0] * x[:, 1].reciprocal(), here, there), expected)


@pytest.mark.parametrize("masked", [None, -torch.inf, torch.finfo(torch.float64).min, -10000.0])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_is_complete_with_and_without_a_mask(function, masked):
    here, there = 30 * matrix(4, 6), 30 * matrix(4, 6, seed=1)
    hidden = torch.tensor([False, False, True, False, False, True])

    def first(x: Tensor) -> Tensor:
        return function(x if masked is None else x.masked_fill(hidden, masked), -1)[:, 0]

    slopes = differences(first, here, there)
    assert slopes.isfinite().all()
    assert masked is None or (slopes[:, hidden] == 0).all()
    torch.testing.assert_close((slopes * (here - there)).sum(-1), first(here) - first(there))


def test_softmax_survives_logits_that_are_far_apart():
    """exp(200) is infinite in single precision, and exp(−200) is 0: one half of the sums is lost."""
    here, there = torch.tensor([[200.0, 0.0, 1.0]]), torch.tensor([[-30.0, -10.0, 0.0]])
    for function in (torch.softmax, torch.log_softmax):
        slopes = differences(lambda x, f=function: f(x, -1)[:, 1], here, there)
        change = function(here, -1)[:, 1] - function(there, -1)[:, 1]
        torch.testing.assert_close((slopes * (here - there)).sum(-1), change)


def test_equal_inputs_where_a_function_is_steep_pass_nothing_on():
    here, there = matrix(2, 3), matrix(2, 3, seed=1)
    here[0] = there[0] = 0
    slopes = differences(lambda x: F.normalize(x, dim=1)[:, 0], here, there)
    assert slopes.isfinite().all()
    change = F.normalize(here, dim=1)[:, 0] - F.normalize(there, dim=1)[:, 0]
    torch.testing.assert_close((slopes * (here - there)).sum(-1), change)


def test_torchs_own_attention_is_taken_apart():
    """It computes the same numbers, and is complete: grouped heads, a mask, none, a causal one."""
    here, there = matrix(2, 4, 3, 5), matrix(2, 4, 3, 5, seed=1)
    mask = torch.tensor([True, False, True]).expand(3, -1)
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": matrix(3, 3), "scale": 0.3}):

        def first(x: Tensor, options=options) -> Tensor:
            half = x[:, :2]
            out = F.scaled_dot_product_attention(x, half, half + 1, enable_gqa=True, **options)
            return out.flatten(1) @ matrix(60, seed=2)

        with DeepLiftRules().reference():
            torch.testing.assert_close(first(here.clone().requires_grad_()), first(here))
        slopes = differences(first, here, there)
        torch.testing.assert_close((slopes * (here - there)).flatten(1).sum(-1), first(here) - first(there))


LONGER = {
    "rms norm": lambda x: F.rms_norm(x, (6,), matrix(6), 1e-3),
    "rms norm as written": lambda x: matrix(6) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3)),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "glu": lambda x: F.glu(x),
    "addcmul": lambda x: torch.addcmul(x[:, :3], x[:, 3:], x[:, :3], value=2),
    "addcdiv": lambda x: torch.addcdiv(x[:, :3], x[:, 3:], x[:, :3].exp()),
    "addmm": lambda x: torch.addmm(matrix(6), x, matrix(6, 6), beta=2, alpha=3).tanh(),
    "convolution": lambda x: F.conv1d(x[:, None], matrix(2, 1, 3), matrix(2)).tanh().flatten(1),
    "group norm": lambda x: F.group_norm(x, 2, matrix(6), matrix(6, seed=1)),
    "group norm of maps": lambda x: F.group_norm(x.reshape(-1, 2, 3), 1, matrix(2), matrix(2, seed=1)).flatten(1),
    "std": lambda x: x.std(-1, keepdim=True),
    "var over all but the rows": lambda x: torch.var(x.reshape(-1, 2, 3), (1, 2), correction=0)[:, None],
    "logsumexp": lambda x: torch.logsumexp(x, -1, keepdim=True),
    "logsumexp over two": lambda x: x.reshape(-1, 2, 3).logsumexp((1, 2))[:, None],
    "norm": lambda x: x.norm(dim=-1, keepdim=True),
    "vector norm": lambda x: torch.linalg.vector_norm(x, 3, dim=-1, keepdim=True),
    "max pool 1d": lambda x: F.max_pool1d(x[:, None], 3, stride=2, padding=1).flatten(1),
    "max pool 2d": lambda x: nn.MaxPool2d(2)(x.reshape(-1, 1, 2, 3)).flatten(1),
    "adaptive max pool": lambda x: F.adaptive_max_pool1d(x[:, None], 2).flatten(1),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "largest along a dimension": lambda x: x.max(-1, keepdim=True).values,
    "largest, by names in any order": lambda x: torch.max(x, keepdim=True, dim=-1).values,
    "smallest along a dimension by name": lambda x: x.min(dim=-1).values[..., None],
    "smallest": lambda x: x.reshape(-1, 2, 3).min(1)[0],
    "larger of two": lambda x: torch.maximum(x[:, :3], x[:, 3:]),
}


@pytest.mark.parametrize("name", LONGER)
def test_longer_functions_compute_the_same_and_are_complete(name):
    function = LONGER[name]
    here, there = matrix(4, 6), matrix(4, 6, seed=1)
    with DeepLiftRules().reference():
        torch.testing.assert_close(function(here.clone().requires_grad_()).detach(), function(here))
    weights = matrix(function(here).shape[-1], seed=5)
    slopes = differences(lambda x: function(x) @ weights, here, there)
    torch.testing.assert_close((slopes * (here - there)).sum(-1), (function(here) - function(there)) @ weights)


def test_layer_norm_of_a_zero_baseline_in_single_precision():
    """With ε = 1e-12 a product with 1/σ would cancel six digits."""
    here, there = matrix(5, 8).float(), torch.zeros(5, 8)
    weights, gain = matrix(8, seed=1).float(), matrix(8, seed=2).float()

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (8,), gain, gain, 1e-12) @ weights

    total = (differences(norm, here, there) * (here - there)).sum(-1)
    torch.testing.assert_close(total, norm(here) - norm(there), rtol=1e-4, atol=1e-5)


def test_where_captum_is_right_we_agree():
    captum = pytest.importorskip("captum.attr")
    net = perceptron()
    model = Stub(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = model.embed(BATCH).detach().requires_grad_()
        theirs = captum.DeepLift(net).attribute(inputs, torch.zeros_like(inputs), target=FIRST.first)
    torch.testing.assert_close(DeepLift()(model, BATCH, FIRST).scores, theirs.sum(-1).detach())


# -- every architecture -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "at"), thinned(product(ARCHITECTURES, ["word", "embedding"])))
def test_scores_sum_to_the_difference(name, at):
    model, some = build(name)
    batch = model.encode(some)
    for scale in SCALES:
        found = DeepLift(at=at)(model, batch, asked(model, batch, scale))
        assert found.residual.max() < (1e-5 if name in SINGLE else 1e-9)
        assert found.scores[~batch.units].abs().sum() == 0
        assert found.scores.abs().sum() > 0
    model.float()
    assert DeepLift(at=at)(model, model.encode(some), asked(model, batch)).residual.max() < 1e-3


def test_residual_is_measured_against_the_models_own_answers():
    """Recomputed outside the rules: plain forwards at input and baseline."""
    model, some = build("bert")
    batch = model.encode(some)
    target = asked(model, batch)
    with torch.no_grad():
        inputs = model.embed(batch)
        bare = inputs.masked_fill(batch.units[..., None], 0.0)
        change = target.of(model.run(inputs, batch).logits) - target.of(model.run(bare, batch).logits)
    torch.testing.assert_close(DeepLift()(model, batch, target).scores.sum(-1), change)


@pytest.mark.parametrize("baseline", ["zero", "pad", "mask"])
def test_two_layers_of_bert_in_single_precision(baseline):
    model, some = build("bert", num_hidden_layers=2, hidden_size=64, intermediate_size=128)
    model.float()
    batch = model.encode(some)
    found = DeepLift(baseline=baseline)(model, batch, asked(model, batch))
    assert found.residual.max() < 1e-3
    assert found.scores.dtype == torch.float32


OTHER_TASKS = [
    *(("bert", task) for task in ("pair", "regression", "reading")),
    *(("native", task) for task in ("pair", "regression", "reading", "image")),
    *(("bilstm", task) for task in ("pair", "reading")),
    ("bilstm_attention", "pair"),
    ("gpt2", "pair"),
    ("distilbert", "reading"),
]


@pytest.mark.parametrize(("name", "task"), OTHER_TASKS)
def test_other_tasks(name, task):
    model, some = build(name, task)
    batch = model.encode(some)
    for scale in SCALES if task != "regression" else ("logit",):
        found = DeepLift()(model, batch, asked(model, batch, scale))
        assert found.scores.isfinite().all()
        assert found.residual.max() < 1e-6


def test_an_ordinary_derivative_in_the_place_of_a_rule_shows(monkeypatch):
    model, some = build("bert")
    batch = model.encode(some)
    target = asked(model, batch)
    whole = DeepLift()(model, batch, target)
    for rule, plain in {
        "elementwise": lambda _, __, function, values: function(values),
        "product": lambda _, call: call.result(),
        "softmax": lambda _, values, dim: values.softmax(dim),
        "division": lambda _, above, below: above / below,
    }.items():
        with monkeypatch.context() as broken:
            broken.setattr(DeepLiftRules, rule, plain)
            found = DeepLift()(model, batch, target)
        assert found.residual.max() > 0.01 > whole.residual.max(), rule


def test_an_operation_without_a_rule_keeps_its_derivative():
    model = Stub(lambda x: torch.erfc(x.flatten(1)) @ matrix(12, 2))
    found = DeepLift()(model, BATCH, FIRST)
    assert found.scores.isfinite().all()
    assert found.residual.max() > 0.01


# -- rows, models and memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2", "native", "bilstm_attention", "vit"])
@pytest.mark.parametrize("method", ["deeplift", "deep_shap"])
def test_a_row_alone_and_in_a_batch(name, method):
    model, some = build(name)
    batch = model.encode(some)
    target = asked(model, batch)
    explainer = DeepLift() if method == "deeplift" else DeepShap(background=2)
    explainer.prepare(model, some)
    together = explainer(model, batch, target)
    assert name == "vit" or not batch.mask.all(), "the batch must be ragged to test padding"
    for index in range(len(batch)):
        alone = explainer(model, model.encode([some[index]]), target.select(torch.tensor([index])))
        length = alone.scores.shape[1]
        scale = alone.scores.abs().max()
        assert (together.scores[index, :length] - alone.scores[0]).abs().max() < 1e-8 * scale
        assert together.scores[index, length:].abs().sum() == 0


def test_batch_size_bounds_what_passes_at_once_and_changes_nothing(monkeypatch):
    model, some = build("bert")
    batch = model.encode(some)
    target = asked(model, batch)
    explainer = DeepShap(background=5, batch_size=64)
    explainer.prepare(model, some)
    whole = explainer(model, batch, target)
    sizes = []
    run = model.run
    monkeypatch.setattr(model, "run", lambda x, part, **options: sizes.append(len(x)) or run(x, part, **options))
    explainer.batch_size = 4
    torch.testing.assert_close(explainer(model, batch, target).scores, whole.scores)
    assert max(sizes) == 2, "a row and its reference are held at once"
    assert sum(sizes) == 2 * 5 * len(batch)


@pytest.mark.parametrize("explainer", [DeepLift(), DeepShap(background=2)])
def test_the_model_is_left_as_it_was(explainer):
    model, some = build("gpt2")
    model.train()
    still = [name for name, _ in model.named_parameters()][::2]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in still)
    batch = model.encode(some)
    explainer.prepare(model, some)
    explainer(model, batch, Target.label(torch.tensor([0, 1, 2])))
    assert all(part.training for part in model.modules())
    assert [name for name, parameter in model.named_parameters() if not parameter.requires_grad] == still
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())


def test_options_and_black_boxes_are_refused():
    with pytest.raises(OptionError, match="baseline"):
        DeepLift(baseline="mean")
    with pytest.raises(OptionError, match="batch_size"):
        DeepShap(batch_size=0)
    with pytest.raises(UnsupportedError, match="deeplift"):
        DeepLift()(FunctionTeacher(len, ["a", "b"], name="box"), BATCH, FIRST)
    model, some = build("bert")
    batch = model.encode(some)
    with pytest.raises(UnsupportedError, match="prepare"):
        DeepShap()(model, batch, asked(model, batch))


# -- DeepSHAP ---------------------------------------------------------------------------------------------------------


def test_one_background_row_many_times_is_deeplift_against_it(monkeypatch):
    model, some = build("bert")
    batch = model.encode(some[1:2])
    target = asked(model, batch)
    tokens = torch.where(batch.units, 7, batch.tokens)
    monkeypatch.setattr(
        module.Background, "of", lambda _, part, drawn: replace(part, tokens=tokens.expand(len(drawn), -1))
    )
    found = DeepShap(background=3)(model, batch, target)
    with torch.no_grad():
        reference = model.embed(replace(batch, tokens=tokens))
    expected = _explain(model, batch, target, lambda *_: reference, 1, at="word", batch_size=8)
    torch.testing.assert_close(found.scores, expected.scores)
    assert (found.scores - DeepLift()(model, batch, target).scores).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["bert", "bilstm", "vit"])
def test_different_background_rows(name):
    """The mean of DeepLIFT over them: complete against their mean answer, and not DeepLIFT against zero."""
    model, some = build(name)
    batch = model.encode(some)
    target = asked(model, batch)
    explainer = DeepShap(background=2)
    explainer.prepare(model, some)
    found = explainer(model, batch, target)
    assert found.residual.max() < 1e-9
    others = []
    for number in range(2):
        background = explainer.background.of(batch, torch.full((len(batch),), number))
        with torch.no_grad():
            others.append(target.of(model.run(model.embed(background), batch).logits))
    with torch.no_grad():
        change = target.of(model(batch).logits) - torch.stack(others).mean(0)
    torch.testing.assert_close(found.scores.sum(-1), change)
    plain = DeepLift()(model, batch, target).scores
    assert (found.scores - plain).abs().max() > 0.01 * plain.abs().max()
    torch.testing.assert_close(explainer(model, batch, target).scores, found.scores)
