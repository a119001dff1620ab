"""Cells in small, timed: what a forecast knows of students. Processes that rehearse speak as those of `worker` do.

The rows are few, and answers and explanations are made up: how long it takes does not depend on what they say.
"""

import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int

from didact.errors import RecordError
from didact.experiment import worker
from didact.experiment.cell import Cell, Ready, begin_learning, ready_for, set_up
from didact.experiment.learner import parse_learner
from didact.learning.fit import Examples, Training, answers, dev_of
from didact.learning.smat import learn_mix
from didact.learning.teach import teach
from didact.learning.together import Questions, stacked, teach_together
from didact.records.store import Record

_BUDGET: Final = 1.5  # seconds that one kind of teaching is timed for, where a step is short enough
_EPOCHS: Final = 8  # at most, so that students of few rows are not taught for long
_FEW: Final = 64  # rows of dev that are answered after each epoch while teaching is timed


@dataclass(frozen=True)
class Rate:
    """Of one teaching: seconds for each row before the first step, and for each step."""

    row: float
    step: float


@dataclass(frozen=True)
class Pace:
    """How fast cells of one kind are. Seconds each; of a group of seeds, for all of them.

    `encode` is for each row of the data, once in a process; `build` for a student; `dev` and `test` for each row that
    is answered. `candidates` are the students that choose among what was learned. `held` are the bytes of an encoded
    row, and `memory` those that the process held at most; None if unknown.
    """

    encode: float
    build: float
    taught: Rate
    learned: Rate | None
    candidates: int
    dev: float
    test: float
    held: float
    memory: int | None

    def seconds(self, cell: Cell, *, dev: int, test: int) -> float:
        """What a cell of this kind takes, where so many rows are in dev and in test."""
        rows = cell.size + (dev if cell.extra else 0)
        steps = -(-rows // cell.training["batch_size"])

        def of(rate: Rate) -> float:
            return self.build + rate.row * rows + cell.training["epochs"] * (rate.step * steps + self.dev * dev)

        if self.learned is None:
            return len(cell.trials) * of(self.taught) + self.test * test
        return of(self.learned) + self.candidates * of(self.taught) + self.test * test

    @classmethod
    def of_payload(cls, found: Mapping[str, Any]) -> "Pace":
        known = {one.name: found[one.name] for one in fields(cls)}
        learned = None if known["learned"] is None else Rate(**known["learned"])
        return cls(**{**known, "taught": Rate(**known["taught"]), "learned": learned})


class Desk:
    """The desk of a worker at which cells are only begun. What it finds of one is the payload of its record."""

    def __init__(self, manifest: Path) -> None:
        self.own = worker.Desk(manifest)
        self.threads = self.own.threads

    def work(self, key: str) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            try:
                pace = self._pace(self.own.cells[key])
            except Exception as error:  # as in `worker`: what cannot be done is told, and others go on
                payload = {"error": str(error), "traceback": traceback.format_exc()}
                self.own.store.save(Record(key, "failed", payload))
                return {"key": key, "status": "failed", "error": str(error)}
            self.own.store.save(Record(key, "done", asdict(pace) | {"seconds": time.perf_counter() - began}))
        except RecordError as error:
            return {"key": key, "status": "unwritable", "error": str(error)}
        return {"key": key, "status": "done"}

    def _pace(self, cell: Cell) -> Pace:
        room = self.own.classroom
        encode, examples = _timed(lambda: list(room.examples(cell.start, cell.soft).values()))
        rows = sum(map(len, examples))
        group = [self.own.cells[one] for one in cell.together] or [cell]
        set_up(cell, room, 0)
        build, _ = _timed(lambda: [set_up(one, room, 0) for one in group])
        ready = [ready_for(one, room) for one in group]
        held = sum(
            tensor.nbytes for one in examples for tensor in vars(one.batch).values() if hasattr(tensor, "nbytes")
        )
        dev, test = self._answered(group, ready)
        learned, candidates = None, 0
        if cell.learner is not None:
            learned, candidates = self._learned(cell, ready[0], build)
        is_taught = learned is None or candidates
        return Pace(
            encode / rows, build, self._taught(group, ready, build) if is_taught else Rate(0.0, 0.0), learned,
            candidates, dev, test, held / rows, peak_memory(),
        )  # fmt: skip

    def _taught(self, group: Sequence[Cell], ready: Sequence[Ready], build: float) -> Rate:
        def run(chosen: Int[np.ndarray, " chosen"], dev: Int[np.ndarray, " few"], epochs: int) -> None:
            trains, devs = [one.train.select(chosen) for one in ready], [one.dev.select(dev) for one in ready]
            maps = [one.maps.select(chosen.tolist()) for one in ready if one.maps is not None]
            trainings = [_training(one, epochs) for one in group]
            students, strategies = zip(*(set_up(one, self.own.classroom, 0) for one in group), strict=True)
            if group[0].together:
                teach_together(students, strategies, maps or None, trains, devs, trainings)
            else:
                teach(students[0], strategies[0], maps[0] if maps else None, trains[0], devs[0], trainings[0])

        return self._rate(run, group, ready, build)

    def _learned(self, cell: Cell, ready: Ready, build: float) -> tuple[Rate, int]:
        """The pace of learning, and how many students then choose."""
        assert cell.learner is not None
        learner = parse_learner(cell.learner)
        found = 0

        def run(chosen: Int[np.ndarray, " chosen"], dev: Int[np.ndarray, " few"], epochs: int) -> None:
            nonlocal found
            train = ready.train.select(chosen)
            student, explainer, parts = begin_learning(cell, self.own.classroom, train)
            strategy = set_up(cell, self.own.classroom, 0)[1]
            found = len(parts.names)
            learn_mix(
                student, strategy, explainer, parts, train, ready.dev.select(dev), _training(cell, epochs), learner.smat
            )

        judged = learner.smat.outer_batch or cell.training["batch_size"]
        rate = self._rate(run, [cell], [ready], build, fewest=cell.training["batch_size"] + judged, dev_rows=judged)
        members = found if learner.family == "blend" else 0
        return rate, 2 + members if learner.chooses else 0

    def _rate(
        self,
        run: Callable[[Int[np.ndarray, " chosen"], Int[np.ndarray, " few"], int], None],
        group: Sequence[Cell],
        ready: Sequence[Ready],
        build: float,
        *,
        fewest: int = 0,
        dev_rows: int = 0,
    ) -> Rate:
        """Teaching on two batches, or `fewest` rows; on more, and for more epochs, as far as the time goes."""
        train, batch = ready[0].train, group[0].training["batch_size"]
        dev = typical(ready[0].dev, max(_FEW, dev_rows))
        rows = min(max(2 * batch, fewest), len(train))
        run(typical(train, rows), dev, 1)  # the first time is slower
        once, _ = _timed(lambda: run(typical(train, rows), dev, 1))
        more = min(len(train), rows * max(1, int(_BUDGET / 4 / once)))
        if more > rows:
            rows = more
            once, _ = _timed(lambda: run(typical(train, rows), dev, 1))
        epochs = min(max(int(_BUDGET / once), 2), _EPOCHS)
        several, _ = _timed(lambda: run(typical(train, rows), dev, 1 + epochs))
        epoch = max(several - once, 0.0) / epochs
        asked, _ = self._asked(group, [one.dev.select(dev) for one in ready])
        step = max(epoch - asked, 0.0) / -(-rows // batch)
        return Rate(max(once - epoch - build, 0.0) / rows, step)

    def _answered(self, group: Sequence[Cell], ready: Sequence[Ready]) -> tuple[float, float]:
        """Seconds for a row of dev, and of test."""
        found = []
        for name in ("dev", "test"):
            own: list[Examples] = [getattr(one, name) for one in ready]
            rows = min(16, len(own[0]))
            for _ in range(4):  # the first time is slower; then as many as the time allows
                chosen = typical(own[0], rows)
                seconds, last = self._asked(group, [one.select(chosen) for one in own], is_dev=name == "dev")
                if seconds > _BUDGET / 4 or last == len(own[0]):
                    break
                rows = min(4 * rows, len(own[0]))
            found.append(seconds / last)
        return found[0], found[1]

    def _asked(self, group: Sequence[Cell], own: Sequence[Examples], *, is_dev: bool = True) -> tuple[float, int]:
        """Seconds that all rows take to be answered, and how many there are."""
        students = [set_up(one, self.own.classroom, 0)[0].eval() for one in group]
        size = max(group[0].training["batch_size"], 64) if is_dev else 256
        parts = own[0].parts(size)
        if group[0].together:
            questions = Questions(stacked(students), own)
            work: Callable[[], Any] = questions.measured if is_dev else questions.answers
        elif is_dev:
            work = lambda: dev_of(students[0], parts)  # noqa: E731
        else:
            work = lambda: answers(students[0], parts)  # noqa: E731
        work()
        return _timed(work)[0], len(own[0])


def typical(examples: Examples, count: int) -> Int[np.ndarray, " chosen"]:
    """So many rows, in their order: those whose length is nearest the mean, so that they take what rows take."""
    lengths = examples.batch.lengths.numpy()
    nearest = np.argsort(np.abs(lengths - lengths.mean()), kind="stable")
    return np.sort(nearest[:count]).astype(np.int64)


def peak_memory() -> int | None:
    """Bytes that this process held at most; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def _training(cell: Cell, epochs: int) -> Training:
    return Training(**{**cell.training, "epochs": epochs}, seed=cell.seed)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


if __name__ == "__main__":
    worker.main(sys.argv[1], Desk)
