"""One example of a data set: inputs, an optional gold label, an optional rationale."""

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


# A class index, or several; a score; the acceptable answers of a reading row, best first.
Label: TypeAlias = int | float | tuple[int, ...] | tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One example. `rationale` is None where nobody marked one, and empty where nothing was found to mark.

    `alignments` belong to reading: pairs of spans, question and passage, that refer to the same thing.
    """

    id: str
    texts: tuple[str, ...] = ()
    image: UInt8[np.ndarray, "height width channel"] | None = None
    label: Label | None = None
    rationale: tuple[Span, ...] | tuple[Box, ...] | None = None
    alignments: tuple[tuple[Span, Span], ...] | None = None

    def text_of(self, span: Span) -> str:
        return self.texts[span.segment][span.start : span.end]

    @property
    def answers(self) -> tuple[Span, ...]:
        """The acceptable answers of a reading row; none for other labels."""
        return tuple(span for span in self.label if isinstance(span, Span)) if isinstance(self.label, tuple) else ()

    @property
    def content(self) -> bytes:
        """The inputs alone, as bytes: equal for two rows that a model cannot tell apart."""
        if self.image is not None:
            return str(self.image.shape).encode() + self.image.tobytes()
        return json.dumps(self.texts, ensure_ascii=False).encode()


def fingerprint_of(rows: Iterable[Row]) -> str:
    """A hash of everything the rows hold, in their order."""
    fingerprint = Fingerprint()
    fingerprint.update(rows)
    return str(fingerprint)


class Fingerprint:
    """What `fingerprint_of` gives, for rows that come some at a time."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, rows: Iterable[Row]) -> None:
        for row in rows:
            content = [row.id, row.texts, row.label, row.rationale, row.alignments]
            self._digest.update(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
            if row.image is not None:
                self._digest.update(row.content)

    def add(self, text: str) -> None:
        """Include something else that the rows depend on."""
        self._digest.update(text.encode())

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]
