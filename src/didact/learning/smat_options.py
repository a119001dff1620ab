"""The options and results of SMaT."""

import math
from dataclasses import dataclass, field
from typing import Final

from didact.errors import OptionError
from didact.learning.fit import Epoch
from didact.learning.hypergradient import Route, check_route_name

VERSION: Final = 4  # part of every key: increase it if the same options give another result


@dataclass(frozen=True)
class SmatOptions:
    """The options of the explainer's training. In each step the student also learns from `batch_size` rows.

    - `outer`: where the rows of the outer loss come from: `train` (other rows than the student's in this step), or
      `dev` as in the paper. Each row occurs once per pass.
    - `outer_batch`: number of these rows, by default the student's `batch_size`.
    - `outer_rate`: learning rate of the explainer's coefficients, by default 0.04 over the number of components.
    - `outer_clip`: maximum norm of the explainer's gradient.
    - `temperature_rate`: learning rate of a learned temperature.
    - `pilot`: whether the hypergradient is that of a second, discarded step of the student (look-ahead step), or of
      the step it takes.
    - `reset`: restart the student every that many epochs; 0 never.
    - `route`: how the hypergradient is computed: `double`, `forward` or `difference`. `auto` is `double`, or
      `difference` for students without second derivatives.
    - `keep`: the epoch whose weights explainer and student get: `best` on dev, or `last`.
    - `choose`: with `fresh`, new students are then taught by the learned weights, by the initial ones and, of a blend,
      by each member, and the best on dev is chosen. `learned` skips this, `auto` does it for blends.

    Raises an `OptionError` that lists all invalid values.
    """

    outer: str = "train"
    outer_batch: int | None = None
    outer_rate: float | None = None
    outer_clip: float = 5.0
    temperature_rate: float = 0.01
    pilot: bool = True
    reset: int = 0
    route: str = "auto"
    keep: str = "best"
    choose: str = "auto"

    def __post_init__(self) -> None:
        check_route_name(self.route)
        faults = [
            f"{name} must be {requirement}, not {getattr(self, name)}"
            for name, is_valid, requirement in (
                ("outer", self.outer in ("train", "dev"), "train or dev"),
                ("outer_batch", self.outer_batch is None or self.outer_batch >= 1, "at least 1"),
                ("outer_rate", self.outer_rate is None or 0 < self.outer_rate < math.inf, "above 0 and finite"),
                ("outer_clip", 0 < self.outer_clip < math.inf, "above 0 and finite"),
                ("temperature_rate", 0 < self.temperature_rate < math.inf, "above 0 and finite"),
                ("reset", self.reset >= 0, "0 or more"),
                ("keep", self.keep in ("best", "last"), "best or last"),
                ("choose", self.choose in ("auto", "learned", "fresh"), "auto, learned or fresh"),
            )
            if not is_valid
        ]
        if faults:
            raise OptionError("Options of SMaT are invalid: " + "; ".join(faults) + ".")


@dataclass(frozen=True)
class SmatEpoch(Epoch):
    """An epoch of SMaT, with the mean outer loss and the state of the mix.

    `entropy` is that of the weights, `active` the number of components with a weight other than 0.
    """

    outer_loss: float
    entropy: float
    active: int
    temperature: float


@dataclass(frozen=True)
class SmatResult:
    """The result of SMaT. Explainer and student have the weights of `kept_epoch`.

    `lost_rows` counts the rows that lose a part of their explanation, because the student reads less of the text.
    """

    history: list[SmatEpoch]
    kept_epoch: SmatEpoch
    route: Route
    lost_rows: int
    notes: list[str] = field(default_factory=list)
