"""F-Fidelity: faithfulness to a copy of the teacher that is used to holes (Zheng et al., ICLR 2025, arXiv 2410.02970).

A copy of the teacher is tuned on rows from which random units were removed, at most the share `beta`, so that a row
with holes is nothing new to it (`didact.learning.mask_tuning`). No explanation takes part in the tuning. The metric
then removes units of the explanation at random, never more than the tuning did, and reads the copy's answers.

Differences from the paper and its code: the labels of the tuning are the teacher's probabilities, not gold classes, so
the copy stays close to what was explained; values are probabilities by default (`answer=class` counts classes, as the
paper does); a fixed number of units is removed, rounded up, not each unit by a coin; explanations are those of the
teacher, where the released code explains the tuned model; a regression has no value. The paper ranks methods by FFid+
and FFid− apart. Their difference is Fid_Δ of the paper it builds on (Zheng et al. 2024, arXiv 2310.01820).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool

from didact.core.seeds import numpy_generator
from didact.errors import OptionError
from didact.metrics.faithfulness import Faithfulness
from didact.metrics.ranked import Ranked, TeacherAnswers
from didact.results.row_explanation import top_count

SIZES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ANSWERS: Final = ("probability", "class")


@dataclass(frozen=True)
class MaskTuning:
    """How the copy of the teacher is tuned. Metrics with equal values share one copy.

    Each row loses a random number of units in each epoch, from none to the share `beta`. At most `rows` rows are used.
    """

    beta: float = 0.1
    epochs: int = 3
    rows: int = 1000
    seed: int = 0


class FFidelity(Faithfulness):
    """FFid+ − FFid−: what the top units matter to the tuned copy, less what the lowest units matter.

    For each share of units in `sizes`, the copy answers `samples` versions of the row: FFid+ removes the share `alpha`
    of that many top units, FFid− of that many lowest ones, and neither more than the share `beta` of the row. Each is
    the copy's probability for the explained class on the whole row, minus the mean over the versions. With
    `answer=class` it is 1 where the copy predicts the explained class, else 0. `epochs`, `rows` and `seed` are those of
    the tuning; `seed` also decides which units are removed, by rank, and so alike for all methods.

    Costs 2 · sizes · samples passes per row and method, less where versions are equal, and the tuning once.
    """

    needs_classes = True

    def __init__(
        self,
        *,
        beta: float = 0.1,
        alpha: float = 0.5,
        samples: int = 10,
        sizes: Sequence[float] = SIZES,
        answer: str = "probability",
        epochs: int = 3,
        rows: int = 1000,
        seed: int = 0,
    ) -> None:
        shares = [("beta", beta), ("alpha", alpha), *(("sizes", size) for size in sizes)]
        faults = [f"{name} must be above 0 and at most 1, got {share}" for name, share in shares if not 0 < share <= 1]
        counts = (("samples", samples), ("epochs", epochs), ("rows", rows))
        faults += [f"{name} must be at least 1, got {count}" for name, count in counts if count < 1]
        faults += [] if sizes else ["sizes must have at least one share of the units"]
        faults += [] if answer in ANSWERS else [f"answer must be {' or '.join(ANSWERS)}, got {answer!r}"]
        if faults:
            raise OptionError(f"Options of f_fidelity are invalid: {'; '.join(faults)}.")
        self.alpha, self.samples, self.sizes, self.answer = float(alpha), samples, tuple(map(float, sizes)), answer
        self.tuning = MaskTuning(float(beta), epochs, rows, seed)

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        removed = self._removed_ranks(row)
        return ~np.concatenate([removed[:, row.ranks], removed[:, len(row) - 1 - row.ranks]])

    def value(self, answers: TeacherAnswers) -> float:
        top, lowest = np.split(self._outcomes(answers.masked, answers.label), 2)
        return float(lowest.mean() - top.mean())

    def _removed_ranks(self, row: Ranked) -> Bool[np.ndarray, "mask rank"]:
        """For each version of the row, which ranks are removed. Rank 0 is the highest, or for FFid− the lowest."""
        generator = numpy_generator(self.tuning.seed, "f_fidelity", row.row_id)
        limit = top_count(self.tuning.beta, len(row))
        removed = np.zeros((len(self.sizes), self.samples, len(row)), dtype=bool)
        for index, size in enumerate(self.sizes):
            size_count = top_count(size, len(row))
            count = min(top_count(self.alpha, size_count), limit)
            chosen = generator.random((self.samples, size_count)).argsort(axis=1)[:, :count]
            np.put_along_axis(removed[index], chosen, True, axis=1)
        return removed.reshape(-1, len(row))

    def _outcomes(self, values: np.ndarray, label: int | None) -> np.ndarray:
        """The probability of the explained class, or whether it is predicted."""
        assert label is not None
        return values[:, label] if self.answer == "probability" else (values.argmax(1) == label).astype(np.float64)


class FFidelityPlus(FFidelity):
    """FFid+: how far the tuned copy's answer falls without some of the top units."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return ~self._removed_ranks(row)[:, row.ranks]

    def value(self, answers: TeacherAnswers) -> float:
        whole = self._outcomes(answers.full[None], answers.label)[0]
        return float(whole - self._outcomes(answers.masked, answers.label).mean())


class FFidelityMinus(FFidelityPlus):
    """FFid−: how far the tuned copy's answer falls without some of the lowest units."""

    def masks(self, row: Ranked) -> Bool[np.ndarray, "mask unit"] | None:
        return ~self._removed_ranks(row)[:, len(row) - 1 - row.ranks]
