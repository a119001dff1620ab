"""A device that is not there: tensors "on" it are refused wherever a real device would refuse them.

`with far():` gives torch a device named `far`, a private one as makers of hardware register it. A tensor there is a
wrapper around one of the CPU; each operation of torch, inside modules and backward passes too, comes by here, is
checked, and is then done on the CPU. So a whole path can be run, with real numbers, and fails where cuda or mps would:

- two tensors of different devices in one operation (but for CPU scalars, and CPU indices into a far tensor);
- `.numpy()` of a far tensor, or numpy reading it;
- double precision, which mps has not;
- a random generator of the CPU that is to draw on the device, and the other way round.

Far tensors have no memory of their own, so what asks for its address or size cannot be tried.
Inference mode, which such wrappers cannot have, is no_grad here. What it cannot catch: operations that a device lacks,
other rounding, `device.type == "cuda"` branches, streams, memory that runs out, and devices that are unlike
(two GPUs).
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "far"
FAR = f"{NAME}:0"
_DOUBLE = (torch.float64, torch.complex128)
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
_MOVING = ("aten::_to_copy", "aten::copy_", "aten::_copy_from")
# They want, and give, how long sequences are on the CPU.
_PACKING = ("aten::_pack_padded_sequence", "aten::_pack_padded_sequence_backward")
_GENERATOR, _MOVE = torch.Generator, nn.Module._apply
_FAR_GENERATORS: dict[int, torch.Generator] = {}  # by what remains of one on its way through torch
_ALIKE = ("aten::cat", "aten::stack", "aten::bmm", "aten::mm", "aten::where")


# Once in a process, and before its first backward pass: torch then counts devices, and never again.
if torch._C._get_privateuse1_backend_name() != NAME:
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this torch cannot register a device from Python", allow_module_level=True)
    backend_registration._setup_privateuseone_for_python_backend(NAME)


@contextmanager
def far() -> Iterator[torch.device]:
    """The device, while this lasts. What lives there is of no use afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Generator", FarGenerator)
        patch.setattr(nn.Module, "_apply", _apply)
        patch.setattr(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else nullcontext())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device=…) comes by here, too
        try:
            with _Watch():
                yield torch.device(FAR)
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
            _FAR_GENERATORS.clear()


def _apply(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """A module that moves: its weights change their class, which torch does only if told to."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return _MOVE(module, *args, **kwargs)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


class FarTensor(Tensor):
    """A tensor that says it is elsewhere; `near` has its numbers."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor, *, requires_grad: bool = False) -> "FarTensor":
        if isinstance(near, FarTensor):  # as accelerate makes parameters of any class
            return near.detach().requires_grad_(requires_grad)
        if near.dtype in _DOUBLE:
            raise TypeError("Cannot convert a tensor to float64: the far device, as mps, does not support it.")
        found = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, near.size(), strides=near.stride(), storage_offset=near.storage_offset(), dtype=near.dtype, device=FAR
        )
        found.near = near
        return found

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _done(function, args, kwargs or {})

    def tolist(self) -> Any:
        return self.near.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert far:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def __repr__(self, **_: Any) -> str:
        return f"FarTensor({self.near!r})"


class FarGenerator(torch.Generator):
    """A generator that remembers which device it was made for."""

    def __new__(cls, device: Any = "cpu") -> "FarGenerator":
        found = super().__new__(cls, "cpu")
        if _is_far(device):
            _FAR_GENERATORS[found._cdata] = found
        return found


class _Watch(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _done(function, args, kwargs or {})


def _is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _done(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation checked, and done on the CPU; the result is far if what went in was."""
    leaves = tree_leaves((args, kwargs))
    away = {id(one.near): one for one in leaves if isinstance(one, FarTensor)}
    name = function._schema.name
    leads_away = bool(away)
    if kwargs.get("device") is not None:
        leads_away = _is_far(kwargs["device"])
        kwargs = kwargs | {"device": torch.device("cpu")}
    _check(name, args, leaves, leads_away)
    args, kwargs = tree_map(lambda one: one.near if isinstance(one, FarTensor) else one, (args, kwargs))
    found = _INSTEAD.get(name, function)(*args, **kwargs)
    if not leads_away:
        return found
    if name == "aten::_pack_padded_sequence":
        return _away(found[0], away), found[1]
    return tree_map(lambda one: _away(one, away) if isinstance(one, Tensor) else one, found)


def _away(near: Tensor, known: dict[int, FarTensor]) -> FarTensor:
    """What was changed in place stays the same tensor."""
    return known[id(near)] if id(near) in known else FarTensor(near)


def _check(name: str, args: Any, leaves: list[Any], leads_away: bool) -> None:
    here = [one for one in leaves if isinstance(one, Tensor) and not isinstance(one, FarTensor)]
    there = [one for one in leaves if isinstance(one, FarTensor)]
    generators = [one for one in leaves if isinstance(one, _GENERATOR)]
    if any((one._cdata in _FAR_GENERATORS) != leads_away for one in generators):
        raise RuntimeError(f"{name}: the generator is of another device than what it draws.")
    if not here or not there or name in _MOVING + _PACKING:
        return
    if name in _INDEXING:
        fine = isinstance(args[0], FarTensor) and all(
            one.ndim == 0 for one in args[2:3] if not isinstance(one, FarTensor)
        )
    else:
        fine = name not in _ALIKE and all(one.ndim == 0 for one in here)
    if not fine:
        shapes = [f"{'far' if isinstance(one, FarTensor) else 'cpu'} {tuple(one.shape)}" for one in leaves if
                  isinstance(one, Tensor)]  # fmt: skip
        raise RuntimeError(f"Expected all tensors to be on the same device, but {name} has {', '.join(shapes)}.")


def _lstm_cell(into: Tensor, over: Tensor, cell: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """torch has this step of an LSTM for devices only."""
    gates = into + over + sum(one for one in biases if one is not None)
    enter, forget, candidate, out = gates.chunk(4, 1)
    enter, forget, candidate, out = enter.sigmoid(), forget.sigmoid(), candidate.tanh(), out.sigmoid()
    fresh = forget * cell + enter * candidate
    return out * fresh.tanh(), fresh, torch.cat([enter, forget, candidate, out], 1)


def _lstm_cell_backward(
    of_state: Tensor | None, of_cell: Tensor | None, cell: Tensor, fresh: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    enter, forget, candidate, out = gates.chunk(4, 1)
    of_state = torch.zeros_like(cell) if of_state is None else of_state
    total = of_state * out * (1 - fresh.tanh() ** 2) + (0 if of_cell is None else of_cell)
    slopes = torch.cat(
        [
            total * candidate * enter * (1 - enter),
            total * cell * forget * (1 - forget),
            total * enter * (1 - candidate**2),
            of_state * fresh.tanh() * out * (1 - out),
        ],
        1,
    )
    return slopes, total * forget, slopes.sum(0) if has_bias else slopes.new_zeros(0)


_INSTEAD = {
    "aten::_efficientzerotensor": torch.zeros,  # a tensor without memory, which forward mode would read here
    "aten::_thnn_fused_lstm_cell": _lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
}
