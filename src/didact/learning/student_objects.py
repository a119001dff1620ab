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
        student = parse_student(value)
        head, _, tail = student.architecture.rpartition("/")
        if head in (*MODELS.names, DEFAULT):
            STRATEGIES[tail]  # what is known as an architecture is no hub name
        return student
    if _is_strategy(value):
        value = (DEFAULT, value)
    architecture, taught = value if isinstance(value, tuple) and len(value) == 2 else (value, DEFAULT_STRATEGY)
    name = _architecture(architecture)
    if isinstance(taught, str):
        return as_student_spec(f"{name}/{taught}")
    taught = taught() if _derives(taught, Strategy) else taught
    if not isinstance(taught, Strategy):
        raise OptionError(f"a strategy is a name with options or an object such as Attention(beta=2), not {taught!r}.")
    return StudentSpec(name, _strategy(taught))


def is_student(value: object) -> bool:
    """Whether this is one student, given as an object, where a list of them may stand."""
    if isinstance(value, tuple):
        return len(value) == 2 and _is_strategy(value[1]) and not _is_strategy(value[0])
    return _is_strategy(value) or isinstance(value, StudentSpec | type | functools.partial)


def _is_strategy(value: object) -> bool:
    return isinstance(value, Strategy) or _derives(value, Strategy)


def _derives(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _architecture(value: Any) -> str:
    """A student's architecture as text."""
    if isinstance(value, str):
        return value
    kind: Any
    kind, options = (value.func, value.keywords) if isinstance(value, functools.partial) else (value, {})
    if not _derives(kind, NativeModel):
        raise OptionError(
            f"a student is written architecture/strategy, or given as a strategy or a pair (architecture, strategy), "
            f"not {value!r}. An architecture is a name or a class that derives from NativeModel."
        )
    return str(_readable(Spec(_name_of(MODELS, kind), options)))


def _strategy(taught: Strategy) -> Spec:
    """What builds this strategy anew for every student: its name, and the options that are not their defaults."""
    kind, options = type(taught), {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if not hasattr(taught, name):
            raise OptionError(
                f"every student has a strategy of its own, made of the options of {kind.__name__}, which does not "
                f"keep {name!r}. Write self.{name} = {name} in its __init__."
            )
        value = alike(python_number(getattr(taught, name)), parameter.default)
        if value != parameter.default:
            options[name] = value
    return _readable(Spec(_name_of(STRATEGIES, kind), options))


def _name_of(registry: Registry[Any], kind: type) -> str:
    """The name of a class; its own, from now on, if it has none."""
    name = registry.name_of(kind)
    if name is None or (name in registry.local and registry.local[name].thing is not kind):
        name = name or kind.__name__
        (student if registry is MODELS else strategy)(name)(kind)
    return name


def _readable(spec: Spec) -> Spec:
    """The spec, if workers and records can read it as text."""
    if parse_spec(str(spec)) != spec:
        raise OptionError(f"options are numbers, words, lists or tables of them, and {spec} cannot be written so.")
    return spec
