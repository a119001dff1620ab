"""Gradients of the target at the embeddings: their norm, their product with the input, their mean under noise."""

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import require_model
from didact.core.seeds import seed_from
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen, input_gradient, point_batches


class GradientNorm(Explainer):
    """L2 norm of the gradient at each unit: how far its embedding may move the target (Simonyan et al. 2014)."""

    def __init__(self, *, at: str = "word") -> None:
        super().__init__()
        self.at = check_at(at)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "gradient_norm")
        with frozen(model):
            gradient = input_gradient(model, model.embed(batch, at=self.at), batch, target, at=self.at)
        return Explanation(gradient.norm(dim=-1) * batch.units, batch.mask, batch.units, "magnitude")


class GradientInput(Explainer):
    """Dot product of gradient and embedding at each unit (Shrikumar et al. 2016).

    The default level is the output of the embedding block. If a LayerNorm follows the word embedding, the model does
    not depend on the scale of that embedding, and gradient × input at `at=word` is rounding error.
    """

    version = 2  # 1 took it at the word embedding

    def __init__(self, *, at: str = "embedding") -> None:
        super().__init__()
        self.at = check_at(at)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "gradient_input")
        with frozen(model):
            inputs = model.embed(batch, at=self.at)
            gradient = input_gradient(model, inputs, batch, target, at=self.at)
        scores = (inputs * gradient).sum(-1) * batch.units
        norms = inputs.norm(dim=-1) * gradient.norm(dim=-1) * batch.units
        cautions = (_ROUNDING,) if is_rounding(scores, norms) else ()
        return Explanation(scores, batch.mask, batch.units, "signed", cautions=cautions)


def is_rounding(scores: Float[Tensor, "batch token"], norms: Float[Tensor, "batch token"]) -> bool:
    """Whether all scores of some row are rounding error.

    A score is a sum of products, at most the product of the two norms (`norms`). Each of many operations rounds by
    about ε times that product. If all scores of a row cancel to below 128 ε of single precision, no digit is
    significant. (In double precision, LayerNorm's own ε is what remains.) A gradient of exactly 0 is no rounding error.
    """
    largest = norms.amax(-1)
    return bool(((largest > 0) & (scores.abs().amax(-1) <= _CANCELLED * largest)).any())


_CANCELLED: Final = 128 * torch.finfo(torch.float32).eps
_ROUNDING: Final = (
    "scores are at rounding level; the ranking is noise. The model does not depend on the norm of the embeddings at "
    "this level, for example because a LayerNorm follows. Use at=embedding, or integrated_gradients or lrp."
)


class SmoothGradient(Explainer):
    """L2 norm of the mean gradient under Gaussian noise on the units (Smilkov et al. 2017).

    `noise` is the standard deviation as a share of the row's range of embedding values. Each row draws its own noise.
    """

    def __init__(
        self, *, samples: int = 25, noise: float = 0.15, at: str = "word", seed: int = 0, batch_size: int = 64
    ) -> None:
        super().__init__()
        if samples < 1 or noise < 0:
            raise OptionError(f"smooth_gradient needs samples ≥ 1 and noise ≥ 0, got {samples} and {noise}.")
        self.samples, self.noise, self.at = samples, noise, check_at(at)
        self.seed, self.batch_size = seed, batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "smooth_gradient")
        with frozen(model):
            inputs = model.embed(batch, at=self.at).detach()
            total = torch.zeros_like(inputs)
            rows = torch.arange(len(batch), device=batch.device).repeat_interleave(self.samples)
            sample = torch.arange(len(rows), device=batch.device) % self.samples
            for chosen in point_batches(rows, batch, self.batch_size):
                chunk = batch.select(rows[chosen])
                length = chunk.tokens.shape[1]
                noisy = inputs[rows[chosen], :length] + self._noise(inputs, batch, rows[chosen], sample[chosen], length)
                gradient = input_gradient(model, noisy, chunk, target.select(rows[chosen]), at=self.at)
                total[:, :length].index_add_(0, rows[chosen], gradient)
        norm = (total / self.samples).norm(dim=-1)
        return Explanation(norm * batch.units, batch.mask, batch.units, "magnitude")

    def _noise(
        self, inputs: Float[Tensor, "batch token dim"], batch: Batch, rows: Tensor, samples: Tensor, length: int
    ) -> Float[Tensor, "chunk length dim"]:
        """Noise on the units of each point. A draw depends only on the seed, the row's id and the sample's number."""
        noise = inputs.new_zeros(len(rows), length, inputs.shape[-1])
        for index, (row, sample) in enumerate(zip(rows.tolist(), samples.tolist(), strict=True)):
            generator = torch.Generator().manual_seed(seed_from(self.seed, "smooth_gradient", batch.ids[row], sample))
            units = batch.units[row, :length]
            embeddings = inputs[row, :length][units]
            if not len(embeddings):
                continue
            deviation = self.noise * (embeddings.max() - embeddings.min())
            sample_noise = torch.randn(embeddings.shape, generator=generator, dtype=inputs.dtype)
            noise[index, units] = deviation * sample_noise.to(inputs.device)
        return noise
