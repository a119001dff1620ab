"""What a comparison costs beside its training. Ratios measured in one run, one thread per student.

- cell: one cell of the planted plan (`same/attention`, 500 rows) over a bare PyTorch loop of the same steps: the same
  model and batches, cross-entropy and KL written out, Adam, clipping, a pass over dev per epoch and one over test;
- layer: `compare` in this process over the bare calls of `teach` and the answers of the same cells; explanations and
  the teacher's answers kept from before;
- workers: the same plan with one worker process and with two.
"""

import copy
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import didact
from didact.comparing.cell import Cell, run_cell
from didact.comparing.run_inputs import RunInputs
from didact.core.seeds import seed_from
from didact.data.subset import subset
from didact.execution.base import open_runner
from didact.learning.fit import Training, epoch_batches, predict_examples
from didact.learning.teach import teach
from didact.registry import parse_spec
from didact.students.build import build_strategy

EXPLAINERS, SEEDS = ["attention_all", "gradient_norm"], 2


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Median seconds of each, measured in turn so that a busy machine slows all."""
    times = [[seconds(work) for work in works] for _ in range(rounds)]
    return [statistics.median(one) for one in zip(*times, strict=True)]


def bare_cell(cell: Cell, run_inputs: RunInputs) -> None:
    """What a researcher would write by hand, given encoded rows and the distribution to send."""
    examples = run_inputs.examples(cell.start, False)
    chosen = subset(examples["train"].outputs.ids, size=cell.size, seed=cell.seed)
    train, dev, test = examples["train"].select(chosen), examples["dev"], examples["test"]
    found, places = run_inputs.explanations(str(cell.maps))
    sent = build_strategy(parse_spec(cell.strategy)).lesson(
        found.select([places[row.id] for row in train.rows]), train.batch
    )
    student = run_inputs.student_init(cell.start).build(seed_from(cell.seed, "student"))
    training = Training(**cell.training, seed=cell.seed)
    mix = torch.nn.Parameter(torch.zeros(8))
    parameters = [*student.parameters(), mix]
    optimiser = torch.optim.Adam(parameters, lr=training.rate, fused=True)
    dev_parts, test_parts = dev.batches(64), test.batches(256)
    best, kept = -1.0, {}
    for epoch in range(1, training.epochs + 1):
        student.train()
        for rows in epoch_batches(train.batch, training, epoch):
            batch = train.batch.select(torch.from_numpy(rows))
            trace = student(batch, listen=["mean"])
            logits = torch.einsum("h,bht->bt", mix.softmax(0), trace.mean.flatten(1, 2))
            own = logits.masked_fill(~batch.units, -torch.inf).log_softmax(-1).masked_fill(~batch.units, 0.0)
            goal = sent.mass[torch.from_numpy(rows), : own.shape[1]]
            loss = F.cross_entropy(trace.logits, train.goal[torch.from_numpy(rows)])
            loss = loss + 5.0 * (torch.xlogy(goal, goal) - goal * own).sum(-1).mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, training.clip)
            optimiser.step()
        student.eval()
        with torch.no_grad():
            right = [(student(part.batch).logits.argmax(-1) == part.goal).float().sum() for part in dev_parts]
        if (now := float(sum(right)) / len(dev)) > best:
            best, kept = now, copy.deepcopy(student.state_dict())
    student.load_state_dict(kept)
    with torch.no_grad():
        np.concatenate([student(part.batch).logits.numpy() for part in test_parts])


def taught(cell: Cell, run_inputs: RunInputs) -> None:
    """The library's own training and answers, without the comparison around them."""
    examples = run_inputs.examples(cell.start, False)
    train = examples["train"].select(subset(examples["train"].outputs.ids, size=cell.size, seed=cell.seed))
    maps = None
    if cell.maps is not None:
        found, places = run_inputs.explanations(cell.maps)
        maps = found.select([places[row.id] for row in train.rows])
    student = run_inputs.student_init(cell.start).build(seed_from(cell.seed, "student"))
    strategy = build_strategy(parse_spec(cell.strategy))
    teach(student, strategy, maps, train, examples["dev"], Training(**cell.training, seed=cell.seed))
    predict_examples(student, examples["test"].batches(256))


def main() -> None:
    torch.set_num_threads(1)
    data = didact.load_data("planted/sentiment")
    place = Path(tempfile.mkdtemp(prefix="didact-bench-"))
    teacher = didact.train_teacher(data, "native", epochs=2, out=place / "teacher", progress=False)

    def compared(folder: str, workers: int, **options: object) -> None:
        didact.compare(
            teacher, data, EXPLAINERS, ["same/attention"], train_sizes=[500], seeds=SEEDS, out=place / folder,
            workers=workers, eval_rows=0, **options,
        )  # fmt: skip

    compared("first", 0, training={"epochs": 1})  # keeps answers and explanations for those that follow

    def fresh(folder: str, workers: int) -> None:
        shutil.rmtree(place / folder, ignore_errors=True)
        shutil.copytree(place / "first", place / folder, ignore=shutil.ignore_patterns("cells", "cells-*"))
        compared(folder, workers)

    layer = seconds(lambda: fresh("here", 0))
    manifest = next((place / "here" / "classroom").glob("cells-*.json"))
    runner = open_runner(manifest)
    cells = list(runner.cells.values())
    one = next(cell for cell in cells if cell.explainer == "attention_all")
    mine, bare = in_turn(3, lambda: run_cell(one, runner.run_inputs), lambda: bare_cell(one, runner.run_inputs))
    print(f"cell: {mine:.2f} s; over a bare PyTorch loop of the same steps: {mine / bare:.2f}")

    def loops() -> None:
        run_inputs = open_runner(manifest).run_inputs  # read and encoded anew, as `compare` must
        for cell in cells:
            taught(cell, run_inputs)

    bare = seconds(loops)
    print(f"layer: {len(cells)} cells in {layer:.1f} s; over the bare training loops: {layer / bare:.2f}")

    single, double = in_turn(1, lambda: fresh("one", 1), lambda: fresh("two", 2))
    print(f"workers: {len(cells)} cells in {single:.1f} s with one, {double:.1f} s with two: {single / double:.2f}x")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
