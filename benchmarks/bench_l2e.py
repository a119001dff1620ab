"""What a distilled explainer saves. Seconds per document measured in one run, in turn, on the same rows, one thread.

- speed: the imitated methods on MiniLM and SST sentences, each in its own best batches, against L2E with its default
  network: with the label at hand, and with the teacher's pass that gives it;
- break-even: from how many documents on it pays, its own cost (explaining 2,000 rows to learn from, and learning)
  included;
- memory: the most that learning holds beyond what rests, for documents of 512 units, one process per formulation.

Real texts are `sst` from DIDACT_DATA.
"""

import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import didact
import didact.errors
from didact.core.batch import Batch
from didact.core.model import Model
from didact.core.row import Row
from didact.core.target import Target
from didact.explainers.build import build_explainer
from didact.explainers.l2e import L2E, scored_units
from didact.learning.fit import Training
from didact.learning.l2e import L2EExamples, train_network
from didact.models.build import build_model

ROWS, FEW, LEARNED = 128, 2, 2000
# method -> how many rows are enough to time it, and how much faster L2E should be with the label at hand, and without
METHODS: dict[str, tuple[int, float | None, float | None]] = {
    "gradient_input": (ROWS, 5, None),
    "lrp": (ROWS, 5, None),
    "deep_shap": (16, None, None),
    "integrated_gradients": (16, None, None),
    "occlusion": (16, None, None),
    "lime(samples=1000)": (FEW, 2000, 500),
    "kernel_shap(samples=1000)": (FEW, 2000, 500),
}
BATCHES = (16, 32, 64, 128)


def seconds(work: Callable[[], object], rounds: int) -> float:
    work()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


class Bench:
    """A teacher of sentences, and a network for it; untrained, which takes as long as trained."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
        data = didact.load_data("sst", data_dir=str(folder))
        self.model: Model = build_model("minilm", data, max_length=512, truncate=True).eval()
        # The first few are as long as the many: methods that take seconds are timed on them alone.
        pool = data["test"].rows[:ROWS]
        mean = sum(len(row.texts[0]) for row in pool) / len(pool)
        self.rows: list[Row] = sorted(pool, key=lambda row: abs(len(row.texts[0]) - mean))
        self.l2e = L2E()
        self.l2e.start(self.model, self.rows, imitates=["any"], is_signed=True)
        self.l2e.set_values(torch.tensor([[-0.6, -0.1, 0.0, 0.1, 0.6]]))

    def batches(self, count: int, size: int) -> list[tuple[Batch, Target]]:
        order = sorted(self.rows[:count], key=lambda row: -len(row.texts[0]))
        found = []
        for start in range(0, count, size):
            batch = self.model.encode(order[start : start + size])
            with torch.no_grad():
                found.append((batch, Target.predicted(self.model.task, self.model(batch).logits)))
        return found

    def explaining(self, explainer: Callable[..., object], count: int) -> float:
        """Seconds per document, in the batch size that suits the method best."""
        best = float("inf")
        for size in sorted({min(size, count) for size in BATCHES}):
            parts = self.batches(count, size)

            def work(parts: list[tuple[Batch, Target]] = parts) -> None:
                for batch, target in parts:
                    explainer(self.model, batch, target)

            best = min(best, seconds(work, 3 if count >= 16 else 1) / count)
        return best

    def predicting(self) -> float:
        """Seconds per document of the teacher's own pass."""
        best = float("inf")
        for size in BATCHES:
            parts = self.batches(ROWS, size)

            def work(parts: list[tuple[Batch, Target]] = parts) -> None:
                with torch.no_grad():
                    for batch, _ in parts:
                        self.model(batch)

            best = min(best, seconds(work, 3) / ROWS)
        return best

    def learning(self) -> float:
        """Seconds to learn from LEARNED rows in twelve epochs, which is where it stops on most sets."""
        batch = self.model.encode(self.rows)
        scored = scored_units(batch, "token")
        weights = torch.randn(*scored.shape, 1, dtype=torch.float64) * scored[..., None]
        rows = L2EExamples(batch, weights, scored, torch.zeros(len(batch), dtype=torch.long))
        began = time.perf_counter()
        train_network(self.l2e, self.model, rows, rows.select(range(8)), Training(epochs=2, batch_size=32))
        return (time.perf_counter() - began) / 2 / ROWS * LEARNED * 12


def speed() -> None:
    bench = Bench()
    fast, label, learning = bench.explaining(bench.l2e, ROWS), bench.predicting(), bench.learning()
    weights = sum(one.numel() for one in bench.l2e.network.parameters())
    print(
        f"L2E ({weights:,} weights): {fast * 1e3:.2f} ms per document, {(fast + label) * 1e3:.2f} ms with the label's"
    )
    print(f"pass; learning from {LEARNED:,} rows about {learning:.0f} s.\n")
    print("| imitated | ms per document | label at hand | with its pass | pays from (documents) |")
    print("|---|---|---|---|---|", flush=True)
    for name, (count, at_hand, with_pass) in METHODS.items():
        built = build_explainer(name).explainer
        built.prepare(bench.model, bench.rows)
        slow = bench.explaining(built, count)
        pays = (slow * LEARNED + learning) / (slow - fast) if slow > fast else float("inf")
        print(
            f"| {name} | {slow * 1e3:.1f} | {slow / fast:,.1f}{_verdict(slow / fast, at_hand)} "
            f"| {slow / (fast + label):,.1f}{_verdict(slow / (fast + label), with_pass)} | {pays:,.0f} |",
            flush=True,
        )


def _verdict(ratio: float, least: float | None) -> str:
    return "" if least is None else f" {'pass' if ratio >= least else 'miss'} (≥ {least:,.0f})"


# -- memory -----------------------------------------------------------------------------------------------------------


def memory() -> None:
    for formulation in ("labelling", "ranking", "regression"):
        asked = [sys.executable, __file__, formulation]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"| {formulation} | skipped. {done.stderr.strip().splitlines()[-1]} |")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"| {formulation} | {found['extra']:.0f} | {found['resting']:.0f} |", flush=True)


def held(formulation: str) -> dict[str, float]:
    """Megabytes at the peak of an epoch over 32 documents of 512 units, beyond what rests."""
    data = didact.load_data("planted/sentiment")
    words = " ".join(row.texts[0] for row in data["teach"].rows[:2000]).split()
    rows = [Row(f"r{at}", (" ".join(words[at * 20 : at * 20 + 512]),)) for at in range(32)]
    model = build_model("native(length=600)", data).eval()
    explainer = L2E(formulation=formulation)
    explainer.start(model, rows, imitates=["any"], is_signed=True)
    batch = model.encode(rows)
    scored = scored_units(batch, "token")
    assert int(scored.sum(-1).min()) == 512, scored.sum(-1)
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(*scored.shape, 1))) * scored[..., None]
    given = L2EExamples(batch, weights, scored, torch.zeros(len(batch), dtype=torch.long))
    training = Training(epochs=1, batch_size=32)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    resting = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    train_network(explainer, model, given, given.select([0]), training)
    return {"extra": _status("VmHWM") - resting, "resting": resting}


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def main() -> None:
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores.\n")
    try:
        speed()
    except didact.errors.DidactError as error:
        print(f"speed: skipped. {error}")
    print("\n| 32 documents of 512 units | peak MB beyond rest | at rest |\n|---|---|---|", flush=True)
    memory()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(held(sys.argv[1]))) if len(sys.argv) > 1 else main()
