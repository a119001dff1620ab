"""DeepLIFT: what each unit adds to the difference from a reference, by the finite differences of every operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.baseline import BASELINES, baseline_of
from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.model import At, Model
from didact.core.row import Row
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.explainers.background import Background
from didact.explainers.completeness import residual, size_of
from didact.explainers.rules import (
    BENT,
    POWERS,
    Function,
    Numbers,
    Rules,
    activations_whole,
    changed,
    depends,
    derivative,
    given,
    tensors,
)
from didact.explainers.slopes import check_at, frozen, points, white_box


class DeepLift(Explainer):
    """Multipliers of the rescale rule times the difference from the baseline (Shrikumar et al. 2017).

    Every operation passes on exactly the difference of its output, so the scores sum to the difference of the target:
    `residual` is what rounding, and operations without a rule, leave of it.
    """

    def __init__(self, *, baseline: str = "zero", at: str = "word", batch_size: int = 64) -> None:
        super().__init__()
        if baseline not in BASELINES:
            raise OptionError(f"Option 'baseline' is one of {', '.join(map(repr, BASELINES))}, not {baseline!r}.")
        self.baseline, self.at, self.batch_size = baseline, check_at(at), _checked(batch_size)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = white_box(teacher, "deeplift")

        def reference(part: Batch, _: Int[Tensor, " chunk"]) -> Float[Tensor, "chunk token dim"]:
            return baseline_of(model, part, baseline=self.baseline, at=self.at)

        return _explained(model, batch, target, reference, 1, at=self.at, batch_size=self.batch_size)


class DeepShap(Explainer):
    """The mean of DeepLIFT's scores against several rows of a background (Lundberg and Lee 2017, section 4.2)."""

    def __init__(self, *, background: int = 16, at: str = "word", seed: int = 0, batch_size: int = 64) -> None:
        super().__init__()
        self.background = Background(size=background, seed=seed)
        self.at, self.seed, self.batch_size = check_at(at), seed, _checked(batch_size)

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.background.prepare(white_box(teacher, "deep_shap"), rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = white_box(teacher, "deep_shap")

        def reference(part: Batch, drawn: Int[Tensor, " chunk"]) -> Float[Tensor, "chunk token dim"]:
            others = model.embed(self.background.of(part, drawn), at=self.at)
            return torch.where(part.units[..., None], others, model.embed(part, at=self.at))

        times = self.background.size
        return _explained(model, batch, target, reference, times, at=self.at, batch_size=self.batch_size)


def _checked(batch_size: int) -> int:
    if batch_size < 1:
        raise OptionError(f"Option 'batch_size' is the number of rows in one pass, at least 1, not {batch_size}.")
    return batch_size


Reference = Callable[[Batch, Int[Tensor, " chunk"]], Float[Tensor, "chunk token dim"]]


def _explained(
    model: Model, batch: Batch, target: Target, reference: Reference, times: int, *, at: At, batch_size: int
) -> Explanation:
    """Mean scores of each row over `times` references, and how far their sum is from the mean difference."""
    rows = torch.arange(len(batch), device=batch.device).repeat_interleave(times)
    drawn = torch.arange(len(rows), device=batch.device) % times
    scores: Tensor | None = None
    with frozen(model):
        # A row passes with its reference beside it: half as many pairs as rows.
        for chosen in points(rows, batch, max(1, batch_size // 2)):
            part = batch.select(rows[chosen])
            with torch.no_grad():
                inputs, others = model.embed(part, at=at), reference(part, drawn[chosen])
            slopes, values = multipliers(model, inputs, others, part, target.select(rows[chosen]), at=at)
            if scores is None:
                scores = slopes.new_zeros(batch.mask.shape)
                differences, sizes = slopes.new_zeros(2, len(batch))
            found = (slopes * (inputs - others)).sum(-1) * part.units / times
            scores[:, : found.shape[1]].index_add_(0, rows[chosen], found)
            differences.index_add_(0, rows[chosen], (values[0] - values[1]) / times)
            sizes.index_add_(0, rows[chosen], size_of(values, target).amax(0) / times)
    assert scores is not None
    left = residual(scores.sum(-1) - differences, differences, scores, sizes)
    return Explanation(scores, batch.mask, batch.units, "signed", left)


def multipliers(
    model: Model,
    inputs: Float[Tensor, "batch token dim"],
    references: Float[Tensor, "batch token dim"],
    batch: Batch,
    target: Target,
    *,
    at: At,
) -> tuple[Float[Tensor, "batch token dim"], Float[Tensor, "2 batch"]]:
    """What a difference of each input number counts in the target, and the target at inputs and references.

    Inside `frozen`. Inputs and references pass as one batch, so that every operation sees both.
    """
    size = len(batch)
    twice = torch.arange(size, device=batch.device).repeat(2)
    both = torch.cat([inputs, references]).detach().requires_grad_()
    with model.elementary(), activations_whole(model), Differences(2 * size):
        values = target.select(twice).of(model.run(both, batch.select(twice), at=at).logits)
    if not values.requires_grad:
        return torch.zeros_like(inputs), values.unflatten(0, (2, size))
    (found,) = torch.autograd.grad(values[:size].sum(), both)
    return found[:size], values.detach().unflatten(0, (2, size))


class Differences(Rules):
    """Difference of output by difference of input, between the first half of the rows and the second.

    A product shares its difference by the mean of the other factor: Δ(ab) = Δa·mean(b) + Δb·mean(a), with nothing
    over. A quotient y = a/b follows from a = yb: Δy = (Δa − Δb·mean(y)) / mean(b). As a product with 1/b it would
    leave nothing over either, but where one b is near 0 (LayerNorm of a baseline of zeros) huge shares would cancel.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self._inverses: dict[int, tuple[Tensor, Tensor]] = {}

    def numbers(self, name: str, function: Numbers, values: Tensor) -> Tensor:
        if not self._in_halves(values):
            return function(values)
        inside = values.detach()
        results = function(inside)
        factor = _quotient(name, function, *inside.chunk(2), *results.chunk(2))
        found = given(results, values, torch.cat([factor, factor]))
        if name in ("rsqrt", "reciprocal"):  # held as well, so that no other tensor gets its id
            below = values if name == "reciprocal" else self.numbers("sqrt", torch.sqrt, values)
            self._inverses[id(found)] = found, below
        return found

    def product(self, name: str, func: Function, args: Sequence[Any], options: Mapping[str, Any]) -> Tensor:
        if not all(self._in_halves(one) for one in tensors(args) if depends(one)):
            return func(*args, **options)
        if name in ("mul", "multiply") and len(args) == 2:
            for one, other in (args, args[::-1]):  # RMSNorm as it is mostly written: x · rsqrt(mean of squares)
                if id(one) in self._inverses:
                    return self.division(other, self._inverses[id(one)][1])
        # The derivative at the means of both halves is the mean of the other factor.
        at_means = func(*changed(args, lambda one: given(_mean(one.detach()), one)), **options)
        with torch.no_grad():
            result = func(*args, **options)
        return given(result, at_means)

    def division(self, above: Tensor | float, below: Tensor) -> Tensor:
        with torch.no_grad():
            result = above / below
        if not self._in_halves(result) or not self._in_halves(below):
            return above / below
        return self._divided(above, below, result)

    def _divided(self, above: Tensor | float, below: Tensor, result: Tensor) -> Tensor:
        mean = _mean(below.detach())
        return given(result, (above - _mean(result) * below) / mean.masked_fill(mean == 0, 1.0))

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        if not self._in_halves(values):
            return values.softmax(dim)
        return self._divided(*self._exponentials(values, dim)[:2], values.detach().softmax(dim))

    def log_softmax(self, values: Tensor, dim: int) -> Tensor:
        if not self._in_halves(values):
            return values.log_softmax(dim)
        _, total, shift = self._exponentials(values, dim)
        # Taken from the values: one half of the sums may have sunk to 0.
        logs = values.detach().logsumexp(dim, keepdim=True)
        factor = _quotient("log", torch.log, *total.detach().chunk(2), *(logs - shift).chunk(2))
        return values - given(logs, total, torch.cat([factor, factor]))

    def _exponentials(self, values: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
        """exp(x − shift), their sum, and the shift, which both halves share or their sums could not be compared.

        What is masked by a huge negative number is 0 in both halves, and has no share.
        """
        inside = values.detach()
        shift = _joined(torch.maximum, inside.amax(dim, keepdim=True))
        masked = ~_joined(torch.logical_and, inside > torch.finfo(values.dtype).min / 2)
        weights = self.numbers("exp", torch.exp, torch.where(masked, 0.0, values - shift)).masked_fill(masked, 0.0)
        return weights, weights.sum(dim, keepdim=True), shift

    def _in_halves(self, values: Tensor) -> bool:
        """Whether rows come first. Heads or positions may be folded in behind them."""
        return values.dim() > 0 and values.shape[0] % self.rows == 0


def _quotient(name: str, function: Numbers, here: Tensor, there: Tensor, high: Tensor, low: Tensor) -> Tensor:
    """Difference of output by difference of input; the derivative midway where the inputs are too close for that.

    The quotient errs by rounding, about ε/Δ; the derivative midway by its third order, Δ²/24. They meet at ∛(24 ε).
    Functions with a bend are straight elsewhere: their quotient is exact, and a derivative may be that of either side.
    """
    step = here - there
    midway = here / 2 + there / 2
    if name in BENT:
        close = step == 0
    else:
        limit = (24 * torch.finfo(step.dtype).eps) ** (1 / 3)
        close = step.abs() <= (limit * midway.abs() if name in POWERS else limit)
    close |= step.isnan()  # masked by −∞ in both
    found = (high - low) / step.masked_fill(close, 1.0)
    if close.any():  # equal inputs where a function is infinitely steep (√ at 0) pass nothing on
        found[close] = derivative(function, midway[close]).nan_to_num(0.0, 0.0, 0.0)
    return found


def _joined(function: Callable[[Tensor, Tensor], Tensor], values: Tensor) -> Tensor:
    """One value of both halves, in the places of both."""
    one = function(*values.chunk(2))
    return torch.cat([one, one])


def _mean(values: Tensor) -> Tensor:
    return _joined(lambda here, there: here / 2 + there / 2, values)
