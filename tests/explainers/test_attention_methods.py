"""Methods that read attention, against their formulas written out head by head, layer by layer, token by token."""

import pytest
import torch

from didact.core.batch import Batch
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.normalise import share_over, softmax_over
from didact.core.row import Row
from didact.core.target import Target
from didact.core.task import PAIR, TASKS
from didact.errors import OptionError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.explainers.attention import (
    Attention,
    AttentionAll,
    AttentionCls,
    AttentionGradient,
    AttentionLast,
)
from didact.explainers.attention_flow import AttentionFlow
from didact.explainers.attention_rollout import AttentionRollout, start_distribution
from didact.explainers.value_zeroing import ValueZeroing, _chunks
from didact.models import MODELS
from didact.models.huggingface import HuggingFaceModel
from didact.models.tokenizer import WordTokenizer
from tiny import huggingface, images, rows

METHODS = {
    "attention_cls": AttentionCls,
    "attention_all": AttentionAll,
    "attention_last": AttentionLast,
    "attention_rollout": AttentionRollout,
    "attention_flow": AttentionFlow,
    "attention_gradient": AttentionGradient,
    "value_zeroing": ValueZeroing,
}
DISTRIBUTIONS = {name: method for name, method in METHODS.items() if name != "attention_gradient"}
TASKS_READ = ("classification", "pair", "reading")


def build(name: str, task: str = "classification", **options: object) -> Model:
    """A tiny model in float64: a native one, or a Hugging Face architecture."""
    if name in MODELS:
        torch.manual_seed(0)
        reader = WordTokenizer.from_rows(examples(task)[1:])
        options = {"width": 16, **options}
        model = MODELS.load(name)(TASKS[task], ("a", "b", "c") if TASKS[task].has_classes else None, reader, **options)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return model.double().eval()
    head = "ForQuestionAnswering" if task == "reading" else "ForSequenceClassification"
    inner, tokenizer = huggingface(name, head, labels=2 if task == "reading" else 3, **options)
    return HuggingFaceModel(inner, tokenizer, task=PAIR if task == "pair" else None).double().eval()


def examples(task: str) -> list[Row]:
    return rows(1 if task == "classification" else 2)


def asked(name: str, task: str = "classification", **options: object) -> tuple[Model, Batch, Target]:
    model = build(name, task, **options)
    batch = model.encode(examples(task))
    assert not batch.mask.all()
    with torch.no_grad():
        return model, batch, Target.predicted(model.task, model(batch).logits)


def listened(model: Model, batch: Batch, part: str) -> torch.Tensor:
    with torch.no_grad():
        return getattr(model(batch, listen=[part]), part)


def reading_weights(model: Model, length: int) -> torch.Tensor:
    start = torch.zeros(length, dtype=torch.float64)
    if model.pooling_position == "mean":
        start[:] = 1 / length
    else:
        start[0 if model.pooling_position == "first" else length - 1] = 1
    return start


@pytest.mark.parametrize("name", ["bert", "native", "gpt2"])
class TestFormulas:
    def test_cls(self, name):
        model, batch, target = asked(name)
        scores = AttentionCls()(model, batch, target).scores
        full = listened(model, batch, "full")
        for row in range(len(batch)):
            length, units = int(batch.lengths[row]), batch.units[row]
            total = torch.zeros(length, dtype=torch.float64)
            for head in range(4):
                total += reading_weights(model, length) @ full[row, -1, head, :length, :length].softmax(-1) / 4
            total = total * units[:length]
            torch.testing.assert_close(scores[row, :length], total / total.sum())

    @pytest.mark.parametrize("temperature", [1.0, 0.3])
    @pytest.mark.parametrize("method", [AttentionAll, AttentionLast])
    def test_mean_logits(self, name, method, temperature):
        model, batch, target = asked(name)
        scores = method(temperature=temperature)(model, batch, target).scores
        full = listened(model, batch, "full")
        for row in range(len(batch)):
            length, units = int(batch.lengths[row]), batch.units[row]
            logits = torch.zeros(length, dtype=torch.float64)
            layers = range(2) if method is AttentionAll else [1]
            for layer in layers:
                for head in range(4):
                    for key in range(length):
                        column = full[row, layer, head, :length, key]
                        logits[key] += column[column > -torch.inf].mean() / 4 / len(layers)
            expected = (logits[units[:length]] / temperature).softmax(-1)
            torch.testing.assert_close(scores[row][units], expected)

    def test_rollout(self, name):
        model, batch, target = asked(name)
        scores = AttentionRollout()(model, batch, target).scores
        full = listened(model, batch, "full")
        for row in range(len(batch)):
            length, units = int(batch.lengths[row]), batch.units[row]
            product = torch.eye(length, dtype=torch.float64)
            for layer in range(2):
                attention = sum(full[row, layer, head, :length, :length].softmax(-1) for head in range(4)) / 4
                product = (0.5 * attention + 0.5 * torch.eye(length, dtype=torch.float64)) @ product
            expected = (reading_weights(model, length) @ product)[units[:length]]
            torch.testing.assert_close(scores[row][units], expected / expected.sum())


