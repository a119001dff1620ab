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

    The tanh is its only layer between embeddings and pooling. `layers` hidden layers with ReLU follow the pooling; with
    `pool=mean` that is a deep averaging network (Iyyer et al. 2015).
    """

    architecture: ClassVar[str] = "pool"

    def __init__(
        self,
        task: Task,
        classes: Sequence[str] | None,
        reader: Reader,
        *,
        pool: str = "attention",
        layers: int = 0,
        width: int = 64,
        dropout: float = 0.0,
        length: int = 4096,
        embeddings: str = LEARNED,
    ) -> None:
        self.attends = pool == "attention"  # torch allows plain values before nn.Module.__init__
        super().__init__(
            task, classes, reader,
            pool=pool, layers=layers, width=width, dropout=dropout, length=length, embeddings=embeddings,
        )  # fmt: skip

    def _head(self, width: int) -> nn.Module:
        hidden, modules = self.options["width"], []
        for _ in range(self.options.get("layers", 0)):
            modules += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        head = super()._head(width)
        return nn.Sequential(*modules, head) if modules else head

    def _layers(self) -> nn.ModuleList:
        return nn.ModuleList([nn.Tanh()])

    def _states(
        self,
        embeddings: TokenVectors,
        sequence_masks: Sequence[TokenMask],  # noqa: ARG002
    ) -> list[TokenVectors]:
        return [embeddings, self.layers[0](embeddings)]
