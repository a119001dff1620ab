"""How native models read rows: words of a vocabulary from data, tokens of a base model, or square patches."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer

from didact.core.batch import Batch, TokenizedRow, patch_batch, text_batch
from didact.core.row import Row
from didact.core.words import words
from didact.errors import OptionError, ShapeError

PADDING, UNKNOWN, FIRST, SEPARATOR, MASK = range(5)
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ENCODE_BATCH: Final = 4096  # texts tokenised in one call while a vocabulary is restricted


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-cased words, numbered by frequency. With `special`, rows read [CLS] first [SEP] second [SEP]."""

    vocabulary: tuple[str, ...]
    special: bool = True

    @classmethod
    def from_rows(
        cls, rows: Iterable[Row], *, min_count: int = 1, max_words: int = 50_000, special: bool = True
    ) -> "WordTokenizer":
        """A vocabulary of the words with at least `min_count` occurrences, at most the `max_words` most frequent ones.

        Ties are ordered by spelling. Raises an `OptionError` if the rows have no words.
        """
        counts = Counter(
            text[span.start : span.end].lower() for row in rows for text in row.texts for span in words(text)
        )
        if not counts:
            raise OptionError("A vocabulary cannot be built, because the rows have no words.")
        frequent = [word for word, count in counts.items() if count >= min_count]
        return cls((*_SPECIAL, *sorted(frequent, key=lambda word: (-counts[word], word))[:max_words]), special)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}

    def _token_id(self, word: str) -> int:
        return self._ids.get(word.lower(), UNKNOWN)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def pieces(self, row: Row, *, max_length: int | None = None) -> TokenizedRow:
        """One token per word. `max_length` truncates the longest text first."""
        tokens = [
            [(self._token_id(text[span.start : span.end]), span.start, span.end) for span in words(text)]
            for text in row.texts
        ]
        special_tokens = (FIRST, SEPARATOR) if self.special else (None, None)
        return _concatenated(tokens, *special_tokens, max_length=max_length)

    def encode(self, rows: Sequence[Row], *, max_length: int | None = None) -> Batch:
        return text_batch(rows, [self.pieces(row, max_length=max_length) for row in rows], padding=PADDING)

    def special_token_id(self, name: str) -> int | None:
        return {"pad": PADDING, "mask": MASK, "unk": UNKNOWN}[name]

    def token_name(self, token: int) -> str:
        return self.vocabulary[token]

    def facts(self) -> dict[str, object]:
        return {"kind": "words", "special": self.special, "vocabulary": list(self.vocabulary)}


@dataclass(frozen=True)
class PieceReader:
    """The tokens of a base model's fast tokenizer, each text tokenized separately.

    - `tokenizer`: the tokenizer as JSON.
    - `special`: rows read [CLS] first [SEP] second [SEP], with the base's tokens for these, or its tokens for the
      begin and end of a text. Tokens that the base lacks are left out.
    - `ids`: restricts the vocabulary to these tokens of the base. A token's number is then its index in `ids`, and
      every other token becomes the unknown token.
    - `vectors`: the embeddings of the tokens in `ids`. They are not part of `facts`.
    """

    tokenizer: str = field(repr=False)
    special: bool = True
    pad: int | None = None
    unk: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None
    ids: tuple[int, ...] | None = field(default=None, repr=False)
    vectors: torch.Tensor | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, *, special: bool = True) -> "PieceReader":
        """A reader that tokenizes as a fast tokenizer of transformers."""
        backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        backend.no_truncation()  # state of its last call
        backend.no_padding()

        def token(*names: str) -> int | None:
            candidates = (getattr(tokenizer, f"{name}_token_id", None) for name in names)
            return next((int(number) for number in candidates if number is not None), None)

        return cls(
            backend.to_str(),
            special,
            pad=token("pad"),
            unk=token("unk"),
            cls=token("cls", "bos"),
            sep=token("sep", "eos"),
            mask=token("mask"),
        )

    @property
    def _backend(self) -> Tokenizer:
        return _parsed_tokenizer(self.tokenizer)[0]

    def __len__(self) -> int:
        return _parsed_tokenizer(self.tokenizer)[1] if self.ids is None else len(self.ids)

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        """The index of each token of the base in `ids`."""
        return {piece: position for position, piece in enumerate(self.ids or ())}

    def _token_id(self, piece: int | None) -> int | None:
        """The number of a token of the base in this reader. None stays None."""
        if piece is None or self.ids is None:
            return piece
        unknown = 0 if self.unk is None else self._positions[self.unk]
        return self._positions.get(piece, unknown)

    def restricted(self, rows: Sequence[Row]) -> "PieceReader":
        """This reader with its vocabulary restricted to the tokens that occur in `rows`, and the special tokens."""
        special = [self.pad, self.unk, self.cls, self.sep, self.mask]
        used = {piece for piece in special if piece is not None}
        texts = [text for row in rows for text in row.texts]
        for start in range(0, len(texts), _ENCODE_BATCH):
            for encoding in self._backend.encode_batch(texts[start : start + _ENCODE_BATCH], add_special_tokens=False):
                used.update(encoding.ids)
        return replace(self, ids=tuple(sorted(used)))

    def pieces(self, row: Row, *, max_length: int | None = None) -> TokenizedRow:
        """The tokens of a row. `max_length` truncates the longest text first."""
        return self._pieces(
            row, [self._backend.encode(text, add_special_tokens=False) for text in row.texts], max_length
        )

    def encode(self, rows: Sequence[Row], *, max_length: int | None = None) -> Batch:
        # One call for all texts is several times faster than one per text.
        texts = [text for row in rows for text in row.texts]
        encoded = iter(self._backend.encode_batch(texts, add_special_tokens=False))
        tokenized_rows = [self._pieces(row, [next(encoded) for _ in row.texts], max_length) for row in rows]
        # Padding is masked, so without a padding token any token will do.
        return text_batch(rows, tokenized_rows, padding=self._token_id(self.pad) or 0)

    def _pieces(self, row: Row, encoded: Sequence[Encoding], max_length: int | None) -> TokenizedRow:
        tokens = [
            [(token, *offsets) for token, offsets in zip(encoding.ids, encoding.offsets, strict=True)]
            for encoding in encoded
        ]
        special_tokens = (self.cls, self.sep) if self.special else (None, None)
        pieces = _concatenated(tokens, *special_tokens, max_length=max_length)
        trim_whitespace(row.texts, pieces)
        if self.ids is not None:
            pieces.tokens[:] = [self._token_id(piece) or 0 for piece in pieces.tokens.tolist()]
        return pieces

    def special_token_id(self, name: str) -> int | None:
        return self._token_id({"pad": self.pad, "mask": self.mask, "unk": self.unk}[name])

    def token_name(self, token: int) -> str:
        return str(self._backend.id_to_token(token if self.ids is None else self.ids[token]))

    def facts(self) -> dict[str, object]:
        stored = {
            reader_field.name: getattr(self, reader_field.name)
            for reader_field in fields(self)
            if reader_field.name not in ("ids", "vectors")
        }
        return {"kind": "pieces", **stored} | ({} if self.ids is None else {"ids": list(self.ids)})


