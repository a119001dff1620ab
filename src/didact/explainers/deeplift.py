"""DeepLIFT: what each unit adds to the difference from a reference, by the finite differences of every operation."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.baseline import BASELINES, baseline_of
from didact.core.explainer import Batch, Explainer, Explanation, Row, Target, Teacher
from didact.core.model import InputLevel, Model, TokenVectors, require_model
from didact.errors import OptionError, UnsupportedError
from didact.explainers.autograd import check_at, frozen, points
from didact.explainers.background import Background
from didact.explainers.completeness import residual, size_of
from didact.explainers.derivatives import Numbers, changed, depends, derivative, given, tensors
from didact.explainers.rules import BENT, POWERS, Call, Choice, Function, Rules, activations_whole


class DeepLift(Explainer):
    """Multipliers of the rescale rule times the difference from the baseline (Shrikumar et al. 2017).

    Every operation passes on exactly the difference of its output, so the scores sum to the difference of the target:
    `residual` is what rounding, and operations without a rule, leave of it.
    """

    version = 2  # 1 paired numbers of rows and references wrongly in models that do not keep rows first
    remedy = "The model computes something that has no rule yet: choose lrp or integrated_gradients."

    def __init__(self, *, baseline: str = "zero", at: str = "word", batch_size: int = 64) -> None:
        super().__init__()
        if baseline not in BASELINES:
            raise OptionError(f"Option 'baseline' is one of {', '.join(map(repr, BASELINES))}, not {baseline!r}.")
        self.baseline, self.at, self.batch_size = baseline, check_at(at), _checked(batch_size)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "deeplift")

        def reference(part: Batch, _: Int[Tensor, " chunk"]) -> Float[Tensor, "chunk token dim"]:
            return baseline_of(model, part, baseline=self.baseline, at=self.at)

        return _explained(model, batch, target, reference, 1, at=self.at, batch_size=self.batch_size)


class DeepShap(Explainer):
    """The mean of DeepLIFT's scores against several rows of a background (Lundberg and Lee 2017, section 4.2)."""

    version = 2
    remedy = DeepLift.remedy

    def __init__(self, *, background: int = 16, at: str = "word", seed: int = 0, batch_size: int = 64) -> None:
        super().__init__()
        self.background = Background(size=background, seed=seed)
        self.at, self.seed, self.batch_size = check_at(at), seed, _checked(batch_size)

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.background.prepare(require_model(teacher, "deep_shap"), rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "deep_shap")

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
    model: Model, batch: Batch, target: Target, reference: Reference, times: int, *, at: InputLevel, batch_size: int
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
    model: Model, inputs: TokenVectors, references: TokenVectors, batch: Batch, target: Target, *, at: InputLevel
) -> tuple[TokenVectors, Float[Tensor, "2 batch"]]:
    """What a difference of each input number counts in the target, and the target at inputs and references.

    Inside `frozen`. The references pass first, then the inputs, and every operation sees both.
    """
    others = references.detach().requires_grad_()
    point = inputs.detach().requires_grad_()
    with model.decomposed(), activations_whole(model):
        rules = Differences()
        with rules.reference():
            there = target.of(model.run(others, batch, at=at).logits).detach()
        with rules:
            here = target.of(model.run(point, batch, at=at).logits)
    rules.check_finished()
    values = torch.stack([here.detach(), there])
    if not here.requires_grad:
        return torch.zeros_like(inputs), values
    (found,) = torch.autograd.grad(here.sum(), point)
    return found, values


