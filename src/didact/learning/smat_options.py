"""How SMaT learns an explainer, and what it leaves."""

import math
from dataclasses import dataclass, field
from typing import Final

from didact.errors import OptionError
from didact.learning.fit import Epoch
from didact.learning.hypergradient import Route, check_route_name

VERSION: Final = 4  # part of every key: raise it when the same options would learn something else


@dataclass(frozen=True)
class SmatOptions:
    """How an explainer is learned.

    Every step teaches the student once (`batch_size` rows of the training), takes with `pilot` one more step that is
    only looked at, and then asks on `outer_batch` other rows (as many as `batch_size` unless said) how the explanation
    should have been. These come from the training rows themselves (`outer=train`, never those of the step) or from dev,
    as in the paper; every row judges once per pass. `outer_rate` is 0.04 over the number of parts unless said. `reset`
    starts the student anew every so many epochs, 0 never. `route` is how derivatives are taken: double, forward or
    difference; `auto` is double, or difference for students that have no second derivatives. `keep` is the epoch whose
    explainer and student are kept: the best on dev, or the last. With `choose=fresh` new students are then taught by
    what was learned, by its start and, of a blend, by each member, and the best on dev is kept; `auto` does this for
    blends, `learned` for none.
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
            raise OptionError("An explainer cannot be learned as asked: " + "; ".join(faults) + ".")


@dataclass(frozen=True)
class SmatEpoch(Epoch):
    """An epoch of learning: also the mean loss on the outer rows, and what became of the mix."""

    outer_loss: float
    entropy: float
    active: int
    temperature: float


@dataclass(frozen=True)
class SmatResult:
    """What learning left. The explainer and the student it was handed hold the weights of the epoch that was kept."""

    history: list[SmatEpoch]
    kept_epoch: SmatEpoch
    route: Route
    lost_rows: int
    notes: list[str] = field(default_factory=list)
