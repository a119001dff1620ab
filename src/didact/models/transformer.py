"""A small transformer encoder for texts and, over patches, for images."""

from collections.abc import Collection, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from didact.core.encoder_layer import Attend, EncoderLayer
from didact.core.model import Batch, InputLevel, TokenMask, TokenVectors, Trace, TraceField
from didact.core.task import Task
from didact.errors import OptionError
from didact.models.attention_recorder import AttentionRecorder
from didact.models.frozen_words import LEARNED, word_embeddings
from didact.models.native import UNIFORM, NativeModel, mean_over
from didact.models.scalar_mix import ScalarMix
from didact.models.tokenizer import PatchReader, Reader


class TransformerModel(NativeModel):
    """Word (or patch), position and segment embeddings, pre-norm layers, mean or first-token pooling.

    - `pool`: `mean` or `first`.
    - `mix`: pool a learned mix of all layers instead of the last one.
    - `length`: maximum number of positions.
    - `embeddings`: `learned`, or a base model whose frozen word embeddings are projected to `width`.
    - `attention`: with `uniform` every position attends equally to all real ones, in training too. The loss in
      accuracy shows what attention contributes.
    """

    architecture: ClassVar[str] = "native"

    def __init__(
        self,
        task: Task,
        classes: Sequence[str] | None,
        reader: Reader,
        *,
        layers: int = 2,
        width: int = 64,
        heads: int = 4,
        pool: str = "mean",
        mix: bool = False,
        dropout: float = 0.0,
        length: int = 512,
        embeddings: str = LEARNED,
        attention: str = LEARNED,
    ) -> None:
        super().__init__(
            task, classes, reader, layers=layers, width=width, heads=heads, pool=pool, mix=mix, dropout=dropout,
            length=length, embeddings=embeddings, attention=attention,
        )  # fmt: skip
        if width % heads:
            raise OptionError(
                f"Option 'width' must be a multiple of the number of heads, got width={width} and heads={heads}."
            )
        self.pooling_position = "mean" if pool == "mean" else "first"
        self.max_length = length
        if isinstance(reader, PatchReader) and embeddings == LEARNED:
            self.max_length = reader.patches + 1
            self.words = nn.Conv2d(reader.channels, width, reader.patch, reader.patch)
            self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        else:
            self.words = word_embeddings(reader, width, embeddings)
        self.positions = nn.Embedding(self.max_length, width)
        self.segments = nn.Embedding(3, width)  # special, first text, second text
        for table in (self.words, self.positions, self.segments):
            if isinstance(table, nn.Embedding):
                nn.init.normal_(table.weight, std=0.02 if table is not self.words else width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.mix = ScalarMix(layers + 1) if mix else None
        self.head = nn.Linear(width, self.outputs)

    def embed(self, batch: Batch, *, at: InputLevel = "word") -> TokenVectors:
        if batch.pixels is None:
            words = self.words(batch.tokens)
        else:
            patches = self.words(batch.pixels.to(self.first.dtype)).flatten(2).transpose(1, 2)
            words = torch.cat([self.first.expand(len(batch), -1, -1), patches], 1)
        return words if at == "word" else self._with_positions(words, batch)

    def run(
        self,
        embeddings: TokenVectors,
        batch: Batch,
        *,
        at: InputLevel = "word",
        listen: Collection[TraceField] = (),
        zero_values_at: TokenMask | None = None,
    ) -> Trace:
        recorder = AttentionRecorder(listen, batch, self.pooling_position, zero_values_at)
        states = [self._with_positions(embeddings, batch) if at == "word" else embeddings]
        for layer in self.layers:
            states.append(layer(states[-1], self._attention_of(layer, recorder)))
        top = self.norm(states[-1] if self.mix is None else self.mix(torch.stack(states, 1)))
        hidden = tuple(states) if "hidden" in recorder.listen else None
        return Trace(logits=self._answer(top, batch), hidden=hidden, **recorder.trace_fields())

    def _with_positions(self, words: TokenVectors, batch: Batch) -> TokenVectors:
        positions = torch.arange(words.shape[1], device=words.device)
        return self.dropout(words + self.positions(positions) + self.segments(batch.segments + 1))

    def _answer(self, states: TokenVectors, batch: Batch) -> Float[Tensor, "batch *output"]:
        if self.task.is_per_token:
            return self.task.token_logits(self.head(states), batch)
        pooled = mean_over(states, batch.mask) if self.pooling_position == "mean" else states[:, 0]
        return self.head(self.dropout(pooled))

    def _attention_of(self, layer: nn.Module, recorder: AttentionRecorder) -> Attend:
        """The attention function of a layer, which feeds the recorder. Dropout also applies to its probabilities."""
        assert isinstance(layer, EncoderLayer)

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            if self.options.get("attention") == UNIFORM:
                logits = logits * 0.0  # stays in the graph, so that gradients exist
            recorder.record_logits(logits, None)
            weights = logits.masked_fill(~recorder.mask[:, None, None, :], -torch.inf).softmax(-1)
            weights = layer.dropout(weights)
            recorder.record_weights(weights)
            return weights @ recorder.zero_values(value)

        return attend
