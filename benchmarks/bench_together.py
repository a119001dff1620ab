"""What training seeds together gains: the demo's student, 5 seeds, one thread per process.

The demo's plan with one method and its controls (20 cells in 4 groups), explanations and the teacher's answers kept
from before. The clock, and the processor seconds of the workers, which are steadier on a busy machine; the start of the
processes is in both:

- one by one with one process and with two, the rival: what `--workers` gives without the option;
- together with one process and with two.
"""

import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

import torch

import didact
from didact.experiment.demo import DATA, SIZES, TEACHER
from didact.experiment.engines.local import Local

SEEDS, ROUNDS = 5, 2
METHOD = "attention_all"


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    torch.set_num_threads(1)
    size = SIZES["default"]
    data = didact.load_data(DATA)
    place = Path(tempfile.mkdtemp(prefix="didact-bench-"))
    teacher = didact.train_teacher(data, TEACHER, epochs=2, out=place / "teacher", progress=False)

    def compared(folder: Path, **options: object) -> None:
        didact.compare(
            teacher, data, [METHOD], list(size.students), sizes=[size.rows], seeds=SEEDS, out=folder, replicates=0,
            leave_out=["trivial"], **options,
        )  # fmt: skip

    def manifest(*, together: bool) -> tuple[Path, list[str]]:
        """A folder in which all is ready but the cells, and the keys that engines are told."""
        folder = place / f"together-{together}"
        compared(folder, workers=0, training={"epochs": 1}, together=together)
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
        told = list(Local(workers, 1).run(path, keys))
        assert {one.status for one in told} == {"done"}, told
        return time.perf_counter() - began, spent() - before

    ready = {together: manifest(together=together) for together in (False, True)}
    cells = len(ready[False][1])
    ways = [(False, 1), (False, 2), (True, 1), (True, 2)]
    found = {way: [(float("inf"), float("inf"))] for way in ways}
    for _ in range(ROUNDS):  # in turn, so that a busy machine slows all
        for together, workers in ways:
            found[together, workers].append(done(*ready[together], workers))
    best = {way: tuple(min(one) for one in zip(*times, strict=True)) for way, times in found.items()}
    for (together, workers), (wall, used) in best.items():
        name = "together" if together else "one by one"
        print(f"{name}, {workers} process{'es' * (workers > 1)}: {cells} cells in {wall:.1f} s, {used:.1f} s of CPU")
    for workers in (1, 2):
        wall, used = (best[False, workers][at] / best[True, 2][at] for at in (0, 1))
        print(f"together with two processes over one by one with {workers}: {wall:.2f}x by the clock")
    wall, used = (best[False, 1][at] / best[True, 1][at] for at in (0, 1))
    print(f"one process against one: {wall:.2f}x by the clock, {used:.2f}x by CPU")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
