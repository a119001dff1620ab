"""Controls that every method is compared with: random scores, label leaks, human rationales, and the truth."""

import math
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.feature_groups import LEVELS, feature_groups
from didact.core.row import Row, Span
from didact.core.seeds import numpy_generator
from didact.core.truth import Explained, true_scores
from didact.errors import OptionError, UnsupportedError
from didact.explainers.attention_alignment import alphanumeric_words

Pairs: TypeAlias = tuple[tuple[Span, Span], ...]


class Random(Explainer):
    """Uniform random scores between 0 and 1. The draw of a row depends only on its id and the seed.

    In reading, up to three words of the question are also aligned with random words of the passage.
    """

    version = 2
    resample_per_seed = True

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        scores = _zeros(batch)
        for row, name in enumerate(batch.ids):
            units = batch.units[row]
            draws = numpy_generator(self.seed, "random", name).random(int(units.sum()))
            scores[row, units] = torch.from_numpy(draws).to(scores)
        aligned = None
        if teacher.task.has_alignments and batch.rows is not None:
            aligned = tuple(map(self._pairs, batch.rows))
        return Explanation(scores, batch.mask, batch.units, "magnitude", alignments=aligned)

    def _pairs(self, row: Row) -> Pairs:
        question, passage = alphanumeric_words(row, 0), alphanumeric_words(row, 1)
        if not question or not passage:
            return ()
        rng = numpy_generator(self.seed, "random alignments", row.id)
        question_index = np.sort(rng.permutation(len(question))[:3])
        passage_index = rng.integers(len(passage), size=len(question_index))
        return tuple(
            (question[first][1], passage[second][1])
            for first, second in zip(question_index.tolist(), passage_index.tolist(), strict=True)
        )


