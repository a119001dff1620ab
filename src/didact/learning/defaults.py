"""Default methods and students of a comparison, chosen by the kind of teacher.

docs/decisions/026-one-command.md has the reasons.
"""

from typing import Final

from didact.core.task import Task
from didact.core.teacher import Differentiable, Teacher
from didact.models import MODELS
from didact.registry import parse_spec
from didact.students.build import StudentSpec, parse_student

TRAIN_SIZE: Final = 500
# Different kinds of methods, cheap ones first: a time budget leaves out the last ones.
_WHITE_BOX: Final = (
    "gradient_norm", "attention_all", "gradient_input", "lrp", "occlusion", "integrated_gradients",
)  # fmt: skip
_BLACK_BOX: Final = ("occlusion", "lime", "kernel_shap", "shapley_sampling")

# On real texts, explanations have a measurable effect on small students with frozen word embeddings.
_ON_BASE: Final = "bilstm_attention(embeddings=base, width=64)/attention"
_ON_TEACHER: Final = "bilstm_attention(embeddings=teacher, width=64)/attention"
_READER: Final = "native(embeddings=teacher)/attention"
_SMALL: Final = "native/attention"
_BAG: Final = "pool/attention"


def default_methods(teacher: Teacher) -> tuple[str, ...]:
    """The methods to compare by default: six of different kinds; of a black box those that need only predictions."""
    if teacher.reads_labels:
        return ()
    return _WHITE_BOX if isinstance(teacher, Differentiable) else _BLACK_BOX


def default_student(teacher: Teacher, task: Task, base: str | None) -> StudentSpec:
    """The default student of a comparison.

    - Native teacher: its own architecture, with random weights as the teacher had; a small transformer if that
      architecture has no attention.
    - Pretrained teacher: a small student with frozen word embeddings of the recorded base, or else of the teacher.
      Random embeddings would lack the teacher's knowledge of the language.
    - Black box: a bag of words, the architecture that learns most reliably from few rows.
    """
    if teacher.library == "native":
        return parse_student("same/attention" if getattr(teacher, "attends", True) else _SMALL)
    if teacher.library is None:
        return parse_student(_BAG if task.is_text and not task.is_per_token else _SMALL)
    if not task.is_text:
        return parse_student(_SMALL)
    has_base = base is not None or bool(getattr(teacher, "record", {}).get("base"))
    if task.is_per_token:
        return parse_student("same/attention" if has_base else _READER)
    return parse_student(_ON_BASE if has_base else _ON_TEACHER)


def describe_student(student: StudentSpec, teacher: Teacher, origin: str) -> str:
    """A student in words, for reports."""
    name = student.architecture.partition("(")[0]
    pools_mean = parse_spec(student.architecture).options.get("pool") == "mean" if name == "pool" else False
    phrases = {
        "same": "the model's own architecture",
        "native": "a small transformer",
        "bilstm": "a small BiLSTM",
        "bilstm_attention": "a small BiLSTM with attention",
        "pool": "a bag of words" if pools_mean else "a bag of words with attention",
        "cnn": "a small convolutional network",
    }
    other_phrase = f"{MODELS[name].about} ({name})" if name in MODELS else f"the pretrained model {name}"
    phrase = phrases.get(name, other_phrase)
    origin_phrase = {"random": "random weights"}.get(origin, origin).replace("random, on", "new weights on")
    return f"{phrase}, starting from {origin_phrase.replace('of the teacher', f'of {teacher.name}')}"
