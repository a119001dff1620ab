"""Checks of `CompareConfig` that need model code: explainers, students, data sets and devices."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import torch

from didact.comparing.config import DEFAULT_SEARCH_SPACE
from didact.comparing.config_values import check_temperatures
from didact.core.precision import SINGLE, check_precision, no_gradients_error
from didact.data import DATASETS
from didact.errors import DidactError, OptionError, PlanError
from didact.explainers import EXPLAINERS, is_learned
from didact.explainers.build import build_explainer, knows_option
from didact.explaining.method_options import split_options
from didact.field_types import check_list, check_name
from didact.learned.smat_spec import is_learner, parse_learner
from didact.learning.student_objects import DEFAULT, as_student_spec, is_student
from didact.models import MODELS
from didact.models.accelerate_hooks import AUTO
from didact.models.load import parse_device
from didact.registry import Spec, checked_options, parse_spec, unknown_name_message
from didact.results.target_normalisation import BAND, GRIDS, RAW, TUNED, TargetNormalisation
from didact.students import STRATEGIES
from didact.students.build import StudentSpec, build_strategy, strategy_options


def check_method(text: str) -> str:
    """Check the spec of an explainer and return its canonical spelling; files and folders are returned unchanged.

    Raises:
        DidactError: name, option or file does not exist.
    """
    if text.endswith(".parquet"):
        if not Path(text).is_file():
            raise OptionError(f"There is no file {text!r} with explanations.")
        return text
    if is_learned(text):
        build_explainer(text)
        return text
    if is_learner(text):
        return parse_learner(text).label
    spec = parse_spec(text)
    EXPLAINERS[spec.name]
    common, options = split_options(spec.options)
    if "level" in spec.options and knows_option(spec.name, "level"):
        options["level"] = common.level
    built = build_explainer(spec.name, **options)
    if common.precision != SINGLE and built.needs == "gradients":
        raise no_gradients_error(spec.name, common.precision)
    return str(spec)


def _check_explainers(values: Any, _: Mapping[str, Any]) -> tuple[str, ...]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise OptionError(f"an explainer must be given by its name, got {value!r}.")
        return "none" if value.strip() == "none" else check_method(value)

    return check_list(values, check, "explainers")


def _check_student(value: Any) -> StudentSpec:
    student = as_student_spec(value)
    build_strategy(student.strategy)
    name = student.architecture.partition("(")[0].strip()
    if "(" in student.architecture and name not in MODELS:
        raise OptionError(unknown_name_message("architecture with options", name, [*MODELS]))
    if "(" in student.architecture:
        spec = parse_spec(student.architecture)
        options = {option: value for option, value in spec.options.items() if option != "patch"}  # of images
        checked_options(options, MODELS.load(name), of=f"model {name!r}")
    return student


def _check_students(values: Any, _: Mapping[str, Any]) -> tuple[StudentSpec, ...]:
    students = check_list([values] if is_student(values) else values, _check_student, "students")
    if not students:
        raise OptionError("name at least one, e.g. same/attention.")
    return students


def _check_search_space(values: Any, fields: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    if values is True:
        values = DEFAULT_SEARCH_SPACE
    if not values:
        return {}
    if not isinstance(values, Mapping):
        raise OptionError(
            f"must be a table of options and their values, such as temperature = [1.0, 0.5], got {values!r}."
        )
    faults = []
    option_names = {name for strategy in STRATEGIES for name in strategy_options(Spec(strategy))}
    student_options = [strategy_options(student.strategy) for student in fields.get("students", ())]
    strategies = sorted({student.strategy.name for student in fields.get("students", ())})
    for name, choices in values.items():
        if name not in option_names:
            faults.append(unknown_name_message("option of a strategy", name, sorted(option_names)))
        elif isinstance(choices, str) or not isinstance(choices, Sequence) or not choices:
            faults.append(f"{name} must be a list of values to try, got {choices!r}.")
        elif student_options and not any(name in options for options in student_options):
            faults.append(f"no strategy of these students has an option {name!r}.")
        else:
            for choice in choices:
                faults += _choice_faults(name, choice, strategies)
    if faults:
        raise PlanError("", faults)
    return {name: tuple(choices) for name, choices in values.items()}


def _choice_faults(option: str, value: Any, names: Sequence[str]) -> list[str]:
    """Why the strategies (`names`, or all if it is empty: one of them) do not take the value of an option."""
    if isinstance(value, float) and not math.isfinite(value):  # TOML allows inf and nan, the keys of cells do not
        return [f"{option} must be finite, got {value!r}."]
    strategies = [name for name in names or STRATEGIES if option in strategy_options(Spec(name))]
    faults = []
    for name in strategies:
        try:
            build_strategy(Spec(name), **{option: value})
        except DidactError as error:
            faults.append(str(error))
    return faults[:1] if names or len(faults) == len(strategies) else []


def _check_data(value: Any, _: Mapping[str, Any]) -> str:
    name = check_name(value)
    if name.partition("(")[0].strip() in DATASETS:
        spec = parse_spec(name)
        checked_options(spec.options, DATASETS.load(spec.name), of=spec.name)
    elif not Path(name).exists() and Path(name).suffix:
        raise OptionError(f"There is no file or folder {name!r}.")
    elif not Path(name).exists():
        raise OptionError(
            f"{unknown_name_message('data set', name, list(DATASETS))} No file or folder of that name exists either."
        )
    return name


def _check_device(value: Any, _: Mapping[str, Any]) -> str:
    """Check the name of a device. Whether it is available is checked when the run starts."""
    name = check_name(str(value) if isinstance(value, torch.device) else value)
    return name if name == AUTO else str(parse_device(name))


def _check_precision(value: Any, fields: Mapping[str, Any]) -> str:
    precision = check_precision(check_name(value))
    learned = [name for name in fields.get("explainers", ()) if is_learner(name)]
    if learned and precision != SINGLE:
        raise OptionError(f"{', '.join(learned)} needs second derivatives, which require precision single.")
    twice = [str(student) for student in fields.get("students", ()) if _is_second_order(student)]
    if twice and precision != SINGLE:
        raise OptionError(f"{', '.join(twice)} needs second derivatives, which require precision single.")
    return precision


def _is_second_order(student: StudentSpec) -> bool:
    return bool(STRATEGIES.load(student.strategy.name).needs_second_derivatives)


def _check_base(value: Any, fields: Mapping[str, Any]) -> str:
    """Check that some student starts from the base. The default student is known only with the teacher."""
    base = check_name(value)
    architectures = sorted({student.architecture for student in fields.get("students", ())})
    if not architectures or any(name in ("same", DEFAULT) or "embeddings" in name for name in architectures):
        return base
    raise OptionError(
        f"no student starts from {base!r}: {', '.join(architectures)} trains from scratch or has its own weights. "
        f"Leave base out, or use a student such as same/attention or {base}/attention."
    )


def _check_target_normalisation(value: Any, fields: Mapping[str, Any]) -> Any:
    """Check that no other option sets the sharpness of what students are sent."""
    if value == RAW or value not in get_args(TargetNormalisation):
        return value  # the type of the field refuses other names
    faults = []
    if "temperature" in fields.get("search_space", ()):
        faults.append(
            f"{value} sets the sharpness of what students are sent, and so does temperature in search_space. Leave one "
            "of the two out."
        )
    for student in fields.get("students", ()):
        options = strategy_options(student.strategy)
        is_sharpened = options.get("temperature", 1.0) != 1.0 or options.get("signed") == "softmax"
        if is_sharpened and build_strategy(student.strategy).reads_sizes:
            faults.append(
                f"{value} sets the sharpness of what students are sent, and so does student {student}. Leave its "
                "temperature or signed=softmax out, or use raw."
            )
    if faults:
        raise PlanError("", faults)
    return value


def _check_target_temperatures(values: Any, fields: Mapping[str, Any]) -> tuple[float, ...]:
    temperatures = check_temperatures(values) if values not in ((), []) else ()
    normalisation = fields.get("target_normalisation", TUNED)
    if temperatures and normalisation not in GRIDS:
        raise OptionError(f"only tuned and band have temperatures, and target_normalisation is {normalisation}.")
    if temperatures and normalisation == BAND and len(temperatures) < 2:
        raise OptionError("a band needs at least 2 temperatures, as in 4,1,0.25.")
    return tuple(sorted(temperatures, reverse=True))


# field -> check(value, fields that were checked before)
CHECKS: Final = {
    "explainers": _check_explainers,
    "students": _check_students,
    "search_space": _check_search_space,
    "data": _check_data,
    "device": _check_device,
    "precision": _check_precision,
    "base": _check_base,
    "target_normalisation": _check_target_normalisation,
    "target_temperatures": _check_target_temperatures,
}
