"""Layer conductance: how much of the change of the target flows through each position of a layer."""

import torch

from didact.core.baseline import baseline_of
from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import Model, TokenScores, TokenVectors, require_model
from didact.errors import OptionError
from didact.explainers.autograd import check_at, frozen


class LayerConductance(Explainer):
    """Dhamdhere et al. 2019, at the output of layer number `layer` (1 is the first, as in Pruthi et al.; -1 the last).

    Along the line from the baseline to the row, the layer's changes times the target's gradients there, by the
    trapezoid rule over `steps` parts. Special tokens carry a share of the change too, so units alone do not add up.
    """

    def __init__(
        self, *, layer: int = 1, steps: int = 50, baseline: str = "zero", at: str = "word", batch_size: int = 64
    ) -> None:
        super().__init__()
        if steps < 1:
            raise OptionError(f"Option 'steps' of 'layer_conductance' is at least 1, not {steps}.")
        self.layer, self.steps, self.baseline = layer, steps, baseline
        self.at, self.batch_size = check_at(at), batch_size

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "layer_conductance")
        with frozen(model), torch.no_grad():
            empty = baseline_of(model, batch, baseline=self.baseline, at=self.at)
            change = model.embed(batch, at=self.at) - empty
        scores = change.new_zeros(batch.tokens.shape)
        with frozen(model):
            for some in torch.arange(len(batch), device=batch.device).split(self.batch_size):
                part = batch.select(some)
                length = part.tokens.shape[1]
                line = (empty[some, :length], change[some, :length])
                scores[some, :length] = self._flow(model, part, target.select(some), *line)
        return Explanation(scores * batch.units, batch.mask, batch.units, "signed")

    def _flow(
        self, model: Model, part: Batch, target: Target, empty: TokenVectors, change: TokenVectors
    ) -> TokenScores:
        state = gradient = total = None
        for step in range(self.steps + 1):
            point = (empty + step / self.steps * change).requires_grad_()
            trace = model.run(point, part, at=self.at, listen=["hidden"])
            assert trace.hidden is not None
            layers = len(trace.hidden) - 1
            if not 1 <= abs(self.layer) <= layers:
                raise OptionError(f"Model {model.name!r} has layers 1 to {layers}, and no layer {self.layer}.")
            reached = trace.hidden[self.layer]
            (found,) = torch.autograd.grad(target.of(trace.logits).sum(), reached)
            if state is not None and gradient is not None:
                gained = ((found + gradient) / 2 * (reached.detach() - state)).sum(-1)
                total = gained if total is None else total + gained
            state, gradient = reached.detach(), found
        assert total is not None
        return total.to(part.device)
