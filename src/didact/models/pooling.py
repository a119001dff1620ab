"""The base class of models that pool word states by the mean or by additive attention, one vector per text."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from didact.core.model import Attention, Batch, InputLevel, TokenMask, TokenVectors, Trace, TraceField
from didact.core.normalise import softmax_over
from didact.core.task import Task
from didact.models.frozen_words import word_embeddings
from didact.models.native import UNIFORM, NativeModel, mean_over
from didact.models.tokenizer import PatchReader, Reader


class PoolingModel(NativeModel):
    """Word embeddings, layers of states, one pooled state per text, and a linear head.

    The two texts of a pair go through the same encoder separately, and the head reads [c1, c2, |c1 − c2|, c1 · c2]. In
    a reading task, the head gives a start and an end logit per word instead. There are no special tokens.

    If `attends` is true, pooling is additive attention: linear, tanh, linear without bias, softmax (Neely et al.,
    section 4.2); with the option `attention="uniform"` all words of a text have the same weight. Otherwise it is the
    mean. A subclass defines `_layers` and `_states`.
    """

    attends: bool = False

    def __init__(self, task: Task, classes: Sequence[str] | None, reader: Reader, **options: Any) -> None:
        super().__init__(task, classes, reader, **options)
        assert not isinstance(reader, PatchReader)
        self.reader = reader = replace(reader, special=False)
        width = options["width"]
        self.pooling_position = "mean"
        self.max_length = options["length"]
        self.words = word_embeddings(reader, width, options["embeddings"])
        if isinstance(self.words, nn.Embedding):
            nn.init.normal_(self.words.weight, std=width**-0.5)
        self.layers = self._layers()
        self.dropout = nn.Dropout(options["dropout"])
        self.score = self._scorer(width) if self.attends else None
        # A regression of pairs also accepts single texts: the second vector is then zero.
        self.encodes_pairs = len(task.segments) == 2 and not task.is_per_token
        self.head = self._head(4 * width if self.encodes_pairs else width)

    @abstractmethod
    def _layers(self) -> nn.ModuleList: ...  # between embeddings and pooling; called once, by __init__

    @abstractmethod
    def _states(self, embeddings: TokenVectors, sequence_masks: Sequence[TokenMask]) -> list[TokenVectors]:
        """The embeddings and the output of every layer.

        Each of the `sequence_masks` marks positions that are encoded as one sequence, independently of the others.
        """

    def _top(self, states: list[TokenVectors]) -> TokenVectors:
        """The states that are pooled."""
        return states[-1]

    def _pooled(self, states: TokenVectors, mask: TokenMask) -> Tensor:
        """The state of one text in a model without attention."""
        return mean_over(states, mask)

    def _scorer(self, width: int) -> nn.Module:
        half = max(1, width // 2)
        return nn.Sequential(nn.Linear(width, half), nn.Tanh(), nn.Linear(half, 1, bias=False))

    def _head(self, width: int) -> nn.Module:
        """From the pooled states, of this width together, to the logits."""
        return nn.Linear(width, self.outputs)

    @property
    def attention(self) -> Collection[Attention]:
        return () if self.score is None else ("mean", "reading", "weights")

    @property
    def attention_fault(self) -> str:
        return "which has none" if self.score is None else "which has only pooling attention ('mean', 'reading')"

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> TokenVectors:  # noqa: ARG002
        """The word embeddings, which are also the input of the first layer."""
        return self.words(batch.tokens)

    def run(
        self,
        embeddings: TokenVectors,
        batch: Batch,
        *,
        at: InputLevel = "word",  # noqa: ARG002
        listen: Collection[TraceField] = (),
        zero_values_at: TokenMask | None = None,
    ) -> Trace:
        """From the embeddings to the answer. Recorded attention is that of the pooling."""
        self.check_attention(listen, zero_values_at)
        requested = frozenset(listen)
        sequence_masks = self._sequence_masks(batch)
        states = self._states(self.dropout(embeddings), sequence_masks)
        logits, attention = self._answer(self.dropout(self._top(states)), sequence_masks, batch)
        return Trace(
            logits=logits,
            hidden=tuple(states) if "hidden" in requested else None,
            **{name: value for name, value in attention.items() if name in requested},
        )

    def _sequence_masks(self, batch: Batch) -> list[TokenMask]:
        """Masks of the positions that are encoded as one sequence: one per text of a pair, otherwise one for all."""
        if self.encodes_pairs:
            return [batch.segments == 0, batch.segments == 1]
        return [batch.mask]

    def _answer(self, states: Tensor, sequence_masks: list[Tensor], batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        """Pool the states and apply the head. Returns logits, and the fields of attention for a `Trace`."""
        if self.task.is_per_token:
            return self.task.token_logits(self.head(states), batch), {}
        attention: dict[str, object] = {}
        if self.score is None:
            pooled = [self._pooled(states, mask) for mask in sequence_masks]
        else:
            scores = self.score(states)[..., 0]
            if self.options.get("attention") == UNIFORM:
                scores = scores * 0.0  # stays in the graph, so that gradients exist
            # One head and one query per text. The recorded tensor is the one that pools.
            weights = torch.stack([softmax_over(scores, mask) for mask in sequence_masks], 1)[:, None]
            pooled = list((weights[:, 0] @ states).unbind(1))
            attention = self._attention(scores, weights, batch)
        if self.encodes_pairs:
            first, second = pooled
            pooled = [torch.cat([first, second, (first - second).abs(), first * second], -1)]
        return self.head(pooled[0]), attention

    def _attention(self, scores: Tensor, weights: Tensor, batch: Batch) -> dict[str, object]:
        """The fields of attention for a `Trace`, with one layer and one head."""
        # Weights sum to 1 per text, so over the row they sum to the number of texts that are not empty.
        totals = weights.sum((1, 2))
        distribution = totals / totals.sum(-1, keepdim=True).clamp_min(1)
        has_mass = batch.mask & (distribution > 0)
        log_distribution = distribution.masked_fill(~has_mass, 1.0).log().masked_fill(~has_mass, -torch.inf)
        mean = (
            scores.masked_fill(~batch.mask, 0.0)
            if not self.encodes_pairs
            else log_distribution.masked_fill(~has_mass, 0.0)
        )
        return {"mean": mean[:, None, None], "reading": log_distribution[:, None, None], "weights": (weights,)}
