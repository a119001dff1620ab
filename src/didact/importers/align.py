"""Alignment of the tokens of any tokenizer with the characters of a text.

Tokens and text are compared without case, accents and white space. The marks of word pieces (`##`), sentencepiece
(`▁`), byte-level vocabularies (`Ġ`) and older ones (`</w>`, `@@`) are removed. Special tokens belong to no text. Tokens
must cover all letters and digits of a text; they may skip other characters, as lists of words do.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

from didact.core.row import Span
from didact.importers.parsed import Fault

SPECIAL: Final = re.compile(
    r"\[(CLS|SEP|PAD|BOS|EOS)\]|</?(s|pad|bos|eos|cls|sep)>|<\|[^|]*\|>|<(start|end)_of_turn>|<extra_id_\d+>"
    r"|>>[a-zA-Z_]+<<|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}"  # languages of translation models
)
# Placeholders for unknown letters.
_PLACEHOLDER: Final = re.compile(r"\[(UNK|MASK)\]|<(unk|mask)>")
_BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# What a placeholder may cover: an ideograph, a word or another character (_WORD), or all up to the next space (_RUN).
_WORD: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]|\w+|\S")
_RUN: Final = re.compile(r"\S+")
_CONTEXT: Final = 24  # characters of the text that an error shows around a fault


class AlignmentFault(Fault):
    """A token that does not match the text. `placed_tokens` tokens before it were aligned."""

    def __init__(self, reason: str, placed_tokens: int) -> None:
        super().__init__(reason)
        self.placed_tokens = placed_tokens


def align(tokens: Sequence[str], texts: Sequence[str], segments: Sequence[int] | None = None) -> list[Span | None]:
    """The characters of each token; None for special tokens. A token without visible characters has an empty span.

    The texts of a row follow each other, separated by special tokens, unless `segments` gives the text of each token.
    Tries all token marks and raises the `AlignmentFault` of the attempt that aligned most tokens.
    """
    normalized = [_NormalizedText(text) for text in texts]
    furthest: AlignmentFault | None = None
    for decoder in _decoders(tokens, texts):
        try:
            return _Aligner(tokens, normalized, segments).spans(decoder)
        except AlignmentFault as error:
            furthest = error if furthest is None or error.placed_tokens > furthest.placed_tokens else furthest
    assert furthest is not None
    raise furthest


class _NormalizedText:
    """The characters of a text in normalized form, and the position of each in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        if text.isascii():
            self.positions = [index for index, character in enumerate(text) if character > " " and character != "\x7f"]
            self.characters = "".join(text[index] for index in self.positions).lower()
        else:
            pairs = [(character, index) for index, original in enumerate(text) for character in _normalize(original)]
            self.characters = "".join(character for character, _ in pairs)
            self.positions = [index for _, index in pairs]

    def position_of(self, cursor: int) -> int:
        """The position in the text of a normalized character; after the last one, the end of the text."""
        return self.positions[cursor] if cursor < len(self.positions) else len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the text of the normalized characters `start` to `end`, with accents that follow the last."""
        last = self.positions[end - 1] + 1
        while last < len(self.text) and unicodedata.combining(self.text[last]):
            last += 1
        return self.positions[start], last

    def find(self, normalized: str, cursor: int) -> int | None:
        """Where `normalized` starts, or None if a letter or digit would have to be skipped."""
        while not self.characters.startswith(normalized, cursor):
            if cursor >= len(self.characters) or self.characters[cursor].isalnum():
                return None
            cursor += 1
        return cursor

    def has_no_more_letters(self, cursor: int) -> bool:
        return not any(character.isalnum() for character in self.characters[cursor:])


class _Aligner:
    """One pass over the tokens of a row, with a cursor in each text."""

    def __init__(self, tokens: Sequence[str], texts: Sequence[_NormalizedText], segments: Sequence[int] | None) -> None:
        self.tokens, self.texts, self.segments = tokens, texts, segments
        self.cursors = [0] * len(texts)
        self.segment = 0
        self.pieces: list[tuple[str | None, list[int]]] = []

    def spans(self, decoder: "_Decoder") -> list[Span | None]:
        result: list[Span | None] = [None] * len(self.tokens)
        self.pieces = list(_pieces(self.tokens, decoder))
        has_begun = is_parted = False
        for number, (surface, members) in enumerate(self.pieces):
            if surface is None and not self._is_literal(members[0]):
                is_parted = has_begun
                continue
            if self.segments is not None:
                if not 0 <= self.segments[members[0]] < len(self.texts):
                    continue
                self.segment = self.segments[members[0]]
            elif is_parted and self.segment + 1 < len(self.texts):
                self.segment += 1
            has_begun, is_parted = True, False
            span = self._locate(number, self.tokens[members[0]] if surface is None else surface)
            for member in members:
                result[member] = span
        return result

    def _is_literal(self, token: int) -> bool:
        """Whether the text contains, at the cursor, a token that looks special."""
        text = self.texts[self.segment]
        return bool(self.tokens[token]) and text.text.startswith(
            self.tokens[token], text.position_of(self.cursors[self.segment])
        )

    def _locate(self, number: int, surface: str) -> Span:
        token = self.pieces[number][1][0]
        normalized = "".join(map(_normalize, surface))
        text, cursor = self.texts[self.segment], self.cursors[self.segment]
        if not normalized:
            return Span(self.segment, text.position_of(cursor), text.position_of(cursor))
        start = text.find(normalized, cursor)
        if start is None and _PLACEHOLDER.fullmatch(self.tokens[token]):
            start, normalized = cursor, text.characters[cursor : self._placeholder_end(number)]
        is_last = self.segment + 1 >= len(self.texts) or self.segments is not None
        if (start is None or not normalized) and not is_last and text.has_no_more_letters(cursor):
            self.segment += 1
            return self._locate(number, surface)
        if start is None or not normalized:
            raise self._alignment_fault(token)
        self.cursors[self.segment] = start + len(normalized)
        return Span(self.segment, *text.span(start, start + len(normalized)))

    def _placeholder_end(self, number: int) -> int:
        """The end of the characters that a placeholder covers, chosen so that the next token matches."""
        text, cursor = self.texts[self.segment], self.cursors[self.segment]
        word, run = (
            self._character_index(_end(pattern, text.text, text.position_of(cursor))) for pattern in (_WORD, _RUN)
        )
        ends = [word, run, *range(cursor + 1, run)]
        following = next(((surface, members[0]) for surface, members in self.pieces[number + 1 :] if surface), ("", -1))
        is_placeholder = following[1] >= 0 and _PLACEHOLDER.fullmatch(self.tokens[following[1]])
        normalized = "" if is_placeholder else "".join(map(_normalize, following[0]))
        fits = (
            end
            for end in ends
            if not normalized or text.characters.startswith(normalized, end) or text.has_no_more_letters(end)
        )
        return next(fits, ends[0])

    def _character_index(self, position: int) -> int:
        """The index of the first normalized character at or after a position."""
        text = self.texts[self.segment]
        return next(
            (
                index
                for index in range(self.cursors[self.segment], len(text.positions))
                if text.positions[index] >= position
            ),
            len(text.positions),
        )

    def _alignment_fault(self, token: int) -> AlignmentFault:
        text = self.texts[self.segment]
        position = text.position_of(self.cursors[self.segment])
        which = f"text {self.segment + 1}" if len(self.texts) > 1 else "the text"
        name = f"token {token + 1} of {len(self.tokens)}, {self.tokens[token]!r}, cannot be placed in {which}"
        if text.has_no_more_letters(self.cursors[self.segment]):
            reason = f"{name}: the text ends before it, with …{text.text[max(0, position - _CONTEXT) :]!r}"
        else:
            context = text.text[max(0, position - _CONTEXT // 2) : position + _CONTEXT]
            reason = f"{name}: expected at character {position}, where the text has {context!r}"
        return AlignmentFault(reason, token)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


# Removes the marks of a token, or gives the bytes that it encodes.
_Decoder = Callable[[str], str | bytes]


def _pieces(tokens: Sequence[str], decoder: _Decoder) -> Iterator[tuple[str | None, list[int]]]:
    """Groups of tokens with their text (None for special tokens). Tokens that share a character form one group."""
    content, members = b"", list[int]()
    for number, token in enumerate(tokens):
        is_special = not token or SPECIAL.fullmatch(token) is not None
        surface = "" if is_special else decoder(token)
        if members and (is_special or isinstance(surface, str)):
            yield content.decode(errors="replace"), members
            content, members = b"", []
        if is_special:
            yield None, [number]
        elif isinstance(surface, str):
            yield surface, [number]
        else:
            content, members = content + surface, [*members, number]
            if _is_complete(content):
                yield content.decode(errors="replace"), members
                content, members = b"", []
    if members:
        yield content.decode(errors="replace"), members


def _is_complete(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True


def _decode_verbatim(token: str) -> str | bytes:
    return token


def _decode_word_piece(token: str) -> str | bytes:
    return token[2:] if token.startswith("##") and len(token) > 2 else token


def _decode_sentence_piece(token: str) -> str | bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ")


def _decode_byte_level(token: str) -> str | bytes:
    if _PLACEHOLDER.fullmatch(token) or not all(character in _BYTE_OF for character in token):
        return token
    return bytes(_BYTE_OF[character] for character in token)


def _decode_end_mark(token: str) -> str | bytes:
    return token.removesuffix("</w>").removesuffix("@@")


def _byte_table() -> dict[str, int]:
    """The byte of each character of byte-level vocabularies: visible bytes as they are, others from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    invisible = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {chr(256 + index): byte for index, byte in enumerate(invisible)}


_BYTE_OF: Final = _byte_table()
_MARK_DECODERS: Final[tuple[tuple[str, _Decoder], ...]] = (
    ("Ġ", _decode_byte_level),
    ("Ċ", _decode_byte_level),
    ("▁", _decode_sentence_piece),
    ("<0x", _decode_sentence_piece),
    ("##", _decode_word_piece),
    ("</w>", _decode_end_mark),
    ("@@", _decode_end_mark),
)


def _decoders(tokens: Sequence[str], texts: Sequence[str]) -> list[_Decoder]:
    """The decoders to try, likeliest first: those whose marks occur in the tokens and not in the texts."""
    marked = [
        decoder
        for mark, decoder in _MARK_DECODERS
        if any(mark in token for token in tokens) and not any(mark in text for text in texts)
    ]
    fallback = [_decode_verbatim, *(decoder for _, decoder in _MARK_DECODERS)]
    return list(dict.fromkeys([*marked, *fallback]))


@cache
def _normalize(character: str) -> str:
    """The normalized form of a character. Empty for white space, accents and invisible characters."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(letter for letter in folded if not letter.isspace() and letter != "\ufffd" and _is_visible(letter))


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Mn", "Cc", "Cf")
