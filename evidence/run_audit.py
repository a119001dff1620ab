"""Runs the parts of the audit in docs/audit.md. Each takes at most an hour and leaves one file in evidence/audit.

    python evidence/run_audit.py --list
    python evidence/run_audit.py screening/sentiment-0
    python evidence/run_audit.py --next

A stopped part is resumed by the same command: teachers and students are kept in --scratch. Needs didact, and for the
parts on real text the data (DIDACT_DATA or --data-dir).
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import didact
from didact.core.dataset import Dataset

# The commit of the protocol in docs/audit.md, made before any of these parts was run.
PROTOCOL = ""
FOLDER = Path(__file__).parent / "audit"

METHODS = (
    "integrated_gradients", "lrp", "attention_all", "gradient_norm", "gradient_input", "deeplift", "gradient_shap",
    "occlusion", "lime", "kernel_shap", "attention_cls", "attention_rollout", "attention_gradient", "value_zeroing",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One part: its teacher and data, and the options of `didact.audit`."""

    setting: Callable[["Any", int], tuple[Any, Dataset]]
    number: int
    options: Mapping[str, Any]


def planted(name: str, **options: Any) -> Callable[[Any, int], tuple[Any, Dataset]]:
    """A native teacher trained on planted data. Data, wording and first weights differ from teacher to teacher."""

    def make(asked: Any, number: int) -> tuple[Any, Dataset]:
        seed = {"words_seed": number} if "words" in options else {}
        inside = ", ".join(f"{key}={value}" for key, value in {**options, **seed}.items())
        data = didact.load_data(f"planted/{name}({inside})", seed=number)
        folder = Path(asked.scratch) / f"teacher-{name}-{options.get('words', 'english')}-{number}"
        if not folder.exists():
            didact.train_teacher(data, "native", out=folder, seed=number, progress=True)
        return didact.load_teacher(folder), data

    return make


def linear_on_sst(asked: Any, number: int) -> tuple[Any, Dataset]:
    """A linear model of binary word counts, fitted to a bootstrap sample of the split `teach` of SST.

    Its contributions are exact. Students learn from the split `explain`, which is larger than `train`.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    data = didact.load_data("sst", data_dir=asked.data_dir)
    rows = list(data["teach"])
    drawn = [rows[index] for index in np.random.default_rng(number).integers(0, len(rows), len(rows))]
    pipeline = make_pipeline(CountVectorizer(binary=True, min_df=2), LogisticRegression(C=1.0, max_iter=1000))
    pipeline.fit([row.texts[0] for row in drawn], [row.label for row in drawn])
    splits = {**data.splits, "train": data["explain"], "explain": data["train"]}
    return didact.teacher_from_sklearn(pipeline, list(data.classes or ())), replace(data, splits=splits)


def minilm(name: str, **training: Any) -> Callable[[Any, int], tuple[Any, Dataset]]:
    """MiniLM, fine-tuned on real texts. What truly decides is unknown."""

    def make(asked: Any, number: int) -> tuple[Any, Dataset]:
        data = didact.load_data(name, data_dir=asked.data_dir)
        folder = Path(asked.scratch) / f"teacher-{name}-{number}"
        if not folder.exists():
            didact.train_teacher(data, "minilm", out=folder, seed=number, progress=True, **training)
        return didact.load_teacher(folder), data

    return make


SENTIMENT = {"teach": 4000, "explain": 50, "train": 2000, "dev": 200, "test": 1500}
