"""One score per unit for one target of one row, as tensors: a view of `results.Explanations`, which are what is stored.

`core.padded` makes the view; `explaining.to_columns` stores what an explainer returns.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from didact.core.normalise import positive, share_over, softmax_over
from didact.core.row import Span
from didact.errors import OptionError

Kind = Literal["signed", "magnitude", "distribution", "binary"]
Signed = Literal["absolute", "positive", "softmax"]  # how signed scores become a distribution


@dataclass(frozen=True, init=False)
class Explanation:
    """Scores on units; zero on padding and special tokens. `residual` is what a completeness axiom leaves over.

    `cautions` say why scores should not be relied on; whoever explains many rows warns of each once.
    `alignments` belong to reading: for each row the pairs of spans, question and passage, that refer to the same thing.
    `lost` are the rows with scores that crossed from another tokenizer and have no position here.
    NumPy arrays are accepted and become tensors on the mask's device.
    """

    scores: Float[Tensor, "batch token"]
    mask: Bool[Tensor, "batch token"]
    units: Bool[Tensor, "batch token"]
    kind: Kind
    residual: Float[Tensor, " batch"] | None = None
    alignments: tuple[tuple[tuple[Span, Span], ...], ...] | None = None
    cautions: tuple[str, ...] = ()
    lost: Bool[Tensor, " batch"] | None = None

    def __init__(
        self,
        scores: Float[Tensor | np.ndarray, "batch token"],
        mask: Bool[Tensor | np.ndarray, "batch token"],
        units: Bool[Tensor | np.ndarray, "batch token"],
        kind: Kind,
        residual: Float[Tensor | np.ndarray, " batch"] | None = None,
        alignments: tuple[tuple[tuple[Span, Span], ...], ...] | None = None,
        cautions: tuple[str, ...] = (),
        lost: Bool[Tensor, " batch"] | None = None,
    ) -> None:
        device = next((array.device for array in (mask, units, scores) if isinstance(array, Tensor)), None)
        values = {
            "scores": _tensor(scores, device),
            "mask": _tensor(mask, device),
            "units": _tensor(units, device),
            "kind": kind,
            "residual": None if residual is None else _tensor(residual, device),
            "alignments": alignments,
            "cautions": cautions,
            "lost": lost,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def as_distribution(
        self, *, signed: Signed = "absolute", temperature: float = 1.0, floor: float = 1e-3
    ) -> Float[Tensor, "batch token"]:
        """What a student is sent: non-negative, zero outside the units, one in sum (zero for a row without units).

        A distribution is sent as it is, magnitudes as s / Σs, binary marks as 1 against `floor`. Signed scores are sent
        as |s| / Σ|s|, as their positive part, or as softmax(s / temperature). A row without any mass is sent as
        uniform. Temperatures below 1 sharpen: p^(1/τ), renormalised.
        """
        if temperature <= 0:
            raise OptionError(f"A temperature must be above 0, not {temperature}.")
        mass = self.scores
        if self.kind == "binary":
            mass = (self.scores != 0).to(self.scores.dtype).clamp_min(floor)
        elif self.kind == "signed" and signed == "positive":
            mass = self.scores.clamp_min(0.0)
        elif self.kind == "signed" and signed == "softmax":
            mass, temperature = softmax_over(self.scores / temperature, self.units), 1.0
        if temperature != 1.0:
            # Scaled to a largest value of 1 first, so that sharp temperatures do not underflow to an empty row.
            mass = mass.abs() * self.units
            mass = (mass / positive(mass.amax(-1, keepdim=True))) ** (1 / temperature)
        return share_over(mass, self.units, fill_empty=True)


def _tensor(values: Tensor | np.ndarray, device: torch.device | None) -> Tensor:
    """The values as they are, or an array as a tensor: truth values, or numbers of the default type."""
    if isinstance(values, Tensor):
        return values
    copy = torch.from_numpy(np.array(values))  # a copy: arrays may be read-only, or strided backwards
    return copy.to(device, torch.bool if values.dtype == bool else torch.get_default_dtype())
