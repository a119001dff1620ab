"""The optimiser of the explainer's parameters in SMaT."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


class OuterAdam:
    """Adam with clipping and a second ε inside the root, as in the paper's code: tiny gradients make no full steps.

    `rates` are the learning rates of the parameters, `clip` the maximum norm of all gradients together.
    """

    def __init__(self, parameters: Sequence[Tensor], rates: Sequence[float], *, clip: float) -> None:
        self.parameters, self.rates, self.clip = list(parameters), list(rates), clip
        self.steps = 0
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Update the parameters in place."""
        self.steps += 1
        norm = float(torch.sqrt(sum((tensor.cpu().double() ** 2).sum() for tensor in gradients)))  # type: ignore[arg-type]
        scale = min(1.0, self.clip / max(norm, 1e-30))
        for parameter, rate, mean, square, gradient in zip(
            self.parameters, self.rates, self.means, self.squares, gradients, strict=True
        ):
            mean.lerp_(gradient * scale, 0.1)
            square.mul_(0.999).addcmul_(gradient * scale, gradient * scale, value=0.001)
            corrected = square / (1 - 0.999**self.steps)
            with torch.no_grad():
                parameter -= rate * mean / (1 - 0.9**self.steps) / ((corrected + 1e-8).sqrt() + 1e-8)

    def state(self) -> dict[str, Tensor]:
        moments = {"mean": self.means, "square": self.squares}
        return {f"{name}.{index}": tensor for name, tensors in moments.items() for index, tensor in enumerate(tensors)}

    def restore(self, state: Mapping[str, Tensor], steps: int) -> None:
        self.steps = steps
        for name, tensors in {"mean": self.means, "square": self.squares}.items():
            for index, tensor in enumerate(tensors):
                tensor.copy_(state[f"{name}.{index}"])
