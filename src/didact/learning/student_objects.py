"""Students as objects (a strategy, an architecture's class, or a pair of both), turned into specs."""

import functools
import inspect
from typing import Any, Final

from didact.decorators import strategy, student
from didact.errors import OptionError
from didact.models import MODELS
from didact.models.native import NativeModel
from didact.registry import Registry, Spec, parse_spec, python_number
from didact.students import STRATEGIES
from didact.students.build import DEFAULT_STRATEGY, StudentSpec, as_option_type, parse_student
from didact.students.strategy import Strategy

DEFAULT: Final = "default"  # stands for the default architecture


def as_student_spec(value: object) -> StudentSpec:
    """The spec of a student given as a text, a strategy, an architecture, or a pair (architecture, strategy).

    A strategy alone has students of the default architecture. An architecture is a name or a class, with options as in
    `functools.partial(Gru, width=32)`. An unknown class is registered under its own name in this process.
    Raises an `OptionError` for anything else.
    """
    if isinstance(value, StudentSpec):
        return value
    if isinstance(value, str):
        spec = parse_student(value)
        head, _, tail = spec.architecture.rpartition("/")
        if head in (*MODELS.names, DEFAULT):
            STRATEGIES[tail]  # an architecture before the slash means that this is no hub name: raises for the strategy
        return spec
    if _is_strategy(value):
        value = (DEFAULT, value)
    architecture, student_strategy = (
        value if isinstance(value, tuple) and len(value) == 2 else (value, DEFAULT_STRATEGY)
    )
    name = _architecture_text(architecture)
    if isinstance(student_strategy, str):
        return as_student_spec(f"{name}/{student_strategy}")
    student_strategy = student_strategy() if _is_subclass(student_strategy, Strategy) else student_strategy
    if not isinstance(student_strategy, Strategy):
        raise OptionError(
            f"a strategy must be a name with options or an object such as Attention(beta=2), not {student_strategy!r}."
        )
    return StudentSpec(name, _strategy_spec(student_strategy))


def is_student(value: object) -> bool:
    """True for one student as an object, as opposed to a list of students."""
    if isinstance(value, tuple):
        return len(value) == 2 and _is_strategy(value[1]) and not _is_strategy(value[0])
    return _is_strategy(value) or isinstance(value, StudentSpec | type | functools.partial)


def _is_strategy(value: object) -> bool:
    return isinstance(value, Strategy) or _is_subclass(value, Strategy)


def _is_subclass(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _architecture_text(value: Any) -> str:
    """The architecture of a student as text."""
    if isinstance(value, str):
        return value
    model_class: Any
    model_class, options = (value.func, value.keywords) if isinstance(value, functools.partial) else (value, {})
    if not _is_subclass(model_class, NativeModel):
        raise OptionError(
            f"a student must be a text (architecture/strategy), a strategy or a pair (architecture, strategy), "
            f"not {value!r}. An architecture is a name or a class that derives from NativeModel."
        )
    return str(_check_readable(Spec(_name_of(MODELS, model_class), options)))


def _strategy_spec(instance: Strategy) -> Spec:
    """The spec that rebuilds a strategy for each student: its name, and the options that differ from their defaults."""
    strategy_class, options = type(instance), {}
    for name, parameter in inspect.signature(strategy_class).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if not hasattr(instance, name):
            raise OptionError(
                f"every student has a strategy of its own, made of the options of {strategy_class.__name__}, which "
                f"does not keep {name!r}. Write self.{name} = {name} in its __init__."
            )
        value = as_option_type(python_number(getattr(instance, name)), parameter.default)
        if value != parameter.default:
            options[name] = value
    return _check_readable(Spec(_name_of(STRATEGIES, strategy_class), options))


def _name_of(registry: Registry[Any], named_class: type) -> str:
    """The registered name of a class. Registers the class under its own name if it has none."""
    name = registry.name_of(named_class)
    if name is None or (name in registry.local and registry.local[name].thing is not named_class):
        name = name or named_class.__name__
        (student if registry is MODELS else strategy)(name)(named_class)
    return name


def _check_readable(spec: Spec) -> Spec:
    """The spec, if it survives being written as text, for workers and records. Else raises an `OptionError`."""
    if parse_spec(str(spec)) != spec:
        raise OptionError(f"options must be numbers, words, lists or tables of them, and {spec} has others.")
    return spec
