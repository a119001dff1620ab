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
    """Give a name to a function `(teacher, batch, target) -> scores`, or to a class that derives from `Explainer`.

    The name is known in processes that imported the module. Options are the keyword-only arguments.

    Args:
        name: The name. didact's own names cannot be replaced.
        kind: What scores mean: signed, magnitude, distribution or binary.
        needs: What the teacher must have: nothing, rationales, predictions, gradients or attention.
        **metadata: `cost`, `paper`, `ours` and `about`, for lists of methods. `about` defaults to the docstring.

    Examples:
        ```python
        import torch


        @didact.explainer("my_gradient", kind="signed", needs="gradients")
        def my_gradient(teacher, batch, target):
            embeddings = teacher.embed(batch).detach().requires_grad_()
            output = target.of(teacher.run(embeddings, batch).logits)
            (gradient,) = torch.autograd.grad(output.sum(), embeddings)
            return (embeddings * gradient).sum(-1)


        teacher = didact.load_teacher("runs/demo/teacher")
        didact.explain(teacher, ["a good film"], "my_gradient").show()
        ```
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
    """Give a name to a function `(explained, row) -> number`, or to a class of such callables.

    Args:
        name: The name. didact's own names cannot be replaced.
        better: higher or lower.
        bounds: The smallest and the largest value. They clip the interval.
        measures: faithfulness, plausibility or stability.
        needs: What the metric needs: any of teacher, rationale, encoder.
        paper: The source.
        **metadata: `summary` and `version`.

    Examples:
        ```python
        import numpy as np


        @didact.metric("largest_share", better="higher", bounds=(0, 1))
        def largest_share(explained, row):
            sizes = np.abs(explained.scores)
            return sizes.max() / sizes.sum()


        teacher = didact.load_teacher("runs/demo/teacher")
        maps = didact.explain(teacher, ["a good film", "a bad plot"], "gradient_norm")
        print(didact.evaluate(maps, teacher, metrics=["largest_share"]))
        ```
    """
    if better not in ("higher", "lower"):
        raise OptionError(f"Is a higher or a lower {name} better? Pass better='higher' or better='lower'.")
    if measures not in MEASURES:
        raise OptionError(unknown_name_message("property that a metric measures", measures, MEASURES))
    required: dict[str, Any] = {"better": better, "bounds": bounds, "measures": measures}
    return _registering(METRICS, name, required | {"needs": tuple(needs), "paper": paper, **metadata})


def strategy(name: str, **metadata: str) -> Callable[[T], T]:
    """Give a name to a class that derives from `Strategy`: how students use explanations.

    Args:
        name: The name, as in `students=["same/name(option=value)"]`.
        **metadata: `needs` (what it asks of a student: nothing, attention, states), `about` and `paper`.

    Examples:
        ```python
        from didact.students.strategy import Strategy


        @didact.strategy("match", needs="attention", about="pulls attention towards the explanation")
        class Match(Strategy):
            listen = ("reading",)

            def forward(self, trace, batch, lesson):
                attention = trace.reading[:, -1].exp().mean(1)
                return (attention - lesson.mass).square().sum(-1)
        ```
    """
    return _registering(STRATEGIES, name, metadata)


def student(name: str, *, tasks: Sequence[str] | None = None, **metadata: str) -> Callable[[T], T]:
    """Give a name to an architecture, a class that derives from `NativeModel`.

    Args:
        name: The name, as in `students=["name(width=64)/attention"]`.
        tasks: The tasks that it can do: classification, pair, regression.
        **metadata: `about`.

    Examples:
        ```python
        import torch
        from didact.models.pool import PoolModel


        @didact.student("my_gru", about="a GRU over the words, pooled by attention")
        class MyGru(PoolModel):
            def _layers(self):
                width = self.options["width"]
                return torch.nn.ModuleList([torch.nn.GRU(width, width, batch_first=True)])

            def _states(self, embeddings, sequence_masks):
                return [embeddings, self.layers[0](embeddings)[0]]
        ```
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