class Trivial(Explainer):
    """A label leak: the units are cut into blocks, and the block of the target's class is marked (Pruthi et al. 2022).

    A block is a share `k` of the units. There are as many blocks as fit; further classes share blocks. `leak_count`
    leaks by the number of marks instead.
    """

    def __init__(self, *, k: float = 0.1) -> None:
        super().__init__()
        if not 0 < k <= 1:
            raise OptionError(f"Option 'k' of 'trivial' must be a share of the units above 0 and at most 1, got {k}.")
        self.k = k

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        scores = _zeros(batch)
        for row, label in enumerate(_leaked_classes("trivial", teacher, target)):
            units = batch.units[row].nonzero()[:, 0]
            size = max(1, math.ceil(self.k * len(units)))
            blocks = max(1, min(len(teacher.classes or ()), len(units) // size))
            start = label % blocks * size
            scores[row, units[start : start + size]] = 1.0
        return Explanation(scores, batch.mask, batch.units, "binary")


class LeakCount(Explainer):
    """A label leak by number: class c has (c + 1) · `marks` random units marked, so their number gives the class away.

    The units (at `level=word`: words) are the first of a random order, which depends only on the seed and the id of the
    row: where the marks are says nothing. Classes that need more marks than a row has units share its last number.
    """

    def __init__(self, *, marks: int = 1, seed: int = 0, level: str = "token") -> None:
        super().__init__()
        if marks < 1:
            raise OptionError(f"Option 'marks' of 'leak_count' must be an integer >= 1, got {marks}.")
        if level not in LEVELS:
            raise OptionError(f"Option 'level' must be 'token' or 'word', got {level!r}.")
        self.marks, self.seed, self.level = marks, seed, level

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        scores = _zeros(batch)
        groups = feature_groups(batch, level=self.level)
        for row, label in enumerate(_leaked_classes("leak_count", teacher, target)):
            order = numpy_generator(self.seed, "leak_count", batch.ids[row]).permutation(int(groups[row].max()) + 1)
            marked = torch.from_numpy(order[: (label + 1) * self.marks]).to(batch.device)
            scores[row, torch.isin(groups[row], marked)] = 1.0
        return Explanation(scores, batch.mask, batch.units, "binary")


class Human(Explainer):
    """The rationales of the data: what people marked, or what decides planted labels. Rows without one are an error.

    `noise` simulates careless annotators: with this probability each marked word (of images: patch) is dropped
    (`how="drop"`), or moves to an unmarked word while there is one (`how="swap"`). Aligned pairs are treated alike: in
    a swap, the span in the passage moves. A draw depends on the seed, the row's id and the word, so that a mark that is
    lost at some noise is lost at any higher noise, with any tokenizer.
    """

    def __init__(self, *, noise: float = 0.0, how: str = "drop", seed: int = 0) -> None:
        super().__init__()
        if not 0 <= noise <= 1:
            raise OptionError(f"Option 'noise' of 'human' must be a probability between 0 and 1, got {noise}.")
        if how not in ("drop", "swap"):
            raise OptionError(f"Option 'how' of 'human' must be 'drop' or 'swap', got {how!r}.")
        self.noise, self.how, self.seed = noise, how, seed
        self.resample_per_seed = noise > 0

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        if batch.rationale is None:
            raise UnsupportedError(
                "The explainer 'human' needs rationales, and these rows have none. Choose a data set that has them "
                "(`didact data list`), or another method."
            )
        marks = batch.rationale & batch.units
        if self.noise > 0:
            marks = self._noisy_marks(batch, marks)
        aligned = None
        if teacher.task.has_alignments and any(row.alignments is not None for row in batch.rows or ()):
            aligned = tuple(map(self._pairs, batch.rows or ()))
        scores = marks.to(_zeros(batch).dtype)
        return Explanation(scores, batch.mask, batch.units, "binary", alignments=aligned)

    def _noisy_marks(self, batch: Batch, marks: Bool[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
        # White space belongs to no word, so its marks are dropped.
        inside = (batch.units & (batch.words >= 0)).cpu().numpy()
        word_ids = torch.stack([batch.segments, batch.words], -1).cpu().numpy()
        before, after = marks.cpu().numpy(), np.zeros(marks.shape, dtype=bool)
        for row, name in enumerate(batch.ids):
            in_word = inside[row]
            after[row, in_word] = self._move_marks(name, before[row, in_word], word_ids[row, in_word])
        return torch.from_numpy(after).to(marks.device)

    def _move_marks(
        self, name: str, marks: Bool[np.ndarray, " piece"], word_ids: Int[np.ndarray, "piece 2"]
    ) -> Bool[np.ndarray, " piece"]:
        """The marks of one row after noise. `word_ids` holds the segment and the word of each piece."""
        row_words, word_index = np.unique(word_ids, axis=0, return_inverse=True)
        word_index = word_index.reshape(-1)
        is_marked = np.bincount(word_index, marks, minlength=len(row_words)) > 0
        chances, priorities = np.zeros(len(row_words)), np.zeros(len(row_words))
        for segment in set(row_words[:, 0].tolist()):
            in_segment = row_words[:, 0] == segment
            numbers = row_words[in_segment, 1]
            for values, purpose in ((chances, "noise"), (priorities, "places")):
                # One draw per word from the first on, so that truncating a text does not change the other draws.
                rng = numpy_generator(self.seed, "human", purpose, name, segment)
                values[in_segment] = rng.random(numbers.max() + 1)[numbers]
        is_lost = is_marked & (chances < self.noise)
        remaining = marks & ~is_lost[word_index]
        if self.how == "swap":
            free = np.flatnonzero(~is_marked)
            new_words = free[np.argsort(priorities[free])][: is_lost.sum()]
            remaining |= np.isin(word_index, new_words)
        return remaining

    def _pairs(self, row: Row) -> Pairs:
        pairs = row.alignments or ()
        if self.noise == 0:
            return pairs
        rng = numpy_generator(self.seed, "human", "alignments", row.id)
        chances, priorities = rng.random(len(pairs)), rng.random(len(pairs))
        noisy_pairs = []
        for (first, second), chance, priority in zip(pairs, chances.tolist(), priorities.tolist(), strict=True):
            if chance >= self.noise:
                noisy_pairs.append((first, second))
            elif self.how == "swap":
                candidates = [
                    word
                    for _, word in alphanumeric_words(row, 1)
                    if word.end <= second.start or word.start >= second.end
                ]
                noisy_pairs += [(first, candidates[int(priority * len(candidates))])] if candidates else []
        return tuple(noisy_pairs)


def _leaked_classes(method: str, teacher: Teacher, target: Target) -> list[int]:
    """The class of each row that a label leak gives away."""
    if target.kind not in ("label", "contrast") or target.first is None or teacher.classes is None:
        raise UnsupportedError(
            f"The control {method!r} gives away a class, and task {teacher.task} has none. Choose 'random'."
        )
    return [int(label) for label in target.first.tolist()]


class Truth(Explainer):
    """The true score of each unit, where it is known.

    A teacher that knows its `contributions` gives them, as logits whatever the scale. Otherwise the row's
    `rationale_weights` count; they change their sign if the other of two classes is explained. Scores of words are
    divided among their pieces in proportion to characters.
    """

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        if not teacher.task.is_text or batch.rows is None or target.kind == "span":
            raise UnsupportedError(
                f"The control 'truth' scores the words of a text for a class or a score, and task {teacher.task} has "
                "neither. Choose 'human' or 'random'."
            )
        scores = torch.zeros(batch.tokens.shape, dtype=torch.float64)  # on the CPU: some devices have no float64
        first, second = (index.tolist() if index is not None else None for index in (target.first, target.second))
        for index, row in enumerate(batch.rows):
            explained = Explained(
                None if first is None else first[index], None if second is None else second[index],
                len(teacher.classes or ()),
            )  # fmt: skip
            units = batch.units[index].cpu()
            columns = (batch.segments[index].cpu()[units].numpy(), batch.offsets[index].cpu()[units].numpy())
            scores[index, units] = torch.from_numpy(true_scores(row, *columns, explained, teacher))
        return Explanation(scores.to(teacher.dtype).to(batch.device), batch.mask, batch.units, "signed")


def _zeros(batch: Batch) -> Float[Tensor, "batch token"]:
    return torch.zeros(batch.tokens.shape, device=batch.device)
