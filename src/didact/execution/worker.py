"""A worker process: `python -m didact.execution.worker MANIFEST`. It reads keys on stdin and writes results to stdout.

If the parent is killed, stdin closes and the worker exits at once; the next run repeats the unfinished job.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from didact.execution.base import JobRunner, open_runner


def main(manifest: str, make_runner: Callable[[Path], JobRunner] = open_runner) -> None:
    """Run the jobs whose keys arrive on stdin, until it closes."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # send what libraries print, in Python or C, to stderr: stdout is for results
    keys: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_keys, args=(keys,), daemon=True).start()

    import torch

    runner = make_runner(Path(manifest))
    torch.set_num_threads(runner.threads)
    while True:
        print(json.dumps(runner.run(keys.get()).document()), file=replies, flush=True)


def _read_keys(keys: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        keys.put(line.strip())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
