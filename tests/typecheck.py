"""How annotations are checked while tests run: by beartype, with an int wherever a float may stand.

jaxtyping's hook puts `jaxtyping.jaxtyped` on every function. That binds the arguments of each call, fills in defaults
and checks them twice, though most annotations have no shapes: the tests took four times as long as without. The
decorator below checks the same annotations once, and compares sizes only where there are any. tests/conftest.py puts it
in the place of the other one.
"""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, get_args, get_type_hints

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, config
from jaxtyping import jaxtyped as jaxtypings_own

check = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError))

T = TypeVar("T")


def jaxtyped(*, typechecker: Callable[..., Any]) -> Callable[[T], T]:
    """A decorator of functions and dataclasses that checks as jaxtyping's own does."""

    def checked(thing: Any) -> Any:
        if inspect.isclass(thing):
            if is_dataclass(thing) and not hasattr(thing.__init__, "__wrapped__"):
                thing.__init__ = _checked(thing.__init__, typechecker)
            return thing
        return _checked(thing, typechecker)

    return checked


def _checked(function: FunctionType, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose checks are written when it is first called: many never are."""
    checks: Callable[..., Any] | None = None

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        nonlocal checks
        if config.jaxtyping_disable:
            return function(*args, **options)
        if checks is None:
            checks = _checks(function, typechecker)
        return checks(*args, **options)

    return checked


def _checks(function: FunctionType, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    copy = _copied(function)
    has_shapes = any(map(_has_shapes, copy.__annotations__.values()))
    if has_shapes and inspect.isgeneratorfunction(function):  # beartype would look at arguments when it is too late
        known: Callable[..., Any] = jaxtypings_own(function, typechecker=typechecker)
        return known
    checks: Callable[..., Any] = typechecker(copy)
    if not has_shapes:
        return checks

    def with_sizes(*args: Any, **options: Any) -> Any:
        with jaxtypings_own("context"):  # within it, sizes of one name are equal
            return checks(*args, **options)

    return with_sizes


def _copied(function: FunctionType) -> FunctionType:
    """The function with annotations that can be checked: no text, and nothing about what a generator will yield."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    copy.__annotations__ = {name: _read(one, function) for name, one in function.__annotations__.items()}
    if inspect.isgeneratorfunction(function):
        copy.__annotations__.pop("return", None)
    return copy


def _read(annotation: Any, function: FunctionType) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"": annotation}
    try:
        return get_type_hints(holder, function.__globals__, include_extras=True)[""]
    except Exception:  # what only type checkers know may be anything
        return Any


def _has_shapes(annotation: Any) -> bool:
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray):
        return True
    parts = annotation if isinstance(annotation, list | tuple) else get_args(annotation)
    return any(map(_has_shapes, parts))
