"""What training seeds together gains: the demo's student and a narrower one, 5 seeds, one thread per process.

The demo's plan with one method and its controls (20 cells in 4 groups), explanations and the teacher's answers kept
from before. The clock, and the processor seconds of the workers, which are steadier on a busy machine; the start of the
processes is in both:

- one by one with one process and with two, the rival: what `--workers` gives without the option;
- together with one process and with two.

Then the operations that a device is told in an epoch of five seeds: where telling takes longer than doing, time is made
of them.
"""

import json
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import didact
from didact.core.dataset import Dataset
from didact.core.model import Model
from didact.core.seeds import seed_from
from didact.execution.base import Job, Manifest
from didact.execution.process_pool import ProcessPool
from didact.experiment.demo import DATA, SIZES, TEACHER
from didact.experiment.subset import subset
from didact.learning.fit import Examples
from didact.learning.teach import student_training, teach
from didact.learning.together import teach_together
from didact.models.build import build_model
from didact.students.attention import Attention

SEEDS, ROUNDS = 5, 2
METHOD = "attention_all"
NARROW = "native(layers=2, width=16, heads=2)"


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    torch.set_num_threads(1)
    size = SIZES["default"]
    data = didact.load_data(DATA)
    place = Path(tempfile.mkdtemp(prefix="didact-bench-"))
    teacher = didact.train_teacher(data, TEACHER, epochs=2, out=place / "teacher", progress=False)

    def manifest(name: str, student: str, *, together: bool) -> tuple[Path, list[str]]:
        """A folder in which all is ready but the cells, and the keys that executors are told."""
        folder = place / f"{name}-{together}"
        didact.compare(
            teacher, data, [METHOD], [student], sizes=[size.rows], seeds=SEEDS, out=folder,
            leave_out=["trivial"], workers=0, training={"epochs": 1}, together=together, measure=0,
        )  # fmt: skip
        path = next((folder / "classroom").glob("cells-*.json"))
        content = json.loads(path.read_text())
        for cell in content["cells"]:
            cell["training"] |= size.training
        path.write_text(json.dumps(content))
        firsts = {(cell.get("together") or [cell["key"]])[0]: None for cell in content["cells"]}
        return path, list(firsts)

    def done(path: Path, keys: list[str], workers: int) -> tuple[float, float]:
        """Seconds by the clock and of the processors."""
        shutil.rmtree(path.parent.parent / "cells", ignore_errors=True)
        before, began = spent(), time.perf_counter()
        told = list(ProcessPool(workers, 1).run(Manifest(path, path.parent.parent), map(Job, keys)))
        assert {one.status for one in told} == {"done"}, told
        return time.perf_counter() - began, spent() - before

    for name, student in (("the demo's", size.students[0]), ("narrow", f"{NARROW}/attention")):
        ready = {together: manifest(name, student, together=together) for together in (False, True)}
        cells = len(ready[False][1])
        ways = [(False, 1), (False, 2), (True, 1), (True, 2)]
        found = {way: [(float("inf"), float("inf"))] for way in ways}
        for _ in range(ROUNDS):  # in turn, so that a busy machine slows all
            for together, workers in ways:
                found[together, workers].append(done(*ready[together], workers))
        best = {way: tuple(min(one) for one in zip(*times, strict=True)) for way, times in found.items()}
        print(f"student: {name}")
        for (together, workers), (wall, used) in best.items():
            way = "together" if together else "one by one"
            print(
                f"  {way}, {workers} process{'es' * (workers > 1)}: {cells} cells in {wall:.1f} s, {used:.1f} s of CPU"
            )
        for workers in (1, 2):
            wall, used = (best[False, workers][at] / best[True, workers][at] for at in (0, 1))
            print(
                f"  together over one by one, {workers} against {workers}: {wall:.2f}x by the clock, {used:.2f}x by CPU"
            )
    tell_operations(teacher, data, size.rows)
    shutil.rmtree(place)


class Counted(TorchDispatchMode):
    """Counts operations that compute; views and new memory are free on a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += not operation.is_view and "empty" not in operation.name()
        return operation(*args, **(kwargs or {}))


def tell_operations(teacher: Model, data: Dataset, rows: int) -> None:
    """One epoch of all seeds; what is done once before it is not counted."""
    sets = {
        name: Examples.of(teacher, tuple(data[name].rows), teacher.predict(data[name].rows))
        for name in ("train", "dev")
    }
    trains = [sets["train"].select(subset(sets["train"].outputs.ids, size=rows, seed=seed)) for seed in range(SEEDS)]
    maps = [didact.explain(teacher, list(one.rows), METHOD) for one in trains]
    training = student_training(teacher, "adam")

    def counted(ways: str, epochs: int) -> int:
        students = [build_model(TEACHER, data, seed=seed_from(seed, "student")) for seed in range(SEEDS)]
        trainings = [replace(training, epochs=epochs, seed=seed) for seed in range(SEEDS)]
        strategies = [Attention() for _ in students]
        with Counted() as mode:
            if ways == "one by one":
                for parts in zip(students, strategies, maps, trains, [sets["dev"]] * SEEDS, trainings, strict=True):
                    teach(*parts)
            else:
                parts = (students, strategies, maps, trains, [sets["dev"]] * SEEDS, trainings)
                teach_together(*parts, at_once=ways == "at once")
        return mode.count

    found = {way: counted(way, 2) - counted(way, 1) for way in ("one by one", "seed after seed", "at once")}
    print(f"operations of an epoch, {SEEDS} seeds: " + ", ".join(f"{count:,} {way}" for way, count in found.items()))
    print(f"  at once {found['one by one'] / found['at once']:.2f}x fewer than one by one")


if __name__ == "__main__":
    main()
