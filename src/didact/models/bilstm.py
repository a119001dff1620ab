"""Bidirectional LSTMs, with mean pooling or additive attention; pairs share one encoder (Neely et al.)."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from didact.core.batch import Batch
from didact.core.model import At, passage_logits
from didact.core.task import READING, Task
from didact.core.trace import Listen, Trace
from didact.errors import OptionError, UnsupportedError
from didact.models.listening import ATTENTION
from didact.models.native import NativeModel, mean_over
from didact.models.scalar_mix import ScalarMix
from didact.models.tokenizer import Reader, WordTokenizer


class BiLSTM(NativeModel):
    """Word embeddings, BiLSTM layers, mean pooling.

    Two texts go through the same encoder apart and meet as [c1, c2, |c1 − c2|, c1 · c2]; a reading task reads question
    and passage as one sequence, and has a start and an end logit per word. `mix` pools a learned mix of all layers.
    """

    architecture: ClassVar[str] = "bilstm"
    _is_elementary = False

    def __init__(
        self,
        task: Task,
        classes: Sequence[str] | None,
        reader: Reader,
        *,
        layers: int = 1,
        width: int = 128,
        mix: bool = False,
        dropout: float = 0.0,
        length: int = 4096,
    ) -> None:
        super().__init__(task, classes, reader, layers=layers, width=width, mix=mix, dropout=dropout, length=length)
        if width % 2:
            raise OptionError(f"A width of {width} cannot be shared by two directions: it must be even.")
        if isinstance(reader, WordTokenizer) and reader.special:
            reader = self.reader = WordTokenizer(reader.vocabulary, special=False)
        assert isinstance(reader, WordTokenizer)
        self.reading = "mean"
        self.max_length = length
        self.words = nn.Embedding(len(reader), width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.layers = nn.ModuleList(
            nn.LSTM(width, width // 2, batch_first=True, bidirectional=True) for _ in range(layers)
        )
        self.mix = ScalarMix(layers + 1) if mix else None
        self.dropout = nn.Dropout(dropout)
        self.score = self._scorer(width)
        # A regression may rate one text or two; one is compared with nothing (zeros).
        self.compares = len(task.segments) == 2 and task is not READING
        self.head = nn.Linear(4 * width if self.compares else width, self.outputs)

    def _scorer(self, width: int) -> nn.Module | None:  # noqa: ARG002
        return None

    def embed(self, batch: Batch, *, at: At = "word") -> Float[Tensor, "batch token dim"]:  # noqa: ARG002
        """The word embeddings: nothing lies between them and the first layer."""
        return self.words(batch.tokens)

    def run(
        self,
        embeddings: Float[Tensor, "batch token dim"],
        batch: Batch,
        *,
        at: At = "word",  # noqa: ARG002
        listen: Collection[Listen] = (),
        blank: Bool[Tensor, "batch token"] | None = None,
    ) -> Trace:
        heard = frozenset(listen)
        refused = heard & ({"full"} if self.score is not None else ATTENTION)
        if refused:
            has = "only the attention it pools with ('mean', 'reading')" if self.score is not None else "none"
            raise UnsupportedError(
                f"Attention {', '.join(map(repr, sorted(refused)))} was asked of model {self.name!r}, which has {has}. "
                "Choose 'bilstm_attention', 'native' or a Hugging Face model, or a method that needs no attention."
            )
        if blank is not None:
            raise UnsupportedError(
                f"Model {self.name!r} has no self-attention whose values could be left out. "
                "Choose 'native' or a Hugging Face model, or a method that needs gradients or predictions only."
            )
        parts = self._parts(batch)
        run = _run_step_by_step if self._is_elementary else _run_masked
        states = [self.dropout(embeddings)]
        for layer in self.layers:
            states.append(torch.stack([run(layer, states[-1], part) for part in parts]).sum(0))
        top = self.dropout(self.mix(torch.stack(states, 1)) if self.mix is not None else states[-1])
        logits, attention = self._answer(top, parts, batch)
        return Trace(
            logits=logits,
            hidden=tuple(states) if "hidden" in heard else None,
            **{name: part for name, part in attention.items() if name in heard},
        )

    @contextmanager
    def elementary(self) -> Iterator[None]:
        self._is_elementary = True
        try:
            yield
        finally:
            self._is_elementary = False

    def _parts(self, batch: Batch) -> list[Bool[Tensor, "batch token"]]:
        """The positions that are read as one sequence: each text apart, or for reading everything."""
        if self.compares:
            return [batch.segments == 0, batch.segments == 1]
        return [batch.mask]

    def _answer(self, states: Tensor, parts: list[Tensor], batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        if self.task is READING:
            return passage_logits(self.head(states), batch), {}
        attention: dict[str, Any] = {}
        if self.score is None:
            pooled = [mean_over(states, part) for part in parts]
        else:
            scores = self.score(states)[..., 0]
            # One head, one query per text: the very tensor the texts are pooled with.
            weights = torch.stack([_softmax_over(scores, part) for part in parts], 1)[:, None]
            pooled = list((weights[:, 0] @ states).unbind(1))
            attention = self._attention(scores, weights, batch)
        if self.compares:
            first, second = pooled
            pooled = [torch.cat([first, second, (first - second).abs(), first * second], -1)]
        return self.head(pooled[0]), attention

    def _attention(self, scores: Tensor, weights: Tensor, batch: Batch) -> dict[str, Any]:
        # Texts are normalised apart, so together their weights sum to the number of texts that are not empty.
        together = weights.sum((1, 2))
        share = together / together.sum(-1, keepdim=True).clamp_min(1)
        here = batch.mask & (share > 0)
        reading = share.masked_fill(~here, 1.0).log().masked_fill(~here, -torch.inf)
        mean = scores.masked_fill(~batch.mask, 0.0) if not self.compares else reading.masked_fill(~here, 0.0)
        return {"mean": mean[:, None, None], "reading": reading[:, None, None], "weights": (weights,)}


class BiLSTMAttention(BiLSTM):
    """A BiLSTM that pools by additive attention: linear, tanh, linear without bias (Neely et al., 4.2)."""

    architecture: ClassVar[str] = "bilstm_attention"

    def _scorer(self, width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, width // 2), nn.Tanh(), nn.Linear(width // 2, 1, bias=False))


def _run_masked(
    lstm: nn.Module, inputs: Float[Tensor, "batch token dim"], part: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch token dim"]:
    """Run over the marked positions alone, as if nothing else were there; zero elsewhere."""
    lengths = part.sum(-1)
    # Marked positions first, in their order; a row without any still runs over one position, whose result is dropped.
    order = (~part).to(torch.int8).argsort(dim=-1, stable=True)
    gathered = inputs.gather(1, order[..., None].expand_as(inputs))
    packed = pack_padded_sequence(gathered, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    # cuDNN has no backward pass in evaluation mode, where explanations are made.
    with torch.backends.cudnn.flags(enabled=lstm.training or not inputs.requires_grad):
        found = lstm(packed)[0]
    outputs, _ = pad_packed_sequence(found, batch_first=True, total_length=inputs.shape[1])
    back = order.argsort(dim=-1)
    return outputs.gather(1, back[..., None].expand(-1, -1, outputs.shape[-1])) * part[..., None]


def _run_step_by_step(
    lstm: nn.Module, inputs: Float[Tensor, "batch token dim"], part: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch token dim"]:
    """What `_run_masked` computes, in products, sums, sigmoids and tanhs: far slower, but each can be given a rule."""
    directions = [("", range(inputs.shape[1])), ("_reverse", range(inputs.shape[1] - 1, -1, -1))]
    outputs = []
    for suffix, order in directions:
        into, over, *biases = (getattr(lstm, f"{name}_l0{suffix}") for name in _LSTM)
        gates = F.linear(inputs, into, biases[0])
        state = cell = inputs.new_zeros(len(inputs), over.shape[1])
        found: dict[int, Tensor] = {}
        for step in order:
            here = part[:, step, None]
            enter, forget, candidate, out = (gates[:, step] + F.linear(state, over, biases[1])).chunk(4, -1)
            fresh = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
            cell = torch.where(here, fresh, cell)  # outside its part, a row stays as it is
            state = torch.where(here, out.sigmoid() * fresh.tanh(), state)
            found[step] = torch.where(here, state, torch.zeros_like(state))
        outputs.append(torch.stack([found[step] for step in range(inputs.shape[1])], 1))
    return torch.cat(outputs, -1)


_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _softmax_over(
    scores: Float[Tensor, "batch token"], part: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """Softmax over the marked positions; all zeros where none is marked."""
    empty = ~part.any(-1, keepdim=True)
    return F.softmax(scores.masked_fill(~(part | empty), -torch.inf), -1) * part
