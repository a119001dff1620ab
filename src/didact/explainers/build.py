"""From a name with options, a folder, an explainer or a callable to an explainer with all its options."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from didact.core.adapt import as_teacher
from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation, Kind
from didact.core.target import Target
from didact.core.teacher import Predictor, Teacher
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.option_types import check_option_types, renamed_option
from didact.registry import checked_options, parse_spec, python_number


@dataclass(frozen=True, eq=False)
class ResolvedMethod:
    """An explainer, its name, and all its options, including defaults.

    `is_reproducible` is true if name, options and version decide the scores in every process. It is false for objects
    that were made elsewhere and for names that are registered in this process only.
    """

    explainer: Callable[..., Any]
    name: str
    options: Mapping[str, Any]
    is_reproducible: bool = True

    @property
    def needs(self) -> str:
        """What the method needs of a teacher. A variant of another method needs what that method needs."""
        base = getattr(self.explainer, "base", None)
        if isinstance(base, ResolvedMethod):
            return base.needs
        return EXPLAINERS[self.name].needs if self.name in EXPLAINERS else "nothing"


def knows_option(method: str, option: str) -> bool:
    """Whether a method takes this option."""
    return option in options_of(method)


def options_of(method: str) -> dict[str, inspect.Parameter]:
    """The options of a named method, as its constructor declares them."""
    return _keyword_options(EXPLAINERS.load(method))


def with_current_names(method: str, options: Mapping[str, object]) -> dict[str, object]:
    """Options of a named method, with option names of earlier releases replaced by the current ones."""
    renamed = knows_option(method, "replace") and not knows_option(method, "baseline")
    return renamed_option(options, "baseline", "replace") if renamed else dict(options)


def build_explainer(method: str | Explainer | Callable[..., Any], **options: Any) -> ResolvedMethod:
    """The explainer for a spec such as `lime(samples=200)`, the folder of a learned explainer, or an object.

    `options` are added to those of the spec; an object takes none. Raises `UnknownNameError` for an unknown name and
    `OptionError` for an unknown option or a value of the wrong type.
    """
    from didact.explainers.learned import LearnedExplainer, load_explainer, weights_fingerprint

    if is_learned(method):
        method = load_explainer(str(method))
    if isinstance(method, str):
        spec = parse_spec(method)
        constructor = EXPLAINERS.load(spec.name)
        values = checked_options(
            with_current_names(spec.name, dict(spec.options) | options), constructor, of=repr(spec.name)
        )
        values = {name: python_number(value) for name, value in values.items()}
        check_option_types(values, constructor, of=repr(spec.name))
        defaults = {name: parameter.default for name, parameter in _keyword_options(constructor).items()}
        is_reproducible = not EXPLAINERS.local_source_hashes(spec.name, *values.values())
        built = EXPLAINERS.build(spec.name, values)
        explainer = built if isinstance(built, Explainer) else FunctionExplainer(built)
        return ResolvedMethod(explainer, spec.name, defaults | values, is_reproducible)
    if isinstance(method, type) or not callable(method):
        raise OptionError(
            f"A method must be a name, an explainer or a callable, got {method!r}. Pass an instance: Lime(samples=200)."
        )
    checked_options(options, lambda: None, of=f"a finished explainer ({_method_name(method)})")
    if not isinstance(method, Explainer):
        return ResolvedMethod(FunctionExplainer(method), _method_name(method), {}, is_reproducible=False)
    if isinstance(method, LearnedExplainer):  # the hash of its weights identifies its scores
        learned = {"weights": weights_fingerprint(method)} if method.is_ready else {}
        is_reproducible = not EXPLAINERS.local_source_hashes(*method.options.values())
        return ResolvedMethod(method, _method_name(method), method.options | learned, is_reproducible)
    attributes = {name: getattr(method, name, None) for name in _keyword_options(type(method))}
    shown = {name: value for name, value in attributes.items() if isinstance(value, int | float | str)}
    return ResolvedMethod(method, _method_name(method), shown, is_reproducible=False)


def _keyword_options(constructor: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(constructor).parameters
    return {
        name: parameter for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


class FunctionExplainer(Explainer):
    """Wraps a function that scores units. Its attribute `kind` is the kind of explanation that plain scores become."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def __call__(self, teacher: Predictor, batch: Batch, target: Target) -> Any:
        """Calls the function with the teacher itself, not with a copy, so that `check_explainer` sees side effects."""
        return self.forward(as_teacher(teacher), batch, target)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Any:
        scores = self.function(teacher, batch, target)
        kind: Kind | None = getattr(self.function, "kind", None)
        if kind is None or not isinstance(scores, Tensor) or scores.shape != batch.mask.shape:
            return scores  # an Explanation, or a wrong type that the caller reports
        return Explanation(scores.detach() * batch.units, batch.mask, batch.units, kind)


def _method_name(method: Callable[..., Any]) -> str:
    """The registered name, or else the name of the function or class."""
    return EXPLAINERS.name_of(method) or str(getattr(method, "__name__", type(method).__name__))
