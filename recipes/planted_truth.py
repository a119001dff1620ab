"""How well each method finds the words that decide: mean ROC-AUC of |score| against the planted words.

    python recipes/planted_truth.py [--rows 300] [--model FOLDER]

Trains the teacher of `didact demo` unless a folder is given. Makes the table of docs/explainers.md.
"""

import argparse
import time

import numpy as np
import torch
from scipy.stats import rankdata

import didact
from didact.core.words import touches
from didact.explainers import EXPLAINERS

NOT_HERE = ("attention", "attention_alignment", "human")  # of attention pooling; of reading; the truth itself


def roc_auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """The chance that a marked unit scores above an unmarked one; ties count half."""
    ranks, marked = rankdata(scores), int(truth.sum())
    return float((ranks[truth].sum() - marked * (marked + 1) / 2) / (marked * (len(truth) - marked)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--model", default=None)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = didact.load_data("planted/sentiment")
    teacher = didact.load_teacher(asked.model) if asked.model else didact.train_teacher(data, "native")
    rows = list(data["test"][: asked.rows])
    print(f"{len(rows)} test rows; teacher: {teacher.record.get('metrics', {})}")
    print("| method | kind | ROC-AUC | residual, median | largest | seconds |\n|---|---|---|---|---|---|")
    for method, entry in EXPLAINERS.items():
        if method in NOT_HERE:
            continue
        began = time.perf_counter()
        maps = didact.explain(teacher, rows, method, background_rows=data["explain"])
        seconds = time.perf_counter() - began
        areas = []
        for row, one in zip(rows, maps, strict=True):
            truth = touches(row.rationale or (), one.segments, one.offsets)
            if 0 < truth.sum() < len(truth):
                areas.append(roc_auc(np.abs(one.scores), truth))
        left = maps.residuals[np.isfinite(maps.residuals)]
        rest = f"{np.median(left):.1e} | {left.max():.1e}" if len(left) else "– | –"
        print(f"| `{method}` | {entry.kind} | {np.mean(areas):.3f} | {rest} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
