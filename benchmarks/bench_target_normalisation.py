"""What target normalisation sends and costs: the figures of docs/decisions/050.

    python benchmarks/bench_target_normalisation.py [--seeds 2] [--teacher FOLDER] [--out figures.json]
    python benchmarks/bench_target_normalisation.py --simulate

The plan is that of `didact demo` (250 rows, student same/attention, 10 epochs) without the imitation by L2E. First:
the mean entropy of what every method sends, by option. Then: the students that each option trains, and the CPU
seconds of a run with finished explanations, in one process and thread. With --simulate: how often a verdict names a
winner, with and without the span rule, for simulated students.
"""

import argparse
import json
import shutil
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import torch

import didact
from didact.cli.demo_steps import DATA, EPOCHS, SIZES, STUDENT, TEACHER
from didact.core.padded import padded_units
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.results.explanations import Explanations
from didact.results.target_normalisation import ENTROPY_SHARE
from didact.results.target_transform import TargetTransform
from didact.results.temperature import row_entropies
from didact.results.training_record import TrainingRecord
from didact.stats.claims import claims
from didact.stats.contrast import crossed_contrast

OPTIONS = ("raw", "matched", "ranks", "band", "tuned")
TRANSFORMS = {
    "raw": None,
    "T=4": TargetTransform("temperature", 4.0),
    "T=0.25": TargetTransform("temperature", 0.25),
    "matched": TargetTransform("entropy", ENTROPY_SHARE),
    "ranks": TargetTransform("ranks", ENTROPY_SHARE),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--teacher", help="folder of a teacher of the demo (default: train one)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--simulate", action="store_true")
    arguments = parser.parse_args()
    if arguments.simulate:
        simulate()
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        teacher = arguments.teacher or str(folder / "teacher")
        if arguments.teacher is None:
            didact.train_teacher(didact.load_data(DATA), TEACHER, out=teacher, seed=0, epochs=EPOCHS, progress=False)
        costs = [measured_run(folder, teacher, name, arguments.seeds) for name in OPTIONS]
        entropies = sent_entropies(folder / "raw")
    show_entropies(entropies)
    show_costs(costs, arguments.seeds)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"entropies": entropies, "costs": costs}, indent=1) + "\n")


def measured_run(folder: Path, teacher: str, name: str, seeds: int) -> dict[str, object]:
    """Run the plan with one option. All options but the first find the explanations of the first."""
    size = SIZES["default"]
    plan = {"train_sizes": [size.rows], "seeds": seeds, "training": dict(STUDENT), "eval_rows": 0, "workers": 0}
    plan |= {"skip_controls": list(size.skip_controls), "temperatures": list(size.temperatures)}
    if name == "raw":  # explain everything first, with students of one epoch
        didact.compare(
            teacher, DATA, list(size.explainers), list(size.students), out=folder / "first",
            **plan | {"training": {"epochs": 1}},
        )  # fmt: skip
    shutil.copytree(folder / "first" / "explanations", folder / name / "explanations")
    started = time.process_time()
    run = didact.compare(
        teacher, DATA, list(size.explainers), list(size.students), out=folder / name, target_normalisation=name, **plan
    )
    seconds = time.process_time() - started
    store = Store(run.folder / "cells")
    keys = set(read_table(run.folder / "results.parquet").columns["key"])
    students = sum(len(TrainingRecord.load(store, key).trials) for key in keys)
    return {"option": name, "cells": len(keys), "students": students, "cpu_seconds": seconds}


def sent_entropies(run: Path) -> list[dict[str, object]]:
    """For every method: by option, the mean over rows of the entropy of the distribution that students receive."""
    (manifest,) = (run / "classroom").glob("cells-*.json")
    cells = [
        cell
        for cell in json.loads(manifest.read_text())["cells"]
        if cell["maps"] and cell["seed"] == 0 and cell["trials"] == [{}]
    ]
    files = {cell["explainer"]: Explanations.load(run / "explanations" / cell["maps"]) for cell in cells}
    # Methods that are computed again for every seed explain the rows of that seed alone.
    common = set.intersection(*(set(explanations.ids) for explanations in files.values()))
    lines = []
    for label, explanations in files.items():
        explanations = explanations.select([index for index, name in enumerate(explanations.ids) if name in common])
        counts = np.diff(explanations.bounds)
        wanted = ENTROPY_SHARE * np.log(counts)
        means = {}
        for name, transform in TRANSFORMS.items():
            sent = explanations if transform is None else transform.apply(explanations)
            units = padded_units(sent)
            shares = units.as_distribution()[units.units].numpy()
            entropies = row_entropies(shares, explanations.bounds)
            means[name] = float(entropies.mean())
            if name == "matched":
                missed = float((np.abs(entropies - wanted) > 1e-3).mean())
        lines.append(
            {"method": label, "kind": explanations.kind, "rows": len(counts), **means, "missed": missed,
             "uniform": float(np.log(counts).mean())}
        )  # fmt: skip
    return lines


