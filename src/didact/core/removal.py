"""What a teacher answers when units are taken away from its rows: the one question perturbation methods ask."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from didact.core.baseline import baseline_of
from didact.core.batch import Batch
from didact.core.batching import length_buckets
from didact.core.function import FunctionTeacher
from didact.core.model import Model, answering, evaluating
from didact.core.players import players_of
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import UnsupportedError


class Removal:
    """Values of the target with some players of a row present and the others replaced by a baseline.

    At most `batch_size` altered rows pass through a model at once, in the order of their lengths; equal questions
    about a row are asked once. A function gets whole texts without the words (its own `absent` in their place).
    """

    def __init__(
        self,
        teacher: Teacher,
        batch: Batch,
        target: Target,
        *,
        baseline: str = "zero",
        level: str = "token",
        batch_size: int = 64,
    ) -> None:
        self.teacher, self.batch, self.target = teacher, batch, target
        self.batch_size = batch_size
        self.players = players_of(batch, level=level)
        self.counts: list[int] = (self.players.amax(-1) + 1).tolist()
        if isinstance(teacher, Model):
            with evaluating(teacher), torch.no_grad():
                self._full = teacher.embed(batch)
                self._empty = baseline_of(teacher, batch, baseline=baseline)
        elif not isinstance(teacher, FunctionTeacher):
            raise UnsupportedError(
                f"Units cannot be taken away from what teacher {teacher.name!r} answers: it is neither a model nor a "
                "function. Choose 'human', 'random' or 'trivial'."
            )

    def values(
        self, kept: Sequence[Bool[np.ndarray, "_ _"]], *, rows: Sequence[int] | None = None
    ) -> list[Float[np.ndarray, " _"]]:
        """For each row and each of its samples, the target's value with only the marked players present.

        `rows` are the numbers of the rows that are asked about, all of the batch by default.
        """
        asked, back = zip(*(distinct(one) for one in kept), strict=True)
        numbers = np.arange(len(kept)) if rows is None else np.array(rows)
        owners = np.repeat(numbers, [len(one) for one in asked])
        ask = self._ask_model if isinstance(self.teacher, Model) else self._ask_function
        answers = ask(owners, asked)
        starts = np.cumsum([0, *(len(one) for one in asked)])
        return [answers[starts[row] : starts[row + 1]][order] for row, order in enumerate(back)]

    def scores(self, found: Sequence[Float[np.ndarray, " _"]]) -> Float[Tensor, "batch player"]:
        """One number per player of each row, padded with zeros, as a tensor where the batch lies."""
        widest = max(self.counts, default=0)
        padded = np.stack(
            [np.pad(one[:count], (0, widest - count)) for one, count in zip(found, self.counts, strict=True)]
        )
        dtype = self._full.dtype if isinstance(self.teacher, Model) else torch.float64
        return torch.from_numpy(padded).to(device=self.batch.device, dtype=dtype)

    def _ask_model(self, rows: np.ndarray, kept: Sequence[Bool[np.ndarray, "_ _"]]) -> Float[np.ndarray, " question"]:
        model, batch = self.teacher, self.batch
        assert isinstance(model, Model)
        widest = max(self.counts, default=0)
        # One more column, always present, for positions that are no player.
        presence = np.ones((len(rows), widest + 1), dtype=bool)
        begin = 0
        for one in kept:
            presence[begin : begin + len(one), : one.shape[1]] = one
            begin += len(one)
        lengths = batch.lengths.cpu().numpy()[rows]
        here = torch.from_numpy(presence).to(batch.device)
        column = torch.where(self.players < 0, widest, self.players)
        answers = np.zeros(len(rows))
        with answering(model):
            for asked in length_buckets(lengths, self.batch_size):
                chosen = torch.from_numpy(rows[asked]).to(batch.device)
                part = batch.select(chosen)
                length = part.tokens.shape[1]
                present = here[asked].gather(1, column[chosen, :length])
                inputs = torch.where(present[..., None], self._full[chosen, :length], self._empty[chosen, :length])
                logits = model.run(inputs, part).logits
                answers[asked] = self.target.select(chosen).of(logits).cpu().double().numpy()
        return answers

    def _ask_function(
        self, rows: np.ndarray, kept: Sequence[Bool[np.ndarray, "_ _"]]
    ) -> Float[np.ndarray, " question"]:
        teacher, batch = self.teacher, self.batch
        assert isinstance(teacher, FunctionTeacher)
        assert batch.rows is not None
        questions = []
        for row, samples in zip(dict.fromkeys(rows.tolist()), kept, strict=True):
            here = batch.rows[row]
            units: Sequence[Any] = teacher.units(here)
            gone = (np.flatnonzero(~one) for one in samples)
            questions += [teacher.without(here, [units[int(index)] for index in one]) for one in gone]
        logits = torch.from_numpy(teacher.predict(questions, batch_size=self.batch_size).values)
        return self.target.select(torch.from_numpy(rows)).of(logits).numpy()


def distinct(
    kept: Bool[np.ndarray, "sample player"],
) -> tuple[Bool[np.ndarray, "distinct player"], np.ndarray]:
    """The different samples, and for each sample the number of the one it equals."""
    packed = np.packbits(kept, axis=1)
    if not packed.shape[1]:
        return kept[:1], np.zeros(len(kept), dtype=np.int64)
    _, first, back = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return kept[first], back.reshape(-1)
