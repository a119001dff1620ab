"""Requirements of methods, metrics, checks and strategies on a teacher.

`obstacle` says why a teacher does not meet a need. `require` raises the error: what was asked, what stands in the way,
what to do next.
"""

from collections.abc import Collection
from typing import Final

from didact.core.teacher import Attention, Differentiable, Teacher
from didact.errors import UnsupportedError

# Needs as they appear in messages. Every teacher has "predictions", every row may have "rationales".
_DESCRIPTIONS: Final = {
    "changed rows": "answers to rows without some of their units",
    "a class or a score": "a class or a score to explain",
    "gradients": "gradients or attention",
    "attention": "gradients or attention",
    "embeddings": "the teacher's embeddings",
    "weights": "weights that can be randomised",
    "training": "a model that can be built and trained again",
    "classes": "classes",
}
_NEEDS_A_MODEL: Final = ("gradients", "attention", "embeddings", "weights", "training")
_WITH_ATTENTION: Final = "'bilstm_attention', 'pool', 'native'"


def obstacle(teacher: Teacher, need: str) -> str | None:
    """Why the teacher does not meet the need, as a clause; None if it does."""
    if need == "changed rows" and teacher.reads_labels:
        return f"teacher {teacher.name!r} answers with the labels of the data, and changed rows have none"
    if need == "a class or a score" and teacher.task.is_per_token:
        return f"teacher {teacher.name!r} answers spans"
    if need in _NEEDS_A_MODEL and not isinstance(teacher, Differentiable):
        return f"teacher {teacher.name!r} is a black box that shows only its answers"
    if need == "attention" and not teacher.attention:
        return f"attention was requested from model {teacher.name!r}, {teacher.attention_fault}"
    if need in ("weights", "training") and teacher.is_dispatched:
        return f"model {teacher.name!r} is distributed over devices and cannot be copied"
    if need == "training" and teacher.library is None:
        return f"didact cannot build model {teacher.name!r}"
    if need == "classes" and teacher.classes is None:
        return f"teacher {teacher.name!r} gives a score"
    return None


def require(teacher: Teacher, need: str, subject: str, *, advice: str | None = None) -> None:
    """Raise `UnsupportedError` if the teacher does not meet the need of `subject`, such as `Method 'lrp'`."""
    if (fault := obstacle(teacher, need)) is not None:
        raise UnsupportedError(f"{subject} needs {_DESCRIPTIONS[need]}, and {fault}. {advice or _advice(teacher)}")


def require_attention(teacher: Teacher, fields: Collection[Attention]) -> None:
    """Raise `UnsupportedError` if the teacher does not record these fields of its attention, or cannot zero values."""
    if missing := sorted(set(fields) - set(teacher.attention)):
        problem, models = f"Attention {', '.join(map(repr, missing))} was requested from", _WITH_ATTENTION
        if missing == ["values"]:
            problem, models = "There is no self-attention whose values could be zeroed in", "'native'"
        raise UnsupportedError(f"{problem} model {teacher.name!r}, {teacher.attention_fault}. {_alternatives(models)}")


def _advice(teacher: Teacher) -> str:
    """Methods that work for this teacher."""
    if teacher.reads_labels:
        return "Explain with 'human', 'random' or 'trivial', and measure against rationales (roc_auc)."
    if not isinstance(teacher, Differentiable):
        return "Choose one that needs predictions only: occlusion, lime, kernel_shap, shapley_sampling."
    return _alternatives(_WITH_ATTENTION)


def _alternatives(models: str) -> str:
    """Advice: models with attention, and methods that need none."""
    return (
        f"Choose {models} or a Hugging Face model, or a method that needs gradients or predictions only "
        "(gradient_input, integrated_gradients, occlusion)."
    )
