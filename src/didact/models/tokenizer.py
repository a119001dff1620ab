"""How native models read rows: words of a vocabulary built from data, or square patches of an image."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch

from didact.core.batch import Batch, Pieces, patch_batch, text_batch
from didact.core.row import Row
from didact.core.words import words
from didact.errors import OptionError, ShapeError

PADDING, UNKNOWN, FIRST, SEPARATOR, MASK = range(5)
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-cased words, numbered by frequency. With `special`, rows read [CLS] first [SEP] second [SEP]."""

    vocabulary: tuple[str, ...]
    special: bool = True

    @classmethod
    def from_rows(
        cls, rows: Iterable[Row], *, least: int = 1, most: int = 50_000, special: bool = True
    ) -> "WordTokenizer":
        """A vocabulary of the words that occur at least `least` times, the `most` frequent ones; ties by spelling."""
        counts = Counter(text[w.start : w.end].lower() for row in rows for text in row.texts for w in words(text))
        if not counts:
            raise OptionError("A vocabulary cannot be built: the rows hold no words.")
        kept = [word for word, count in counts.items() if count >= least]
        return cls((*_SPECIAL, *sorted(kept, key=lambda word: (-counts[word], word))[:most]), special)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}

    def _number(self, word: str) -> int:
        return self._numbers.get(word.lower(), UNKNOWN)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def pieces(self, row: Row, *, longest: int | None = None) -> Pieces:
        """One piece per word. `longest` cuts the end off the longest text first."""
        cut = [[(self._number(text[w.start : w.end]), w.start, w.end) for w in words(text)] for text in row.texts]
        room = None if longest is None else longest - self.special * (1 + len(cut))
        if room is not None and room < 1:
            raise OptionError(f"A length of {longest} leaves no room for words beside the special tokens.")
        while room is not None and sum(map(len, cut)) > room:
            max(cut, key=len).pop()
        parts = [(FIRST, -1, 0, 0)] if self.special else []
        for segment, text in enumerate(cut):
            parts += [(number, segment, start, end) for number, start, end in text]
            parts += [(SEPARATOR, -1, 0, 0)] if self.special else []
        table = np.array(parts, dtype=np.int64).reshape(-1, 4)
        return Pieces(table[:, 0].copy(), table[:, 1].copy(), table[:, 2:].copy())

    def encode(self, rows: Sequence[Row], *, longest: int | None = None) -> Batch:
        return text_batch(rows, [self.pieces(row, longest=longest) for row in rows], padding=PADDING)

    def facts(self) -> dict[str, Any]:
        return {"kind": "words", "special": self.special, "vocabulary": list(self.vocabulary)}


@dataclass(frozen=True)
class PatchReader:
    """Images of one size, cut into square patches, after one [CLS] position."""

    height: int
    width: int
    channels: int = 3
    patch: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.patch, int) or self.patch < 1:
            raise OptionError(f"Option 'patch' must be a whole number from 1, not {self.patch!r}.")
        if self.height % self.patch or self.width % self.patch:
            raise OptionError(f"Patches of {self.patch} pixels do not tile an image of {self.height} x {self.width}.")

    @property
    def patches(self) -> int:
        return (self.height // self.patch) * (self.width // self.patch)

    def encode(self, rows: Sequence[Row]) -> Batch:
        for row in rows:
            if row.image is None or row.image.shape != (self.height, self.width, self.channels):
                found = "no image" if row.image is None else " x ".join(map(str, row.image.shape))
                raise ShapeError(
                    f"Row {row.id!r} has {found}, but the model reads images of "
                    f"{self.height} x {self.width} x {self.channels}."
                )
        pixels = torch.from_numpy(np.stack([row.image for row in rows if row.image is not None]))
        scaled = pixels.permute(0, 3, 1, 2).to(torch.get_default_dtype()) / 127.5 - 1
        return patch_batch(rows, scaled.contiguous(), patch=self.patch, leading=1)

    def facts(self) -> dict[str, Any]:
        return {
            "kind": "patches",
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "patch": self.patch,
        }


Reader = WordTokenizer | PatchReader


def reader_from(facts: Mapping[str, Any]) -> Reader:
    """The reader whose `facts` these are."""
    rest = {key: value for key, value in facts.items() if key != "kind"}
    if facts["kind"] == "patches":
        return PatchReader(**rest)
    return WordTokenizer(tuple(rest["vocabulary"]), rest["special"])
