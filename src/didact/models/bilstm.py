"""Bidirectional LSTMs with mean pooling or additive attention. The texts of a pair share one encoder (Neely et al.)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from didact.core.model import TokenMask, TokenVectors
from didact.core.task import Task
from didact.errors import OptionError
from didact.models.frozen_words import LEARNED
from didact.models.pooling import PoolingModel
from didact.models.scalar_mix import ScalarMix
from didact.models.tokenizer import Reader


class _Recurrent(PoolingModel):
    """Word embeddings and BiLSTM layers; `mix` pools a learned mix of all layers."""

    _is_decomposed = False

    def __init__(self, task: Task, classes: Sequence[str] | None, reader: Reader, **options: Any) -> None:
        super().__init__(task, classes, reader, **options)
        self.mix = ScalarMix(options["layers"] + 1) if options["mix"] else None

    def _layers(self) -> nn.ModuleList:
        width = self.options["width"]
        if width % 2:
            raise OptionError(f"A width of {width} cannot be shared by two directions: it must be even.")
        return nn.ModuleList(
            nn.LSTM(width, width // 2, batch_first=True, bidirectional=True) for _ in range(self.options["layers"])
        )

    def _states(self, embeddings: TokenVectors, sequence_masks: Sequence[TokenMask]) -> list[TokenVectors]:
        run = _run_step_by_step if self._is_decomposed else _run_masked
        states = [embeddings]
        for layer in self.layers:
            outputs = [run(layer, states[-1], mask) for mask in sequence_masks]
            states.append(outputs[0] if len(outputs) == 1 else torch.stack(outputs).sum(0))
        return states

    def _top(self, states: list[TokenVectors]) -> TokenVectors:
        return states[-1] if self.mix is None else self.mix(torch.stack(states, 1))

    @contextmanager
    def decomposed(self) -> Iterator[None]:
        self._is_decomposed = True
        try:
            yield
        finally:
            self._is_decomposed = False


class BiLSTM(_Recurrent):
    """Word embeddings, BiLSTM layers, mean pooling. In a reading task, question and passage are one sequence.

    `mix` pools a learned mix of all layers.
    """

    architecture: ClassVar[str] = "bilstm"

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
        embeddings: str = LEARNED,
    ) -> None:
        super().__init__(
            task, classes, reader,
            layers=layers, width=width, mix=mix, dropout=dropout, length=length, embeddings=embeddings,
        )  # fmt: skip


class BiLSTMAttention(_Recurrent):
    """A BiLSTM that pools by additive attention (Neely et al., section 4.2).

    With `attention="uniform"` it pools by the mean: their baseline for what attention contributes (Table 3).
    """

    architecture: ClassVar[str] = "bilstm_attention"
    attends = True

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
        embeddings: str = LEARNED,
        attention: str = LEARNED,
    ) -> None:
        super().__init__(
            task, classes, reader,
            layers=layers, width=width, mix=mix, dropout=dropout, length=length, embeddings=embeddings,
            attention=attention,
        )  # fmt: skip


def _run_masked(lstm: nn.Module, inputs: TokenVectors, mask: TokenMask) -> TokenVectors:
    """Run over the marked positions as one sequence, without the others. Zero elsewhere."""
    device_type = inputs.device.type
    if device_type in _AUTOCAST_DEVICES and torch.is_autocast_enabled(
        device_type
    ):  # half-precision errors accumulate along a text
        with torch.autocast(device_type, enabled=False):
            return _run_masked(lstm, inputs.float(), mask)
    run = _run_each_direction if device_type == "cpu" else _run_packed
    lengths = mask.sum(-1)
    if not (mask[:, 1:] & ~mask[:, :-1]).any():  # the marked positions are a prefix of each row
        return run(lstm, inputs, lengths) * mask[..., None]
    # Move the marked positions to the front, in their order.
    order = (~mask).to(torch.int8).argsort(dim=-1, stable=True)
    outputs = run(lstm, inputs.gather(1, order[..., None].expand_as(inputs)), lengths)
    inverse = order.argsort(dim=-1)
    return outputs.gather(1, inverse[..., None].expand_as(outputs)) * mask[..., None]


def _run_each_direction(lstm: nn.Module, inputs: TokenVectors, lengths: Int[Tensor, " batch"]) -> TokenVectors:
    """Run over the first `lengths` positions of each row. The caller drops the outputs after them.

    The directions run separately, the second one on reversed rows: on a CPU torch runs packed sequences of different
    lengths step by step, which is three times slower.
    """
    steps = torch.arange(inputs.shape[1], device=inputs.device)
    mirrored = lengths[:, None] - 1 - steps
    reversed_steps = torch.where(mirrored >= 0, mirrored, steps)[..., None]
    forward_states = _one_direction(lstm, inputs, "")
    backward_states = _one_direction(lstm, inputs.gather(1, reversed_steps.expand_as(inputs)), "_reverse")
    return torch.cat([forward_states, backward_states.gather(1, reversed_steps.expand_as(backward_states))], -1)


def _one_direction(lstm: nn.Module, inputs: TokenVectors, suffix: str) -> Float[Tensor, "batch token half"]:
    weights = [getattr(lstm, f"{name}_l0{suffix}") for name in _LSTM_WEIGHTS]
    state = inputs.new_zeros(1, len(inputs), weights[1].shape[1])
    return torch.lstm(
        inputs, (state, state), weights, has_biases=True, num_layers=1, dropout=0.0, train=lstm.training,
        bidirectional=False, batch_first=True,
    )[0]  # fmt: skip


def _run_packed(lstm: nn.Module, inputs: TokenVectors, lengths: Int[Tensor, " batch"]) -> TokenVectors:
    """The same as `_run_each_direction` with packed sequences, which cuDNN computes fast."""
    # Packing needs at least one position per row, even if a row has no marked position.
    packed = pack_padded_sequence(inputs, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    # cuDNN has no backward pass in evaluation mode, which is the mode of explanations.
    with torch.backends.cudnn.flags(enabled=lstm.training or not inputs.requires_grad):
        outputs = lstm(packed)[0]
    return pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])[0]


def _run_step_by_step(lstm: nn.Module, inputs: TokenVectors, mask: TokenMask) -> TokenVectors:
    """The same as `_run_masked` in elementary operations: far slower, but LRP and DeepLIFT have a rule for each."""
    directions = [("", range(inputs.shape[1])), ("_reverse", range(inputs.shape[1] - 1, -1, -1))]
    outputs = []
    for suffix, order in directions:
        input_weights, recurrent_weights, *biases = (getattr(lstm, f"{name}_l0{suffix}") for name in _LSTM_WEIGHTS)
        gates = F.linear(inputs, input_weights, biases[0])
        state = cell = inputs.new_zeros(len(inputs), recurrent_weights.shape[1])
        step_states: dict[int, Tensor] = {}
        for step in order:
            is_marked = mask[:, step, None]
            input_gate, forget_gate, candidate, output_gate = (
                gates[:, step] + F.linear(state, recurrent_weights, biases[1])
            ).chunk(4, -1)
            new_cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate.tanh()
            cell = torch.where(is_marked, new_cell, cell)  # at unmarked positions the state does not change
            state = torch.where(is_marked, output_gate.sigmoid() * new_cell.tanh(), state)
            step_states[step] = torch.where(is_marked, state, torch.zeros_like(state))
        outputs.append(torch.stack([step_states[step] for step in range(inputs.shape[1])], 1))
    return torch.cat(outputs, -1)


_AUTOCAST_DEVICES = ("cpu", "cuda", "mps")  # device types with half precision
_LSTM_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
