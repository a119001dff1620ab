"""DeepLIFT and DeepSHAP: contributions to the difference from a reference, by finite differences per operation."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.baseline import BASELINES, baseline_of
from didact.core.explainer import Batch, Explainer, Explanation, Row, Target, Teacher
from didact.core.model import InputLevel, Model, TokenVectors, require_model
from didact.errors import OptionError
from didact.explainers.activations import fused_activations
from didact.explainers.autograd import check_at, frozen, point_batches
from didact.explainers.background import Background
from didact.explainers.completeness import output_scale, relative_residual
from didact.explainers.deeplift_rules import DeepLiftRules


class DeepLift(Explainer):
    """Multipliers of the rescale rule times the difference from the baseline (Shrikumar et al. 2017).

    Every operation passes on exactly the difference of its output, so the scores sum to the difference of the target.
    `residual` is what rounding and operations without a rule leave unexplained.
    """

    version = 2  # 1 mispaired rows and references in models whose first dimension is not the batch
    remedy = "The model uses an operation without a DeepLIFT rule: choose lrp or integrated_gradients."

    def __init__(self, *, baseline: str = "zero", at: str = "word", batch_size: int = 64) -> None:
        super().__init__()
        if baseline not in BASELINES:
            raise OptionError(f"Option 'baseline' must be one of {', '.join(map(repr, BASELINES))}, got {baseline!r}.")
        self.baseline, self.at, self.batch_size = baseline, check_at(at), _check_batch_size(batch_size)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "deeplift")

        def reference(chunk: Batch, _: Int[Tensor, " chunk"]) -> Float[Tensor, "chunk token dim"]:
            return baseline_of(model, chunk, baseline=self.baseline, at=self.at)

        return _explain(model, batch, target, reference, 1, at=self.at, batch_size=self.batch_size)


class DeepShap(Explainer):
    """Mean of DeepLIFT's scores over several background rows (Lundberg and Lee 2017, section 4.2)."""

    version = 2
    remedy = DeepLift.remedy

    def __init__(self, *, background: int = 16, at: str = "word", seed: int = 0, batch_size: int = 64) -> None:
        super().__init__()
        self.background = Background(size=background, seed=seed)
        self.at, self.seed, self.batch_size = check_at(at), seed, _check_batch_size(batch_size)

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.background.prepare(require_model(teacher, "deep_shap"), rows)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "deep_shap")

        def reference(chunk: Batch, draws: Int[Tensor, " chunk"]) -> Float[Tensor, "chunk token dim"]:
            background = model.embed(self.background.of(chunk, draws), at=self.at)
            return torch.where(chunk.units[..., None], background, model.embed(chunk, at=self.at))

        references = self.background.size
        return _explain(model, batch, target, reference, references, at=self.at, batch_size=self.batch_size)


def _check_batch_size(batch_size: int) -> int:
    if batch_size < 1:
        raise OptionError(f"Option 'batch_size' must be at least 1 (rows in one pass), got {batch_size}.")
    return batch_size


Reference = Callable[[Batch, Int[Tensor, " chunk"]], Float[Tensor, "chunk token dim"]]


def _explain(
    model: Model,
    batch: Batch,
    target: Target,
    reference: Reference,
    references: int,
    *,
    at: InputLevel,
    batch_size: int,
) -> Explanation:
    """Mean scores of each row over its references, with the completeness error of the mean."""
    rows = torch.arange(len(batch), device=batch.device).repeat_interleave(references)
    draws = torch.arange(len(rows), device=batch.device) % references
    scores: Tensor | None = None
    with frozen(model):
        # Each row runs with its reference, so a batch holds half as many pairs.
        for chosen in point_batches(rows, batch, max(1, batch_size // 2)):
            chunk = batch.select(rows[chosen])
            with torch.no_grad():
                inputs, baselines = model.embed(chunk, at=at), reference(chunk, draws[chosen])
            gradients, values = multipliers(model, inputs, baselines, chunk, target.select(rows[chosen]), at=at)
            if scores is None:
                scores = gradients.new_zeros(batch.mask.shape)
                differences, scales = gradients.new_zeros(2, len(batch))
            chunk_scores = (gradients * (inputs - baselines)).sum(-1) * chunk.units / references
            scores[:, : chunk_scores.shape[1]].index_add_(0, rows[chosen], chunk_scores)
            differences.index_add_(0, rows[chosen], (values[0] - values[1]) / references)
            scales.index_add_(0, rows[chosen], output_scale(values, target).amax(0) / references)
    assert scores is not None
    errors = relative_residual(scores.sum(-1) - differences, differences, scores, scales)
    return Explanation(scores, batch.mask, batch.units, "signed", errors)


def multipliers(
    model: Model, inputs: TokenVectors, references: TokenVectors, batch: Batch, target: Target, *, at: InputLevel
) -> tuple[TokenVectors, Float[Tensor, "2 batch"]]:
    """The multiplier of each input element, and the target at inputs and references. Call inside `frozen`.

    The references run first, then the inputs, and each rule compares the two runs.
    """
    baselines = references.detach().requires_grad_()
    point = inputs.detach().requires_grad_()
    with model.decomposed(), fused_activations(model):
        rules = DeepLiftRules()
        with rules.reference():
            reference_output = target.of(model.run(baselines, batch, at=at).logits).detach()
        with rules:
            output = target.of(model.run(point, batch, at=at).logits)
    rules.check_finished()
    values = torch.stack([output.detach(), reference_output])
    if not output.requires_grad:
        return torch.zeros_like(inputs), values
    (gradient,) = torch.autograd.grad(output.sum(), point)
    return gradient, values
