"""Copies of a model that share its weights, so that several threads can explain it while the user calls it.

Explainers add hooks, freeze parameters and change modes and the attention implementation. They do this in a copy: new
modules and configurations around the same storage. Copying moves no weights.
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping
from types import MethodType
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")
_IS_COPY: Final = "_shares_weights"  # marks a copy, which belongs to one caller and is not copied again
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))  # immutable attributes, the most frequent
_COMPILED: Final = "_compiled_call_impl"  # torch's compiled call of one module, bound to the original


def shared_copy(teacher: T) -> T:
    """A copy of a model that shares its weights. Other teachers, and copies, are returned unchanged.

    In-place changes of the weights are visible in the copy. Hooks, modes, `requires_grad`, configuration and attributes
    are separate. A model dispatched by accelerate shares its modules with the copy, because the hooks of accelerate
    load weights into these modules.
    """
    if not isinstance(teacher, nn.Module) or getattr(teacher, _IS_COPY, False):
        return teacher
    # Parameters created in inference mode cannot have gradients.
    with torch.inference_mode(False), torch.no_grad():
        clone = _Copier(is_deep=not getattr(teacher, "is_dispatched", False)).module(teacher)
    object.__setattr__(clone, _IS_COPY, True)
    return clone  # type: ignore[return-value]


class _Copier:
    """Copies a tree of modules. Tied weights and shared modules stay tied and shared."""

    def __init__(self, *, is_deep: bool) -> None:
        self.is_deep = is_deep
        self.copies: dict[int, Any] = {}

    def module(self, module: nn.Module) -> nn.Module:
        if id(module) in self.copies:
            copied: nn.Module = self.copies[id(module)]
            return copied
        if isinstance(module, torch.jit.ScriptModule):  # has no Python attributes to copy
            return module
        clone = self.copies[id(module)] = object.__new__(type(module))
        state = dict(vars(module))
        if self.is_deep:
            state["_modules"] = {
                name: None if member is None else self.module(member) for name, member in _items(module)
            }
            state["_parameters"] = {name: self._parameter(member) for name, member in dict(module._parameters).items()}
        vars(clone).update({name: self._attribute(value) for name, value in state.items()})
        if state.get(_COMPILED) is not None:
            vars(clone)[_COMPILED] = None
        return clone

    def _parameter(self, parameter: nn.Parameter | None) -> Any:
        """A parameter on the same storage with its own `requires_grad`. Subclasses, as of quantisation, are shared."""
        if type(parameter) is not nn.Parameter:
            return parameter
        if id(parameter) not in self.copies:
            self.copies[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
        return self.copies[id(parameter)]

    def _attribute(self, value: Any) -> Any:
        """An attribute for the copy: containers and configurations are copied, modules and parameters replaced."""
        if type(value) in _PLAIN:
            return value
        if id(value) in self.copies:
            return self.copies[id(value)]
        if isinstance(value, Tensor):
            return value
        if isinstance(value, MethodType) and id(value.__self__) in self.copies:
            return MethodType(value.__func__, self.copies[id(value.__self__)])
        if type(value) in (dict, OrderedDict):
            return (
                type(value)((key, self._attribute(item)) for key, item in value.copy().items())
                if value
                else type(value)()
            )
        if type(value) in (list, tuple):
            return type(value)(map(self._attribute, value))
        if type(value) is set:
            return set(value)
        return self._config(value) if _is_config(value) else value

    def _config(self, config: Any) -> Any:
        clone = self.copies[id(config)] = copy.copy(config)
        for name in config.sub_configs:
            if _is_config(sub_config := vars(config).get(name)):
                vars(clone)[name] = self._attribute(sub_config)
        return clone


def _items(module: nn.Module) -> list[tuple[str, nn.Module | None]]:
    return list(module._modules.copy().items())


def _is_config(value: object) -> bool:
    """Whether this is a transformers configuration. (core does not import transformers.)"""
    return isinstance(getattr(value, "sub_configs", None), Mapping) and hasattr(value, "model_type")