def test_rollout_starts_at_both_ends_of_a_span():
    model, batch, _ = asked("bert", "reading")
    target = Target.span(torch.tensor([5, 4, 6]), torch.tensor([7, 4, 8]))
    start = start_distribution(model, batch, target)
    assert start[0].nonzero()[:, 0].tolist() == [5, 7]
    assert start[0, 5] == start[0, 7] == 0.5
    assert start[1, 4] == 1.0
    scores = AttentionRollout()(model, batch, target).scores
    full = listened(model, batch, "full").masked_fill(~batch.mask[:, None, None, :, None], 0.0).softmax(-1).mean(2)
    length, units = int(batch.lengths[0]), batch.units[0]
    both = torch.zeros(length, dtype=torch.float64)
    for position in (5, 7):
        state = torch.eye(length, dtype=torch.float64)[position]
        for layer in (1, 0):
            state = 0.5 * state @ full[0, layer, :length, :length] + 0.5 * state
        both += state
    expected = both[units[:length]]
    torch.testing.assert_close(scores[0][units], expected / expected.sum())


# -- values as modules: what a test scales or zeroes from outside, without the library's own way in -------------------


def value_of(model: Model, layer: torch.nn.Module) -> tuple[torch.nn.Module, bool]:
    """The module that makes a layer's values, and whether they are the last third of what it makes."""
    if hasattr(layer, "query_key_value"):
        return layer.query_key_value, True
    kind = model.model.config.model_type
    if kind == "gpt2":
        return layer.attn.c_attn, True
    if kind == "albert":
        return layer.albert_layers[0].attention.value, False
    if kind == "deberta-v2":
        return layer.attention.self.value_proj, False
    return (layer.attention.attn.v if kind == "mpnet" else layer.attention.self.value), False


def calls(model: Model) -> list[tuple[torch.nn.Module, int]]:
    """Every call of a layer: the module, and which of its calls it is."""
    layers = list(model.layers_in_order)
    times = model.model.config.num_hidden_layers if len(layers) == 1 and isinstance(model, HuggingFaceModel) else 1
    return [(layer, number) for layer in layers for number in range(times)]


