"""Resolves a method and its options: those that every method shares, and those of the method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from didact.core.explainer import Explainer
from didact.core.feature_groups import LEVELS
from didact.core.precision import SINGLE, check_precision
from didact.core.resolve_target import unsupported_option
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.explainers.build import ResolvedMethod, build_explainer, knows_option, with_current_names
from didact.explainers.learned import load_explainer
from didact.explainers.presets import get_preset
from didact.option_types import check_option_types
from didact.registry import parse_spec, python_number
from didact.results.transforms import parse_normalisation


@dataclass(frozen=True)
class CommonOptions:
    """The options that every method shares, with their defaults."""

    target: str | int = "predicted"
    scale: str | None = None
    level: str = "token"
    special: bool = False
    absolute: bool = False
    normalise: str = "raw"
    precision: str = SINGLE

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.level not in LEVELS:
            raise OptionError(f"level must be 'token' or 'word', got {self.level!r}.")
        parse_normalisation(self.normalise)


COMMON: Final = tuple(field.name for field in fields(CommonOptions))


def split_options(options: Mapping[str, Any]) -> tuple[CommonOptions, dict[str, Any]]:
    """Split options into those that every method shares, and those of one method."""
    common = {name: value for name, value in options.items() if name in COMMON}
    check_option_types(common, CommonOptions, of="every method")
    return CommonOptions(**common), {name: value for name, value in options.items() if name not in COMMON}


def resolve_method(
    teacher: Teacher,
    method: str | Explainer | Callable[..., Any],
    options: Mapping[str, Any],
    *,
    preset: str | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
) -> tuple[CommonOptions, ResolvedMethod]:
    """Build the explainer, and return it with the options that every method shares.

    `method` is a spec, the folder of a learned explainer, an `Explainer` or a callable. `options` win over those of the
    `preset`. Raises `OptionError` for unknown options, and for options that the teacher does not support.
    """
    shared = {"batch_size": python_number(batch_size), "seed": python_number(seed)}
    shared = {name: value for name, value in shared.items() if value is not None}
    values = {name: python_number(value) for name, value in options.items()}
    if is_learned(method):
        method = load_explainer(str(method))
    if isinstance(method, str):
        method, values = _merge_spec_options(method, values, shared)
    for name, value in values.items():
        reason = unsupported_option(teacher, name, value)
        if reason is not None:
            raise OptionError(reason)
    if preset is not None:
        if not isinstance(method, str):
            raise OptionError("A preset sets the options of a method by name, but this explainer already exists.")
        for name, value in get_preset(preset).options(method).items():
            if (name in COMMON or knows_option(method, name)) and unsupported_option(teacher, name, value) is None:
                values.setdefault(name, value)
    fixed_level = getattr(method, "level", None)
    if fixed_level is not None and values.setdefault("level", fixed_level) != fixed_level:
        raise OptionError(
            f"The explainer was made with level={fixed_level!r}, which excludes level={values['level']!r}."
        )
    common, values = split_options(values)
    if isinstance(method, str):
        inherited = {"level": common.level} | shared
        values = {name: value for name, value in inherited.items() if knows_option(method, name)} | values
    check_option_types(shared, resolve_method, of="explain")
    return common, build_explainer(method, **values)


def _merge_spec_options(
    method: str, values: Mapping[str, Any], shared: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Split a spec like `lime(samples=200)` into the name and its options, merged with `values`."""
    spec = parse_spec(method)
    EXPLAINERS[spec.name]  # reports an unknown method before an unknown option
    duplicates = sorted(spec.options.keys() & (values.keys() | shared.keys()))
    if duplicates:
        raise OptionError(f"Option {duplicates[0]!r} is set twice: in {method!r} and separately. Set it once.")
    return spec.name, with_current_names(spec.name, {**values, **spec.options})
