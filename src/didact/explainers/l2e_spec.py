"""What an L2E network reads of its teacher, and what its outputs mean. Stored with its weights."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor

from didact.core.model import Batch, Row, TokenVectors, require_model
from didact.core.teacher import Differentiable, Teacher
from didact.core.words import words_of
from didact.errors import OptionError

_MIN_COUNT: Final = 2  # rarer words count as unknown, so that the network learns to handle unknown words


@dataclass(frozen=True)
class NetworkSpec:
    """Inputs and outputs of a network.

    `classes` are the teacher's; for a teacher with scores, `edges` separate their buckets. With a `vocabulary` of words
    (or tokens) the network has its own embeddings; otherwise it reads the teacher's, of width `dim`. `values` are the
    values of the labels, by imitated explainer.
    """

    classes: tuple[str, ...] | None
    edges: tuple[float, ...]
    vocabulary: tuple[Any, ...] | None
    dim: int | None
    imitates: tuple[str, ...]
    is_signed: bool
    values: tuple[tuple[float, ...], ...] = ()

    @cached_property
    def _word_numbers(self) -> dict[Any, int]:
        return {word: number for number, word in enumerate(self.vocabulary or (), 1)}

    @property
    def labels(self) -> int:
        return len(self.edges) + 1 if self.classes is None else len(self.classes)

    def check(self, teacher: Teacher) -> None:
        """Raise if the network was learned for another teacher."""
        if teacher.classes != self.classes:
            raise OptionError(
                f"This explainer was learned for a teacher whose classes are {_class_list(self.classes)}, and those of "
                f"{teacher.name!r} are {_class_list(teacher.classes)}. Learn it again (didact learn l2e)."
            )
        if self.dim is not None and not isinstance(teacher, Differentiable):
            raise OptionError(
                f"This explainer reads its teacher's embeddings, and {teacher.name!r} is a black box. Learn it again "
                "(didact learn l2e)."
            )

    def inputs(self, teacher: Teacher, batch: Batch) -> Tensor:
        """Word numbers, or the teacher's embeddings."""
        if self.vocabulary is None:
            embeddings = teacher_embeddings(teacher, batch)
            if embeddings.shape[-1] != self.dim:
                raise OptionError(
                    f"This explainer reads embeddings of {self.dim} numbers, and those of {teacher.name!r} have "
                    f"{embeddings.shape[-1]}. It was learned for another teacher: learn it again (didact learn l2e)."
                )
            return embeddings
        length = batch.tokens.shape[1]
        numbers = [[self._word_numbers.get(word, 0) for word in words] for words in _read_words(teacher, batch)]
        return torch.tensor([row + [0] * (length - len(row)) for row in numbers], device=batch.device)

    def as_plain(self) -> dict[str, object]:
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields

    @classmethod
    def from_plain(cls, fields: Mapping[str, Any]) -> "NetworkSpec":
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return cls(**values | {"values": tuple(map(tuple, fields["values"]))})


def teacher_embeddings(teacher: Teacher, batch: Batch) -> TokenVectors:
    with torch.no_grad():
        return require_model(teacher, "l2e").embed(batch)


def frequent_words(teacher: Teacher, rows: Sequence[Row]) -> list[Any]:
    """The words (or tokens) that occur at least twice, the most frequent first."""
    counts: Counter[Any] = Counter()
    for start in range(0, len(rows), 256):
        for words in _read_words(teacher, teacher.encode(rows[start : start + 256])):
            counts.update(words)
    return [word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= _MIN_COUNT]


def _read_words(teacher: Teacher, batch: Batch) -> list[list[Any]]:
    """The words of each row as a network knows them: token ids of a model, else lower-case words."""
    if isinstance(teacher, Differentiable):
        return [tokens[mask].tolist() for tokens, mask in zip(batch.tokens, batch.mask, strict=True)]
    return [
        [row.texts[word.segment][word.start : word.end].casefold() for word in words_of(row.texts)]
        for row in batch.rows or ()
    ]


def _class_list(classes: Sequence[str] | None) -> str:
    return "none (it gives a score)" if classes is None else ", ".join(classes[:10])
