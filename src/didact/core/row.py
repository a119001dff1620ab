"""`Row`, one example of a data set: inputs, an optional gold label, an optional rationale."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import UInt8


class Span(NamedTuple):
    """Characters `start` to `end` (exclusive) of the row's text number `segment`."""

    segment: int
    start: int
    end: int


class Box(NamedTuple):
    """Pixels of an image, ends exclusive."""

    top: int
    left: int
    bottom: int
    right: int


# A class index or several, a score, or the acceptable answers of a reading row, best first.
Label: TypeAlias = int | float | tuple[int, ...] | tuple[Span, ...]


@dataclass(frozen=True)
class Revision:
    """The texts of a row after people changed them a little (a counterfactual pair), and their gold label, or None."""

    texts: tuple[str, ...]
    label: Label | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """One example.

    `rationale` is None if the row was not annotated, and empty if annotators marked nothing. `alignments`, for reading,
    are pairs of spans of question and passage that refer to the same thing. `revision` is an edited version of the row.
    `rationale_weights` has the true score of each span of `rationale`, for data that know it: a positive score speaks
    for the label of the row.
    """

    id: str
    texts: tuple[str, ...] = ()
    image: UInt8[np.ndarray, "height width channel"] | None = None
    label: Label | None = None
    rationale: tuple[Span, ...] | tuple[Box, ...] | None = None
    alignments: tuple[tuple[Span, Span], ...] | None = None
    revision: Revision | None = None
    rationale_weights: tuple[float, ...] | None = None

    def text_of(self, span: Span) -> str:
        return self.texts[span.segment][span.start : span.end]

    @property
    def answers(self) -> tuple[Span, ...]:
        """The acceptable answers of a reading row; empty for other labels."""
        return tuple(span for span in self.label if isinstance(span, Span)) if isinstance(self.label, tuple) else ()

    @property
    def content(self) -> bytes:
        """The inputs as bytes, equal for rows with equal inputs."""
        if self.image is not None:
            return str(self.image.shape).encode() + self.image.tobytes()
        return json.dumps(self.texts, ensure_ascii=False).encode()


def fingerprint_of(rows: Iterable[Row]) -> str:
    """A hash of all fields of the rows except revisions, in order: of all that teachers and explainers may read."""
    fingerprint = Fingerprint()
    fingerprint.update(rows)
    return str(fingerprint)


class Fingerprint:
    """The hash of `fingerprint_of`, computed incrementally."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, rows: Iterable[Row]) -> None:
        for row in rows:
            content: list[object] = [row.id, row.texts, row.label, row.rationale, row.alignments]
            content += [] if row.rationale_weights is None else [row.rationale_weights]
            self._digest.update(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
            if row.image is not None:
                self._digest.update(row.content)

    def add(self, text: str) -> None:
        """Add text that is not in the rows to the hash."""
        self._digest.update(text.encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]
