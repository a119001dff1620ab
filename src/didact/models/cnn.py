"""A convolutional network over word embeddings, with max-over-time or mean pooling (Kim 2014)."""

from collections.abc import Sequence
from typing import ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from didact.core.model import TokenMask, TokenVectors
from didact.core.task import Task
from didact.models.frozen_words import LEARNED
from didact.models.native import mean_over
from didact.models.pooling import PoolingModel
from didact.models.tokenizer import Reader

_WINDOWS: Final = (3, 4, 5)  # words that a filter sees


class CNN(PoolingModel):
    """Word embeddings, filters over windows of 3, 4 and 5 words, ReLU, and pooling by the maximum of each filter.

    `pool=mean` pools by the mean. Each window has a third of `width` filters (Kim 2014 has 100), and texts are padded
    with zeros, so that every word is the centre of a window. The texts of a pair are convolved apart.
    """

    architecture: ClassVar[str] = "cnn"

    def __init__(
        self,
        task: Task,
        classes: Sequence[str] | None,
        reader: Reader,
        *,
        pool: str = "max",
        width: int = 96,
        dropout: float = 0.0,
        length: int = 4096,
        embeddings: str = LEARNED,
    ) -> None:
        super().__init__(
            task, classes, reader, pool=pool, width=width, dropout=dropout, length=length, embeddings=embeddings
        )

    def _layers(self) -> nn.ModuleList:
        return nn.ModuleList([_Windows(self.options["width"])])

    def _states(self, embeddings: TokenVectors, sequence_masks: Sequence[TokenMask]) -> list[TokenVectors]:
        outputs = [self.layers[0](embeddings * mask[..., None]) * mask[..., None] for mask in sequence_masks]
        return [embeddings, torch.stack(outputs).sum(0)]

    def _pooled(self, states: TokenVectors, mask: TokenMask) -> Tensor:
        if self.options["pool"] == "mean":
            return mean_over(states, mask)
        # States are not negative after ReLU. Those outside the text must not share a maximum of 0; an empty text is 0.
        return states.masked_fill(~mask[..., None], -1.0).amax(1).relu()


class _Windows(nn.Module):
    """One-dimensional convolutions of several window sizes, whose filters together have the width of the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [width // len(_WINDOWS) + (index < width % len(_WINDOWS)) for index in range(len(_WINDOWS))]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, filters, window) for filters, window in zip(sizes, _WINDOWS, strict=True) if filters
        )

    def forward(self, states: TokenVectors) -> TokenVectors:
        channels = states.transpose(1, 2)
        outputs = []
        for convolution in self.convolutions.children():
            assert isinstance(convolution, nn.Conv1d)
            window = convolution.weight.shape[-1]
            outputs.append(convolution(pad(channels, ((window - 1) // 2, window // 2))))
        return torch.cat(outputs, 1).transpose(1, 2).relu()
