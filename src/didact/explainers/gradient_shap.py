"""GradientSHAP: integrated gradients in expectation over background rows and places on the way from them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Row, Target, Teacher
from didact.core.model import Model, TokenVectors, require_model
from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen, points, slope, values_at
from didact.explainers.background import Background
from didact.explainers.completeness import left_over


class GradientShap(Explainer):
    """Mean of gradient × (row − background row) at random places between them (Lundberg and Lee 2017).

    Sample number s goes with background row s mod `background`. The places that go with one background row are
    stratified: one in each of as many equal parts of the way. Scores sum to f(x) − mean f(background) in expectation.
    """

    remedy = "Raise samples (the default is 64), or choose integrated_gradients or lrp."

    def __init__(
        self, *, samples: int = 64, background: int = 16, at: str = "word", seed: int = 0, batch_size: int = 64
    ) -> None:
        super().__init__()
        if samples < background:
            raise OptionError(f"gradient_shap needs a sample per background row: {samples} samples, {background} rows.")
        self.samples, self.at = samples, check_at(at)
        self.background = Background(size=background, seed=seed)
        self.seed, self.batch_size = seed, batch_size

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        self.background.prepare(require_model(teacher, "gradient_shap"), rows)

    def parts(self) -> list[int]:
        """How many samples go with each sample's background row."""
        size = self.background.size
        return [len(range(sample % size, self.samples, size)) for sample in range(self.samples)]

    def places(self, row: str) -> list[float]:
        """How far each sample of a row lies from its background row."""
        size, parts = self.background.size, self.parts()
        drawn = numpy_generator(self.seed, "gradient_shap", row).random(self.samples)
        return [float((s // size + drawn[s]) / parts[s]) for s in range(self.samples)]

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "gradient_shap")
        device = batch.device
        with frozen(model):
            with torch.no_grad():
                full = model.embed(batch, at=self.at)
            total = torch.zeros_like(full)
            rows = torch.arange(len(batch), device=device).repeat_interleave(self.samples)
            drawn = torch.arange(self.samples, device=device).repeat(len(batch)) % self.background.size
            places = torch.tensor([self.places(row) for row in batch.ids], device=device, dtype=full.dtype).flatten()
            # Every background row counts alike, however many samples go with it.
            shares = 1 / (self.background.size * torch.tensor(self.parts(), device=device, dtype=full.dtype))
            shares = shares.repeat(len(batch))
            for chosen in points(rows, batch, self.batch_size):
                part = batch.select(rows[chosen])
                length = part.tokens.shape[1]
                with torch.no_grad():
                    other = model.embed(self.background.of(part, drawn[chosen]), at=self.at)
                change = (full[rows[chosen], :length] - other) * part.units[..., None]
                place = full[rows[chosen], :length] - (1 - places[chosen])[:, None, None] * change
                found = slope(model, place, part, target.select(rows[chosen]), at=self.at)
                total[:, :length].index_add_(0, rows[chosen], found * change * shares[chosen, None, None])
            scores = total.sum(-1) * batch.units
            ends = self._ends(model, batch, target, full)
        return Explanation(scores, batch.mask, batch.units, "signed", left_over(scores, ends, target))

    def _ends(self, model: Model, batch: Batch, target: Target, full: TokenVectors) -> Float[Tensor, "batch 2"]:
        """Mean f(background) and f(x), in passes of their own."""
        size, device = self.background.size, batch.device
        rows = torch.arange(len(batch), device=device)
        many, drawn = rows.repeat_interleave(size), torch.arange(size, device=device).repeat(len(rows))

        def other(chosen: Tensor, length: int) -> Tensor:
            part = batch.select(many[chosen])
            there = model.embed(self.background.of(part, drawn[chosen]), at=self.at)
            return torch.where(part.units[..., None], there, full[many[chosen], :length])

        def own(chosen: Tensor, length: int) -> Tensor:
            return full[rows[chosen], :length]

        here = values_at(model, rows, own, batch, target, at=self.at, batch_size=self.batch_size)
        there = values_at(model, many, other, batch, target, at=self.at, batch_size=self.batch_size)
        return torch.stack([there.reshape(len(rows), size).mean(1), here], 1)
