"""Exceptions of didact. Each message says what was requested, what prevents it and what to do next.

Every exception also derives from a built-in one, so that callers can catch it without knowing didact. A `RequestError`
is for the caller to fix (the command line exits with 2). Any other means that work failed (exit status 1).
"""

from collections.abc import Sequence


class DidactError(Exception):
    """Base class of all exceptions that didact raises on purpose."""


class RequestError(DidactError):
    """The request cannot be carried out as given."""


class UnknownNameError(RequestError, LookupError):
    """A name is not in its registry."""


class OptionError(RequestError, ValueError):
    """An option does not exist or cannot take this value."""


class UnsupportedError(RequestError, RuntimeError):
    """This model, task or method does not support the request."""


class ShapeError(RequestError, ValueError):
    """Shapes of values do not match."""


class MissingExtraError(RequestError, ImportError):
    """A package from an optional extra is required but not installed."""


class DataError(RequestError, ValueError):
    """Rows cannot be read. The message lists the first ten faults; nothing was loaded."""

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
    """A plan or config is invalid. The message lists all faults at once."""

    def __init__(self, summary: str, faults: Sequence[str] = ()) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([summary, *(f"  - {fault}" for fault in self.faults)]))


class RecordError(DidactError, RuntimeError):
    """A record on disk is damaged or cannot be written."""


class TrainingError(DidactError, RuntimeError):
    """Training failed: the loss is not a number, or the model does not learn the task."""


class ContractError(DidactError, AssertionError):
    """An explainer violates the contract of all explainers."""


class ExplanationWarning(UserWarning):
    """Scores were computed but are not reliable as they are. The message says why and what to do."""


def error_name(error: DidactError) -> str:
    """The name of the error's closest base class in this module, from which another process can raise it again."""
    return next(base.__name__ for base in type(error).__mro__ if base.__module__ == __name__)


def error_from_name(name: str, message: str) -> DidactError:
    """The error whose class `error_name` named in another process."""
    error: DidactError = globals()[name](message)
    return error