@dataclass(frozen=True)
class PatchReader:
    """Images of one size, cut into square patches, after one [CLS] position."""

    height: int
    width: int
    channels: int = 3
    patch: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.patch, int) or self.patch < 1:
            raise OptionError(f"Option 'patch' must be an integer >= 1, got {self.patch!r}.")
        if self.height % self.patch or self.width % self.patch:
            raise OptionError(f"Patches of {self.patch} pixels do not tile an image of {self.height} x {self.width}.")

    @property
    def patches(self) -> int:
        return (self.height // self.patch) * (self.width // self.patch)

    def encode(self, rows: Sequence[Row]) -> Batch:
        for row in rows:
            if row.image is None or row.image.shape != (self.height, self.width, self.channels):
                shape = "no image" if row.image is None else " x ".join(map(str, row.image.shape))
                raise ShapeError(
                    f"Row {row.id!r} has {shape}, but the model reads images of "
                    f"{self.height} x {self.width} x {self.channels}."
                )
        pixels = torch.from_numpy(np.stack([row.image for row in rows if row.image is not None]))
        scaled = pixels.permute(0, 3, 1, 2).to(torch.get_default_dtype()) / 127.5 - 1
        return patch_batch(rows, scaled.contiguous(), patch=self.patch, leading=1)

    def facts(self) -> dict[str, Any]:
        return {"kind": "patches", **asdict(self)}


@lru_cache(maxsize=4)
def _parsed_tokenizer(tokenizer: str) -> tuple[Tokenizer, int]:
    """The tokenizer (not to be changed) and its number of tokens. Cached: parsing the JSON takes 0.2 s."""
    parsed = Tokenizer.from_str(tokenizer)
    return parsed, max(parsed.get_vocab(with_added_tokens=True).values()) + 1


def _concatenated(
    texts: Sequence[list[tuple[int, int, int]]], first: int | None, separator: int | None, *, max_length: int | None
) -> TokenizedRow:
    """One row from its texts, given as (token, start, end).

    Puts the token `first` before all texts and the token `separator` after each, and truncates to `max_length`.
    """
    available = None if max_length is None else max_length - (first is not None) - len(texts) * (separator is not None)
    if available is not None and available < 1:
        raise OptionError(f"A length of {max_length} leaves no room for words next to the special tokens.")
    while available is not None and sum(map(len, texts)) > available:
        max(texts, key=len).pop()
    entries = [] if first is None else [(first, -1, 0, 0)]
    for segment, text in enumerate(texts):
        entries += [(token, segment, start, end) for token, start, end in text]
        entries += [] if separator is None else [(separator, -1, 0, 0)]
    table = np.array(entries, dtype=np.int64).reshape(-1, 4)
    return TokenizedRow(table[:, 0].copy(), table[:, 1].copy(), table[:, 2:].copy())


def trim_whitespace(texts: Sequence[str], pieces: TokenizedRow) -> None:
    """Remove white space from the ends of each token's characters: some tokenizers include the space before a word."""
    for index, (segment, (start, end)) in enumerate(zip(pieces.segments, pieces.offsets, strict=True)):
        if segment < 0 or start >= end:
            continue
        text = texts[segment][start:end]
        if text[0].isspace() or text[-1].isspace():
            start += len(text) - len(text.lstrip())
            pieces.offsets[index] = (start, max(start, start + len(text.strip())))


TextReader = WordTokenizer | PieceReader
Reader = TextReader | PatchReader
READERS: Final = ("words", "pieces", "patches")  # their names in `facts`


def reader_from(facts: Mapping[str, Any]) -> Reader:
    """The reader with these `facts`."""
    rest = {key: value for key, value in facts.items() if key != "kind"}
    if facts["kind"] == "patches":
        return PatchReader(**rest)
    if facts["kind"] == "pieces":
        return PieceReader(**rest | ({"ids": tuple(rest["ids"])} if "ids" in rest else {}))
    return WordTokenizer(tuple(rest["vocabulary"]), rest["special"])
