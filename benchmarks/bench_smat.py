"""What learning an explainer costs. Ratios measured in one run, steps in turn, one thread.

- step: a step of SMaT (both of the student's looks, the hypergradient, the explainer's step, all checks) over a step of
  `fit` that teaches the same rows a precomputed lesson; outer batch as large as the inner one;
- teacher: how often it is asked, while its scores are made and while the explainer is learned;
- memory: the most that one such step holds beyond weights, optimiser state and scores, on MiniLM with 32 rows of 35
  tokens: one fresh process per way, the peak of its resident set.

Real texts are `imdb` from DIDACT_DATA, cut to one length.
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
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import didact
import didact.errors
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.explainers.mix import AttentionMix
from didact.explaining.component_scores import compute_component_scores
from didact.learning.fit import AuxiliaryLoss, Examples, _loss, epoch_batches
from didact.learning.smat import SmatLoop
from didact.learning.smat_options import SmatOptions
from didact.learning.teach import student_training
from didact.models.build import build_model
from didact.models.student_init import student_init
from didact.students.attention import Attention

MOST = {False: 2.6, True: 3.6}  # a step of SMaT over a student's, without and with pilot
MOST_MEMORY = 0.5  # the product routes' extra memory over that of a second backward pass
ROUTES = ("difference", "forward", "double")


@dataclass(frozen=True)
class Setting:
    """Who is taught by whom, and what."""

    name: str
    data: str
    teacher: str
    student: str
    length: int | None
    batch: int
    routes: tuple[str, ...]
    rounds: int
    batches: int = 8


SETTINGS = (
    Setting("planted", "planted/sentiment", "native", "native(layers=2, width=64, heads=4)", None, 32, ROUTES, 40),
    Setting("MiniLM, 35 tokens", "imdb", "minilm", "minilm", 35, 32, ("double", "difference"), 7),
    Setting(
        "BiLSTM, 128 tokens", "imdb", "minilm", "bilstm_attention(embeddings=base, width=64)", 128, 32,
        ("difference",), 15,
    ),
)  # fmt: skip
HEAVY = replace(SETTINGS[1], batches=2)


class Bench:
    """A loop of learning, its teacher counted, and beside it the step of a student that is taught."""

    def __init__(self, setting: Setting) -> None:
        data = _load(setting.data)
        # Either class in turn: the reviews come sorted by class.
        pool = sorted(enumerate(data["train"].rows), key=lambda one: (one[0] * 7919) % len(data["train"]))
        rows = tuple(row for _, row in pool[: setting.batches * setting.batch])
        teacher = build_model(setting.teacher, data, max_length=setting.length, truncate=True)
        teacher.name = "teacher"  # its body is the base's own; a student may start there all the same
        start = student_init(
            setting.student, teacher=teacher, task=data.task, classes=data.classes, rows=rows, base=_base(setting)
        )
        student = start.build(0)
        self.asked = 0
        teacher.layers_in_order[0].register_forward_hook(self._count)
        explainer = AttentionMix()
        parts = compute_component_scores(teacher.eval(), rows, explainer, progress=False)
        self.asked_before = self.asked
        train = Examples.of(student, rows, HumanTeacher(data.task, data.classes).predict(rows))
        training = replace(student_training(student, "adam"), batch_size=setting.batch)
        strategy = Attention()
        self.loop = SmatLoop(student, strategy, explainer, parts, train, train, training, SmatOptions(), None)
        self.first = [one.detach().clone() for one in self.loop.explainer_parameters]
        self.beside = AuxiliaryLoss(strategy, strategy.lesson(parts.maps, train.batch))
        self.outer_rows = self.loop._outer_rows(1)
        self.batches = list(epoch_batches(train.batch, training, 1))
        self.teacher: Model | None = teacher
        self.steps = 0

    def _count(self, *_: object) -> None:
        self.asked += 1

    def plain(self) -> float:
        """What `fit` does in a step."""
        loop = self.loop
        loop.student.train()
        loss = _loss(loop.student, loop.train, torch.from_numpy(self._rows()), self.beside, "single")
        if not torch.isfinite(loss):
            raise AssertionError(loss)
        loop.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(loop.student_weights.values()), loop.training.clip)
        loop.optimiser.step()
        return loss.item()

    def smat(self, route: str, pilot: bool) -> tuple[float, float]:
        """What `SmatLoop` does in a step."""
        loop = self.loop
        loop.route, loop.smat = route, SmatOptions(pilot=pilot)
        rows = self._rows()
        found = loop._step(self.steps, rows, self.outer_rows.take(loop._excluded_rows(rows)))
        loop._check_numbers(found, f"in step {self.steps}")
        loop.outer_optimiser.step(found.explainer_gradients)
        loop._check_mix(2, self.steps)
        return float(found.inner_loss), float(found.outer_loss)

    def rewind(self) -> None:
        """The next round teaches other rows. The mix starts anew, so that it never collapses to one part."""
        self.steps += 1
        self.loop.optimiser.zero_grad(set_to_none=True)
        with torch.no_grad():
            for one, first in zip(self.loop.explainer_parameters, self.first, strict=True):
                one.copy_(first)

    def _rows(self) -> np.ndarray:
        return self.batches[self.steps % len(self.batches)]


def _load(name: str) -> didact.core.dataset.Dataset:
    folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
    return didact.load_data(name) if name.startswith("planted") else didact.load_data(name, data_dir=str(folder))


def _base(setting: Setting) -> str | None:
    return "minilm" if "base" in setting.student else None


# -- time -------------------------------------------------------------------------------------------------------------


def in_turn(bench: Bench, works: list[Callable[[], object]], rounds: int) -> list[tuple[float, float]]:
    """Median CPU and wall seconds of each, measured in turn so that a busy machine slows all."""
    times: list[list[tuple[float, float]]] = [[] for _ in works]
    for number in range(-2, rounds):
        for work, kept in zip(works, times, strict=True):
            cpu, wall = time.thread_time(), time.perf_counter()
            work()
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            if number >= 0:
                kept.append((cpu, wall))
        bench.rewind()
    return [tuple(map(statistics.median, zip(*kept, strict=True))) for kept in times]  # type: ignore[misc]


def steps(setting: Setting) -> None:
    try:
        bench = Bench(setting)
    except didact.errors.DidactError as error:
        print(f"| {setting.name} | skipped. {error} |")
        return
    pairs = [(route, pilot) for route in setting.routes for pilot in (False, True)]
    works: list[Callable[[], object]] = [bench.plain]
    works += [lambda route=route, pilot=pilot: bench.smat(route, pilot) for route, pilot in pairs]
    (cpu, wall), *found = in_turn(bench, works, setting.rounds)
    print(f"| {setting.name}, batch {setting.batch} | a student's step | | {cpu * 1e3:.1f} | 1.00 | 1.00 | |")
    for (route, pilot), (own, clock) in zip(pairs, found, strict=True):
        ratio, wanted = own / cpu, MOST[pilot]
        print(
            f"| | {route} | {'yes' if pilot else 'no'} | {own * 1e3:.1f} | {ratio:.2f} | {clock / wall:.2f} "
            f"| {_verdict(ratio, wanted)} |",
            flush=True,
        )
    later = bench.asked - bench.asked_before
    print(f"| | teacher's passes | | | {bench.asked_before}, then {later} | | {'pass' if later == 0 else 'miss'} |")


def _verdict(ratio: float, wanted: float) -> str:
    return f"{'pass' if ratio <= wanted else 'miss'} (≤ {wanted})"


# -- memory -----------------------------------------------------------------------------------------------------------


def memory() -> None:
    """Each way in a process of its own."""
    found = {}
    for way in ("plain", *ROUTES):
        done = subprocess.run([sys.executable, __file__, way], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"| {way} | skipped. {done.stderr.strip().splitlines()[-1]} |")
            return
        found[way] = json.loads(done.stdout.splitlines()[-1])
    plain, double = found["plain"], found["double"]
    for way, here in found.items():
        share = here["extra"] / double["extra"]
        above = (here["extra"] - plain["extra"]) / (double["extra"] - plain["extra"])
        wanted = _verdict(share, MOST_MEMORY) if way in ("difference", "forward") else ""
        print(f"| {way} | {here['extra']:.0f} | {share:.2f} | {above:.2f} | {wanted} |")
    print(f"\nResting: {plain['resting']:.0f} MB resident.")


def held(way: str) -> dict[str, float]:
    """Megabytes at the peak of one step beyond what rests."""
    bench = Bench(HEAVY)
    bench.teacher = None
    lengths = bench.loop.train.batch.lengths.numpy()
    bench.batches = [np.argsort(-lengths, kind="stable")[: HEAVY.batch]]
    bench.plain()  # the optimiser's state is there from now on
    bench.rewind()

    resting = _at_rest()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    bench.plain() if way == "plain" else bench.smat(way, False)
    return {"extra": _status("VmHWM") - resting, "resting": resting}


def _at_rest() -> float:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return _status("VmRSS")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def main() -> None:
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores.\n")
    print("| setting | route | pilot | CPU ms | CPU ratio | wall ratio | |\n|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        steps(setting)
    print("\n| MiniLM, 32 rows of 35 | extra MB, resident | over double | excess over plain, over double's | |")
    print("|---|---|---|---|---|", flush=True)
    memory()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(held(sys.argv[1]))) if len(sys.argv) > 1 else main()
