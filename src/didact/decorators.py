"""Decorators that register your class or function under a name: `didact.explainer`, `metric`, `strategy`, `student`.

A decorator sets the metadata as attributes (the same that the class of an entry point has) and adds the name to the
registry of this process. Other processes do not know the name, so explanations by such a method and students with such
a strategy are computed in this process. Importing this module does not import torch.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from didact.errors import OptionError
from didact.explainers import EXPLAINERS
from didact.metrics import METRICS
from didact.models import MODELS
from didact.registry import Registry, unknown_name_message
from didact.students import STRATEGIES

T = TypeVar("T")

TASKS: Final = ("classification", "pair", "regression")
KINDS: Final = ("signed", "magnitude", "distribution", "binary")
MEASURES: Final = ("faithfulness", "plausibility", "stability")
NEEDS: Final = ("nothing", "rationales", "predictions", "gradients", "attention")


def explainer(name: str, *, kind: str, needs: str, **metadata: str) -> Callable[[T], T]:
    """Register an explainer: a function `(teacher, batch, target) -> scores` or a subclass of `Explainer`.

    `kind` is the kind of the scores (signed, magnitude, distribution or binary); `needs` is what the teacher must
    provide (nothing, rationales, predictions, gradients or attention). Keyword-only arguments of the function or class
    are the options of the method. `metadata` may be `cost`, `paper`, `ours` and `about`; `about` defaults to the first
    line of the docstring.
    """
    for argument, value, choices in (("kind", kind, KINDS), ("needs", needs, NEEDS)):
        if value not in choices:
            raise OptionError(unknown_name_message(argument, str(value), choices))
    return _registering(EXPLAINERS, name, {"kind": kind, "needs": needs, **metadata})


def metric(
    name: str,
    *,
    better: str,
    bounds: tuple[float, float] = (float("-inf"), float("inf")),
    measures: str = "faithfulness",
    needs: Sequence[str] = (),
    paper: str = "your own",
    **metadata: Any,
) -> Callable[[T], T]:
    """Register a metric: a function `(explained, row) -> number`, or a class with such a `__call__`.

    Keyword-only arguments of the class are the options of the metric. `better` is "higher" or "lower", `bounds` clips
    the interval, `measures` is faithfulness, plausibility or stability, and `needs` may contain teacher, rationale and
    encoder. `metadata` may be `summary` and `version`.
    """
    if better not in ("higher", "lower"):
        raise OptionError(f"Is a higher or a lower {name} better? Pass better='higher' or better='lower'.")
    if measures not in MEASURES:
        raise OptionError(unknown_name_message("property that a metric measures", measures, MEASURES))
    required: dict[str, Any] = {"better": better, "bounds": bounds, "measures": measures}
    return _registering(METRICS, name, required | {"needs": tuple(needs), "paper": paper, **metadata})


def strategy(name: str, **metadata: str) -> Callable[[T], T]:
    """Register a subclass of `Strategy`. Students with it are written `same/name(option=value)`.

    `metadata` may be `needs` (what the student must provide: nothing, attention or states), `about` and `paper`.
    """
    return _registering(STRATEGIES, name, metadata)


def student(name: str, *, tasks: Sequence[str] | None = None, **metadata: str) -> Callable[[T], T]:
    """Register an architecture, a subclass of `NativeModel`. Students of it are written `name(width=64)`.

    `tasks` are the tasks it supports, by default classification, pair and regression. `metadata` may be `about`.
    """

    def decorate(cls: T) -> T:
        supported: Sequence[str] = getattr(cls, "tasks", TASKS) if tasks is None else tasks
        MODELS.register(name, cls, {"tasks": tuple(supported), **metadata})
        cls.architecture = name  # type: ignore[attr-defined]
        return cls

    return decorate


def _registering(registry: Registry[Any], name: str, metadata: dict[str, Any]) -> Callable[[T], T]:
    def decorate(obj: T) -> T:
        registry.register(name, obj, metadata)
        return obj

    return decorate
