"""From a name with options, an explainer or any callable to an explainer whose options are all known."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from didact.core.explainer import Explainer
from didact.explainers import EXPLAINERS
from didact.registry import checked_options, parse_spec


@dataclass(frozen=True, eq=False)
class Built:
    """An explainer, what it is called, and all its options, also those nobody named.

    `is_known` tells whether name, options and version decide the scores: not so for a callable from elsewhere.
    """

    explainer: Callable[..., Any]
    name: str
    options: Mapping[str, Any]
    is_known: bool = True


def knows_option(method: str, option: str) -> bool:
    """Whether a method takes this option."""
    return option in _options_of(EXPLAINERS.load(method))


def build_explainer(method: str | Explainer | Callable[..., Any], **options: Any) -> Built:
    """The explainer for a spec like `lime(samples=200)` with more options, or the one that is given."""
    if not isinstance(method, str):
        checked_options(options, lambda: None, of=f"a finished explainer ({_name(method)})")
        return Built(method, _name(method), {}, is_known=False)
    spec = parse_spec(method)
    kind = EXPLAINERS.load(spec.name)
    given = checked_options(dict(spec.options) | options, kind, of=repr(spec.name))
    defaults = {name: one.default for name, one in _options_of(kind).items()}
    return Built(kind(**given), spec.name, defaults | given)


def _options_of(kind: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(kind).parameters
    return {name: one for name, one in found.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def _name(method: Callable[..., Any]) -> str:
    return str(getattr(method, "__name__", type(method).__name__))
