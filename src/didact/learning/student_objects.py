"""Students given as objects: a strategy, an architecture's class, or a pair of both, as the spec that names them."""

import functools
import inspect
from typing import Any, Final

from didact.decorators import strategy, student
from didact.errors import OptionError
from didact.models import MODELS
from didact.models.native import NativeModel
from didact.registry import Registry, Spec, parse_spec, python_number
from didact.students import STRATEGIES
from didact.students.build import DEFAULT_STRATEGY, StudentSpec, alike, parse_student
from didact.students.strategy import Strategy

DEFAULT: Final = "default"  # the architecture of the student that is taken where none is named


def as_student_spec(value: object) -> StudentSpec:
    """The student that is meant: a text, a strategy, an architecture, or a pair (architecture, strategy).

    A strategy alone teaches students of the default architecture. An architecture is its name or a class, and may have
    options (`functools.partial(Gru, width=32)`). A class that has no name gets its own in this process.
    """
    if isinstance(value, StudentSpec):
        return value
    if isinstance(value, str):
        spec = parse_student(value)
        head, _, tail = spec.architecture.rpartition("/")
        if head in (*MODELS.names, DEFAULT):
            STRATEGIES[tail]  # what is known as an architecture is no hub name
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
            f"a strategy is a name with options or an object such as Attention(beta=2), not {student_strategy!r}."
        )
    return StudentSpec(name, _strategy_spec(student_strategy))


def is_student(value: object) -> bool:
    """Whether this is one student, given as an object, where a list of them may stand."""
    if isinstance(value, tuple):
        return len(value) == 2 and _is_strategy(value[1]) and not _is_strategy(value[0])
    return _is_strategy(value) or isinstance(value, StudentSpec | type | functools.partial)


def _is_strategy(value: object) -> bool:
    return isinstance(value, Strategy) or _is_subclass(value, Strategy)


def _is_subclass(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _architecture_text(value: Any) -> str:
    """A student's architecture as text."""
    if isinstance(value, str):
        return value
    model_class: Any
    model_class, options = (value.func, value.keywords) if isinstance(value, functools.partial) else (value, {})
    if not _is_subclass(model_class, NativeModel):
        raise OptionError(
            f"a student is written architecture/strategy, or given as a strategy or a pair (architecture, strategy), "
            f"not {value!r}. An architecture is a name or a class that derives from NativeModel."
        )
    return str(_check_readable(Spec(_name_of(MODELS, model_class), options)))


def _strategy_spec(instance: Strategy) -> Spec:
    """What builds this strategy anew for every student: its name, and the options that are not their defaults."""
    strategy_class, options = type(instance), {}
    for name, parameter in inspect.signature(strategy_class).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if not hasattr(instance, name):
            raise OptionError(
                f"every student has a strategy of its own, made of the options of {strategy_class.__name__}, which "
                f"does not keep {name!r}. Write self.{name} = {name} in its __init__."
            )
        value = alike(python_number(getattr(instance, name)), parameter.default)
        if value != parameter.default:
            options[name] = value
    return _check_readable(Spec(_name_of(STRATEGIES, strategy_class), options))


def _name_of(registry: Registry[Any], named_class: type) -> str:
    """The name of a class; its own, from now on, if it has none."""
    name = registry.name_of(named_class)
    if name is None or (name in registry.local and registry.local[name].thing is not named_class):
        name = name or named_class.__name__
        (student if registry is MODELS else strategy)(name)(named_class)
    return name


def _check_readable(spec: Spec) -> Spec:
    """The spec, if workers and records can read it as text."""
    if parse_spec(str(spec)) != spec:
        raise OptionError(f"options are numbers, words, lists or tables of them, and {spec} cannot be written so.")
    return spec
