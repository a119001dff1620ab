"""What measuring faithfulness costs: all metrics of one method, MiniLM, 500 SST sentences, one thread, in one run.

- against the bare forward passes it needs: the very batches, already built, through the model and nothing else. Both
  take turns, a hundred rows at a time, so that a busy machine slows both;
- against asking row by row: each metric by itself, each altered row alone through the model, on a few rows.

Real texts are `sst` from DIDACT_DATA.
"""

import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import didact
import didact.errors
from didact.core.batch import Batch
from didact.core.row import Row
from didact.metrics import METRICS
from didact.metrics.faithfulness import Faithfulness, faithfulness
from didact.metrics.probe import Probe
from didact.models.build import build_model
from didact.results.explanations import Explanations

ROWS, PART, FEW = int(os.environ.get("BENCH_ROWS", "500")), 100, 4
LIMIT = 1.2


class Bench:
    def __init__(self) -> None:
        folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
        data = didact.load_data("sst", data_dir=str(folder))
        self.model = build_model("minilm", data, max_length=512, truncate=True).eval()
        self.rows: list[Row] = list(data["test"].rows[:ROWS])
        self.metrics: list[Faithfulness] = [
            entry.load()() for entry in METRICS.values() if entry.measures == "faithfulness" and entry.is_default
        ]

    def turn(self, rows: list[Row], remove: str) -> tuple[float, float, int]:
        """Seconds of all metrics, seconds of the bare passes, and how many rows passed."""
        maps = didact.explain(self.model, rows, "gradient_input")
        seen: list[Batch] = []
        embed = self.model.embed

        def watched(batch: Batch, **options: object) -> torch.Tensor:
            seen.append(batch)
            return embed(batch, **options)  # type: ignore[arg-type]

        self.model.embed = watched  # type: ignore[method-assign]
        try:
            began = time.perf_counter()
            faithfulness(self.metrics, [maps], Probe(self.model, rows, replace=remove))
            ours = time.perf_counter() - began
        finally:
            del self.model.embed
        began = time.perf_counter()
        with torch.inference_mode():
            for batch in seen:
                self.model(batch)
        return ours, time.perf_counter() - began, sum(map(len, seen))

    def alone(self, rows: list[Row]) -> float:
        """Seconds per row when each metric asks by itself, one altered row at a time."""
        maps: Explanations = didact.explain(self.model, rows, "gradient_input")
        began = time.perf_counter()
        for number, row in enumerate(rows):
            one = maps.select([number])
            for metric in self.metrics:
                faithfulness([metric], [one], Probe(self.model, [row], batch_size=1))
        return (time.perf_counter() - began) / len(rows)


def main() -> None:
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores.\n")
    try:
        bench = Bench()
    except didact.errors.DidactError as error:
        print(f"skipped. {error}")
        return
    bench.turn(bench.rows[:8], "mask")  # warm
    print(
        f"| {len(bench.rows)} rows, {len(bench.metrics)} metrics | seconds | bare passes | ratio (≤ {LIMIT}) | passes |"
    )
    print("|---|---|---|---|---|", flush=True)
    per_row = np.nan
    for remove in ("mask", "delete"):
        parts = [bench.turn(bench.rows[start : start + PART], remove) for start in range(0, len(bench.rows), PART)]
        ours, bare, passed = (float(sum(column)) for column in zip(*parts, strict=True))
        print(f"| {remove} | {ours:.1f} | {bare:.1f} | {ours / bare:.2f} | {passed:,.0f} |", flush=True)
        if remove == "mask":
            per_row = ours / len(bench.rows)
    slow = bench.alone(bench.rows[:FEW])
    print(f"\nRow by row, metric by metric: {1e3 * slow:.0f} ms; ours {1e3 * per_row:.0f} ms: {slow / per_row:.1f}x.")


if __name__ == "__main__":
    main()
