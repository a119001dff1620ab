"""A teacher's scores as students learn them."""

from dataclasses import dataclass, replace

from didact.core.outputs import Outputs
from didact.learning.fit import Examples


@dataclass(frozen=True)
class TargetScaler:
    """The teacher's scores as students learn them: mean 0 and deviation 1 over the rows they see.

    Pearson's r does not know units, but squared errors do, and with them β, clipping and rate. Other tasks stay as
    they are.
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
