"""What Ray costs beside `local`, on the same cores, whether many cells make it grow, and what explanations gain by it.

Nothing here trains a student. All sections, or those that are named: `bench_ray.py clock explanations`.

- cpu, clock: cells that add numbers in one thread until 5 seconds have passed, on two processes of a process pool and
  on a Ray cluster of two CPUs started for the run. Once until the process has had 5 seconds of CPU time, so that what
  Ray takes of the cores counts, and anybody else's work, too; once until the clock has gone on by 5 seconds, so that
  only the time between cells counts. Workers have a session of their own in both: a busy system shares its cores among
  sessions. The start of the cluster is measured apart;
- many: 10,000 cells that do nothing, on a Ray cluster of two CPUs: cells per second, and the resident memory of the
  calling process after 1,000 cells and at its highest;
- explanations: LIME of 512 sentences with MiniLM (extra `minilm`) in two shards: in the calling process with one
  thread, and on a Ray cluster of two CPUs whose processes have loaded the teacher. The bytes are the same.

Both executors are told their worker by name (`module`), as in their tests; each cell writes and sends back a record of
200 bytes.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from didact.execution.base import Executor, Job, Manifest
from didact.execution.process_pool import ProcessPool
from didact.execution.ray import RayExecutor

CELLS, SECONDS, MANY = 8, 5.0, 10_000
ROWS, METHOD = 512, "lime(samples=20)"
WORKER = """
import contextlib, json, os, sys, time
from pathlib import Path


class Desk:
    threads = 1

    def __init__(self, manifest):
        with contextlib.suppress(OSError):
            os.setsid()  # a busy system shares its cores among sessions: alike for both executors
        self.cells = manifest.parent.parent / "cells"
        self.cells.mkdir(exist_ok=True)

    def work(self, key):
        kind, seconds, _ = key.split("-")
        clock = time.process_time if kind == "cpu" else time.monotonic
        end = clock() + float(seconds)
        while clock() < end:
            sum(range(1000))
        (self.cells / f"{key}.json").write_text("x" * 200)
        return {"key": key, "status": "done", "value": 0.5}


if __name__ == "__main__":
    desk = Desk(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(desk.work(line.strip())), flush=True)
"""


def done(
    engine: Executor, count: int, seconds: float, kind: str = "cpu", *, look: bool = False
) -> tuple[float, list[int]]:
    """Seconds that so many cells take, and the resident megabytes of this process on the way."""
    with tempfile.TemporaryDirectory() as place:
        manifest = Path(place) / "run" / "classroom" / "cells.json"
        manifest.parent.mkdir(parents=True)
        keys = [f"{kind}-{seconds}-{number}" for number in range(count)]
        manifest.write_text("{}")
        jobs = [Job(key, ("classroom/cells.json",), (f"cells/{key}.json",)) for key in keys]
        began, sizes = time.perf_counter(), []
        for number, told in enumerate(engine.run(Manifest(manifest, manifest.parent.parent), jobs), 1):
            assert told.status == "done", told
            if look and number % 1000 == 0:
                sizes.append(resident())
        return time.perf_counter() - began, sizes


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def overhead(kind: str) -> None:
    local, _ = done(ProcessPool(2, 1, module="bench_cells"), CELLS, SECONDS, kind)
    with RayExecutor(2, module="bench_cells") as engine:
        start, _ = done(engine, 2, 0.0)
        ray, _ = done(engine, CELLS, SECONDS, kind)
    print(
        f"{CELLS} cells of {SECONDS:g} s by {kind}: local {local:.1f} s, ray {ray:.1f} s ({ray / local - 1:+.1%}) "
        f"after {start:.1f} s for the start of its cluster and two empty cells",
        flush=True,
    )


def many() -> None:
    with RayExecutor(2, module="bench_cells") as engine:
        done(engine, 2, 0.0)  # the cluster is up
        seconds, sizes = done(engine, MANY, 0.0, look=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10
    print(f"{MANY:,} empty cells: {MANY / seconds:.0f} cells per second; resident {sizes} MB, highest {peak} MB")


def explanations() -> None:
    import torch

    from didact.data.load import load_data
    from didact.explaining.dataset import DatasetJob
    from didact.explaining.job import ExplainJob
    from didact.explaining.shard_jobs import ShardDistributor
    from didact.models.pretrained import new_head
    from didact.results.explanations_parquet import to_parquet

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = load_data("planted/sentiment(train=600)")
    teacher = new_head("minilm", data, max_length=None, truncate=False)
    with (
        RayExecutor(2) as engine,
        tempfile.TemporaryDirectory() as place,
        ShardDistributor(engine, Path(place)) as jobs,
    ):
        seconds, found = [], []
        for name, fill in (("warm", jobs.fill), ("here", None), ("ray", jobs.fill)):
            rows = data["train"].rows[:ROWS]
            options = {"seed": 1} if name == "warm" else {}
            work = DatasetJob(ExplainJob.of(teacher, METHOD, options, background=rows, batch_size=16), rows)
            store = work.store(Path(place) / "explanations" / f"{name}.parquet")
            began = time.perf_counter()
            found.append(work.explain(store, fill=fill))
            seconds.append(time.perf_counter() - began)
    (start, *seconds), (_, *found) = seconds, found
    assert to_parquet(found[0]) == to_parquet(found[1])
    print(
        f"{METHOD} of {ROWS} rows with MiniLM: one process {seconds[0]:.1f} s, ray with two {seconds[1]:.1f} s "
        f"({seconds[0] / seconds[1]:.2f} times as fast) after {start:.1f} s for the start of its cluster and the same "
        f"with another seed",
        flush=True,
    )


SECTIONS = {
    "cpu": lambda: overhead("cpu"),
    "clock": lambda: overhead("clock"),
    "many": many,
    "explanations": explanations,
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench_cells.py").write_text(WORKER)
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        sys.path.insert(0, folder)
        print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        for name in sys.argv[1:] or SECTIONS:
            SECTIONS[name]()
