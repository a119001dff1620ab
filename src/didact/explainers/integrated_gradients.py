"""Integrated gradients: the mean gradient on the line from a baseline to the input, times their difference."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.baseline import baseline_of
from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.model import At, Model
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.explainers.completeness import left_over
from didact.explainers.slopes import check_at, frozen, points, slope, values_at, white_box


class IntegratedGradients(Explainer):
    """Sundararajan et al. 2017, eq. 1: scores sum to f(x) − f(x') up to `residual`.

    `steps` Gauss-Legendre points suffice where the path is smooth. Where a LayerNorm follows (`embedding`, or small
    positions), it turns sharply near the baseline, and 50 points may miss all of it. By default (`auto`) intervals
    are halved there. The true change of the target over each interval is known from its ends, so the error of every
    interval is measured, not estimated.
    """

    def __init__(
        self, *, steps: int | str = "auto", baseline: str = "zero", at: str = "word", batch_size: int = 64
    ) -> None:
        super().__init__()
        if steps != "auto" and not (isinstance(steps, int) and steps >= 1):
            raise OptionError(f"Option 'steps' is a whole number from 1, or 'auto', not {steps!r}.")
        self.steps, self.baseline, self.at, self.batch_size = steps, baseline, check_at(at), batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = white_box(teacher, "integrated_gradients")
        with frozen(model):
            with torch.no_grad():
                empty = baseline_of(model, batch, baseline=self.baseline, at=self.at)
                change = model.embed(batch, at=self.at) - empty
            path = _Path(model, batch, target, self.at, self.batch_size, empty, change)
            if isinstance(self.steps, int):
                slopes, ends = _even(path, self.steps)
            else:
                slopes, ends = _refined(path)
        scores = (change * slopes).sum(-1) * batch.units
        return Explanation(scores, batch.mask, batch.units, "signed", left_over(scores, ends, target))


@dataclass(frozen=True)
class _Path:
    """The straight lines from the baselines to the rows of a batch."""

    model: Model
    batch: Batch
    target: Target
    at: At
    batch_size: int
    empty: Float[Tensor, "batch token dim"]
    change: Float[Tensor, "batch token dim"]

    def point(
        self, rows: Int[Tensor, " chunk"], shares: Float[Tensor, " chunk"], length: int
    ) -> Float[Tensor, "chunk token dim"]:
        return self.empty[rows, :length] + shares[:, None, None] * self.change[rows, :length]

    def values(self, rows: Int[Tensor, " point"], shares: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
        """The target at these places of these rows' lines."""
        return values_at(
            self.model, rows, lambda chosen, length: self.point(rows[chosen], shares[chosen], length),
            self.batch, self.target, at=self.at, batch_size=self.batch_size,
        )  # fmt: skip

    def add_slopes(
        self,
        total: Float[Tensor, "group token dim"],
        group: Int[Tensor, " point"],
        rows: Int[Tensor, " point"],
        shares: Float[Tensor, " point"],
        weights: Float[Tensor, " point"],
    ) -> None:
        """Add each point's weighted gradient to the total of its group."""
        for chosen in points(rows, self.batch, self.batch_size):
            part = self.batch.select(rows[chosen])
            length = part.tokens.shape[1]
            place = self.point(rows[chosen], shares[chosen], length)
            found, _ = slope(self.model, place, part, self.target.select(rows[chosen]), at=self.at)
            total[:, :length].index_add_(0, group[chosen], found * weights[chosen, None, None])

    @property
    def ends(self) -> Float[Tensor, "batch 2"]:
        """The target at the baseline and at the row."""
        rows = torch.arange(len(self.batch), device=self.batch.device)
        shares = torch.tensor([0.0, 1.0], device=rows.device, dtype=self.change.dtype).repeat(len(rows))
        return self.values(rows.repeat_interleave(2), shares).reshape(-1, 2)


def _even(path: _Path, steps: int) -> tuple[Float[Tensor, "batch token dim"], Float[Tensor, "batch 2"]]:
    """The mean gradient by one rule over the whole line."""
    shares, weights = _gauss(steps, path.change)
    rows = torch.arange(len(path.batch), device=shares.device).repeat_interleave(steps)
    total = torch.zeros_like(path.change)
    path.add_slopes(total, rows, rows, shares.repeat(len(path.batch)), weights.repeat(len(path.batch)))
    return total, path.ends


# Intervals at first, points in each, halvings at most; the share a row may leave over, and the intervals it is for.
_BEGIN, _POINTS, _DEEPEST, _TOLERANCE, _PIECES = 4, 4, 12, 0.005, 8


def _refined(path: _Path) -> tuple[Float[Tensor, "batch token dim"], Float[Tensor, "batch 2"]]:
    """The mean gradient with intervals halved until each one's error is a small part of what a row may leave over."""
    device, dtype = path.change.device, path.change.dtype
    ends = path.ends
    # Halving finds nothing below the rounding of the outputs.
    rounding = 8 * torch.finfo(dtype).eps * ends.abs().amax(1)
    budget = torch.maximum(_TOLERANCE * (ends[:, 1] - ends[:, 0]).abs() / _PIECES, rounding)
    shares, weights = _gauss(_POINTS, path.change)
    total = torch.zeros_like(path.change)
    rows = torch.arange(len(path.batch), device=device).repeat_interleave(_BEGIN)
    places = torch.linspace(0, 1, _BEGIN + 1, device=device, dtype=dtype).repeat(len(path.batch), 1)
    inner = path.values(rows.reshape(-1, _BEGIN)[:, 1:].flatten(), places[:, 1:-1].flatten())
    known = torch.cat([ends[:, :1], inner.reshape(len(path.batch), -1), ends[:, 1:]], 1)
    low, high, left, right = (one.flatten() for one in (places[:, :-1], places[:, 1:], known[:, :-1], known[:, 1:]))
    for depth in range(_DEEPEST + 1):
        keep = []
        for some in torch.arange(len(rows), device=device).split(max(1, path.batch_size // _POINTS)):
            width = (high - low)[some]
            group = torch.arange(len(some), device=device).repeat_interleave(_POINTS)
            places = (low[some, None] + width[:, None] * shares).flatten()
            found = path.change.new_zeros(len(some), *path.change.shape[1:])
            owner = rows[some]
            path.add_slopes(found, group, owner[group], places, (width[:, None] * weights).flatten())
            gained = (path.change[owner] * found).sum((1, 2))
            error = (gained - (right - left)[some]).abs()
            done = (error <= budget[owner]) | (depth == _DEEPEST)
            total.index_add_(0, owner[done], found[done])
            keep.append(some[~done])
        rough = torch.cat(keep)
        if not len(rough):
            break
        middle = (low[rough] + high[rough]) / 2
        value = path.values(rows[rough], middle)
        rows = rows[rough].repeat(2)
        low, high = torch.cat([low[rough], middle]), torch.cat([middle, high[rough]])
        left, right = torch.cat([left[rough], value]), torch.cat([value, right[rough]])
    return total, ends


def _gauss(steps: int, like: Tensor) -> tuple[Float[Tensor, " step"], Float[Tensor, " step"]]:
    """Gauss-Legendre points and weights on the line from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((places + 1) / 2).to(like), torch.from_numpy(weights / 2).to(like)
