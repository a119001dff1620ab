"""What options accept: their values are checked against the annotations of the class or function that takes them."""

import inspect
import logging
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, Final

from didact.errors import OptionError
from didact.limits import MAX_BATCH_SIZE, shown

log = logging.getLogger(__name__)

_KINDS: Final = {
    int: "a whole number", float: "a number", str: "a word", bool: "true or false", type(None): "none", None: "none",
}  # fmt: skip
_LISTS: Final = (list, tuple, set, frozenset, abc.Sequence, abc.Collection, abc.Iterable, abc.Set)
_MAPPINGS: Final = (dict, abc.Mapping, abc.MutableMapping)


def renamed_option(options: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """The options with the new name of one that was renamed, and a warning where the old name is in use."""
    if options.get(old) is None:
        return {name: value for name, value in options.items() if name != old}
    if options.get(new) is not None:
        raise OptionError(f"Option {old!r} is now called {new!r}, and both were given. Leave {old!r} out.")
    _warn_of_new_name(old, new)
    return {name: value for name, value in options.items() if name not in (old, new)} | {new: options[old]}


@cache
def _warn_of_new_name(old: str, new: str) -> None:
    """Once per process: a plan's methods are built several times."""
    log.warning("Option %r is now called %r; the old name will be refused one day.", old, new)


def check_option_types(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> None:
    """An error for a value of a kind that the option does not take.

    Kinds are those of the annotations. An option without one takes what is like its default: true or false, a number,
    a word; and anything if the default is of another kind.
    """
    kinds = _annotations(allowed)
    for name, value in options.items():
        kind = kinds.get(name, Any)
        if not _is_a(value, kind):
            raise OptionError(f"Option {name!r} of {of} is {_described(kind)}, not {value!r}.")
    if isinstance(options.get("batch_size"), int) and not 1 <= options["batch_size"] <= MAX_BATCH_SIZE:
        got = shown(options["batch_size"])
        raise OptionError(f"Option 'batch_size' of {of} must be an integer from 1 to {MAX_BATCH_SIZE:,}, got {got}.")


def _annotations(allowed: Callable[..., Any]) -> dict[str, object]:
    """The kind of each option, from its annotation or else its default."""
    try:
        hints = typing.get_type_hints(getattr(allowed, "__init__") if isinstance(allowed, type) else allowed)  # noqa: B009
    except Exception:  # annotations that name what only a type checker imports
        hints = {}
    for name, parameter in inspect.signature(allowed).parameters.items():
        if name not in hints:
            kind = type(parameter.default)
            hints[name] = float if kind is int else kind if kind in (bool, float, str) else Any
    return hints


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated kind. A kind that cannot be checked takes everything."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _is_a(value, inside[0])
    if origin in (types.UnionType, typing.Union):
        return any(_is_a(value, one) for one in inside)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    if (origin or kind) in _MAPPINGS:
        keys, values = inside or (Any, Any)
        return isinstance(value, abc.Mapping) and all(_is_a(k, keys) and _is_a(v, values) for k, v in value.items())
    if (origin or kind) in _LISTS:
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and inside[-1:] != (...,):
            return len(value) == len(inside) and all(map(_is_a, value, inside))
        return all(_is_a(one, inside[0]) for one in value) if inside else True
    if kind is None:
        return value is None
    if kind in (Any, object) or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if issubclass(kind, PurePath):
        return isinstance(value, str | PurePath)
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _described(kind: Any) -> str:
    """An annotated kind in words."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _described(inside[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_described, inside)))
    if origin is typing.Literal:
        return " or ".join(map(repr, inside))
    if (origin or kind) in _MAPPINGS:
        return "a mapping, as in {'a': 0.5}"
    if origin is tuple and inside[-1:] != (...,):
        return f"a list of {len(inside)}"
    if (origin or kind) in _LISTS:
        return "a list, as in [0.1, 0.5]"
    return _KINDS.get(kind) or f"a {getattr(kind, '__name__', kind)}"
