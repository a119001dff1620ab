"""Decorators that give a class or function of yours a name in this process, as `didact.explainer` and its like.

They set the facts as attributes, the same that an entry point's class states, and enter it in the registry. Other
processes do not know these names: explanations by such a method and students taught by such a strategy are made in the
process that knows them. Importing this module imports no torch.
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
    """Name a function `(teacher, batch, target) -> scores`, or a class that derives from `Explainer`.

    `kind` says what the scores are (signed, magnitude, distribution, binary) and `needs` what the teacher must have
    (nothing, rationales, predictions, gradients, attention). Options are keyword-only arguments, of the function or of
    the class. More facts are `cost`, `paper`, `ours` and `about`; without `about` the docstring says it.
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
    """Name a function `(explained, row) -> number`, or a class of such calls whose options are keyword-only.

    `better` is higher or lower, `bounds` clip the interval, `measures` is faithfulness, plausibility or stability, and
    `needs` may be teacher, rationale or encoder. More facts are `summary` and `version`.
    """
    if better not in ("higher", "lower"):
        raise OptionError(f"Is a higher {name} better, or a lower one? Say so: better='higher' (or 'lower').")
    if measures not in MEASURES:
        raise OptionError(unknown_name_message("aim of a metric", measures, MEASURES))
    required: dict[str, Any] = {"better": better, "bounds": bounds, "measures": measures}
    return _registering(METRICS, name, required | {"needs": tuple(needs), "paper": paper, **metadata})


def strategy(name: str, **metadata: str) -> Callable[[T], T]:
    """Name a class that derives from `Strategy`, so that students are written `same/name(option=value)`.

    Facts are `needs` (what it asks of a student: nothing, attention, states), `about` and `paper`.
    """
    return _registering(STRATEGIES, name, metadata)


def student(name: str, *, tasks: Sequence[str] | None = None, **metadata: str) -> Callable[[T], T]:
    """Name an architecture, a class that derives from `NativeModel`, so that students are written `name(width=64)`.

    `tasks` are those that it can do (classification, pair and regression). One more fact is `about`.
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
