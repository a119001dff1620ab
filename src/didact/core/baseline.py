"""Baselines: the inputs at which the paths of gradient methods start."""

from dataclasses import replace
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.batch import Batch
from didact.core.model import InputLevel, Model
from didact.errors import OptionError, UnsupportedError

BASELINES: Final = ("zero", "pad", "mask")


def baseline_of(
    model: Model, batch: Batch, *, baseline: str, at: InputLevel = "word"
) -> Float[Tensor, "batch token dim"]:
    """The embeddings of the batch with every unit replaced by zeros, the padding token or the mask token.

    Special tokens and padding stay. At level `word` positions stay, too, because the model adds them later.
    """
    if baseline not in BASELINES:
        raise OptionError(f"Option 'baseline' must be one of {', '.join(map(repr, BASELINES))}, got {baseline!r}.")
    if baseline == "zero":
        embeddings = model.embed(batch, at=at)
        return embeddings.masked_fill(batch.units[..., None], 0.0)
    if batch.pixels is not None:
        raise UnsupportedError(
            f"Baseline {baseline!r} is a token, and model {model.name!r} reads images. Choose 'zero'."
        )
    tokens = torch.where(batch.units, model.special_token_id(baseline), batch.tokens)
    return model.embed(replace(batch, tokens=tokens), at=at)
