"""Upper bounds of counts. Above them a number is a slip that would fill the memory or end the process silently."""

import os
from typing import Any, Final

MAX_SEEDS: Final = 10_000
MAX_ROWS: Final = 10_000_000
MAX_BATCH_SIZE: Final = 1_000_000  # rows in one pass or step
MAX_LENGTH: Final = 1_000_000
MAX_EPOCHS: Final = 100_000
MAX_WORKERS: Final = 10_000  # of a cluster


def max_threads() -> int:
    """The largest number of threads or worker processes on one machine; a run may have begun on a larger one."""
    return max(256, 4 * (os.cpu_count() or 1))


def shown(value: Any) -> str:
    """A value in a message: long ones are cut, and whole numbers of thousands of digits cannot be written at all."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {round(value.bit_length() * 0.301):,} digits"
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "…"
