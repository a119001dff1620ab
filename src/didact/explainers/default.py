"""The method that explains when none is named: the fast one if it works on the teacher."""

import logging
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import torch

from didact.core.model import Batch, Model, Row, require_model
from didact.core.precision import SINGLE, weights_precision
from didact.core.target import Target
from didact.core.teacher import Differentiable, Teacher
from didact.errors import DidactError
from didact.explainers.build import build_explainer

# Chosen by the figures of docs/decisions/025-default-method.md.
FAST: Final = "lrp"
THOROUGH: Final = "integrated_gradients"  # for models on which the scores of FAST do not add up
BLACK_BOX: Final = "occlusion"  # for functions, half-precision and int8 models: one forward pass per unit
LARGEST_RESIDUAL: Final = 0.05
_TEXTS: Final = ("one good day", "they did not like it")
_CHOICES: WeakKeyDictionary[Teacher, str] = WeakKeyDictionary()

log = logging.getLogger(__name__)


def default_method(teacher: Teacher, rows: Sequence[Row] = ()) -> str:
    """The name of the method that `explain` uses when none is named.

    `lrp` for models on which it runs and its scores add up in a short trial (residual at most 5 %),
    `integrated_gradients` for other models, `occlusion` for black boxes and for models whose weights are coarser than
    single precision. The trial takes one forward and one backward pass and is made once per model, on two built-in
    sentences; `rows` are only needed for models that read images.
    """
    if not isinstance(teacher, Differentiable) or weights_precision(teacher) != SINGLE:
        return BLACK_BOX
    if teacher not in _CHOICES:
        obstacle = _find_obstacle(require_model(teacher, FAST), rows)
        _CHOICES[teacher] = FAST if obstacle is None else THOROUGH
        if obstacle is not None:
            log.info("Explaining %r with %s: %s", teacher.name, THOROUGH, obstacle)
    return _CHOICES[teacher]


def _find_obstacle(model: Model, rows: Sequence[Row]) -> str | None:
    """Why the fast method cannot explain this model; None if it can, or if there are no rows to try."""
    trial = _trial_rows(model, rows)
    if not trial:
        return None
    try:
        with torch.inference_mode(False):
            batch = model.encode(trial).to(model.device)
            residual = _largest_residual(model, trial, batch)
    except (DidactError, RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        return f"{FAST} does not run on it ({error})."
    if residual <= LARGEST_RESIDUAL:
        return None
    return f"the scores of {FAST} do not add up on it (residual {residual:.2g})."


def _trial_rows(model: Model, rows: Sequence[Row]) -> list[Row]:
    if not model.task.is_text:
        return list(rows[:1])
    segments = len(model.task.segments)
    return [Row(f"trial-{number}", (text,) * segments) for number, text in enumerate(_TEXTS)]


def _largest_residual(model: Model, rows: Sequence[Row], batch: Batch) -> float:
    target = Target.predicted(model.task, model.answers(rows, batch)[0])
    residual = build_explainer(FAST).explainer(model, batch, target).residual
    assert residual is not None, "the fast method returns residuals"
    return float(residual.max())
