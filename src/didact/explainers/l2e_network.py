"""The network of L2E: a transformer encoder over words, between two copies of the label."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from didact.core.encoder_layer import EncoderLayer


class L2ENetwork(nn.Module):
    """A transformer encoder over words, between two copies of the label. Pre-norm, with sinusoidal positions."""

    def __init__(
        self, *, vocabulary: int | None, dim: int | None, labels: int, out: int, width: int, layers: int, heads: int,
        dropout: float, positions: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.positions = positions
        self.words: nn.Module
        if vocabulary is not None:
            self.words = nn.Embedding(vocabulary, width)
            nn.init.normal_(self.words.weight, std=width**-0.5)
        else:
            assert dim is not None
            self.words = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width))
        self.label = nn.Embedding(labels, width)
        self.segment = nn.Embedding(3, width)  # special, first text, second text
        self.ends = nn.Parameter(torch.zeros(2, width)) if positions else None
        for table in (self.label, self.segment):
            nn.init.normal_(table.weight, std=width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, out)

    def forward(
        self,
        inputs: Tensor,
        segments: Int[Tensor, "batch token"],
        mask: Bool[Tensor, "batch token"],
        labels: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch token out"]:
        words = self.words(inputs) + self.segment(segments + 1)
        if self.positions:
            words = words + sine_positions(words)
        label = self.label(labels)[:, None]
        # The copies of the label have no position embedding, so that padding does not change them.
        first, last = (label, label) if self.ends is None else (label + self.ends[0], label + self.ends[1])
        states = self.dropout(torch.cat([first, words, last], 1))
        attention_mask = F.pad(mask, (1, 1), value=True)

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            # Without attention dropout no attention matrix is stored: memory grows little with length.
            return F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask[:, None, None])

        for layer in self.layers:
            states = layer(states, attend)
        outputs: Tensor = self.head(self.norm(states[:, 1:-1]))
        return outputs


def sine_positions(words: Float[Tensor, "batch token dim"]) -> Float[Tensor, "token dim"]:
    """Sinusoidal position embeddings (Vaswani et al. 2017), with the norm of a word embedding."""
    length, width = words.shape[1:]
    half = (width + 1) // 2
    speed = torch.exp(torch.arange(half, device=words.device) * (-math.log(10000.0) / half))
    angle = torch.arange(length, device=words.device)[:, None] * speed
    return (torch.cat([angle.sin(), angle.cos()], -1)[:, :width] * width**-0.5).to(words)
