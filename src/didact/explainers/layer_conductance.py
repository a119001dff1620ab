"""Layer conductance: how much of the target's change flows through each position of a layer."""

import torch

from didact.core.baseline import baseline_of
from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, TokenVectors, require_model
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen


class LayerConductance(Explainer):
    """Dhamdhere et al. 2019, at the output of layer number `layer` (1 is the first, as in Pruthi et al.; -1 the last).

    Integrates the target's gradient at the layer over the layer's change, on the path from the baseline to the row, by
    the trapezoid rule with `steps` intervals. Special tokens carry a share of the change, so scores do not sum to it.
    """

    def __init__(
        self, *, layer: int = 1, steps: int = 50, baseline: str = "zero", at: str = "word", batch_size: int = 64
    ) -> None:
        super().__init__()
        if steps < 1:
            raise OptionError(f"Option 'steps' of 'layer_conductance' must be at least 1, got {steps}.")
        self.layer, self.steps, self.baseline = layer, steps, baseline
        self.at, self.batch_size = check_at(at), batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "layer_conductance")
        with frozen(model), torch.no_grad():
            baseline = baseline_of(model, batch, baseline=self.baseline, at=self.at)
            change = model.embed(batch, at=self.at) - baseline
        scores = change.new_zeros(batch.tokens.shape)
        with frozen(model):
            for rows in torch.arange(len(batch), device=batch.device).split(self.batch_size):
                chunk = batch.select(rows)
                length = chunk.tokens.shape[1]
                line = (baseline[rows, :length], change[rows, :length])
                scores[rows, :length] = self._flow(model, chunk, target.select(rows), *line)
        return Explanation(scores * batch.units, batch.mask, batch.units, "signed")

    def _flow(
        self, model: Model, batch: Batch, target: Target, baseline: TokenVectors, change: TokenVectors
    ) -> TokenScores:
        last_hidden = last_gradient = total = None
        for step in range(self.steps + 1):
            point = (baseline + step / self.steps * change).requires_grad_()
            trace = model.run(point, batch, at=self.at, listen=["hidden"])
            assert trace.hidden is not None
            layers = len(trace.hidden) - 1
            if not 1 <= abs(self.layer) <= layers:
                raise OptionError(f"Model {model.name!r} has layers 1 to {layers}, and no layer {self.layer}.")
            hidden = trace.hidden[self.layer]
            (layer_gradient,) = torch.autograd.grad(target.of(trace.logits).sum(), hidden)
            if last_hidden is not None and last_gradient is not None:
                contribution = ((layer_gradient + last_gradient) / 2 * (hidden.detach() - last_hidden)).sum(-1)
                total = contribution if total is None else total + contribution
            last_hidden, last_gradient = hidden.detach(), layer_gradient
        assert total is not None
        return total.to(batch.device)
