"""A process that does cells: `python -m didact.experiment.worker MANIFEST`. Keys come in, one line about each goes out.

Its parent may be killed at any moment: the end of its input ends the worker at once, and what it had not finished is
done by the next run.
"""

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from didact.errors import RecordError
from didact.records.sealed import read_json
from didact.records.store import Record, Store


def main(manifest: str, kind: Callable[[Path], Any] | None = None) -> None:
    """Do the cells that are asked for at a desk of this kind; at that of this module, if none is named."""
    speech = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints, in Python or in C, must not be taken for an answer
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()

    import torch

    desk = (kind or Desk)(Path(manifest))
    torch.set_num_threads(desk.threads)
    while True:
        print(json.dumps(desk.work(asked.get())), file=speech, flush=True)


def _listen(asked: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        asked.put(line.strip())
    os._exit(0)


class Desk:
    """Where cells are done, one after another."""

    def __init__(self, manifest: Path) -> None:
        from didact.experiment.cell import Cell
        from didact.experiment.classroom import Classroom

        content = read_json(manifest, advice="Run the same command again.")
        self.threads: int = content["threads"]
        self.cells = {cell["key"]: Cell(**cell) for cell in content["cells"]}
        self.classroom = Classroom(manifest.parent, content["rows"])
        self.store = Store(manifest.parent.parent / "cells")

    def work(self, key: str) -> dict[str, Any]:
        """Do one cell and keep it. A cell that raises is kept as failed; a store that cannot be written is told."""
        from didact.experiment.cell import finished, run_cell, save_cell

        cell = self.cells[key]
        known = finished(self.store, key)
        if known is not None:  # by another run, while this key waited
            return _known(key, known)
        try:
            try:
                payload, outputs = run_cell(cell, self.classroom)
            except Exception as error:  # the one place: a failure is a record, never a hole
                text = traceback.format_exc()
                if (known := finished(self.store, key)) is not None:  # by another run, with more luck
                    return _known(key, known)
                self.store.save(Record(key, "failed", {"cell": cell.plain(), "error": str(error), "traceback": text}))
                return {"key": key, "status": "failed", "error": str(error)}
            save_cell(self.store, cell, payload, outputs)
        except RecordError as error:
            return {"key": key, "status": "unwritable", "error": str(error)}
        return {"key": key, "status": "done", "value": payload["value"], "seconds": payload["seconds"]}


def _known(key: str, record: Record) -> dict[str, Any]:
    return {"key": key, "status": "done", "value": record.payload["value"], "seconds": 0.0}


if __name__ == "__main__":
    main(sys.argv[1])
