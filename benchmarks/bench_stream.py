"""Does memory grow with the rows that are explained? Peak of `didact explain --stream` for 20,000 and 200,000 rows.

    python benchmarks/bench_stream.py [--rows 20000 200000] [--method gradient_input] [--workers 0]

Planted sentences are written to Parquet files some thousand at a time; each file is explained by a process of its own,
whose peak memory the system tells. The larger run is killed in the middle and started again; its file must equal that
of a run that was not disturbed, which is made of the smaller one.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow
import pyarrow.parquet as pq

import didact
from didact.results.explanations import Explanations

PART = 5000
LIMIT = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs=2, default=[20_000, 200_000])
    parser.add_argument("--method", default="gradient_input")
    parser.add_argument("--workers", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = didact.load_data("planted/sentiment(teach=2000, train=10, explain=10, dev=100, test=10)")
        teacher = folder / "teacher"
        didact.train_teacher(data, "native(width=32, layers=2, heads=2)", epochs=2, out=teacher, progress=False)
        peaks = {}
        for count in asked.rows:
            written(folder / f"{count}.parquet", count)
            began = time.perf_counter()
            peaks[count] = peak(folder, count, asked.method, asked.workers, is_killed=count == max(asked.rows))
            seconds = time.perf_counter() - began
            print(
                f"{count:,} rows: peak {peaks[count] / 1024:.0f} MB, {count / seconds:,.0f} rows a second", flush=True
            )
        check(folder, asked.rows)
    small, large = (peaks[count] for count in sorted(asked.rows))
    print(f"peak memory {large / small:.2f}x for {max(asked.rows) / min(asked.rows):.0f}x the rows (limit {LIMIT})")
    if large > LIMIT * small:
        sys.exit(1)


def written(path: Path, count: int) -> None:
    """Sentences of many seeds, each part another; ids are their numbers."""
    writer = None
    for start in range(0, count, PART):
        size = min(PART, count - start)
        rows = didact.load_data(
            f"planted/sentiment(teach=10, explain=10, train=10, dev=10, test={size})", seed=start // PART
        )["test"]
        records = [{"id": f"r{start + number}", "text": row.texts[0]} for number, row in enumerate(rows)]
        table = pyarrow.Table.from_pylist(records)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def peak(folder: Path, count: int, method: str, workers: int, *, is_killed: bool) -> int:
    """Kilobytes that the largest process needed; children that were waited for are counted by the system."""
    command = [
        sys.executable, "-m", "didact.cli.main", "explain", "--model", str(folder / "teacher"), "--data",
        str(folder / f"{count}.parquet"), "--method", method, "--stream", "--out",
        str(folder / f"{count}-maps.parquet"), "--workers", str(workers),
    ]  # fmt: skip
    if is_killed:
        running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        parts = folder / f"{count}-maps.parquet.shards"
        while not parts.is_dir() or len(list(parts.glob("*.parquet"))) < count // 256 // 3:
            if running.poll() is not None:
                sys.exit("the run ended before it could be killed")
            time.sleep(0.1)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def check(folder: Path, rows: list[int]) -> None:
    """The larger file begins as the smaller one: same rows, same scores, though it was killed in between."""
    small, large = sorted(rows)
    shards = zip(
        Explanations.shards(folder / f"{small}-maps.parquet"), Explanations.shards(folder / f"{large}-maps.parquet"),
        strict=False,
    )  # fmt: skip
    for one, other in shards:
        if len(one) == len(other) and (one.ids != other.ids or not (one.scores == other.scores).all()):
            sys.exit("rows of the killed run differ from those of the other")
    count = sum(len(part) for part in Explanations.shards(folder / f"{large}-maps.parquet"))
    print(f"{count:,} rows in the file of the run that was killed; shards equal those of the other run")


if __name__ == "__main__":
    main()
