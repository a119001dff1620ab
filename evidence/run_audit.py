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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import didact
from didact.core.dataset import Dataset

# The commit of the protocol in docs/audit.md, made before any of these parts was run.
PROTOCOL = "61c2f765f54dba2c563dc558b117329ce09d20f9"
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


POOL = "pool(pool=mean, layers=1)"
STUDENTS = (
    "same/attention", "pool/attention", "bilstm_attention/attention", f"{POOL}/gradient",
    f"{POOL}/gradient(unsigned=for)", f"{POOL}/gradient(signed=absolute, unsigned=for)",
    "cnn/gradient(signed=absolute, unsigned=for)",
)  # fmt: skip
SENTIMENT = {"teach": 4000, "explain": 50, "train": 2000, "dev": 200, "test": 1500}
GRADED = {**SENTIMENT, "teach": 8000}
WHITE_BASES = ("integrated_gradients", "attention_all")


def screening(truth: str, size: int) -> dict[str, Any]:
    """All evaluators but those of the next two functions."""
    return {
        "explainers": (truth, *METHODS),
        "bases": (truth, *WHITE_BASES),
        "students": STUDENTS,
        "normalisations": ("raw", "matched", "ranks"),
        "test_sets": ("new", "edited"),
        "metrics": ("all", "f_fidelity"),
        "train_sizes": size,
        "seeds": 4,
        "eval_rows": 400,
    }


def marks_screening(truth: str, size: int) -> dict[str, Any]:
    """Students that learn marks, which have no sizes to normalise."""
    only = {"students": ("bilstm/multitask",), "normalisations": ("raw",), "metrics": ("none",)}
    return {**screening(truth, size), **only}


def sharpness_screening(truth: str, size: int) -> dict[str, Any]:
    """The two target normalisations that train several students per explanation."""
    students = ("same/attention", f"{POOL}/gradient(signed=absolute, unsigned=for)")
    changed = {"students": students, "normalisations": ("tuned", "band"), "target_temperatures": (4, 1, 0.25)}
    return {**screening(truth, size), **changed, "test_sets": ("new",), "metrics": ("none",)}


PARTS: dict[str, Part] = {}
for index in (0, 1):
    sentiment, graded = planted("sentiment", **SENTIMENT), planted("graded", **GRADED)
    PARTS[f"screening/sentiment-{index}"] = Part(sentiment, index, screening("human", 300))
    PARTS[f"screening/graded-{index}"] = Part(graded, index, screening("truth", 400))
    PARTS[f"screening/sentiment-{index}-marks"] = Part(sentiment, index, marks_screening("human", 300))
    PARTS[f"screening/graded-{index}-marks"] = Part(graded, index, marks_screening("truth", 400))
PARTS["screening/sentiment-0-sharpness"] = Part(planted("sentiment", **SENTIMENT), 0, sharpness_screening("human", 300))
PARTS["screening/graded-0-sharpness"] = Part(planted("graded", **GRADED), 0, sharpness_screening("truth", 400))

# The tasks of the confirmation. Its parts follow once finalists and sizes are known (choose_finalists, choose_sizes).
INFERENCE = {"attributes": 4, "stated": 2, "fillers": 10, "negation": 0, "teach": 6000, "explain": 50, "train": 4000}
CONFIRMED = {
    "nonce": planted("sentiment", words="nonce", **{**SENTIMENT, "train": 4000}),
    "inference": planted("inference", **INFERENCE, dev=200, test=1500),
    "linear": linear_on_sst,
}


def student_for(task: str, student: str) -> str:
    """The student on this task: linear teachers have no architecture that a student could share."""
    return student.replace("same/", "native/") if task == "linear" else student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="names of parts")
    parser.add_argument("--list", action="store_true", help="list all parts, and which are done")
    parser.add_argument("--next", action="store_true", help="run the first part that is not done")
    parser.add_argument("--scratch", default="runs/audit", help="where teachers and students are kept")
    parser.add_argument("--data-dir", default=None, help="where the real data lie (or the variable DIDACT_DATA)")
    parser.add_argument("--workers", type=int, default=None, help="processes; default: as many as there are cores")
    asked = parser.parse_args()
    left = [name for name in PARTS if not file_of(name).exists()]
    if asked.list:
        print("\n".join(f"{'' if name in left else 'done':5s}{name}" for name in PARTS))
        return
    if unknown := [name for name in asked.parts if name not in PARTS]:
        sys.exit(f"There is no part {unknown[0]!r}. --list shows all.")
    for name in asked.parts or left[: int(asked.next)]:
        run(name, asked)


def run(name: str, asked: Any) -> None:
    """Run one part and write its file."""
    part, started = PARTS[name], time.monotonic()
    teacher, data = part.setting(asked, part.number)
    # Parts with the same teacher share their explanations and students.
    folder = Path(asked.scratch) / name.removesuffix("-marks").removesuffix("-sharpness").replace("/", "-")
    audit = didact.audit(
        teacher, data, name=name, protocol=PROTOCOL, out=folder, workers=asked.workers, progress=True, balance=False,
        **part.options,
    )  # fmt: skip
    command = f"python evidence/run_audit.py {name}"
    audit = replace(audit, evidence=replace(audit.evidence, command=command))
    audit.save(file_of(name))
    print(didact.summarise_audits([audit]).table())
    print(f"{name}: {(time.monotonic() - started) / 3600:.2f} h, in {file_of(name)}")


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    main()
