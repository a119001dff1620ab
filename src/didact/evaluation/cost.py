"""Measures the cost of methods: passes through the model, seconds and memory."""

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
    """Measure the cost per row of each method. One row is explained first, so that loading is not counted.

    `classes` names the data's classes in the teacher's order, where names differ and gold labels are explained.
    """
    loaded: Teacher = load_teacher(teacher)
    rows = labelled_rows(loaded, data, rows_for(loaded, data), classes=classes, required=explains_gold_label(*methods))
    costs = []
    for method in methods:
        with ignore_score_warnings():
            explain(loaded, rows[:1], method, background_rows=rows, batch_size=batch_size)
        with ignore_score_warnings(), _counting_passes(loaded) as passes, _watching_memory(loaded) as peak:
            start = time.perf_counter()
            explain(loaded, rows, method, background_rows=rows, batch_size=batch_size)
            seconds = time.perf_counter() - start
        count = len(rows)
        memory = None if peak.above_idle is None else peak.above_idle / 1e6
        costs.append(Cost(str(method), passes.forward / count, passes.backward / count, seconds / count, memory, count))
    return costs


@dataclass
class _Passes:
    forward: int = 0
    backward: int = 0


@contextlib.contextmanager
def _counting_passes(teacher: Teacher) -> Iterator[_Passes]:
    """Count the rows of forward and backward passes through the teacher."""
    passes = _Passes()
    is_differentiable = isinstance(teacher, Differentiable)
    name = "run" if is_differentiable else "predict"
    original = getattr(teacher, name)

    def count_backward(_: torch.Tensor, rows: int) -> None:
        passes.backward += rows

    def run_and_count(first: Any, *others: Any, run: Any = original, **options: Any) -> Any:
        answer = run(first, *others, **options)
        passes.forward += len(first)
        if is_differentiable and answer.logits.requires_grad:
            answer.logits.register_hook(lambda gradient: count_backward(gradient, len(first)))
        return answer

    def counting_method(model: Teacher, *args: Any, **options: Any) -> Any:
        return run_and_count(*args, run=MethodType(getattr(type(model), name), model), **options)

    # A bound method follows copies of the model; a plain function would still call the original.
    object.__setattr__(teacher, name, MethodType(counting_method, teacher))
    try:
        yield passes
    finally:
        object.__delattr__(teacher, name)  # restores the method of the class


class _PeakMemory:
    """Peak memory of the process, sampled every 5 ms; exact on a GPU. None if unknown."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.idle = self._used_memory()
        self.highest = self.idle
        self._stopped = threading.Event()

    def _used_memory(self) -> int | None:
        if self.device.type == "cuda":
            return int(torch.cuda.memory_allocated(self.device))
        if not _STATUS.is_file():
            return None
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # pages of 4, 16 or 64 KB

    @property
    def above_idle(self) -> int | None:
        return None if self.highest is None or self.idle is None else max(self.highest - self.idle, 0)

    def watch(self) -> None:
        while not self._stopped.wait(0.005):
            used = self._used_memory()
            self.highest = used if self.highest is None or used is None else max(self.highest, used)

    def stop(self) -> None:
        self._stopped.set()
        if self.device.type == "cuda":
            self.highest = int(torch.cuda.max_memory_allocated(self.device))


@contextlib.contextmanager
def _watching_memory(teacher: Teacher) -> Iterator[_PeakMemory]:
    device = teacher.device
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # reusing freed memory would not count
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    peak = _PeakMemory(device)
    thread = threading.Thread(target=peak.watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        peak.stop()
        thread.join()
