"""Check the types of option values against the annotations of the class or function that takes them."""

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

_TYPE_NAMES: Final = {
    int: "an integer", float: "a number", str: "a string", bool: "true or false", type(None): "none", None: "none",
}  # fmt: skip
_LIST_TYPES: Final = (list, tuple, set, frozenset, abc.Sequence, abc.Collection, abc.Iterable, abc.Set)
_MAPPING_TYPES: Final = (dict, abc.Mapping, abc.MutableMapping)


def renamed_option(options: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Replace an option's former name with its present one and warn if the former name is used."""
    if options.get(old) is None:
        return {name: value for name, value in options.items() if name != old}
    if options.get(new) is not None:
        raise OptionError(f"Option {old!r} is now called {new!r}, and both were given. Leave {old!r} out.")
    _warn_of_new_name(old, new)
    return {name: value for name, value in options.items() if name not in (old, new)} | {new: options[old]}


@cache
def _warn_of_new_name(old: str, new: str) -> None:
    """Warn once per process, because the methods of a plan are built several times."""
    log.warning("Option %r is now called %r. A later version will refuse the old name.", old, new)


def check_option_types(options: Mapping[str, Any], function: Callable[..., Any], *, of: str) -> None:
    """Raise OptionError if a value does not have the type that its option takes.

    The types are the annotations of `function`. An option without an annotation takes the type of its default if that
    is a bool, a number or a string; otherwise it takes anything. `of` names the owner of the options in the message.
    """
    annotations = _annotations(function)
    for name, value in options.items():
        annotation = annotations.get(name, Any)
        if not _matches(value, annotation):
            raise OptionError(f"Option {name!r} of {of} must be {_describe(annotation)}, got {value!r}.")
    if isinstance(options.get("batch_size"), int) and not 1 <= options["batch_size"] <= MAX_BATCH_SIZE:
        actual = shown(options["batch_size"])
        raise OptionError(f"Option 'batch_size' of {of} must be an integer from 1 to {MAX_BATCH_SIZE:,}, got {actual}.")


def _annotations(function: Callable[..., Any]) -> dict[str, object]:
    """The type of each option, from its annotation or else its default."""
    try:
        hints = typing.get_type_hints(getattr(function, "__init__") if isinstance(function, type) else function)  # noqa: B009
    except Exception:  # annotations may name what only a type checker imports
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints:
            default_type = type(parameter.default)
            hints[name] = float if default_type is int else default_type if default_type in (bool, float, str) else Any
    return hints


def _matches(value: Any, annotation: Any) -> bool:
    """Whether a value matches an annotation. An annotation that cannot be checked matches everything."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _matches(value, arguments[0])
    if origin in (types.UnionType, typing.Union):
        return any(_matches(value, argument) for argument in arguments)
    if origin is typing.Literal:
        return any(type(value) is type(argument) and value == argument for argument in arguments)
    if (origin or annotation) in _MAPPING_TYPES:
        keys, values = arguments or (Any, Any)
        return isinstance(value, abc.Mapping) and all(
            _matches(k, keys) and _matches(v, values) for k, v in value.items()
        )
    if (origin or annotation) in _LIST_TYPES:
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and arguments[-1:] != (...,):
            return len(value) == len(arguments) and all(map(_matches, value, arguments))
        return all(_matches(argument, arguments[0]) for argument in value) if arguments else True
    if annotation is None:
        return value is None
    if annotation in (Any, object) or not isinstance(annotation, type) or getattr(annotation, "_is_protocol", False):
        return True
    if isinstance(value, bool) or annotation is bool:
        return isinstance(value, bool) and annotation is bool
    if issubclass(annotation, PurePath):
        return isinstance(value, str | PurePath)
    return isinstance(value, int | float) if annotation is float else isinstance(value, annotation)


def _describe(annotation: Any) -> str:
    """An annotation in words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _describe(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_describe, arguments)))
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if (origin or annotation) in _MAPPING_TYPES:
        return "a mapping such as {'a': 0.5}"
    if origin is tuple and arguments[-1:] != (...,):
        return f"a list of {len(arguments)} values"
    if (origin or annotation) in _LIST_TYPES:
        return "a list such as [0.1, 0.5]"
    return _TYPE_NAMES.get(annotation) or f"a {getattr(annotation, '__name__', annotation)}"
