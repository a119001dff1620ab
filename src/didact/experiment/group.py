"""Cells of one configuration and several seeds, done as one unit of work: taught together, a record each.

The plan decides who is in a group, never what a stopped run left over: a group of which one cell is missing is done
again, whole. Engines know a group by the key of its first cell, whose record is written last.
"""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from didact.core.outputs import Outputs
from didact.errors import OptionError, RecordError
from didact.execution.base import JobResult, JobStatus
from didact.experiment.cell import Cell, Done, finished, ready_for, record_of, save_cell, set_up, trial_of
from didact.experiment.classroom import Classroom
from didact.learning.fit import Training, best_of
from didact.learning.together import Questions, stacked, teach_together
from didact.records.store import Record, Store, key_of

# Raise it when the same group would give another result.
VERSION: Final = 2
# Seeds in a group at most. More make it no faster, and fewer groups share the processes less evenly.
BLOCK: Final = 8


def grouped(cells: Sequence[Cell], why_not: Callable[[Cell], str | None]) -> tuple[list[Cell], dict[str, str]]:
    """The cells with their groups, in their order, and by student why some of its cells are done alone.

    A cell in a group has another key than alone: the last digits differ.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    reasons: dict[str, str] = {}
    for cell in cells:
        reason = why_not(cell)
        if reason is None:
            groups.setdefault((cell.explainer, cell.student, cell.size), []).append(cell)
        else:
            reasons.setdefault(cell.student if cell.learner is None else f"{cell.student}, {cell.explainer}", reason)
    found: dict[int, Cell] = {}
    for members in groups.values():
        for start in range(0, len(members), BLOCK):
            block = members[start : start + BLOCK]
            alone = [cell.key for cell in block]
            keys = [key_of({"cell": key, "together": alone, "version": VERSION}) for key in alone]
            found |= {id(cell): replace(cell, key=key, together=keys) for cell, key in zip(block, keys, strict=True)}
    if cells and not found:
        told = "; ".join(f"{student}: {reason}" for student, reason in reasons.items())
        raise OptionError(f"Seeds were to be trained together, and no student can be: {told}. Leave `together` out.")
    return [found.get(id(cell), cell) for cell in cells], reasons


def leaders(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """By the key that engines are told, the keys of the cells it stands for."""
    return {cell.together[0] if cell.together else cell.key: list(cell.together) or [cell.key] for cell in cells}


def work_together(store: Store, cells: Sequence[Cell], classroom: Classroom) -> JobResult:
    """Do the cells of a group and keep them. A cell that fails is kept as failed; the others are not its business."""
    key = cells[0].key
    if all(finished(store, cell.key) is not None for cell in cells):  # by another run, while this key waited
        return JobResult(key, JobStatus.DONE)
    try:
        try:
            done = run_group(cells, classroom)
        except Exception as error:  # a failure is a record, never a hole
            done = [error] * len(cells)
        for cell, found in reversed(list(zip(cells, done, strict=True))):
            if isinstance(found, Exception):
                text = "".join(traceback.format_exception(found))
                payload = {"cell": cell.plain(), "error": str(found), "traceback": text}
                store.save(Record(cell.key, "failed", payload))
            else:
                save_cell(store, cell, *found)
    except RecordError as error:
        return JobResult(key, JobStatus.UNWRITABLE, error=str(error))
    failed = [found for found in done if isinstance(found, Exception)]
    if failed:
        return JobResult(key, JobStatus.FAILED, error=str(failed[0]))
    return JobResult(key, JobStatus.DONE)


def run_group(cells: Sequence[Cell], classroom: Classroom) -> list[tuple[dict[str, Any], Outputs] | Exception]:
    """Teach the students of all cells as one. Of each what is recorded and its answers, or why it failed."""
    began = time.monotonic()
    first = cells[0]
    ready = [ready_for(cell, classroom) for cell in cells]
    maps = [one.maps for one in ready if one.maps is not None]
    trainings = [Training(**cell.training, seed=cell.seed) for cell in cells]
    best: list[Done | None] = [None] * len(cells)
    tried: list[list[Mapping[str, Any]]] = [[] for _ in cells]
    errors: list[Exception | None] = [None] * len(cells)
    for number, changes in enumerate(first.trials):
        students, strategies = zip(*(set_up(cell, classroom, number) for cell in cells), strict=True)
        taught = teach_together(
            students, strategies, maps or None, [one.train for one in ready], [one.dev for one in ready], trainings,
            keep="last" if first.extra else "best",
        )  # fmt: skip
        for seed, cell in enumerate(cells):
            errors[seed] = errors[seed] or taught.errors[seed]
            if errors[seed] is not None:
                continue
            history = taught.histories[seed]
            epoch = history[-1] if cell.extra else best_of(history)
            tried[seed].append(trial_of(cell, number, changes, epoch))
            leader = best[seed]
            if leader is None or epoch.rank > leader.epoch.rank:
                best[seed] = Done(students[seed], history, epoch, number, tried[seed], taught.lost_rows[seed])
    # A student that failed answers, too, and nobody reads it.
    last = [students[seed] if one is None else one.student for seed, one in enumerate(best)]
    said = Questions(stacked(last), [one.test for one in ready]).answers()
    seconds = (time.monotonic() - began) / len(cells)
    found: list[tuple[dict[str, Any], Outputs] | Exception] = []
    for seed, cell in enumerate(cells):
        error, done = errors[seed], best[seed]
        try:
            if error is not None:
                raise error
            assert done is not None
            place = {name: number for number, name in enumerate(said[seed].ids)}
            own = said[seed].select(np.array([place[row.id] for row in ready[seed].test.rows], dtype=np.int64))
            found.append(record_of(cell, ready[seed], done, own, seconds))
        except Exception as failed:  # this seed's alone
            found.append(failed)
    return found
