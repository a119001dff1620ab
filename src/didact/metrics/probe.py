"""What a teacher answers to rows of which some units are gone: the one question faithfulness metrics ask.

Units are taken away in the tokens that a model reads; text is never decoded and cut again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from didact.core.batch import Batch
from didact.core.batching import length_buckets
from didact.core.encode import device_of, encoded
from didact.core.function import FunctionTeacher
from didact.core.model import Model, answering
from didact.core.removal import distinct
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.errors import OptionError, UnsupportedError

REMOVE: Final = ("mask", "delete", "pad", "zero")
PRESETS: Final = {"eraser": "delete", "l2e": "mask"}
_FALLBACKS: Final = ("mask", "unk", "pad")

Kept = Bool[np.ndarray, "_ position"]


class Probe:
    """A teacher that is asked about rows with only some of their units left.

    `remove` tells what becomes of the others: the mask token stands there (`mask`; of models without one the token of
    unknown words, else that of padding), they are `delete`d and the rest moves up, the padding token stands there
    (`pad`), or their embedding is 0 (`zero`; patches of images are always removed so). A black box gets its own
    `absent`. `how` says in words what was done. Everything but units stays: special tokens, and what is no unit.
    """

    def __init__(self, teacher: Teacher, rows: Sequence[Row], *, remove: str = "mask", batch_size: int = 64) -> None:
        if remove not in REMOVE:
            raise OptionError(f"Option 'remove' is one of {', '.join(map(repr, REMOVE))}, not {remove!r}.")
        if teacher.task.name == "reading":
            raise UnsupportedError(
                "Faithfulness is measured on a class or a score, and a reading teacher answers spans. Measure its "
                "explanations against rationales instead (roc_auc)."
            )
        if not isinstance(teacher, Model | FunctionTeacher):
            raise UnsupportedError(
                f"Units cannot be taken away from what teacher {teacher.name!r} answers: it is neither a model nor a "
                "function. Measure against rationales instead (roc_auc)."
            )
        self.teacher, self.rows, self.batch_size = teacher, list(rows), batch_size
        self.batch: Batch = encoded(teacher, self.rows)
        self.remove, self.how, self._filler = _means(teacher, self.batch, remove)
        self.passes = 0  # altered rows that went through the teacher

    @property
    def units(self) -> Bool[np.ndarray, "row position"]:
        """Where units stand."""
        return self.batch.units.numpy()

    def full(self) -> Float[np.ndarray, "row output"]:
        """What the teacher answers to the rows as they are: probabilities of classes, or the score."""
        return self._answers(self.teacher.predict(self.rows, batch_size=self.batch_size).values)

    def ask(self, kept: Sequence[Kept], *, rows: Sequence[int] | None = None) -> list[Float[np.ndarray, "_ output"]]:
        """For each row and each of its questions (one at least) the answer with only the marked units there.

        A question has one mark per position of the row in `batch`; those that are no unit are ignored. Questions that
        are equal are asked once. `rows` are the numbers of the rows that are asked about, all by default.
        """
        if not kept:
            return []
        numbers = range(len(self.rows)) if rows is None else rows
        found, back = zip(
            *(distinct(one | ~self.units[row]) for row, one in zip(numbers, kept, strict=True)), strict=True
        )
        owners = np.repeat(np.asarray(numbers), [len(one) for one in found])
        self.passes += len(owners)
        ask = self._ask_model if isinstance(self.teacher, Model) else self._ask_function
        answers = self._answers(ask(owners, found))
        starts = np.cumsum([0, *(len(one) for one in found)])
        return [answers[starts[row] : starts[row + 1]][order] for row, order in enumerate(back)]

    @property
    def outputs(self) -> int:
        return len(self.teacher.classes) if self.teacher.classes is not None else 1

    def _answers(self, values: Float[np.ndarray, "_ output"]) -> Float[np.ndarray, "_ output"]:
        if not self.teacher.task.has_classes:
            return values
        shifted = np.exp(values - values.max(1, keepdims=True))
        return shifted / shifted.sum(1, keepdims=True)

    def _ask_model(self, owners: np.ndarray, kept: Sequence[Kept]) -> Float[np.ndarray, "question output"]:
        model, batch = self.teacher, self.batch
        assert isinstance(model, Model)
        present, rows = torch.from_numpy(np.concatenate(kept)), torch.from_numpy(owners)
        lengths = batch.lengths[rows]
        if self.remove == "delete":
            lengths = (present & batch.mask[rows]).sum(-1)
        answers = np.zeros((len(owners), self.outputs))
        with answering(model):
            for asked in length_buckets(lengths, self.batch_size):
                part = batch.select(rows[asked])
                stays = present[asked][:, : part.tokens.shape[1]]
                if self.remove == "delete":
                    altered = _shortened(part, stays)
                elif self._filler is not None:
                    altered = replace(part, tokens=torch.where(stays, part.tokens, self._filler))
                else:
                    altered = part
                altered = altered.to(device_of(model))
                inputs = model.embed(altered)
                if self.remove == "zero":
                    inputs = inputs.masked_fill(~stays.to(inputs.device)[..., None], 0.0)
                answers[asked] = model.run(inputs, altered).logits.cpu().double().numpy()
        return answers

    def _ask_function(self, owners: np.ndarray, kept: Sequence[Kept]) -> Float[np.ndarray, "question output"]:
        teacher = self.teacher
        assert isinstance(teacher, FunctionTeacher)
        questions = []
        for row, samples in zip(dict.fromkeys(owners.tolist()), kept, strict=True):
            units = teacher.units(self.rows[row])
            for one in samples:
                gone = [units[index] for index in np.flatnonzero(~one[: len(units)])]
                questions.append(teacher.without(self.rows[row], gone))  # type: ignore[arg-type]
        return teacher.predict(questions, batch_size=self.batch_size).values


def _means(teacher: Teacher, batch: Batch, remove: str) -> tuple[str, str, int | None]:
    """What is done, how it is told, and the token that stands for nothing (none: zeros)."""
    if isinstance(teacher, FunctionTeacher):
        if batch.pixels is not None:
            return "absent", "the mean colour of the image", None
        return "absent", f"replaced by {teacher.absent!r}" if teacher.absent else "deleted from the text", None
    assert isinstance(teacher, Model)
    if batch.pixels is not None or remove == "zero":
        return "zero", "embedding 0", None
    if remove == "delete":
        return "delete", "deleted", None
    wanted = _FALLBACKS if remove == "mask" else ("pad",)
    name, token = _filler(teacher, wanted)
    said = f"replaced by {teacher.token_name(token)}"
    return remove, said if name == wanted[0] else f"{said}, since there is no mask token", token


def _filler(model: Model, names: Sequence[str]) -> tuple[str, int]:
    for name in names:
        try:
            return name, model.filler(name)
        except UnsupportedError:
            continue
    raise UnsupportedError(
        f"Model {model.name!r} has no token for {' or '.join(names)} that could stand for what is taken away. "
        "Choose remove=delete or remove=zero."
    )


def _shortened(batch: Batch, stays: Bool[Tensor, "batch token"]) -> Batch:
    """The batch without the positions that do not stay; the others move up.

    A model without special tokens would read nothing where nothing stays: there one token of number 0 is left, which
    is padding in nearly all vocabularies.
    """
    here = stays & batch.mask
    empty = ~here.any(-1, keepdim=True)
    here[:, :1] |= empty
    order = (~here).long().argsort(dim=-1, stable=True)[:, : int(here.sum(-1).max())]
    return replace(
        batch,
        tokens=batch.tokens.masked_fill(empty, 0).gather(1, order),
        mask=here.gather(1, order),
        units=batch.units.gather(1, order),
        segments=batch.segments.gather(1, order),
        words=batch.words.gather(1, order),
        offsets=batch.offsets.gather(1, order[..., None].expand(-1, -1, 2)),
        types=None if batch.types is None else batch.types.gather(1, order),
        rationale=None,
        rows=None,
    )


def places_of(
    segments: Int[np.ndarray, " unit"],
    offsets: Int[np.ndarray, "unit side"],
    own_segments: Int[np.ndarray, " position"],
    own_offsets: Int[np.ndarray, "position 2"],
) -> Int[np.ndarray, " position"]:
    """For each of the teacher's positions the unit of an explanation that covers it, by characters; -1 where none does.

    Positions of segment -1 are no units. A position belongs to the unit that holds its first character, else to the
    next one that it reaches into.
    """
    real = np.flatnonzero(own_segments >= 0)
    found = np.full(len(own_segments), -1, dtype=np.int64)
    if np.array_equal(own_segments[real], segments) and np.array_equal(own_offsets[real], offsets):
        found[real] = np.arange(len(real))
        return found
    for segment in np.unique(segments):
        units = np.flatnonzero(segments == segment)
        units = units[np.argsort(offsets[units, 0], kind="stable")]
        starts, ends = offsets[units, 0], offsets[units, 1]
        here = real[own_segments[real] == segment]
        begins, stops = own_offsets[here].T
        last = np.searchsorted(starts, begins, side="right") - 1
        holds = (last >= 0) & (ends[last.clip(0)] > begins)
        after = (last + 1).clip(max=len(units) - 1)
        reaches = (last + 1 < len(units)) & (starts[after] < stops)
        found[here] = np.where(holds, units[last.clip(0)], np.where(reaches, units[after], -1))
    return found