def values_times(model: Model, call: tuple[torch.nn.Module, int], position: int, factor: float):
    """A hook that multiplies the values of one position in one call of a layer."""
    module, is_third = value_of(model, call[0])
    count = -1

    def scale(_, __, output):
        nonlocal count
        count += 1
        if count != call[1]:
            return output
        output = output.clone()
        output[:, position, 2 * output.shape[-1] // 3 if is_third else 0 :] *= factor
        return output

    return module.register_forward_hook(scale)


@pytest.mark.parametrize("layers", ["last", "all"])
@pytest.mark.parametrize("name", ["bert", "native", "gpt2", "albert", "deberta-v2", "mpnet"])
def test_attention_gradient_is_the_slope_of_scaling_what_a_token_gives(name, layers):
    """Σ A · ∂/∂A over a key's column is the slope when its column, or as well its value, grows by a factor."""
    model, batch, target = asked(name)
    scores = AttentionGradient(layers=layers)(model, batch, target).scores
    chosen = calls(model) if layers == "all" else calls(model)[-1:]
    step = 1e-5
    with torch.no_grad():
        for position in range(batch.tokens.shape[1]):
            slope = torch.zeros(len(batch), dtype=torch.float64)
            for call in chosen:
                for sign in (1, -1):
                    hook = values_times(model, call, position, 1 + sign * step)
                    slope += sign * target.of(model(batch).logits) / (2 * step) / len(chosen)
                    hook.remove()
            torch.testing.assert_close(scores[:, position], slope * batch.units[:, position], atol=1e-8, rtol=1e-6)
    assert (scores[batch.units] < 0).any(), "signed"
    assert scores[batch.units].abs().max() > 1e-3


def test_attention_gradient_of_a_pooling_model():
    model, batch, target = asked("bilstm_attention")
    scores = AttentionGradient()(model, batch, target).scores
    trace = model(batch, listen=["hidden", "weights"])
    for row in range(len(batch)):
        label = int(target.first[row])
        expected = trace.weights[0][row, 0, 0] * (trace.hidden[-1][row] @ model.head.weight[label])
        torch.testing.assert_close(scores[row], expected.detach() * batch.units[row])


@pytest.mark.parametrize(("name", "task"), [("bert", "reading"), ("native", "classification"), ("albert", "pair")])
@pytest.mark.parametrize("batch_size", [64, 3])
def test_value_zeroing_token_by_token(name, task, batch_size):
    """One forward per token and layer, the value of that token zeroed in that layer alone."""
    model, batch, target = asked(name, task, **({"num_hidden_layers": 3} if name == "albert" else {}))
    scores = ValueZeroing(batch_size=batch_size)(model, batch, target).scores
    for row in range(len(batch)):
        alone = batch.select([row])
        length = alone.tokens.shape[1]
        product = torch.eye(length, dtype=torch.float64)
        for layer, number in calls(model):
            states = [after(model, alone, layer, number)]
            for token in range(length):
                hook = values_times(model, (layer, number), token, 0.0)
                states.append(after(model, alone, layer, number))
                hook.remove()
            moved = [1 - torch.cosine_similarity(states[0], state, dim=-1) for state in states[1:]]
            matrix = torch.stack(moved, 1)
            product = matrix / matrix.sum(1, keepdim=True) @ product
        start = reading_weights(model, length)
        if target.kind == "span":
            start = torch.zeros(length, dtype=torch.float64)
            start[target.first[row]] += 0.5
            start[target.second[row]] += 0.5
        expected = (start @ product)[alone.units[0]]
        torch.testing.assert_close(scores[row][batch.units[row]], expected / expected.sum(), atol=1e-9, rtol=1e-7)


def after(model: Model, batch: Batch, layer: torch.nn.Module, number: int) -> torch.Tensor:
    """The hidden states of the only row after a call of a layer."""
    states = []

    def keep(_, __, output):
        states.append(output[0] if isinstance(output, tuple) else output)

    hook = layer.register_forward_hook(keep)
    with torch.no_grad():
        model(batch)
    hook.remove()
    return states[number][0]


def test_value_zeroing_where_layers_give_tuples():
    model, batch, target = asked("native")
    expected = ValueZeroing()(model, batch, target).scores
    for layer in model.layers:
        layer.register_forward_hook(lambda _, __, output: (output, None))
    for module in (model.layers[1], model.norm):
        module.register_forward_pre_hook(lambda _, inputs: (inputs[0][0], *inputs[1:]))
    torch.testing.assert_close(ValueZeroing()(model, batch, target).scores, expected)


def test_value_zeroing_copies_travel_with_their_original():
    batch = build("native").encode(examples("classification"))
    lengths = batch.lengths.tolist()
    for size in (2, 5, 64):
        chunks = list(_chunks(batch, size))
        assert all(sum(len(positions) + 1 for _, positions in chunk) <= size for chunk in chunks)
        left_out = [(row, position) for chunk in chunks for row, positions in chunk for position in positions]
        assert sorted(left_out) == [(row, position) for row in range(3) for position in range(lengths[row])]


@pytest.mark.parametrize("task", TASKS_READ)
@pytest.mark.parametrize("name", ["bert", "native"])
@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_scores_units_only(self, method, name, task):
        model, batch, target = asked(name, task)
        explanation = METHODS[method]()(model, batch, target)
        assert explanation.kind == EXPLAINERS[method].kind
        assert not explanation.scores.requires_grad
        assert (explanation.scores[~batch.units] == 0).all()
        assert explanation.scores.isfinite().all()
        if method in DISTRIBUTIONS:
            assert (explanation.scores >= 0).all()
            torch.testing.assert_close(explanation.scores.sum(-1), torch.ones(3, dtype=torch.float64))

    def test_alone_and_in_a_batch(self, method, name, task):
        model, batch, target = asked(name, task)
        together = METHODS[method]()(model, batch, target).scores
        for row in range(len(batch)):
            chosen = torch.tensor([row])
            alone = METHODS[method]()(model, batch.select(chosen), target.select(chosen)).scores[0]
            torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-8, rtol=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["bert", "native"])
def test_leaves_the_model_as_it_was(method, name):
    dropout = {"dropout": 0.5} if name == "native" else {}
    model, batch, target = asked(name, **dropout)
    quiet = METHODS[method]()(model, batch, target).scores
    model.train()
    first = next(iter(model.parameters())).requires_grad_(False)
    assert torch.equal(METHODS[method]()(model, batch, target).scores, quiet), "dropout must be off"
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad == (parameter is not first) for parameter in model.parameters())


