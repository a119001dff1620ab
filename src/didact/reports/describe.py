"""Descriptions of a run: every method, control and student in a line, row counts, incomplete scores."""

import re
from typing import Final

from didact.explainers import EXPLAINERS
from didact.models import MODELS
from didact.results.comparison import Comparison
from didact.results.documents import number
from didact.results.gains import NONE
from didact.students import STRATEGIES

OWN_METHOD: Final = "a method of your own"
# Methods that a comparison adds to those of the plan.
_ROLES: Final = {
    "cotrained": "the students that {name} learned with, instead of new ones: shows how much it fits its own students",
    "flattened": "{name} with its marks as even as before it learned: shows what its sharpness alone contributes",
    "matched": "{name} made as sharp as the learned explainer: shows what sharpness contributes without learning",
    "sharpened": "{name} with its marks made sharper: fewer words stand out more",
}
_OTHERS: Final = {
    NONE: "no explanation: students see only the model's answers; every gain is measured against them",
    "none+extra": "no explanation, but with the extra rows that the learned explainer saw",
    "smat": "attention weighted so that students learn most from it (SMaT, learned again for each seed)",
}
_ARCHITECTURES: Final = {
    "same": "the same architecture as the model",
    "native": "a small transformer",
    "bilstm": "a small BiLSTM",
    "bilstm_attention": "a small BiLSTM with attention",
    "pool": "a bag of words",
}


def method_text(label: str) -> str:
    """The description of a method by its label: `lime(samples=100)`, `smat(cotrained)`, a file or a folder."""
    name, _, options = label.partition("(")
    if label in _OTHERS:
        return _OTHERS[label]
    role = next((word for word in re.split(r"[,\s)]+", options) if word in _ROLES), None)
    if role is not None:
        return _ROLES[role].format(name=name)
    if name in EXPLAINERS:
        return EXPLAINERS[name].about or OWN_METHOD
    if name in _OTHERS:
        return _OTHERS[name]
    if name.endswith(".parquet"):
        return "explanations read from a file"
    return "a learned explainer read from a folder" if "/" in name else OWN_METHOD


def student_text(run: Comparison, student: str) -> str:
    """The description of a student and its first weights: as recorded by the run, else derived from its name."""
    recorded = run.about.get("students")
    if isinstance(recorded, dict) and recorded.get(student):
        return str(recorded[student])
    architecture, _, strategy = student.rpartition("/")
    name = architecture.partition("(")[0]
    start_by_architecture = run.about.get("starts")
    start = str(start_by_architecture.get(architecture) or "") if isinstance(start_by_architecture, dict) else ""
    description = _ARCHITECTURES.get(name) or (MODELS[name].about if name in MODELS else f"a model of its own ({name})")
    if "embeddings=base" in architecture:
        description += " on frozen word embeddings of a pretrained model"
    start_text = {"": "", "random": ", from random weights"}.get(start, f", starting from {start}")
    strategy_text = STRATEGIES[strategy].about if strategy in STRATEGIES else ""
    return f"{description}{start_text}{f'; {strategy_text}' if strategy_text else ''}"


def row_counts(run: Comparison) -> dict[str, str]:
    """Row counts as text, by use. Unknown counts are left out."""
    recorded = {name: number(run.about.get(f"{name}_rows")) for name in ("file", "train", "dev", "test")}
    tests = sorted({row.test_rows for row in run.rows if row.test_rows})
    counts = {
        "in the data": _count(recorded["file"]),
        "to draw students' rows from": _count(recorded["train"]),
        "students learn from": ", ".join(f"{size:,}" for size in run.sizes),
        "dev": _count(recorded["dev"]),
        "test": ", ".join(f"{count:,}" for count in tests) or _count(recorded["test"]),
        "measured": "" if run.measured is None else f"{len(run.measured.rows):,}",
    }
    return {name: text for name, text in counts.items() if text}


def marked_name(run: Comparison, explainer: str) -> str:
    """The explainer's name, with § if its scores are incomplete (`incomplete_notes` explains the sign)."""
    return f"{explainer} §" if run.measured is not None and explainer in run.measured.incomplete else explainer


def incomplete_notes(run: Comparison) -> list[str]:
    """The footnote for § (see `marked_name`), if any method needs it."""
    if run.measured is None or not run.measured.incomplete:
        return []
    residuals = "; ".join(f"{name} by {100 * value:.3g} %" for name, value in run.measured.incomplete.items())
    return [
        "§ The scores of this method should add up to the change of the model's answer, but do not. Median error over "
        f"the measured rows: {residuals}. Do not read these scores as shares of the answer."
    ]


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
