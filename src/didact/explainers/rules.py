"""Backward rules that replace derivatives: the base of DeepLIFT and LRP.

`Rules` is a `TorchFunctionMode`. It intercepts every torch function that a model calls inside it. Linear functions
keep their derivative. The others belong to a few kinds: elementwise functions, products, divisions, softmax, maxima,
and sums with constants. A subclass defines the derivative of each kind. Composite functions (LayerNorm, attention, …)
are first decomposed into these kinds. A function without a rule keeps its derivative; the completeness error of the
explanation shows whether that matters.

Parameters are frozen during the run, so a tensor that requires a gradient is one that depends on the input.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from didact.explainers.activations import apply_activation
from didact.explainers.decompositions import DECOMPOSITIONS
from didact.explainers.derivatives import Elementwise, depends_on_input, tensors_in

Function = Callable[..., Any]
MaxWithIndices = Callable[[Tensor], tuple[Tensor, Tensor]]  # maxima, and their indices along the last dimension


class Call(NamedTuple):
    """A call of a torch function. `name` is the same for all spellings: `add`, `Tensor.add_`, `__radd__`, …"""

    name: str
    func: Function
    args: Sequence[Any]
    options: dict[str, Any]

    def result(self) -> Any:
        """What torch returns for this call."""
        return self.func(*self.args, **self.options)


class RuleEntry(NamedTuple):
    """The rule of a torch function: method `_{rule}` of `Rules`. `name` is the same for all spellings."""

    name: str
    rule: str
    out_of_place: Function | None = None  # the out-of-place form of an in-place function


# Elementwise functions: with kinks, smooth, and those whose curvature depends on the scale of x.
PIECEWISE: Final = frozenset({
    "relu", "relu6", "leaky_relu", "abs", "clamp", "clamp_min", "clamp_max", "clip", "hardtanh", "hardsigmoid",
    "hardswish", "threshold",
})  # fmt: skip
SMOOTH: Final = frozenset({
    "tanh", "sigmoid", "gelu", "silu", "exp", "expm1", "elu", "selu", "celu", "softplus", "logsigmoid", "mish",
    "softsign", "erf", "sin", "cos",
})  # fmt: skip
POWERS: Final = frozenset({"sqrt", "rsqrt", "reciprocal", "log", "log1p", "pow", "square"})
_PRODUCTS: Final = ("mul", "multiply", "matmul", "mm", "bmm", "mv", "dot", "einsum")
_DIVISIONS: Final = ("div", "divide", "true_divide")
_SUMS: Final = ("add", "sub", "subtract", "rsub", "cat", "concat", "stack", "where", "masked_fill", "batch_norm", "pad")
_MAX_POOLS: Final = tuple(f"{kind}_pool{n}d" for kind in ("max", "adaptive_max") for n in (1, 2, 3))
_OPERATORS: Final = {
    "add": ("__add__", "__radd__", "__iadd__"),
    "sub": ("__sub__", "__rsub__", "__isub__"),
    "mul": ("__mul__", "__rmul__", "__imul__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "div": ("__truediv__", "__div__", "__itruediv__", "__idiv__"),
    "divided_by": ("__rtruediv__", "__rdiv__"),
    "pow": ("__pow__", "__ipow__"),
    "raised": ("__rpow__",),
    "abs": ("__abs__",),
}


class Rules(TorchFunctionMode, ABC):
    """Torch function mode that passes each function that is not linear in the input to its rule."""

    def __torch_function__(
        self, func: Function, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = {} if kwargs is None else dict(kwargs)
        entry = _RULES.get(func)
        tensors = tensors_in((*args, *options.values()))
        if entry is None or not torch.is_grad_enabled() or not any(map(depends_on_input, tensors)):
            return func(*args, **options)
        if entry.rule != "sum":
            args = _positional(args, options)
        rule = getattr(self, f"_{entry.rule}")
        if entry.out_of_place is None and not options.pop("inplace", False):
            return rule(Call(entry.name, func, args, options))
        # In place: the rule works on a copy, and its result overwrites the first argument.
        result = rule(Call(entry.name, entry.out_of_place or func, (args[0].clone(), *args[1:]), options))
        return args[0].copy_(result)

    # -- dispatch -----------------------------------------------------------------------------------------------------

    def _elementwise(self, call: Call) -> Any:
        if not call.args or any(True for _ in tensors_in((*call.args[1:], *call.options.values()))):
            return call.result()
        values, *rest = call.args
        return self.elementwise(call.name, lambda values: call.func(values, *rest, **call.options), values)

    def _power(self, call: Call) -> Any:
        base, exponent = call.args
        if isinstance(base, Tensor) and isinstance(exponent, int | float):
            if exponent == 2:
                return self._squared(base)
            name = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent, call.name)
            return self.elementwise(name, lambda values: values**exponent, base)
        if isinstance(exponent, Tensor) and isinstance(base, int | float):
            return self.elementwise("exp", lambda values: base**values, exponent)
        return call.result()

    def _reversed_power(self, call: Call) -> Any:
        return self._power(Call("pow", torch.pow, call.args[::-1], {}))

    def _square(self, call: Call) -> Any:
        return self._squared(call.args[0])

    def _squared(self, values: Tensor) -> Tensor:
        return self.product(Call("mul", torch.mul, (values, values), {}))

    def _product(self, call: Call) -> Any:
        return call.result() if sum(map(depends_on_input, tensors_in(call.args))) < 2 else self.product(call)

    def _division(self, call: Call) -> Any:
        numerator, denominator = call.args if call.name != "divided_by" else call.args[::-1]
        if not depends_on_input(denominator) or call.options.get("rounding_mode") is not None:
            return call.result()
        return self.division(numerator, denominator)

    def _softmax(self, call: Call) -> Any:
        values, dim, dtype = _softmax_arguments(*call.args, **call.options)
        if dim is None:
            return call.result()
        values = values if dtype is None else values.to(dtype)
        if call.name == "softmax":
            return self.softmax(values, dim)
        return values - self.logsumexp(values, (dim,))

    def _logsumexp(self, call: Call) -> Any:
        values, dim, keepdim = _reduction_arguments(*call.args, **call.options)
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        result = self.logsumexp(values, dims)
        return result if keepdim else result.squeeze(dims)

    def _amax(self, call: Call) -> Any:
        values, dim, keepdim = _reduction_arguments(*call.args, **call.options)
        dims = (dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(values.dim()))
        if not dims:
            return values
        axes = sorted(dimension % values.dim() for dimension in dims)
        flat = values.movedim(axes, tuple(range(-len(axes), 0))).flatten(-len(axes))
        result = self.maximum(call.name, flat, lambda candidates: candidates.max(-1, keepdim=True)).squeeze(-1)
        for axis in axes if keepdim else ():
            result = result.unsqueeze(axis)
        return result

    def _max(self, call: Call) -> Any:
        """`max` and `min`: of all elements, of two tensors, or along a dimension (then with indices)."""
        values, *rest = call.args
        other = rest[0] if rest else call.options.get("other")
        with self:
            if not rest and not call.options:
                return values.amax() if call.name == "max" else values.amin()
            if isinstance(other, Tensor):
                return torch.maximum(values, other) if call.name == "max" else torch.minimum(values, other)
        with torch.no_grad():
            indices = call.result().indices
        with self:
            result = getattr(values, f"a{call.name}")(*rest, **call.options)
        return getattr(torch.return_types, call.name)((result, indices))

    def _max_pool(self, call: Call) -> Any:
        values, *rest = call.args
        with_indices = call.options.pop("return_indices", False)
        spatial = int(call.name[-2])  # max_pool2d: the last two dimensions are pooled
        pool = partial(getattr(F, call.name), return_indices=True, **call.options)
        with torch.no_grad():
            pooled, indices = pool(values, *rest)

        def max_with_indices(candidates: Tensor) -> tuple[Tensor, Tensor]:
            values_and_indices = pool(candidates.unflatten(-1, values.shape[-spatial:]), *rest)
            return values_and_indices[0].flatten(-spatial), values_and_indices[1].flatten(-spatial)

        result = self.maximum(call.name, values.flatten(-spatial), max_with_indices).reshape(pooled.shape)
        return (result, indices) if with_indices else result

    def _sum(self, call: Call) -> Any:
        return self.sum(call)

    def _activation(self, call: Call) -> Any:
        values, function = call.args
        return self.elementwise(call.name, function, values)

    def _decompose(self, call: Call) -> Any:
        decomposition = DECOMPOSITIONS[call.name]
        try:
            signature(decomposition).bind(*call.args, **call.options)
        except TypeError:  # an unknown signature
            return call.result()
        with self:
            return decomposition(*call.args, **call.options)

    def _convolution(self, call: Call) -> Any:
        args, options = call.args, call.options
        if "weight" in options:
            args = (args[0], options.pop("weight"), *args[1:])
        values, weight, *rest = args
        bias = rest[0] if rest else options.get("bias")
        if bias is None:
            return call.func(*args, **options)
        remaining = {key: value for key, value in options.items() if key != "bias"}
        result = call.func(values, weight, None, *rest[1:], **remaining)
        with self:
            return result + bias.reshape(-1, *[1] * (weight.dim() - 2))

    def _linear(self, call: Call) -> Any:
        return self.linear(*call.args, **call.options)

    # -- rules of a method --------------------------------------------------------------------------------------------

    @abstractmethod
    def elementwise(self, name: str, function: Elementwise, values: Tensor) -> Tensor:
        """An elementwise function. `name` is its name in torch."""

    @abstractmethod
    def product(self, call: Call) -> Tensor:
        """A function that is linear in each of two or more dependent tensors: product, matrix product, einsum."""

    @abstractmethod
    def division(self, numerator: Tensor | float, denominator: Tensor) -> Tensor:
        """Division by a tensor that depends on the input."""

    @abstractmethod
    def softmax(self, values: Tensor, dim: int) -> Tensor: ...

    @abstractmethod
    def logsumexp(self, values: Tensor, dims: tuple[int, ...]) -> Tensor:
        """The reduced dimensions stay, with length 1."""

    @abstractmethod
    def maximum(self, name: str, values: Tensor, max_with_indices: MaxWithIndices) -> Tensor:
        """Maxima. `max_with_indices` returns them and their indices along the last dimension."""

    def sum(self, call: Call) -> Tensor:
        """A linear combination of dependent tensors and constants. By default it keeps its derivative."""
        return call.result()

    def linear(self, values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """`weight` applied to the last dimension. By default it keeps its derivative."""
        return F.linear(values, weight, bias)


def _positional(args: Sequence[Any], options: dict[str, Any]) -> Sequence[Any]:
    """The arguments, with leading ones that were passed by name moved to their positions."""
    for position, names in enumerate((("input",), ("mat1", "batch1", "other", "exponent", "mat2"), ("mat2", "batch2"))):
        for name in names:
            if name in options and len(args) == position:
                args = (*args, options.pop(name))
    return args


def _softmax_arguments(
    input: Tensor, dim: int | None = None, _stacklevel: Any = 3, dtype: torch.dtype | None = None
) -> tuple[Tensor, int | None, torch.dtype | None]:
    # Tensor.softmax(dim, dtype) and F.softmax(input, dim, _stacklevel, dtype) differ in their third argument.
    return input, dim, _stacklevel if isinstance(_stacklevel, torch.dtype) else dtype


def _reduction_arguments(
    input: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False
) -> tuple[Tensor, int | Sequence[int], bool]:
    return input, dim, keepdim


# -- the table --------------------------------------------------------------------------------------------------------


def _spellings(name: str) -> Iterator[tuple[Function, Function | None]]:
    """All functions and operators of this name in torch, with the out-of-place form of in-place ones."""
    for namespace in (torch, Tensor, F, torch.special, torch._C._nn, torch._C._linalg):  # type: ignore[attr-defined]
        function = getattr(namespace, name, None)
        if callable(function):
            yield function, None
            if callable(in_place := getattr(namespace, f"{name}_", None)):
                yield in_place, function
    for operator in _OPERATORS.get(name, ()):
        if callable(method := getattr(Tensor, operator, None)):
            yield method, getattr(Tensor, name) if operator.startswith("__i") else None


def _table() -> dict[Function, RuleEntry]:
    rules: list[tuple[str, Iterable[str]]] = [
        ("elementwise", (PIECEWISE | SMOOTH | POWERS) - {"pow", "square"}),
        ("power", ["pow"]),
        ("square", ["square"]),
        ("reversed_power", ["raised"]),
        ("product", _PRODUCTS),
        ("division", (*_DIVISIONS, "divided_by")),
        ("softmax", ["softmax", "log_softmax"]),
        ("logsumexp", ["logsumexp"]),
        ("amax", ["amax"]),
        ("max", ["max", "min"]),
        ("max_pool", _MAX_POOLS),
        ("sum", _SUMS),
        ("linear", ["linear"]),
        ("convolution", ["conv1d", "conv2d"]),
        ("decompose", DECOMPOSITIONS),
    ]
    table = {
        func: RuleEntry(name, rule, out_of_place)
        for rule, names in rules
        for name in names
        for func, out_of_place in _spellings(name)
    }
    table[apply_activation] = RuleEntry("activation", "activation")
    return table


_RULES: Final = _table()
