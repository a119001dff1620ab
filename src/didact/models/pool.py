"""A bag of words: word embeddings pooled by attention or the mean, without any context."""

from collections.abc import Sequence
from typing import ClassVar

from torch import nn

from didact.core.model import TokenMask, TokenVectors
from didact.core.task import Task
from didact.models.frozen_words import LEARNED
from didact.models.pooling import PoolingModel
from didact.models.tokenizer import Reader


class PoolModel(PoolingModel):
    """Word embeddings, tanh, and pooling by additive attention or the mean: the smallest student with attention.

    The tanh is its only layer.
    """

    architecture: ClassVar[str] = "pool"

    def __init__(
        self,
        task: Task,
        classes: Sequence[str] | None,
        reader: Reader,
        *,
        pool: str = "attention",
        width: int = 64,
        dropout: float = 0.0,
        length: int = 4096,
        embeddings: str = LEARNED,
    ) -> None:
        self.attends = pool == "attention"  # torch allows plain values before nn.Module.__init__
        super().__init__(
            task, classes, reader, pool=pool, width=width, dropout=dropout, length=length, embeddings=embeddings
        )

    def _layers(self) -> nn.ModuleList:
        return nn.ModuleList([nn.Tanh()])

    def _states(
        self,
        embeddings: TokenVectors,
        sequence_masks: Sequence[TokenMask],  # noqa: ARG002
    ) -> list[TokenVectors]:
        return [embeddings, self.layers[0](embeddings)]
