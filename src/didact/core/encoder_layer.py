"""The transformer layer of native models and of the L2E network."""

from collections.abc import Callable
from typing import TypeAlias

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# Maps query, key and value, each [batch, head, token, part], to the attention output.
Attend: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


class EncoderLayer(nn.Module):
    """Pre-norm self-attention and a feed-forward block of four times the width. `forward` takes the attention."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Float[Tensor, "batch token dim"], attend: Attend) -> Float[Tensor, "batch token dim"]:
        query, key, value = map(self._split, self.query_key_value(self.before_attention(states)).chunk(3, -1))
        attended = self.out(attend(query, key, value).transpose(1, 2).flatten(2))
        states = states + self.dropout(attended)
        return states + self.dropout(self.down(F.gelu(self.up(self.before_feed(states)))))

    def _split(self, states: Float[Tensor, "batch token dim"]) -> Float[Tensor, "batch head token part"]:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)
