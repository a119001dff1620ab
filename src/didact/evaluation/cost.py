"""What explaining costs: passes through the model, seconds, memory."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import torch

from didact.core.teacher import Differentiable, Teacher
from didact.explaining.explain import explain
from didact.explaining.input_rows import explains_gold_label, labelled_rows, rows_for
from didact.explaining.score_checks import ignore_score_warnings
from didact.models.load import load_teacher
from didact.results.measured import Cost

_STATUS = Path("/proc/self/statm")


def cost_of(
    teacher: Any,
    data: Any,
    methods: Sequence[Any],
    *,
    batch_size: int | None = None,
    classes: Sequence[str] | None = None,
) -> list[Cost]:
    """Explain the rows with each method, and count. A row is explained before, so that nothing is loaded meanwhile.

    `classes` names the data's classes in the teacher's order, where names differ and gold labels are explained.
    """
    known: Teacher = load_teacher(teacher)
    rows = labelled_rows(known, data, rows_for(known, data), classes=classes, required=explains_gold_label(*methods))
    found = []
    for method in methods:
        with ignore_score_warnings():
            explain(known, rows[:1], method, background_rows=rows, batch_size=batch_size)
        with ignore_score_warnings(), _counting(known) as passes, _watching(known) as peak:
            began = time.perf_counter()
            explain(known, rows, method, background_rows=rows, batch_size=batch_size)
            spent = time.perf_counter() - began
        count = len(rows)
        memory = None if peak.extra is None else peak.extra / 1e6
        found.append(Cost(str(method), passes.forward / count, passes.backward / count, spent / count, memory, count))
    return found


@dataclass
class _Passes:
    forward: int = 0
    backward: int = 0


@contextlib.contextmanager
def _counting(teacher: Teacher) -> Iterator[_Passes]:
    """Counts rows while they pass through the teacher, and gradients while they come back."""
    found = _Passes()
    is_open = isinstance(teacher, Differentiable)
    name = "run" if is_open else "predict"
    own = getattr(teacher, name)

    def back(_: torch.Tensor, rows: int) -> None:
        found.backward += rows

    def counted(first: Any, *others: Any, run: Any = own, **options: Any) -> Any:
        answer = run(first, *others, **options)
        found.forward += len(first)
        if is_open and answer.logits.requires_grad:
            answer.logits.register_hook(lambda slope: back(slope, len(first)))
        return answer

    def counted_run(model: Teacher, *args: Any, **options: Any) -> Any:
        return counted(*args, run=MethodType(getattr(type(model), name), model), **options)

    # A method is bound to the copy of the model that explains; a function would go on calling the original.
    object.__setattr__(teacher, name, MethodType(counted_run, teacher))
    try:
        yield found
    finally:
        object.__delattr__(teacher, name)  # the class's own again


class _Peak:
    """The most memory that the process held, looked at every few milliseconds; exact on a GPU. None if unknown."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rest = self._held()
        self.most = self.rest
        self._over = threading.Event()

    def _held(self) -> int | None:
        if self.device.type == "cuda":
            return int(torch.cuda.memory_allocated(self.device))
        if not _STATUS.is_file():
            return None
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # pages of 4, 16 or 64 KB

    @property
    def extra(self) -> int | None:
        return None if self.most is None or self.rest is None else max(self.most - self.rest, 0)

    def watch(self) -> None:
        while not self._over.wait(0.005):
            held = self._held()
            self.most = held if self.most is None or held is None else max(self.most, held)

    def stop(self) -> None:
        self._over.set()
        if self.device.type == "cuda":
            self.most = int(torch.cuda.max_memory_allocated(self.device))


@contextlib.contextmanager
def _watching(teacher: Teacher) -> Iterator[_Peak]:
    device = teacher.device
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # what was freed goes back first, or it would not be counted
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    peak = _Peak(device)
    thread = threading.Thread(target=peak.watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        peak.stop()
        thread.join()
