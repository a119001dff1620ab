"""What faithfulness metrics compute with: the ranked units of a row, and the teacher's answers to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.results.row_explanation import RowExplanation


@dataclass(frozen=True, eq=False)
class Ranked:
    """The units of a row, ranked by an explanation: `order` has their indices, highest first."""

    row_id: str
    scores: Float[np.ndarray, " unit"]
    order: Int[np.ndarray, " unit"]
    is_signed: bool

    @classmethod
    def of(cls, explanation: RowExplanation, *, by_size: bool) -> "Ranked":
        signed = explanation.kind == "signed"
        keys = np.abs(explanation.scores) if by_size or not signed else explanation.scores
        return cls(explanation.id, explanation.scores, np.argsort(-keys, kind="stable"), signed)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def ranks(self) -> Int[np.ndarray, " unit"]:
        """The rank of each unit; 0 is the highest."""
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[self.order] = np.arange(len(self))
        return ranks

    def top(self, counts: Sequence[int] | Int[np.ndarray, " count"]) -> Bool[np.ndarray, "count unit"]:
        """For each count, a mask of that number of highest units."""
        return self.ranks < np.asarray(counts, dtype=np.int64)[:, None]


@dataclass(frozen=True, eq=False)
class TeacherAnswers:
    """The teacher's answers to one row (`full`) and to its masked versions (`masked`).

    Answers are probabilities, and `label` is the explained class; for regression they are scores, and `label` is None.
    """

    full: Float[np.ndarray, " output"]
    masked: Float[np.ndarray, "mask output"]
    label: int | None
    units: int

    @property
    def falls(self) -> Float[np.ndarray, " mask"]:
        """The decrease of the probability against the whole row; for regression the absolute change of the score."""
        if self.label is None:
            return np.abs(self.full[0] - self.masked[:, 0])
        return self.full[self.label] - self.masked[:, self.label]

    @property
    def flips(self) -> Bool[np.ndarray, " mask"]:
        """Whether the predicted class differs from that of the whole row."""
        return self.masked.argmax(1) != self.full.argmax()