class Differences(Rules):
    """Difference of output by difference of input, between the inputs and their references.

    The model runs on the references first, inside `reference`, and what every rule is given there is kept. When it
    runs on the inputs, each operation meets the same operation of the first run, number by number, so it does not
    matter where a model keeps its rows. Runs that part ways (experts chosen by what is read) are refused.

    A product shares its difference by the mean of the other factor: Δ(ab) = Δa·mean(b) + Δb·mean(a), with nothing
    over. A quotient y = a/b follows from a = yb: Δy = (Δa − Δb·mean(y)) / mean(b). As a product with 1/b it would
    leave nothing over either, but where one b is near 0 (LayerNorm of a baseline of zeros) huge shares would cancel.
    The largest of some numbers is its place's in the run where it is larger; there the other run is no larger, so the
    place's own difference covers all of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recording = False
        self._tape: deque[tuple[str, list[Tensor]]] = deque()
        self._inverses: dict[int, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def reference(self) -> Iterator[None]:
        """While this lasts the model runs on the references."""
        self._recording = True
        try:
            with self:
                yield
        finally:
            self._recording = False
            self._inverses.clear()

    def check_finished(self) -> None:
        """Refuse a model that computed more for the references than for the inputs."""
        if self._tape:
            raise _parted(self._tape[0][0])

    def __torch_function__(
        self, func: Function, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        options = kwargs or {}
        if torch.is_grad_enabled() and any(map(depends, _all_tensors((*args, *options.values())))):
            # What is chosen, and where it is put: masks and places, given or found.
            chosen = [one for one in _all_tensors((*args, *options.values())) if not one.is_floating_point()]
            if func not in _MAXIMA and isinstance(result, tuple):
                chosen += [one for one in _all_tensors(result) if not one.is_floating_point()]
            if chosen:
                name = getattr(func, "__name__", str(func)).strip("_")
                for here, there in zip(chosen, self._paired(name, chosen) or (), strict=not self._recording):
                    if not torch.equal(here, there):
                        raise _parted(name)
        return result

    def _paired(self, name: str, values: Sequence[Tensor]) -> list[Tensor] | None:
        """What the same operation was given in the references' run; None while that run is made."""
        inside = [one.detach() for one in values]
        if self._recording:
            self._tape.append((name, inside))
            return None
        known, others = self._tape.popleft() if self._tape else ("nothing", [])
        if known != name or [one.shape for one in inside] != [one.shape for one in others]:
            raise _parted(name)
        return others

    def numbers(self, name: str, function: Numbers, values: Tensor) -> Tensor:
        others = self._paired(name, [values])
        if others is None:
            found = function(values)
        else:
            inside = values.detach()
            results = function(inside)
            found = given(results, values, _quotient(name, function, inside, others[0], results, function(others[0])))
        if name in ("rsqrt", "reciprocal"):  # held as well, so that no other tensor gets its id
            below = values if name == "reciprocal" else self.numbers("sqrt", torch.sqrt, values)
            self._inverses[id(found)] = found, below
        return found

    def product(self, call: Call) -> Tensor:
        if call.name in ("mul", "multiply") and len(call.args) == 2:
            # RMSNorm as it is mostly written: x · rsqrt(mean of squares)
            for one, other in (call.args, call.args[::-1]):
                if id(one) in self._inverses:
                    return self.division(other, self._inverses[id(one)][1])
        others = self._paired(call.name, [one for one in tensors(call.args) if depends(one)])
        if others is None:
            return call.result()
        # The derivative at the means of both is the mean of the other factor.
        there = iter(others)
        means = changed(call.args, lambda one: given(_mean(one.detach(), next(there)), one))
        at_means = call.func(*means, **call.options)
        with torch.no_grad():
            result = call.result()
        return given(result, at_means)

    def division(self, above: Tensor | float, below: Tensor) -> Tensor:
        others = self._paired("div", [above, below] if isinstance(above, Tensor) else [below])
        if others is None:
            return above / below
        with torch.no_grad():
            result = above / below
        numerator = others[0] if len(others) == 2 else above
        return _divided(above, below, result, others[-1], numerator / others[-1])

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        others = self._paired("softmax", [values])
        if others is None:
            return values.softmax(dim)
        here, there = values.detach().softmax(dim), others[0].softmax(dim)
        weights, _, others_weights = _exponentials(values, others[0], (dim,))
        return _divided(weights, weights.sum(dim, keepdim=True), here, others_weights.sum(dim, keepdim=True), there)

    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        others = self._paired("logsumexp", [values])
        if others is None:
            return values.logsumexp(dims, keepdim=True)
        weights, shift, others_weights = _exponentials(values, others[0], dims)
        total, others_total = (one.sum(dims, keepdim=True) for one in (weights, others_weights))
        # Taken from the values: one of the sums may have sunk to 0.
        here, there = (one.logsumexp(dims, keepdim=True) for one in (values.detach(), others[0]))
        return given(
            here, total, _quotient("log", torch.log, total.detach(), others_total, here - shift, there - shift)
        )

    def largest(self, name: str, values: Tensor, choose: Choice) -> Tensor:
        others = self._paired(name, [values])
        if others is None:
            return values.gather(-1, choose(values.detach())[1])
        (high, here), (low, there) = choose(values.detach()), choose(others[0])
        place = torch.where(high >= low, here, there)
        found = values.gather(-1, place)
        step = found.detach() - others[0].gather(-1, place)
        factor = torch.where(step == 0, 1.0, (high - low) / step.masked_fill(step == 0, 1.0))
        return given(high, found, factor.nan_to_num(0.0))


_MAXIMA: Final = frozenset({torch.max, torch.min, Tensor.max, Tensor.min, F.max_pool1d, F.max_pool2d, F.max_pool3d})


def _parted(name: str) -> UnsupportedError:
    return UnsupportedError(
        "Methods 'deeplift' and 'deep_shap' compare each operation on a row with the same operation on its reference. "
        f"This model treats the two differently, from {name!r} on: it chooses by what it reads, as mixtures of experts "
        "do. Choose lrp or occlusion."
    )


def _all_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, and in tuples and lists of any depth."""
    for one in values:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from _all_tensors(one)


def _divided(above: Tensor | float, below: Tensor, result: Tensor, other_below: Tensor, other_result: Tensor) -> Tensor:
    mean = _mean(below.detach(), other_below)
    carrier = (above - _mean(result, other_result) * below) / mean.masked_fill(mean == 0, 1.0)
    return given(result, carrier)


def _exponentials(values: Tensor, others: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """exp(x − shift), the shift, and exp(x' − shift): one shift, or their sums could not be compared.

    What is masked by a huge negative number is 0 in both, and has no share.
    """
    inside = values.detach()
    shift = torch.maximum(inside.amax(dims, keepdim=True), others.amax(dims, keepdim=True))
    lowest = torch.finfo(values.dtype).min / 2
    masked = (inside <= lowest) | (others <= lowest)
    here, there = (torch.where(masked, 0.0, one - shift) for one in (inside, others))
    high, low = here.exp(), there.exp()
    weights = given(high, values, _quotient("exp", torch.exp, here, there, high, low).masked_fill(masked, 0.0))
    return weights.masked_fill(masked, 0.0), shift, low.masked_fill(masked, 0.0)


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


def _mean(here: Tensor, there: Tensor) -> Tensor:
    return here / 2 + there / 2
