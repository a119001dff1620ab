"""`Explanation`: the scores of a batch as tensors. The stored form is `results.Explanations`.

`core.padded` converts from the stored form, `explaining.to_columns` to it.
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
    """One score per unit; zero on padding and special tokens.

    `residual` is the completeness error of each row, for methods that promise completeness. `cautions` say why the
    scores may be unreliable; `explain` warns of each once. `alignments`, for reading, are pairs of spans of question
    and passage that refer to the same thing. `lost` marks rows some of whose scores have no position in this
    tokenisation. NumPy arrays are converted to tensors on the device of `mask`.
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
        """The distribution over units that a student receives; all zeros for a row without units.

        Distributions stay as they are, magnitudes become s / Σs, and binary marks 1 against `floor`. Signed scores
        become |s| / Σ|s| (`absolute`), their positive part (`positive`) or softmax(s / temperature) (`softmax`). A row
        without mass becomes uniform. A temperature τ other than 1 gives p^(1/τ), renormalised; below 1 it sharpens.
        """
        if temperature <= 0:
            raise OptionError(f"temperature must be above 0, got {temperature}.")
        mass = self.scores
        if self.kind == "binary":
            mass = (self.scores != 0).to(self.scores.dtype).clamp_min(floor)
        elif self.kind == "signed" and signed == "positive":
            mass = self.scores.clamp_min(0.0)
        elif self.kind == "signed" and signed == "softmax":
            mass, temperature = softmax_over(self.scores / temperature, self.units), 1.0
        if temperature != 1.0:
            # Scale the maximum to 1 first, so that low temperatures do not underflow to an empty row.
            mass = mass.abs() * self.units
            mass = (mass / positive(mass.amax(-1, keepdim=True))) ** (1 / temperature)
        return share_over(mass, self.units, fill_empty=True)


def _tensor(values: Tensor | np.ndarray, device: torch.device | None) -> Tensor:
    """A tensor unchanged; an array as a tensor of booleans or of the default dtype."""
    if isinstance(values, Tensor):
        return values
    copy = torch.from_numpy(np.array(values))  # a copy: torch refuses negative strides, and warns of read-only arrays
    return copy.to(device, torch.bool if values.dtype == bool else torch.get_default_dtype())
