"""Integrated gradients: the mean gradient on the path from a baseline to the input, times their difference."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.baseline import baseline_of
from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import InputLevel, Model, TokenScores, TokenVectors, require_model
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen, input_gradient, point_batches, target_values
from didact.explainers.completeness import completeness_error

PointRows: TypeAlias = Int[Tensor, " point"]
Alphas: TypeAlias = Float[Tensor, " point"]
Ends: TypeAlias = Float[Tensor, "batch 2"]


class IntegratedGradients(Explainer):
    """Sundararajan et al. 2017, eq. 1. Scores sum to f(x) − f(baseline) up to `residual`.

    `steps` Gauss-Legendre points suffice where the path is smooth. If a LayerNorm or RMSNorm follows, the path turns
    sharply near a zero baseline, and 50 points may miss the turn. By default (`auto`), points are denser there and
    intervals are halved until they are accurate. The target's change over an interval is known from its ends, so the
    error of the sum over units is measured. The errors of single units are estimated by comparing two quadrature rules
    on the same points; a change so sharp that no point falls into it is missed if the errors of units cancel.
    """

    version = 2  # 1 halved intervals by the error of the sum alone, and gave up near the baseline of RMSNorm models
    remedy = "Use steps=auto, or another baseline (pad, mask). If the model jumps, as between experts, choose lrp."

    def __init__(
        self, *, steps: int | str = "auto", baseline: str = "zero", at: str = "word", batch_size: int = 64
    ) -> None:
        super().__init__()
        if steps != "auto" and not (isinstance(steps, int) and steps >= 1):
            raise OptionError(f"Option 'steps' must be an integer >= 1 or 'auto', got {steps!r}.")
        self.steps, self.baseline, self.at, self.batch_size = steps, baseline, check_at(at), batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "integrated_gradients")
        with frozen(model):
            with torch.no_grad():
                baseline = baseline_of(model, batch, baseline=self.baseline, at=self.at)
                change = model.embed(batch, at=self.at) - baseline
            path = _Path(model, batch, target, self.at, self.batch_size, baseline, change)
            if isinstance(self.steps, int):
                scores, ends = _fixed_steps(path, self.steps)
            else:
                scores, ends = _adaptive(path)
        scores = scores * batch.units
        return Explanation(scores, batch.mask, batch.units, "signed", completeness_error(scores, ends, target))


@dataclass(frozen=True)
class _Path:
    """The straight paths from the baselines to the rows of a batch."""

    model: Model
    batch: Batch
    target: Target
    at: InputLevel
    batch_size: int
    baseline: TokenVectors
    change: TokenVectors

    def point(
        self, rows: Int[Tensor, " chunk"], alphas: Float[Tensor, " chunk"], length: int
    ) -> Float[Tensor, "chunk token dim"]:
        return self.baseline[rows, :length] + alphas[:, None, None] * self.change[rows, :length]

    def values(self, rows: PointRows, alphas: Alphas) -> Alphas:
        """The target at these points, with alpha from 0 (baseline) to 1 (row)."""
        return target_values(
            self.model, rows, lambda chosen, length: self.point(rows[chosen], alphas[chosen], length),
            self.batch, self.target, at=self.at, batch_size=self.batch_size,
        )  # fmt: skip

    def derivatives(self, rows: PointRows, alphas: Alphas) -> Float[Tensor, "point token"]:
        """The derivative of the target with respect to alpha at these points, as one contribution per unit."""
        derivatives = self.change.new_zeros(len(rows), self.change.shape[1])
        for chosen in point_batches(rows, self.batch, self.batch_size):
            chunk = self.batch.select(rows[chosen])
            length = chunk.tokens.shape[1]
            points = self.point(rows[chosen], alphas[chosen], length)
            gradient = input_gradient(self.model, points, chunk, self.target.select(rows[chosen]), at=self.at)
            derivatives[chosen, :length] = (gradient * self.change[rows[chosen], :length]).sum(-1)
        return derivatives

    @property
    def ends(self) -> Ends:
        """The target at the baseline and at the row."""
        rows = torch.arange(len(self.batch), device=self.batch.device)
        alphas = torch.tensor([0.0, 1.0], device=rows.device, dtype=self.change.dtype).repeat(len(rows))
        return self.values(rows.repeat_interleave(2), alphas).reshape(-1, 2)


def _fixed_steps(path: _Path, steps: int) -> tuple[TokenScores, Ends]:
    """Scores by one quadrature rule over the whole path."""
    alphas, weights = _gauss_legendre(steps, path.change)
    rows = torch.arange(len(path.batch), device=alphas.device).repeat_interleave(steps)
    derivatives = path.derivatives(rows, alphas.repeat(len(path.batch))).unflatten(0, (len(path.batch), steps))
    return (derivatives * weights[:, None]).sum(1), path.ends


# The error budget of a row is divided among the expected number of intervals.
_FIRST_INTERVALS, _POINTS, _MAX_HALVINGS, _EXPECTED_INTERVALS = 4, 4, 12, 8
_TOLERANCE: Final = 0.005  # measured error of the sum, relative to the target's change
_UNIT_TOLERANCE: Final = 0.03  # estimated error of the units, relative to the sum of |scores|
_POWER: Final = 3  # alpha = t³ and intervals of t are halved, so that points are denser near the baseline


def _adaptive(path: _Path) -> tuple[TokenScores, Ends]:
    """Scores with intervals halved until the errors of each are within its share of the row's budget."""
    device, dtype = path.change.device, path.change.dtype
    ends = path.ends
    # Halving cannot reduce an error below the rounding of the outputs.
    rounding = 8 * torch.finfo(dtype).eps * ends.abs().amax(1)
    budget = torch.maximum(_TOLERANCE * (ends[:, 1] - ends[:, 0]).abs() / _EXPECTED_INTERVALS, rounding)
    scores = path.change.new_zeros(path.change.shape[:2])
    rows = torch.arange(len(path.batch), device=device).repeat_interleave(_FIRST_INTERVALS)
    grid = torch.linspace(0, 1, _FIRST_INTERVALS + 1, device=device, dtype=dtype).repeat(len(path.batch), 1)
    inner = path.values(rows.reshape(-1, _FIRST_INTERVALS)[:, 1:].flatten(), grid[:, 1:-1].flatten() ** _POWER)
    values = torch.cat([ends[:, :1], inner.reshape(len(path.batch), -1), ends[:, 1:]], 1)
    low, high, low_value, high_value = (
        column.flatten() for column in (grid[:, :-1], grid[:, 1:], values[:, :-1], values[:, 1:])
    )
    unit_budget: Tensor | None = None
    for depth in range(_MAX_HALVINGS + 1):
        contributions, unit_error = _integrate(path, rows, low, high)
        if unit_budget is None:  # relative to the |scores| of the first intervals
            sizes = scores.index_add(0, rows, contributions).abs().sum(1)
            unit_budget = torch.maximum(_UNIT_TOLERANCE * sizes / _EXPECTED_INTERVALS, rounding)
        error = (contributions.sum(1) - (high_value - low_value)).abs()
        is_accurate = ((error <= budget[rows]) & (unit_error <= unit_budget[rows])) | (depth == _MAX_HALVINGS)
        scores.index_add_(0, rows[is_accurate], contributions[is_accurate])
        is_rough = ~is_accurate
        if not is_rough.any():
            break
        middle = (low[is_rough] + high[is_rough]) / 2
        value = path.values(rows[is_rough], middle**_POWER)
        rows = rows[is_rough].repeat(2)
        low, high = torch.cat([low[is_rough], middle]), torch.cat([middle, high[is_rough]])
        low_value, high_value = torch.cat([low_value[is_rough], value]), torch.cat([value, high_value[is_rough]])
    return scores, ends


