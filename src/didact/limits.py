"""Upper bounds of counts. A larger number is a typing error that would exhaust memory or end the process silently."""

import os
from typing import Any, Final

MAX_SEEDS: Final = 10_000
MAX_ROWS: Final = 10_000_000
MAX_BATCH_SIZE: Final = 1_000_000  # rows in one pass or step
MAX_LENGTH: Final = 1_000_000
MAX_EPOCHS: Final = 100_000
MAX_WORKERS: Final = 10_000  # on a cluster


def max_threads() -> int:
    """The largest number of threads or worker processes on one machine. A run may have started on a larger one."""
    return max(256, 4 * (os.cpu_count() or 1))


def shown(value: Any) -> str:
    """`repr` for messages, at most 100 characters. Python refuses to write integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {round(value.bit_length() * 0.301):,} digits"
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "…"
