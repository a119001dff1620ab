"""What every explainer promises, as checks that run on any explainer, teacher and rows.

The tests of our own explainers and `didact.check_explainer` run the same checks.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import torch
from torch import Tensor, nn

from didact.core.batch import Batch
from didact.core.explanation import Explanation, Kind
from didact.core.resolve_target import resolve_target
from didact.core.row import Row
from didact.core.teacher import Teacher

# Returns an explainer prepared with these rows, to be called with (teacher, batch, target).
ExplainerFactory = Callable[[Sequence[Row]], Callable[..., Any]]
NOT_APPLICABLE: Final = "not applicable"
PROMISES: Final = {
    "result": "It returns an Explanation.",
    "shape": "There is one score for every position of the batch.",
    "kind": "Scores are of the declared kind: signed, magnitude, distribution or binary.",
    "finite": "Scores are finite.",
    "units": "Padding and special tokens score exactly 0.",
    "range": "Magnitudes, distributions and marks are not negative, and a distribution sums to 1.",
    "content": "Every row has a score other than 0.",
    "residual": "Residuals are finite and not negative.",
    "detached": "Scores carry no gradient graph.",
    "model": "The model is left as it was: weights, gradients, modes and hooks.",
    "deterministic": "The same call gives the same scores.",
    "alone": "A row's scores do not depend on the other rows of its batch.",
}


def check_promises(
    make_explainer: ExplainerFactory,
    teacher: Teacher,
    rows: Sequence[Row],
    *,
    kind: str | None = None,
    tolerance: float = 1e-8,
) -> dict[str, str]:
    """Check all promises. Returns "" for a promise that is kept, else `NOT_APPLICABLE` or what was observed.

    `kind` is the declared kind of the scores. `tolerance` is the largest difference between a row alone and in a
    batch, relative to the largest score. Exceptions of the explainer are not caught.
    """
    model_state = _ModelState(teacher)
    try:
        result, batch = explain_rows(make_explainer, teacher, rows)
    finally:
        changed = model_state.changes()
    failures = dict.fromkeys(PROMISES, NOT_APPLICABLE) | {"model": changed}
    failures["result"] = "" if isinstance(result, Explanation) else f"It returned {type(result).__name__}."
    if failures["result"]:
        return failures
    shape = tuple(result.scores.shape)
    failures["shape"] = "" if shape == tuple(batch.tokens.shape) else f"{shape} scores for {tuple(batch.tokens.shape)}."
    if failures["shape"]:
        return failures
    failures |= _check_scores(result, batch, kind)
    again, _ = explain_rows(make_explainer, teacher, rows)
    difference = _relative_difference(result.scores, again.scores)
    failures["deterministic"] = (
        "" if difference == 0 else f"A second call differs by {difference:.1e} of the largest score."
    )
    failures["alone"] = compare_rows_alone(make_explainer, teacher, rows, tolerance=tolerance)
    return failures


def compare_rows_alone(
    make_explainer: ExplainerFactory, teacher: Teacher, rows: Sequence[Row], *, tolerance: float
) -> str:
    """ "" if each row alone gets the scores that it gets in a batch, else the first difference."""
    in_batch, _ = explain_rows(make_explainer, teacher, rows)
    for index, row in enumerate(rows):
        alone, row_batch = explain_rows(make_explainer, teacher, [row], background=rows)
        gap = _relative_difference(alone.scores[0], in_batch.scores[index, : row_batch.tokens.shape[1]])
        if not gap <= tolerance:
            return f"Alone, row {row.id!r} differs by {gap:.1e} of its largest score."
        if alone.residual is not None and in_batch.residual is not None:
            difference = float((in_batch.residual[index] - alone.residual[0]).abs())
            if difference > 100 * tolerance + 0.01 * float(alone.residual[0].abs()):
                return f"Alone, the residual of row {row.id!r} differs by {difference:.1e}."
    return ""


def explain_rows(
    make_explainer: ExplainerFactory, teacher: Teacher, rows: Sequence[Row], *, background: Sequence[Row] | None = None
) -> tuple[Any, Batch]:
    """Explain the predicted class of these rows, with an explainer prepared on `background` (by default, the rows)."""
    explainer = make_explainer(background or rows)
    batch = teacher.encode(rows)
    return explainer(teacher, batch, resolve_target(teacher, rows, batch, teacher.answers(rows, batch)[0])), batch


def _check_scores(result: Explanation, batch: Batch, kind: str | None) -> dict[str, str]:
    """Check the promises that concern the scores of one call."""
    scores, sums = result.scores, result.scores.sum(-1)
    failures = {"kind": "", "finite": "", "units": "", "content": "", "detached": ""}
    if result.kind not in get_args(Kind) or result.kind != (kind or result.kind):
        failures["kind"] = f"Its kind is {result.kind!r}" + (f", declared is {kind!r}." if kind else ".")
    if not scores.isfinite().all():
        failures["finite"] = f"{int((~scores.isfinite()).sum())} scores are NaN or infinite."
    outside = int((scores[~batch.units] != 0).sum())
    if outside:
        failures["units"] = f"{outside} scores outside `batch.units` are not 0."
    if result.kind == "binary":
        failures["content"] = NOT_APPLICABLE
    elif (scores.abs().sum(-1) == 0).any():
        failures["content"] = f"All scores of row {batch.ids[int((scores.abs().sum(-1) == 0).int().argmax())]!r} are 0."
    if scores.requires_grad:
        failures["detached"] = "The scores require a gradient: detach them."
    if result.kind != "signed":
        negative = int((scores < 0).sum())
        failures["range"] = f"{negative} scores of kind {result.kind!r} are negative." if negative else ""
        if result.kind == "distribution" and not torch.allclose(sums, torch.ones_like(sums), rtol=1e-5, atol=1e-5):
            failures["range"] = f"A row of the distribution sums to {float(sums[(sums - 1).abs().argmax()]):.4g}."
    if result.residual is not None:
        is_valid = bool(result.residual.isfinite().all() and (result.residual >= 0).all())
        failures["residual"] = "" if is_valid else f"Residuals are {result.residual.tolist()}."
    return failures


def _relative_difference(scores: Tensor, reference: Tensor) -> float:
    """The largest difference relative to the largest score; infinite if shapes or NaNs differ."""
    if scores.shape != reference.shape or not torch.equal(scores.isnan(), reference.isnan()):
        return float("inf")
    difference = (scores - reference).detach().nan_to_num().abs()
    return float(difference.max() / scores.detach().nan_to_num().abs().max().clamp_min(1e-12)) if len(scores) else 0.0


@dataclass(eq=False)
class _ModelState:
    """State of a model that an explainer must leave unchanged. During the check one module is in training mode."""

    teacher: Teacher

    def __post_init__(self) -> None:
        self.model = self.teacher if isinstance(self.teacher, nn.Module) else None
        if self.model is None:
            return
        self.weights = copy.deepcopy(self.model.state_dict())
        self.switched = next(module for module in self.model.modules() if not list(module.children()))
        self.was_training = self.switched.training
        self.switched.training = True
        self.modes = [module.training for module in self.model.modules()]
        self.needs_gradient = [parameter.requires_grad for parameter in self.model.parameters()]
        self.hooks = _hooks(self.model)

    def changes(self) -> str:
        """What changed since; "" if nothing did."""
        if self.model is None:
            return NOT_APPLICABLE
        modes = [module.training for module in self.model.modules()]
        self.switched.training = self.was_training
        state, parameters = self.model.state_dict(), list(self.model.parameters())
        for aspect, is_changed in (
            ("Weights", any(not torch.equal(value, self.weights[name]) for name, value in state.items())),
            ("Training modes", modes != self.modes),
            ("Gradients of parameters", any(value.grad is not None for value in parameters)),
            ("requires_grad of parameters", [value.requires_grad for value in parameters] != self.needs_gradient),
            ("Hooks", _hooks(self.model) > self.hooks),
        ):
            if is_changed:
                return f"{aspect} of the model changed."
        return ""


def _hooks(model: nn.Module) -> int:
    """Number of hooks, without those that transformers leaves on a model whose hidden states were requested."""
    hooks = [
        hook
        for module in model.modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    ]
    return sum(not str(getattr(hook, "__module__", "")).startswith("transformers") for hook in hooks)
