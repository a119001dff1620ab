"""Tokens of other tools as characters of a text, whatever the tokenizer did to them as long as the letters are there.

Tokens and text are compared without case, accents and white space. Marks of word pieces (`##`), of sentencepiece (`▁`),
of byte-level vocabularies (`Ġ`) and of older ones (`</w>`, `@@`) are taken off; special tokens belong to no text.
Letters and digits that no token holds are a fault; other signs may be passed over, since lists of words leave them out.
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
# What stands for letters that are not told.
_HIDDEN: Final = re.compile(r"\[(UNK|MASK)\]|<(unk|mask)>")
_BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# What an unknown token may cover: an ideograph, a word, a sign; or all up to the next space.
_WORD: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]|\w+|\S")
_RUN: Final = re.compile(r"\S+")
_AROUND: Final = 24  # characters shown of the text around a fault


class AlignmentFault(Fault):
    """A token that is not where it should be. `reached` tokens were placed before it."""

    def __init__(self, reason: str, reached: int) -> None:
        super().__init__(reason)
        self.reached = reached


def align(tokens: Sequence[str], texts: Sequence[str], segments: Sequence[int] | None = None) -> list[Span | None]:
    """The characters of each token, None for special ones. A token without visible characters covers none.

    The texts of a row follow one another, parted by special tokens, unless `segments` tell each token's text.
    """
    flat = [_Flat(text) for text in texts]
    worst: AlignmentFault | None = None
    for style in _styles(tokens, texts):
        try:
            return _Walk(tokens, flat, segments).places(style)
        except AlignmentFault as error:
            worst = error if worst is None or error.reached > worst.reached else worst
    assert worst is not None
    raise worst


class _Flat:
    """The visible signs of a text as they are compared, and where each stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        if text.isascii():
            self.where = [place for place, sign in enumerate(text) if sign > " " and sign != "\x7f"]
            self.signs = "".join(text[place] for place in self.where).lower()
        else:
            pairs = [(sign, place) for place, whole in enumerate(text) for sign in _bare(whole)]
            self.signs = "".join(sign for sign, _ in pairs)
            self.where = [place for _, place in pairs]

    def at(self, cursor: int) -> int:
        """The character of the text where a sign stands; after the last one, the end."""
        return self.where[cursor] if cursor < len(self.where) else len(self.text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the signs `start` to `end`, with the accents that follow the last."""
        last = self.where[end - 1] + 1
        while last < len(self.text) and unicodedata.combining(self.text[last]):
            last += 1
        return self.where[start], last

    def find(self, wanted: str, cursor: int) -> int | None:
        """Where `wanted` begins, with no letter or digit passed over."""
        while not self.signs.startswith(wanted, cursor):
            if cursor >= len(self.signs) or self.signs[cursor].isalnum():
                return None
            cursor += 1
        return cursor

    def is_done(self, cursor: int) -> bool:
        return not any(sign.isalnum() for sign in self.signs[cursor:])


class _Walk:
    """One pass over the tokens of a row, a cursor in each text."""

    def __init__(self, tokens: Sequence[str], texts: Sequence[_Flat], segments: Sequence[int] | None) -> None:
        self.tokens, self.texts, self.segments = tokens, texts, segments
        self.cursors = [0] * len(texts)
        self.here = 0
        self.pieces: list[tuple[str | None, list[int]]] = []

    def places(self, style: "_Style") -> list[Span | None]:
        found: list[Span | None] = [None] * len(self.tokens)
        self.pieces = list(_pieces(self.tokens, style))
        has_begun = is_parted = False
        for number, (surface, members) in enumerate(self.pieces):
            if surface is None and not self._is_literal(members[0]):
                is_parted = has_begun
                continue
            if self.segments is not None:
                if not 0 <= self.segments[members[0]] < len(self.texts):
                    continue
                self.here = self.segments[members[0]]
            elif is_parted and self.here + 1 < len(self.texts):
                self.here += 1
            has_begun, is_parted = True, False
            place = self._place(number, self.tokens[members[0]] if surface is None else surface)
            for member in members:
                found[member] = place
        return found

    def _is_literal(self, token: int) -> bool:
        """Whether what looks special is written in the text just here."""
        text = self.texts[self.here]
        return bool(self.tokens[token]) and text.text.startswith(self.tokens[token], text.at(self.cursors[self.here]))

    def _place(self, number: int, surface: str) -> Span:
        token = self.pieces[number][1][0]
        wanted = "".join(map(_bare, surface))
        text, cursor = self.texts[self.here], self.cursors[self.here]
        if not wanted:
            return Span(self.here, text.at(cursor), text.at(cursor))
        start = text.find(wanted, cursor)
        if start is None and _HIDDEN.fullmatch(self.tokens[token]):
            start, wanted = cursor, text.signs[cursor : self._hidden_end(number)]
        is_last = self.here + 1 >= len(self.texts) or self.segments is not None
        if (start is None or not wanted) and not is_last and text.is_done(cursor):
            self.here += 1
            return self._place(number, surface)
        if start is None or not wanted:
            raise self._alignment_fault(token)
        self.cursors[self.here] = start + len(wanted)
        return Span(self.here, *text.span(start, start + len(wanted)))

    def _hidden_end(self, number: int) -> int:
        """Where the signs behind an unknown token end: with a word, or a sign, so that the next token fits."""
        text, cursor = self.texts[self.here], self.cursors[self.here]
        word, run = (self._sign(_end(shape, text.text, text.at(cursor))) for shape in (_WORD, _RUN))
        ends = [word, run, *range(cursor + 1, run)]
        later = next(((surface, members[0]) for surface, members in self.pieces[number + 1 :] if surface), ("", -1))
        is_hidden = later[1] >= 0 and _HIDDEN.fullmatch(self.tokens[later[1]])
        wanted = "" if is_hidden else "".join(map(_bare, later[0]))
        fits = (end for end in ends if not wanted or text.signs.startswith(wanted, end) or text.is_done(end))
        return next(fits, ends[0])

    def _sign(self, place: int) -> int:
        """The first sign at or after a character."""
        text = self.texts[self.here]
        return next(
            (n for n in range(self.cursors[self.here], len(text.where)) if text.where[n] >= place), len(text.where)
        )

    def _alignment_fault(self, token: int) -> AlignmentFault:
        text = self.texts[self.here]
        at = text.at(self.cursors[self.here])
        which = f"text {self.here + 1}" if len(self.texts) > 1 else "the text"
        name = f"token {token + 1} of {len(self.tokens)}, {self.tokens[token]!r}, cannot be placed in {which}"
        if text.is_done(self.cursors[self.here]):
            reason = f"{name}: it ends before, with …{text.text[max(0, at - _AROUND) :]!r}"
        else:
            around = text.text[max(0, at - _AROUND // 2) : at + _AROUND]
            reason = f"{name}: expected at character {at}, where {around!r} stands"
        return AlignmentFault(reason, token)


def _end(shape: re.Pattern[str], text: str, start: int) -> int:
    match = shape.match(text, start)
    return start if match is None else match.end()


# A token without its marks, or the bytes it stands for.
_Style = Callable[[str], str | bytes]


def _pieces(tokens: Sequence[str], style: _Style) -> Iterator[tuple[str | None, list[int]]]:
    """The letters of each token; None for special ones. Tokens that share a character come together."""
    content, members = b"", list[int]()
    for number, token in enumerate(tokens):
        is_special = not token or SPECIAL.fullmatch(token) is not None
        surface = "" if is_special else style(token)
        if members and (is_special or isinstance(surface, str)):
            yield content.decode(errors="replace"), members
            content, members = b"", []
        if is_special:
            yield None, [number]
        elif isinstance(surface, str):
            yield surface, [number]
        else:
            content, members = content + surface, [*members, number]
            if _is_whole(content):
                yield content.decode(errors="replace"), members
                content, members = b"", []
    if members:
        yield content.decode(errors="replace"), members


def _is_whole(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True


def _as_it_is(token: str) -> str | bytes:
    return token


def _word_piece(token: str) -> str | bytes:
    return token[2:] if token.startswith("##") and len(token) > 2 else token


def _sentence_piece(token: str) -> str | bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ")


def _byte_level(token: str) -> str | bytes:
    if _HIDDEN.fullmatch(token) or not all(sign in _BYTES for sign in token):
        return token
    return bytes(_BYTES[sign] for sign in token)


def _with_end(token: str) -> str | bytes:
    return token.removesuffix("</w>").removesuffix("@@")


def _bytes() -> dict[str, int]:
    """How byte-level vocabularies write bytes: the visible ones as they are, the others as letters from 256 on."""
    short_repr = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in set(short_repr)]
    return {chr(byte): byte for byte in short_repr} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


_BYTES: Final = _bytes()
_MARKS: Final[tuple[tuple[str, _Style], ...]] = (
    ("Ġ", _byte_level),
    ("Ċ", _byte_level),
    ("▁", _sentence_piece),
    ("<0x", _sentence_piece),
    ("##", _word_piece),
    ("</w>", _with_end),
    ("@@", _with_end),
)


def _styles(tokens: Sequence[str], texts: Sequence[str]) -> list[_Style]:
    """The ways to read tokens, the likeliest first: marks tell, unless the text itself has them."""
    seen = [style for mark, style in _MARKS if any(mark in one for one in tokens) and not any(mark in t for t in texts)]
    rest = [_as_it_is, *(style for _, style in _MARKS)]
    return list(dict.fromkeys([*seen, *rest]))


@cache
def _bare(sign: str) -> str:
    """A character as it is compared; nothing for white space, accents and what cannot be seen."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sign).casefold())
    return "".join(one for one in folded if not one.isspace() and one != "\ufffd" and _is_seen(one))


def _is_seen(sign: str) -> bool:
    return unicodedata.category(sign) not in ("Mn", "Cc", "Cf")
