"""The options of an audit: those of a comparison, and which evaluators and changed explanations to include."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, field_validator

from didact.comparing.config import CompareConfig, Rows
from didact.comparing.config_values import check_out, check_train_sizes, parse_decimals, parse_integers
from didact.config import Group, Option
from didact.errors import DidactError, OptionError, PlanError
from didact.field_types import Name, check_list, check_name
from didact.limits import shown
from didact.metrics import METRICS
from didact.option_types import check_option_types
from didact.registry import checked_options, parse_spec, split_list, unknown_name_message
from didact.results.target_normalisation import MATCHED, NAMES, RANKS, RAW, TargetNormalisation

ROWS, UNITS = DAMAGED = ("rows", "units")
# The fields that a comparison does not have.
OWN_FIELDS: Final = ("bases", "damage", "damaged", "normalisations", "metrics", "name", "protocol")
ALL_METRICS: Final = "all"
NO_METRICS: Final = "none"


def _check_damage(values: Any) -> tuple[float, ...]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise OptionError(f"a share must be above 0 and at most 1, got {shown(value)}.")
        return float(value)

    return tuple(sorted(set(check_list(values, check, "shares"))))


def _check_names(kind: str, names: tuple[str, ...]) -> Any:
    def check(value: Any) -> str:
        if value not in names:
            raise OptionError(unknown_name_message(kind, str(value), list(names)))
        return str(value)

    return lambda values: check_list([values] if isinstance(values, str) else values, check, "names")


def _check_normalisations(values: Any) -> tuple[str, ...]:
    normalisations: tuple[str, ...] = _check_names("target normalisation", NAMES)(values)
    if not normalisations:
        raise OptionError(f"name at least one of {', '.join(NAMES)}.")
    return normalisations


def _check_metrics(values: Any) -> tuple[str, ...]:
    names = check_list([values] if isinstance(values, str) else values, _check_metric, "metrics")
    if not names:
        return (NO_METRICS,)
    if NO_METRICS in names and len(names) > 1:
        raise OptionError(f"{NO_METRICS!r} stands alone. Name metrics, or {NO_METRICS!r}.")
    return names


def _check_metric(value: Any) -> str:
    """The canonical spelling of a metric with its options."""
    name = check_name(value)
    if name in (ALL_METRICS, NO_METRICS):
        return name
    spec = parse_spec(name)
    factory = METRICS.load(spec.name)
    options = checked_options(spec.options, factory, of=spec.name)
    check_option_types(options, factory, of=spec.name)
    METRICS.build(spec.name, options)
    return str(spec)


def _check_unset(default: Any, advice: str) -> Any:
    """A check of a field of comparisons that an audit sets itself."""

    def check(value: Any) -> Any:
        if value != default:
            raise OptionError(f"an audit does not take it, got {shown(value)}. {advice}")
        return value

    return check


def _check_one_size(values: Any) -> tuple[int, ...]:
    sizes = check_train_sizes(values)
    if len(sizes) > 1:
        raise OptionError(f"an audit has one training size, got {len(sizes)}. Run one audit per size.")
    return sizes


class AuditConfig(CompareConfig):
    """All options of an audit. `explainers` are the methods that evaluators should rank by their true AUC.

    `bases` are changed: `damage` swaps the scores of these shares of their rows or units. `normalisations` and
    `test_sets` multiply the students. `name` and `protocol` are stored in the result.
    """

    NEEDED: ClassVar = CompareConfig.NEEDED

    bases: Annotated[tuple[str, ...], Option(Group.METHOD, "NAMES", split_list)] = ()
    """Methods to change (default: truth and three methods)."""
    damage: Annotated[
        tuple[float, ...], BeforeValidator(_check_damage), Option(Group.METHOD, "S,S", parse_decimals, default="-")
    ] = (0.05, 0.1, 0.2, 0.4)
    """Damaged shares (default: 0.05,0.1,0.2,0.4)."""
    damaged: Annotated[
        tuple[Literal["rows", "units"], ...],
        BeforeValidator(_check_names("kind of damage", DAMAGED)),
        Option(Group.METHOD, "NAMES", split_list, default="-"),
    ] = (ROWS,)  # type: ignore[assignment]
    """What is damaged: rows (default), units or both."""
    normalisations: Annotated[
        tuple[TargetNormalisation, ...],
        BeforeValidator(_check_normalisations),
        Option(Group.METHOD, "NAMES", split_list, default="-"),
    ] = (RAW, MATCHED, RANKS)
    """Target normalisations (default: raw,matched,ranks)."""
    metrics: Annotated[
        tuple[str, ...], BeforeValidator(_check_metrics), Option(Group.METHOD, "NAMES", split_list, default="-")
    ] = (ALL_METRICS,)
    """Metrics to audit: all (default), none, and names."""
    name: Annotated[Name, Option(Group.OUTPUT, "NAME")] = ""
    """Name of this audit among others."""
    protocol: Name = ""
    """Commit of the protocol that was written before the audit."""

    # Fields of a comparison with another default here, or that an audit sets itself.
    train_sizes: Annotated[
        tuple[int, ...], BeforeValidator(_check_one_size), Option(Group.TRAINING, "N", parse_integers)
    ] = ()
    """Number of training rows per student, as in 300."""
    eval_rows: Annotated[Rows | None, Option(Group.OUTPUT, "N")] = 200
    """Test rows to score with metrics (default: 200; 0: none)."""
    out: Annotated[Annotated[str | Path, BeforeValidator(check_out)] | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Output folder (default: runs/audit-DATA)."""
    target_normalisation: Annotated[
        TargetNormalisation, BeforeValidator(_check_unset(RAW, "Name them in normalisations."))
    ] = RAW
    target_temperatures: tuple[float, ...] = ()
    budget: Annotated[
        float | None, BeforeValidator(_check_unset(None, "Choose fewer bases, students or seeds for a shorter one."))
    ] = None
    temperatures: tuple[float, ...] = CompareConfig.default("temperatures")
    search_space: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012

    @field_validator("bases", mode="before")
    @classmethod
    def _check_bases(cls, values: Any) -> tuple[str, ...]:
        from didact.comparing.config_checks import check_method  # loads torch

        try:
            listed = [values] if isinstance(values, str) else values
            return check_list(listed, lambda base: check_method(check_name(base)), "bases")
        except PlanError:
            raise
        except DidactError as error:
            raise OptionError(str(error)) from None
