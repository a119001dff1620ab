"""Checks of the options that generators share."""

from didact.errors import OptionError


def whole(low: int, high: int | None = None, **options: object) -> None:
    """Each option is a whole number from `low` to `high`."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
            bound = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise OptionError(f"Option {name!r} must be a whole number {bound}, not {value!r}.")


def chance(**options: object) -> None:
    """Each option is a probability."""
    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise OptionError(f"Option {name!r} must be a probability from 0 to 1, not {value!r}.")
