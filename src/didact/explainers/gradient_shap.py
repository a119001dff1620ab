"""GradientSHAP: integrated gradients in expectation over background rows and points on the paths from them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Row, Target, Teacher
from didact.core.model import Model, TokenVectors, require_model
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen, input_gradient, point_batches, target_values
from didact.explainers.background import Background
from didact.explainers.completeness import completeness_error


class GradientShap(Explainer):
    """Mean of gradient × (row − background row) at random points between them (Lundberg and Lee 2017).

    Sample s uses background row s mod `background`. The points of one background row are stratified: the path is cut
    into equal sections, with one point in each. Scores sum to f(x) − mean f(background) in expectation.
    """

    remedy = "Raise samples (the default is 64), or choose integrated_gradients or lrp."

    def __init__(
        self, *, samples: int = 64, background: int = 16, at: str = "word", seed: int = 0, batch_size: int = 64
    ) -> None:
        super().__init__()
        if samples < background:
            raise OptionError(f"gradient_shap needs samples ≥ background, got {samples} and {background}.")
        self.samples, self.at = samples, check_at(at)
        self.background = Background(size=background, seed=seed)
        self.seed, self.batch_size = seed, batch_size

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.background.prepare(require_model(teacher, "gradient_shap"), rows)

    def samples_per_background(self) -> list[int]:
        """For each sample, the number of samples that use the same background row."""
        size = self.background.size
        return [len(range(sample % size, self.samples, size)) for sample in range(self.samples)]

    def alphas(self, row: str) -> list[float]:
        """The position of each sample on the path from its background row (0) to the row (1)."""
        size, counts = self.background.size, self.samples_per_background()
        draws = numpy_generator(self.seed, "gradient_shap", row).random(self.samples)
        return [float((s // size + draws[s]) / counts[s]) for s in range(self.samples)]

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "gradient_shap")
        device = batch.device
        with frozen(model):
            with torch.no_grad():
                inputs = model.embed(batch, at=self.at)
            total = torch.zeros_like(inputs)
            rows = torch.arange(len(batch), device=device).repeat_interleave(self.samples)
            background_index = torch.arange(self.samples, device=device).repeat(len(batch)) % self.background.size
            alphas = torch.tensor([self.alphas(row) for row in batch.ids], device=device, dtype=inputs.dtype).flatten()
            # Every background row has the same total weight, whatever its number of samples.
            weights = 1 / (
                self.background.size * torch.tensor(self.samples_per_background(), device=device, dtype=inputs.dtype)
            )
            weights = weights.repeat(len(batch))
            for chosen in point_batches(rows, batch, self.batch_size):
                chunk = batch.select(rows[chosen])
                length = chunk.tokens.shape[1]
                with torch.no_grad():
                    background = model.embed(self.background.of(chunk, background_index[chosen]), at=self.at)
                change = (inputs[rows[chosen], :length] - background) * chunk.units[..., None]
                points = inputs[rows[chosen], :length] - (1 - alphas[chosen])[:, None, None] * change
                gradient = input_gradient(model, points, chunk, target.select(rows[chosen]), at=self.at)
                total[:, :length].index_add_(0, rows[chosen], gradient * change * weights[chosen, None, None])
            scores = total.sum(-1) * batch.units
            ends = self._ends(model, batch, target, inputs)
        return Explanation(scores, batch.mask, batch.units, "signed", completeness_error(scores, ends, target))

    def _ends(self, model: Model, batch: Batch, target: Target, inputs: TokenVectors) -> Float[Tensor, "batch 2"]:
        """Mean f(background) and f(x), in separate forward passes."""
        size, device = self.background.size, batch.device
        rows = torch.arange(len(batch), device=device)
        background_rows, background_index = (
            rows.repeat_interleave(size),
            torch.arange(size, device=device).repeat(len(rows)),
        )

        def background_point(chosen: Tensor, length: int) -> Tensor:
            chunk = batch.select(background_rows[chosen])
            background = model.embed(self.background.of(chunk, background_index[chosen]), at=self.at)
            return torch.where(chunk.units[..., None], background, inputs[background_rows[chosen], :length])

        def row_point(chosen: Tensor, length: int) -> Tensor:
            return inputs[rows[chosen], :length]

        row_values = target_values(model, rows, row_point, batch, target, at=self.at, batch_size=self.batch_size)
        background_values = target_values(
            model, background_rows, background_point, batch, target, at=self.at, batch_size=self.batch_size
        )
        return torch.stack([background_values.reshape(len(rows), size).mean(1), row_values], 1)
