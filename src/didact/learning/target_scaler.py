"""Standardisation of a teacher's regression scores."""

from dataclasses import dataclass, replace

from didact.core.outputs import Outputs
from didact.learning.fit import Examples


@dataclass(frozen=True)
class TargetScaler:
    """Scales scores to mean 0 and standard deviation 1 over the training rows. Does nothing for other tasks.

    The task measure (Pearson's r) does not depend on the scale of scores. The squared error does, and with it suitable
    values of β, clipping and learning rate.
    """

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, train: Examples) -> "TargetScaler":
        if not train.outputs.task.is_score:
            return cls()
        values = train.outputs.values[:, 0]
        return cls(float(values.mean()), float(values.std()) or 1.0)

    def transform(self, examples: Examples) -> Examples:
        if self == TargetScaler():
            return examples
        return replace(examples, goal=(examples.goal - self.mean) / self.deviation)

    def inverse_transform(self, outputs: Outputs) -> Outputs:
        if self == TargetScaler():
            return outputs
        return replace(outputs, values=outputs.values * self.deviation + self.mean)
