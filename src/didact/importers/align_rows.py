"""Rows of other tools tied to the data: matched by id or order, tokens by their characters. All faults at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.core.row import Row, Span
from didact.errors import DataError
from didact.importers.align import align
from didact.importers.parsed import Fault, ParsedFile, ParsedRow

_ROUNDING: Final = 1e-2  # by which scores of half precision, or printed with few digits, may miss their sum


@dataclass(frozen=True, eq=False)
class AlignedRows:
    """Units of the data's own texts. `rows` are places in the data; `special` tokens were left out."""

    sources: tuple[ParsedRow, ...]
    rows: tuple[int, ...]
    bounds: Int[np.ndarray, " bound"]
    tokens: tuple[str, ...]
    segments: Int[np.ndarray, " unit"]
    offsets: Int[np.ndarray, "unit 2"]
    scores: Float[np.ndarray, " unit"]
    special: int
    by_order: bool


def align_rows(parsed: ParsedFile, rows: Sequence[Row], *, kind: str | None = None, order: bool = True) -> AlignedRows:
    """The scores of a source on the characters of the data. Without ids rows are taken in `order`, if that is known."""
    faults = list(parsed.faults)
    if not parsed.rows and not faults:
        raise DataError(f"{parsed.name} holds no rows.")
    by_order = bool(parsed.rows) and all(sources.id is None for sources in parsed.rows)
    matched = _ordered(parsed, rows, faults, order=order) if by_order else _named(parsed, rows, faults)
    units: list[tuple[str, Span, float]] = []
    counts: list[int] = []
    special = 0
    for sources, row in matched:
        try:
            mine, dropped = _units(sources, rows[row], kind)
        except Fault as fault:
            name = f" (row {rows[row].id!r})"
            faults.append(f"{parsed.name} {sources.where}{name}: {fault}")
            continue
        units += mine
        counts.append(len(mine))
        special += dropped
    if faults:
        how = " Its rows have no ids and were taken in the order of the data; is that the same?" if by_order else ""
        raise DataError(f"{parsed.name} cannot be read, and nothing of it was loaded.{how}", faults)
    places = np.array([place for _, place, _ in units], dtype=np.int64).reshape(-1, 3)
    return AlignedRows(
        sources=tuple(sources for sources, _ in matched),
        rows=tuple(row for _, row in matched),
        bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        tokens=tuple(token for token, _, _ in units),
        segments=places[:, 0],
        offsets=places[:, 1:],
        scores=np.array([score for _, _, score in units], dtype=np.float64),
        special=special,
        by_order=by_order,
    )


def _ordered(parsed: ParsedFile, rows: Sequence[Row], faults: list[str], *, order: bool) -> list[tuple[ParsedRow, int]]:
    count = len(parsed.rows)
    if not order:
        faults.append(f"{parsed.name}: its {count} rows have no ids, and a data set has several splits. Choose a split")
        return []
    if count != len(rows) and not parsed.faults:
        faults.append(
            f"{parsed.name}: its {count} rows have no ids, and the data have {len(rows)} rows. Give the rows that "
            "were explained, in their order, or write ids"
        )
    return list(zip(parsed.rows, range(len(rows)), strict=True)) if count == len(rows) else []


def _named(parsed: ParsedFile, rows: Sequence[Row], faults: list[str]) -> list[tuple[ParsedRow, int]]:
    known = {row.id: place for place, row in enumerate(rows)}
    found: list[tuple[ParsedRow, int]] = []
    first: dict[str, str] = {}
    for sources in parsed.rows:
        start = f"{parsed.name} {sources.where}"
        if sources.id is None:
            faults.append(f"{start}: has no id, and other rows have one")
        elif sources.id not in known:
            faults.append(f"{start} (row {sources.id!r}): the data have no row of this id; theirs are {_few(known)}")
        elif sources.id in first:
            faults.append(f"{start} (row {sources.id!r}): the id stands twice, first in {first[sources.id]}")
        else:
            found.append((sources, known[sources.id]))
            first[sources.id] = sources.where
    return found


def _units(sources: ParsedRow, row: Row, kind: str | None) -> tuple[list[tuple[str, Span, float]], int]:
    """What stands in the texts, and how many tokens do not."""
    tokens, scores = sources.tokens, sources.scores
    if len(tokens) != len(scores):
        raise Fault(f"has {len(tokens)} tokens and {len(scores)} scores; each token has one")
    places = (
        sources.places if sources.places is not None else align(tokens, row.texts, _segments(sources, len(row.texts)))
    )
    units = []
    for number, (token, place, score) in enumerate(zip(tokens, places, scores.tolist(), strict=True), 1):
        if place is None:
            continue
        name = f"token {number} of {len(tokens)}, {token!r},"
        if not np.isfinite(score):
            raise Fault(f"{name} scores {score}; scores are finite")
        if kind not in (None, "signed") and score < 0:
            raise Fault(f"{name} scores {score:g}; scores of kind {kind!r} are not negative")
        if kind == "binary" and score not in (0, 1):
            raise Fault(f"{name} scores {score:g}; marks (kind 'binary') are 0 or 1")
        units.append((row.texts[place.segment][place.start : place.end] or token, place, score))
    if kind == "distribution" and abs(scores.sum() - 1) > _ROUNDING:
        raise Fault(f"its scores sum to {scores.sum():g}; scores of kind 'distribution' sum to 1")
    if not units:
        raise Fault(f"none of its {len(tokens)} tokens stands in the text")
    return units, len(tokens) - len(units)


def _segments(sources: ParsedRow, texts: int) -> Sequence[int] | None:
    """The text of each token; None where that is not told, or all are said to be of the first."""
    told = sources.segments
    if told is None:
        return None
    if len(told) != len(sources.tokens):
        raise Fault(f"has {len(sources.tokens)} tokens and {len(told)} segments; each token has one")
    last = max(told, default=0)
    if last >= texts:
        raise Fault(f"has tokens of segment {last} (counted from 0), and the row has {texts} text{'s'[: texts - 1]}")
    return told if last == texts - 1 else None


def _few(names: dict[str, int]) -> str:
    short_repr = ", ".join(map(repr, list(names)[:3]))
    return f"{short_repr}, …" if len(names) > 3 else short_repr
