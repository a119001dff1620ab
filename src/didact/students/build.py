"""Parses names of students: architecture, strategy with options, optimiser."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from didact.errors import OptionError
from didact.option_types import check_option_types
from didact.registry import Spec, checked_options, parse_spec
from didact.students import STRATEGIES
from didact.students.strategy import Strategy

OPTIMISERS: Final = ("adam", "adamw", "sgd")
DEFAULT_STRATEGY: Final = "attention"
# Strategies with the options that papers used.
PRESETS: Final[Mapping[str, str]] = {"pruthi": "attention(send=top, side=cls)", "smat": "attention(side=mix, beta=5)"}


@dataclass(frozen=True)
class StudentSpec:
    """A student as in `same/attention(beta=2)@sgd`: architecture, strategy and optimiser."""

    architecture: str
    strategy: Spec
    optimiser: str = "adam"

    def __str__(self) -> str:
        tail = "" if self.optimiser == "adam" else f"@{self.optimiser}"
        return f"{self.architecture}/{self.strategy}{tail}"


def parse_student(text: str) -> StudentSpec:
    """Parse `architecture/strategy@optimiser`. By default, the strategy is `attention` and the optimiser `adam`.

    Names on the hub contain slashes, so text after the last slash is a strategy only if it names one. Raises
    `OptionError` for an unknown optimiser and without an architecture.
    """
    body, optimiser = text.strip(), "adam"
    head, separator, tail = body.rpartition("@")
    if separator and ")" not in tail and "/" not in tail:
        if tail not in OPTIMISERS:
            raise OptionError(f"{tail!r} in {text!r} is no optimiser. Write one of {', '.join(OPTIMISERS)} after @.")
        body, optimiser = head, tail
    slash = _last_slash(body)
    strategy = Spec(DEFAULT_STRATEGY)
    if slash >= 0:
        after = body[slash + 1 :]
        name = after.partition("(")[0].strip()
        if name in PRESETS:
            preset = parse_spec(PRESETS[name])
            overrides = parse_spec(after).options  # override the options of the preset
            body, strategy = body[:slash], Spec(preset.name, {**preset.options, **overrides})
        elif name in STRATEGIES:
            body, strategy = body[:slash], parse_spec(after)
        elif "(" in after or body[:slash] == "same" or "(" in body[:slash]:
            STRATEGIES[name]  # raises an error with similar names
    if not body.strip():
        raise OptionError(f"{text!r} names no architecture. Write architecture/strategy, e.g. same/attention.")
    return StudentSpec(body.strip(), strategy, optimiser)


def build_strategy(spec: Spec, **changes: Any) -> Strategy:
    """The strategy with some options changed, not yet attached to a student."""
    strategy_class = STRATEGIES.load(spec.name)
    options = checked_options(dict(spec.options) | changes, strategy_class, of=f"strategy {spec.name!r}")
    check_option_types(options, strategy_class, of=f"strategy {spec.name!r}")
    strategy: Strategy = strategy_class(**options)
    return strategy


def strategy_options(spec: Spec) -> dict[str, Any]:
    """All options of a strategy, with defaults for those that are not in `spec`."""
    parameters = inspect.signature(STRATEGIES.load(spec.name)).parameters
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return defaults | {name: as_option_type(value, defaults.get(name)) for name, value in spec.options.items()}


def identifying_options(spec: Spec) -> dict[str, Any]:
    """The options of a strategy that are part of keys: all but those added later that have their default."""
    strategy_class = STRATEGIES.load(spec.name)
    defaults = strategy_options(Spec(spec.name))
    return {
        name: value
        for name, value in strategy_options(spec).items()
        if name not in strategy_class.later_options or value != defaults[name]
    }


def as_option_type(value: Any, default: Any) -> Any:
    """An integer as a float if the default is a float: 1 and 1.0 are the same option and must have the same key."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_integer and isinstance(default, float) else value


def _last_slash(text: str) -> int:
    """The index of the last slash outside brackets, or -1."""
    depth, last = 0, -1
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "/" and depth == 0:
            last = position
    return last