def show_entropies(lines: list[dict[str, object]]) -> None:
    print(f"Mean entropy of what is sent, in nats (uniform: {lines[0]['uniform']:.3f}); missed: share of rows that")
    print(f"tempering cannot bring to {ENTROPY_SHARE} · log n")
    print(f"{'method':28}{'kind':14}" + "".join(f"{name:>9}" for name in TRANSFORMS) + f"{'missed':>9}")
    for line in lines:
        numbers = "".join(f"{line[name]:9.3f}" for name in (*TRANSFORMS, "missed"))
        print(f"{line['method']:28}{line['kind']:14}{numbers}")


def show_costs(costs: list[dict[str, object]], seeds: int) -> None:
    print(f"\nCost with {seeds} seeds, explanations finished")
    print(f"{'option':10}{'cells':>8}{'students':>10}{'CPU s':>8}{'× raw':>8}")
    first = costs[0]["cpu_seconds"]
    for line in costs:
        times = line["cpu_seconds"] / first
        print(f"{line['option']:10}{line['cells']:8}{line['students']:10}{line['cpu_seconds']:8.1f}{times:8.2f}")


def simulate(repetitions: int = 300) -> None:
    """Print how often one method is named the winner, by the number of methods, what temperature alone makes (each
    method has its best temperature elsewhere), and the true lead of one method at its best."""
    random = np.random.default_rng(0)
    print("methods  sharpness  lead   winner at T=1   at the best T   beyond the span")
    for methods, sharpness, lead in product((2, 6), (0.0, 0.08), (0.0, 0.05, 0.15)):
        winners = np.mean([simulated_winners(random, methods, sharpness, lead) for _ in range(repetitions)], axis=0)
        shares = "".join(f"{100 * share:14.1f} %" for share in winners)
        print(f"{methods:7}{100 * sharpness:11.0f}{100 * lead:6.0f}{shares}", flush=True)


def simulated_winners(random: np.random.Generator, methods: int, sharpness: float, lead: float) -> list[bool]:
    """One run of 8 seeds and 1,000 rows at three temperatures: whether each of three rules names a winner."""
    seeds, rows = 8, 1000
    difficulty, seed_effects = random.random(rows), random.normal(0, 0.02, seeds)
    arms = np.empty((methods, 3, seeds, rows))
    for method in range(methods):
        best = random.integers(0, 3)
        for temperature in range(3):
            share = 0.85 + lead * (method == 0) - abs(temperature - best) * sharpness / 2
            shares = share + seed_effects + random.normal(0, 0.03, seeds)
            is_right = difficulty < np.clip(shares, 0, 1)[:, None]
            arms[method, temperature] = is_right ^ (random.random((seeds, rows)) < 0.06)
    means = arms.mean((2, 3))
    spans = np.ptp(means, axis=1)
    as_it_is, at_best = np.ones(methods, dtype=int), means.argmax(1)
    return [
        names_winner(arms, as_it_is, np.zeros(methods)),
        names_winner(arms, at_best, np.zeros(methods)),
        names_winner(arms, at_best, spans),
    ]


def names_winner(arms: np.ndarray, temperatures: np.ndarray, spans: np.ndarray) -> bool:
    chosen = [arms[method, temperature] for method, temperature in enumerate(temperatures)]
    leader = int(np.argmax([values.mean() for values in chosen]))
    rivals = [method for method in range(len(chosen)) if method != leader]
    leads = claims([crossed_contrast(chosen[leader], chosen[rival]) for rival in rivals])
    return all(
        lead.is_above and lead.contrast.difference > max(spans[leader], spans[rival])
        for lead, rival in zip(leads, rivals, strict=True)
    )


if __name__ == "__main__":
    main()
