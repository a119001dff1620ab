"""DeepLIFT and LRP where rows do not come first, where tokens are regrouped, and in convolutional networks."""

import pytest
import torch
import torch.nn.functional as F
import transformers
from test_deeplift import BATCH, FIRST, Stub, asked, matrix
from torch import Tensor

from didact.core.row import Row
from didact.errors import UnsupportedError
from didact.explainers.deeplift import DeepLift
from didact.explainers.integrated_gradients import IntegratedGradients
from didact.explainers.lrp import Lrp
from didact.models.huggingface import HuggingFaceModel
from tiny import byte_tokenizer

ROWS = [Row("a", ("a good film",)), Row("b", ("the plot is not",)), Row("c", ("bad",))]
_SIZES = {
    "vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "pad_token_id": 1, "num_labels": 3, "max_position_embeddings": 128, "head_dim": 4,
}  # fmt: skip
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}


def tiny_model(family: str) -> HuggingFaceModel:
    """A tiny random model of a family that is not among the common ones."""
    kind = getattr(transformers, f"{family}Config")
    default = kind()
    config = kind(**{name: value for name, value in (_SIZES | _EXPERTS).items() if hasattr(default, name)})
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return HuggingFaceModel(model, byte_tokenizer())


def rows_first(x: Tensor) -> Tensor:
    return torch.tanh(2 * x.flatten(1) + 1) @ matrix(12, 2)


def sequence_first(x: Tensor) -> Tensor:
    """The same function with the rows in the second dimension."""
    turned = x.transpose(0, 1)
    return torch.einsum("tbd,tdc->bc", torch.tanh(2 * turned + 1), matrix(12, 2).reshape(3, 4, 2))


def positions_shuffled(x: Tensor) -> Tensor:
    """The same function with the tokens of all rows in one dimension, in an order of its own."""
    order = torch.tensor([4, 0, 3, 5, 1, 2])[: x.shape[0] * x.shape[1]]
    order = order if len(order) == 6 and x.shape[0] == 2 else torch.arange(x.shape[0] * x.shape[1])
    tokens = torch.tanh(2 * x.reshape(-1, 4)[order] + 1)
    back = torch.zeros_like(tokens).index_copy(0, order, tokens)
    return back.reshape(x.shape[0], -1) @ matrix(12, 2)


@pytest.mark.parametrize("layout", [sequence_first, positions_shuffled])
@pytest.mark.parametrize("explainer", [DeepLift(), Lrp()])
def test_scores_do_not_depend_on_where_rows_are_kept(layout, explainer):
    found = explainer(Stub(layout), BATCH, FIRST)
    expected = explainer(Stub(rows_first), BATCH, FIRST)
    torch.testing.assert_close(found.scores, expected.scores)
    assert found.residual.max() < 1e-9


def test_a_closed_form_sequence_first():
    found = DeepLift()(Stub(sequence_first), BATCH, FIRST)
    inputs = Stub(sequence_first).embed(BATCH).detach()
    weights = matrix(12, 2).reshape(3, 4, 2)[..., FIRST.first].permute(2, 0, 1)
    change = torch.tanh(2 * inputs + 1) - torch.tanh(torch.ones_like(inputs))
    torch.testing.assert_close(found.scores, (weights * change).sum(-1))


def routed(x: Tensor) -> Tensor:
    """One of two experts for each token, chosen by what it reads."""
    tokens = x.reshape(-1, 4)
    chosen = tokens[:, 0] > 0
    out = torch.zeros(len(tokens), 2, dtype=x.dtype)
    for expert, here in enumerate((chosen, ~chosen)):
        places = here.nonzero()[:, 0]
        out = out.index_add(0, places, torch.tanh(tokens[places]) @ matrix(4, 2, seed=expert))
    return out.reshape(x.shape[0], -1, 2).sum(1)


def test_deeplift_refuses_routes_that_differ():
    with pytest.raises(UnsupportedError, match=r"from '\w+' on.*Choose lrp or occlusion"):
        DeepLift()(Stub(routed), BATCH, FIRST)
    assert Lrp()(Stub(routed), BATCH, FIRST).residual.max() < 1e-9


@pytest.mark.parametrize("function", [
    lambda x: x.flatten(1).topk(3).values @ matrix(3, 2),
    lambda x: x.flatten(1).sort().values[:, :3] @ matrix(3, 2),
    lambda x: torch.where(x > 0, x, 3 * x).flatten(1) @ matrix(12, 2),
])  # fmt: skip
def test_deeplift_refuses_what_is_chosen_by_value(function):
    with pytest.raises(UnsupportedError, match="topk|sort|where"):
        DeepLift()(Stub(function), BATCH, FIRST)


@pytest.mark.parametrize("family", ["Mixtral", "Qwen3Moe", "GptOss"])
def test_mixtures_of_experts(family):
    model = tiny_model(family)
    batch = model.encode(ROWS)
    target = asked(model, batch)
    assert Lrp()(model, batch, target).residual.max() < 1e-4
    with pytest.raises(UnsupportedError, match="mixtures of experts"):
        DeepLift()(model, batch, target)


@pytest.mark.parametrize("family", ["Qwen3", "Helium", "Gemma2"])
def test_integrated_gradients_from_zeros_into_rms_norm(family):
    """RMSNorm of RMSNorm (Qwen3) turns at a millionth of the path: version 1 left 21 % there."""
    model = tiny_model(family)
    batch = model.encode(ROWS[:2])
    assert IntegratedGradients()(model, batch, asked(model, batch)).residual.max() < 5e-3


def convolutional(x: Tensor) -> Tensor:
    image = x.reshape(-1, 2, 6)
    normal = F.relu(F.group_norm(F.conv1d(image, matrix(4, 2, 3), matrix(4), padding=1), 2, matrix(4), matrix(4)))
    return F.relu(F.max_pool1d(normal, 2)).mean(-1) @ matrix(4, 2)


@pytest.mark.parametrize("explainer", [DeepLift(), Lrp()])
def test_max_pooling_and_group_norm(explainer):
    assert explainer(Stub(convolutional), BATCH, FIRST).residual.max() < 1e-9


def images_pooled(x: Tensor) -> Tensor:
    image = x.reshape(-1, 1, 3, 4)
    maps = F.conv2d(image, matrix(2, 1, 2, 2), matrix(2), padding=1)
    spread = 1 + maps.std((2, 3), keepdim=True) + maps.var((2, 3), keepdim=True)
    return F.max_pool2d(maps / spread, 2).flatten(1).logsumexp(-1, keepdim=True) * torch.ones(2, dtype=x.dtype)


@pytest.mark.parametrize("explainer", [DeepLift(), Lrp()])
def test_max_pooling_std_var_and_logsumexp(explainer):
    assert explainer(Stub(images_pooled), BATCH, FIRST).residual.max() < 1e-9


def test_weights_by_name():
    """Convolutions of state space models call conv1d(x, weight=…)."""
    model = Stub(lambda x: F.conv1d(x, weight=matrix(2, 3, 4), bias=matrix(2))[..., 0].tanh())
    for explainer in (DeepLift(), Lrp()):
        assert explainer(model, BATCH, FIRST).residual.max() < 1e-9
