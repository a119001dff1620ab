"""The one family of errors. Each says what was asked, what stands in the way, and what to do next.

Every child is also a builtin, so that callers who know nothing of didact catch what they expect. Children of
`RequestError` are the caller's to mend (the command line exits with 2); all others mean that work failed (exit 1).
"""

from collections.abc import Sequence


class DidactError(Exception):
    """Anything didact raises on purpose."""


class RequestError(DidactError):
    """What was asked cannot be done as asked."""


class UnknownNameError(RequestError, LookupError):
    """A name that no registry knows."""


class OptionError(RequestError, ValueError):
    """An option that does not exist, or a value it cannot take."""


class UnsupportedError(RequestError, RuntimeError):
    """A sensible request that this model, task or method cannot serve."""


class ShapeError(RequestError, ValueError):
    """Values whose shapes do not belong together."""


class MissingExtraError(RequestError, ImportError):
    """A package of an optional extra is needed and not installed."""


class DataError(RequestError, ValueError):
    """Rows that cannot be read. Lists the first ten faults together; nothing is half loaded."""

    SHOWN = 10

    def __init__(self, summary: str, faults: Sequence[str] = (), *, total: int | None = None) -> None:
        self.faults = tuple(faults)
        total = len(self.faults) if total is None else total
        lines = [summary, *(f"  - {fault}" for fault in self.faults[: self.SHOWN])]
        hidden = total - min(len(self.faults), self.SHOWN)
        if hidden > 0:
            lines.append(f"  … and {hidden} more")
        super().__init__("\n".join(lines))


class PlanError(RequestError, ValueError):
    """A plan that cannot be carried out. Lists all its faults at once."""

    def __init__(self, summary: str, faults: Sequence[str] = ()) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([summary, *(f"  - {fault}" for fault in self.faults)]))


class RecordError(DidactError, RuntimeError):
    """A record on disk is damaged, or cannot be written."""


class TrainingError(DidactError, RuntimeError):
    """Training went wrong: a loss that is not a number, a model that cannot learn the task."""


class ContractError(DidactError, AssertionError):
    """An explainer that breaks a promise all explainers make."""


class ExplanationWarning(UserWarning):
    """Scores were computed and should not be relied on as they are. The message says why and what helps."""


def error_name(error: DidactError) -> str:
    """The name of the error's nearest kind among those of this module: what another process can raise again."""
    return next(base.__name__ for base in type(error).__mro__ if base.__module__ == __name__)


def error_from_name(name: str, message: str) -> DidactError:
    """The error that `kind_of` named in another process."""
    error: DidactError = globals()[name](message)
    return error
