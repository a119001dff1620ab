"""The options of an audit: those of a comparison, and which evaluators and changed explanations to include."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator

from didact.comparing.config import CompareConfig, Rows
from didact.comparing.config_values import check_out, check_train_sizes, parse_decimals, parse_integers
from didact.config import Group, Option
from didact.errors import OptionError
from didact.field_types import Name, check_list
from didact.limits import shown
from didact.registry import split_list, unknown_name_message
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
    def check(values: Any) -> tuple[str, ...]:
        listed = [values] if isinstance(values, str) else values
        unknown = [value for value in listed if value not in names]
        if unknown:
            raise OptionError(unknown_name_message(kind, str(unknown[0]), list(names)))
        return tuple(dict.fromkeys(listed))

    return check


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


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
        BeforeValidator(_check_names("target normalisation", NAMES)),
        Option(Group.METHOD, "NAMES", split_list, default="-"),
    ] = (RAW, MATCHED, RANKS)
    """Target normalisations (default: raw,matched,ranks)."""
    metrics: Annotated[
        tuple[str, ...], BeforeValidator(_as_list), Option(Group.METHOD, "NAMES", split_list, default="-")
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
    target_normalisation: TargetNormalisation = RAW
    budget: None = None
    temperatures: tuple[float, ...] = CompareConfig.default("temperatures")
    search_space: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012