class TestPooling:
    def test_scores_are_the_weights_a_text_is_pooled_with(self):
        model, batch, target = asked("bilstm_attention")
        scores = Attention()(model, batch, target).scores
        weights = listened(model, batch, "mean")[:, 0, 0].masked_fill(~batch.mask, -torch.inf).softmax(-1)
        torch.testing.assert_close(scores, weights)
        torch.testing.assert_close(scores, AttentionCls()(model, batch, target).scores)

    def test_two_texts_share_the_weight(self):
        model, batch, target = asked("bilstm_attention", "pair")
        scores = Attention()(model, batch, target).scores
        for segment in (0, 1):
            torch.testing.assert_close(
                (scores * (batch.segments == segment)).sum(-1), torch.full((3,), 0.5, dtype=torch.float64)
            )

    @pytest.mark.parametrize(("name", "options"), [("bert", {}), ("native", {"layers": 1, "heads": 1})])
    def test_self_attention_is_refused_even_with_one_head(self, name, options):
        with pytest.raises(UnsupportedError, match="'attention' reads the attention.*self-attention.*attention_cls"):
            Attention()(*asked(name, **options))

    def test_a_short_text(self):
        """One token and one query: as many as in self-attention."""
        model = build("bilstm_attention")
        batch = model.encode([Row("x", ("bad",))])
        assert Attention()(model, batch, Target.label(torch.tensor([0]))).scores.tolist() == [[1.0]]


class TestRefusals:
    @pytest.mark.parametrize("method", ["attention", *METHODS])
    def test_no_attention(self, method):
        message = "no self-attention" if method == "value_zeroing" else "which has none.*Choose 'bilstm_attention'"
        with pytest.raises(UnsupportedError, match=message):
            EXPLAINERS.load(method)()(*asked("bilstm"))

    @pytest.mark.parametrize("method", ["attention_rollout", "attention_flow", "value_zeroing"])
    def test_no_attention_between_tokens(self, method):
        message = "no self-attention" if method == "value_zeroing" else "only pooling attention"
        with pytest.raises(UnsupportedError, match=message):
            METHODS[method]()(*asked("bilstm_attention"))

    def test_values_that_cannot_be_reached(self):
        model, batch, target = asked("deberta-v2")
        with pytest.raises(UnsupportedError, match="deberta-v2.*cannot be changed"):
            ValueZeroing()(model, batch, target)
        assert not any(module._forward_hooks for module in model.modules())

    @pytest.mark.parametrize("method", ["attention", *METHODS])
    def test_black_boxes(self, method):
        box = FunctionTeacher(lambda texts: [[0.5, 0.5]] * len(texts), ["a", "b"], name="box")
        _, batch, target = asked("native")
        with pytest.raises(
            UnsupportedError, match=f"Method '{method}' needs gradients or attention.*'box' is a black box"
        ):
            EXPLAINERS.load(method)()(box, batch, target)

    def test_options(self):
        for method in (AttentionAll, AttentionLast):
            for temperature in (0.0, -1.0, float("nan")):
                with pytest.raises(OptionError, match="above 0"):
                    method(temperature=temperature)
        with pytest.raises(OptionError, match="'last' or 'all', got 'first'"):
            AttentionGradient(layers="first")
        with pytest.raises(OptionError, match="batch_size of at least 2.*got 1"):
            ValueZeroing(batch_size=1)


@pytest.mark.parametrize("method", ["attention_cls", "attention_rollout", "attention_flow", "attention_gradient"])
def test_attention_given_after_softmax(method):
    """Models that pass our attention function by: their own probabilities serve."""
    model, batch, target = asked("deberta-v2")
    scores = METHODS[method]()(model, batch, target).scores
    assert (scores[batch.units] != 0).all()


@pytest.mark.parametrize("method", DISTRIBUTIONS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "modernbert", "distilbert"])
def test_other_architectures(method, name):
    """Causal and windowed attention: nothing undefined where a token sees little."""
    model, batch, target = asked(name)
    scores = DISTRIBUTIONS[method]()(model, batch, target).scores
    torch.testing.assert_close(scores.sum(-1), torch.ones(3, dtype=torch.float64))
    assert (scores[~batch.units] == 0).all()


def test_images():
    model = HuggingFaceModel(*huggingface("vit", "ForImageClassification")).double().eval()
    batch = model.encode(images())
    batch = Batch(**{**vars(batch), "pixels": batch.pixels.double()})
    target = Target.label(torch.zeros(3, dtype=torch.long))
    for method in DISTRIBUTIONS.values():
        scores = method()(model, batch, target).scores
        torch.testing.assert_close(scores.sum(-1), torch.ones(3, dtype=torch.float64))


def test_rows_without_mass_stay_empty():
    units = torch.tensor([[True, True, False], [False, False, False]])
    mass = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    assert (share_over(mass, units) == 0).all()
    assert (softmax_over(mass.log(), units) == 0).all()