def _integrate(
    path: _Path, rows: Int[Tensor, " interval"], low: Float[Tensor, " interval"], high: Float[Tensor, " interval"]
) -> tuple[Float[Tensor, "interval token"], Float[Tensor, " interval"]]:
    """The contribution of each unit over each interval, and their estimated error, summed over units.

    The four points contain two two-point rules (outer and inner points). Their error is of third order in the width,
    and that of all four points of ninth order. So a unit on which the two differ by a ratio r is off by about r³.
    """
    points, weights = _gauss_legendre(_POINTS, path.change)
    width = high - low
    grid = low[:, None] + width[:, None] * points
    derivatives = path.derivatives(rows.repeat_interleave(_POINTS), grid.flatten() ** _POWER).unflatten(
        0, (len(rows), _POINTS)
    )
    derivatives = derivatives * (width[:, None] * _POWER * grid ** (_POWER - 1))[..., None]  # with respect to t
    sizes = (derivatives.abs() * weights[:, None]).sum(1)
    differences = (
        (derivatives[:, 0] + derivatives[:, 3] - derivatives[:, 1] - derivatives[:, 2]).abs() / 2 * (2 * weights[0])
    )
    ratio = (differences / sizes.masked_fill(sizes == 0, 1.0)).clamp_max(1.0)
    return (derivatives * weights[:, None]).sum(1), (sizes * ratio**3).sum(1)


def _gauss_legendre(steps: int, like: Tensor) -> tuple[Float[Tensor, " step"], Float[Tensor, " step"]]:
    """Gauss-Legendre points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((points + 1) / 2).to(like), torch.from_numpy(weights / 2).to(like)
