"""The DeepLIFT rules: finite differences of every operation between inputs and references."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from didact.errors import UnsupportedError
from didact.explainers.derivatives import (
    Elementwise,
    depends_on_input,
    derivative,
    map_dependent,
    tensors_in,
    with_gradient_of,
)
from didact.explainers.rules import PIECEWISE, POWERS, Call, Function, MaxWithIndices, Rules


class DeepLiftRules(Rules):
    """DeepLIFT rules: the gradient is the difference of output over the difference of input, against the references.

    The model runs on the references first, inside `reference`, which records the inputs of every rule. When it runs on
    the inputs, each operation is paired with the same operation of the first run, element by element, so the layout of
    rows does not matter. Runs that diverge (experts chosen by content) raise an error. Beyond the rescale rule:

    - Products: Δ(ab) = Δa·mean(b) + Δb·mean(a), which is exact.
    - Quotients y = a/b, from a = yb: Δy = (Δa − Δb·mean(y)) / mean(b). A product with 1/b would be exact, too, but
      where one b is near 0 (LayerNorm of a zero baseline) huge contributions would cancel.
    - Maxima: all goes to the element that attains the larger of the two maxima. Its own difference is at least as
      large as that of the maxima, so its multiplier is at most 1.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recording = False
        self._tape: deque[tuple[str, list[Tensor]]] = deque()
        self._inverses: dict[int, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Context in which the model runs on the references, and the inputs of all rules are recorded."""
        self._recording = True
        try:
            with self:
                yield
        finally:
            self._recording = False
            self._inverses.clear()

    def check_finished(self) -> None:
        """Raise if the model ran more operations on the references than on the inputs."""
        if self._tape:
            raise _diverged(self._tape[0][0])

    def __torch_function__(
        self, func: Function, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        options = kwargs or {}
        if torch.is_grad_enabled() and any(map(depends_on_input, _all_tensors((*args, *options.values())))):
            # Masks and indices, in arguments and results: both runs must select and place the same elements.
            indices = [tensor for tensor in _all_tensors((*args, *options.values())) if not tensor.is_floating_point()]
            if func not in _MAXIMA and isinstance(result, tuple):
                indices += [tensor for tensor in _all_tensors(result) if not tensor.is_floating_point()]
            if indices:
                name = getattr(func, "__name__", str(func)).strip("_")
                for index, reference_index in zip(
                    indices, self._reference_values(name, indices) or (), strict=not self._recording
                ):
                    if not torch.equal(index, reference_index):
                        raise _diverged(name)
        return result

    def _reference_values(self, name: str, values: Sequence[Tensor]) -> list[Tensor] | None:
        """The inputs of the same operation in the reference run; None while that run is recorded."""
        detached = [tensor.detach() for tensor in values]
        if self._recording:
            self._tape.append((name, detached))
            return None
        recorded_name, references = self._tape.popleft() if self._tape else ("nothing", [])
        if recorded_name != name or [tensor.shape for tensor in detached] != [tensor.shape for tensor in references]:
            raise _diverged(name)
        return references

    def elementwise(self, name: str, function: Elementwise, values: Tensor) -> Tensor:
        references = self._reference_values(name, [values])
        if references is None:
            output = function(values)
        else:
            x = values.detach()
            results = function(x)
            output = with_gradient_of(
                results, values, _secant(name, function, x, references[0], results, function(references[0]))
            )
        if name in ("rsqrt", "reciprocal"):  # keeps references, so that the id is not reused
            denominator = values if name == "reciprocal" else self.elementwise("sqrt", torch.sqrt, values)
            self._inverses[id(output)] = output, denominator
        return output

    def product(self, call: Call) -> Tensor:
        if call.name in ("mul", "multiply") and len(call.args) == 2:
            # RMSNorm is usually written as x · rsqrt(mean of squares): treat it as a division.
            for factor, other in (call.args, call.args[::-1]):
                if id(factor) in self._inverses:
                    return self.division(other, self._inverses[id(factor)][1])
        references = self._reference_values(
            call.name, [factor for factor in tensors_in(call.args) if depends_on_input(factor)]
        )
        if references is None:
            return call.result()
        # The derivative at the means of both runs is the mean of the other factor.
        reference = iter(references)
        means = map_dependent(
            call.args, lambda factor: with_gradient_of(_mean(factor.detach(), next(reference)), factor)
        )
        at_means = call.func(*means, **call.options)
        with torch.no_grad():
            result = call.result()
        return with_gradient_of(result, at_means)

    def division(self, numerator: Tensor | float, denominator: Tensor) -> Tensor:
        references = self._reference_values(
            "div", [numerator, denominator] if isinstance(numerator, Tensor) else [denominator]
        )
        if references is None:
            return numerator / denominator
        with torch.no_grad():
            result = numerator / denominator
        reference_numerator = references[0] if len(references) == 2 else numerator
        return _quotient_rule(numerator, denominator, result, references[-1], reference_numerator / references[-1])

    def softmax(self, values: Tensor, dim: int) -> Tensor:
        references = self._reference_values("softmax", [values])
        if references is None:
            return values.softmax(dim)
        output, reference_output = values.detach().softmax(dim), references[0].softmax(dim)
        weights, _, reference_weights = _exponentials(values, references[0], (dim,))
        return _quotient_rule(
            weights, weights.sum(dim, keepdim=True), output, reference_weights.sum(dim, keepdim=True), reference_output
        )

    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        references = self._reference_values("logsumexp", [values])
        if references is None:
            return values.logsumexp(dims, keepdim=True)
        weights, shift, reference_weights = _exponentials(values, references[0], dims)
        total, reference_total = (tensor.sum(dims, keepdim=True) for tensor in (weights, reference_weights))
        # Computed from the values, since one of the sums may underflow to 0.
        output, reference_output = (tensor.logsumexp(dims, keepdim=True) for tensor in (values.detach(), references[0]))
        return with_gradient_of(
            output,
            total,
            _secant("log", torch.log, total.detach(), reference_total, output - shift, reference_output - shift),
        )

    def maximum(self, name: str, values: Tensor, max_with_indices: MaxWithIndices) -> Tensor:
        references = self._reference_values(name, [values])
        if references is None:
            return values.gather(-1, max_with_indices(values.detach())[1])
        (maxima, indices), (reference_maxima, reference_indices) = (
            max_with_indices(values.detach()),
            max_with_indices(references[0]),
        )
        chosen = torch.where(maxima >= reference_maxima, indices, reference_indices)
        selected = values.gather(-1, chosen)
        step = selected.detach() - references[0].gather(-1, chosen)
        factor = torch.where(step == 0, 1.0, (maxima - reference_maxima) / step.masked_fill(step == 0, 1.0))
        return with_gradient_of(maxima, selected, factor.nan_to_num(0.0))


_MAXIMA: Final = frozenset({torch.max, torch.min, Tensor.max, Tensor.min, F.max_pool1d, F.max_pool2d, F.max_pool3d})


def _diverged(name: str) -> UnsupportedError:
    return UnsupportedError(
        "Methods 'deeplift' and 'deep_shap' compare each operation on a row with the same operation on its reference. "
        f"This model runs different operations on the two, from {name!r} on: its path depends on the content, as in "
        "mixtures of experts. Choose lrp or occlusion."
    )


def _all_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the values, also in nested tuples and lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _all_tensors(value)


def _quotient_rule(
    numerator: Tensor | float,
    denominator: Tensor,
    result: Tensor,
    reference_denominator: Tensor,
    reference_result: Tensor,
) -> Tensor:
    mean = _mean(denominator.detach(), reference_denominator)
    carrier = (numerator - _mean(result, reference_result) * denominator) / mean.masked_fill(mean == 0, 1.0)
    return with_gradient_of(result, carrier)


def _exponentials(values: Tensor, references: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """exp(x − shift), the shift, and exp(reference − shift). One shift for both makes their sums comparable.

    Elements that a huge negative number masks in either run are 0 in both and contribute nothing.
    """
    x = values.detach()
    shift = torch.maximum(x.amax(dims, keepdim=True), references.amax(dims, keepdim=True))
    lowest = torch.finfo(values.dtype).min / 2
    masked = (x <= lowest) | (references <= lowest)
    shifted, reference_shifted = (torch.where(masked, 0.0, tensor - shift) for tensor in (x, references))
    exponentials, reference_exponentials = shifted.exp(), reference_shifted.exp()
    weights = with_gradient_of(
        exponentials,
        values,
        _secant("exp", torch.exp, shifted, reference_shifted, exponentials, reference_exponentials).masked_fill(
            masked, 0.0
        ),
    )
    return weights.masked_fill(masked, 0.0), shift, reference_exponentials.masked_fill(masked, 0.0)


def _secant(
    name: str, function: Elementwise, x: Tensor, reference: Tensor, output: Tensor, reference_output: Tensor
) -> Tensor:
    """Difference of output over difference of input; the derivative at the midpoint where the inputs are too close.

    The quotient errs by rounding, about ε/Δ; the midpoint derivative by its third-order term, Δ²/24. The two are equal
    at ∛(24 ε). Piecewise functions always use the quotient: it is exact, and the derivative may be of the wrong piece.
    """
    step = x - reference
    midway = x / 2 + reference / 2
    if name in PIECEWISE:
        is_close = step == 0
    else:
        limit = (24 * torch.finfo(step.dtype).eps) ** (1 / 3)
        is_close = step.abs() <= (limit * midway.abs() if name in POWERS else limit)
    is_close |= step.isnan()  # masked by −∞ in both
    secant = (output - reference_output) / step.masked_fill(is_close, 1.0)
    if is_close.any():  # equal inputs with an infinite derivative (√ at 0) contribute 0
        secant[is_close] = derivative(function, midway[is_close]).nan_to_num(0.0, 0.0, 0.0)
    return secant


def _mean(first: Tensor, second: Tensor) -> Tensor:
    return first / 2 + second / 2
