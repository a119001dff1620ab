"""The transformer layer: that of torch, under the names that earlier versions saved their weights by."""

import torch
import torch.nn.functional as F
from torch import nn

from didact.core.encoder_layer import EncoderLayer
from didact.explainers.l2e_network import L2ENetwork
from teachers import teacher

PARTS = {
    "before_attention": "norm1",
    "before_feed": "norm2",
    "query_key_value": "self_attn.in_proj",
    "out": "self_attn.out_proj",
    "up": "linear1",
    "down": "linear2",
}


def test_it_computes_what_the_layer_of_torch_does():
    torch.manual_seed(0)
    ours = EncoderLayer(8, 2, 0.0).double()
    theirs = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    for name, weight in ours.state_dict().items():
        part, kind = name.split(".")
        joint = "_" if part == "query_key_value" else "."
        theirs.get_parameter(f"{PARTS[part]}{joint}{kind}").data.copy_(weight)
    states = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[5], [3], [4]])

    def attend(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])

    expected = theirs(states, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(states, attend)[mask], expected[mask], atol=1e-12, rtol=0)


def test_weights_of_earlier_versions_have_these_names():
    names = {f"layers.0.{part}.{kind}" for part in PARTS for kind in ("weight", "bias")}
    options = {"vocabulary": 5, "dim": None, "labels": 2, "out": 1, "positions": True}
    network = L2ENetwork(width=8, layers=1, heads=2, dropout=0.0, **options)
    native = teacher("native", "classification")
    for model in (network, native):
        assert {name for name in model.state_dict() if name.startswith("layers.0.")} == names
