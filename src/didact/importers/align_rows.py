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
    by_order = bool(parsed.rows) and all(parsed_row.id is None for parsed_row in parsed.rows)
    matched = _match_by_order(parsed, rows, faults, order=order) if by_order else _match_by_id(parsed, rows, faults)
    units: list[tuple[str, Span, float]] = []
    counts: list[int] = []
    special = 0
    for parsed_row, row in matched:
        try:
            row_units, row_special = _units(parsed_row, rows[row], kind)
        except Fault as fault:
            name = f" (row {rows[row].id!r})"
            faults.append(f"{parsed.name} {parsed_row.where}{name}: {fault}")
            continue
        units += row_units
        counts.append(len(row_units))
        special += row_special
    if faults:
        hint = " Its rows have no ids and were taken in the order of the data; is that the same?" if by_order else ""
        raise DataError(f"{parsed.name} cannot be read, and nothing of it was loaded.{hint}", faults)
    spans = np.array([span for _, span, _ in units], dtype=np.int64).reshape(-1, 3)
    return AlignedRows(
        sources=tuple(parsed_row for parsed_row, _ in matched),
        rows=tuple(row for _, row in matched),
        bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        tokens=tuple(token for token, _, _ in units),
        segments=spans[:, 0],
        offsets=spans[:, 1:],
        scores=np.array([score for _, _, score in units], dtype=np.float64),
        special=special,
        by_order=by_order,
    )


def _match_by_order(
    parsed: ParsedFile, rows: Sequence[Row], faults: list[str], *, order: bool
) -> list[tuple[ParsedRow, int]]:
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


def _match_by_id(parsed: ParsedFile, rows: Sequence[Row], faults: list[str]) -> list[tuple[ParsedRow, int]]:
    index_of = {row.id: index for index, row in enumerate(rows)}
    matched: list[tuple[ParsedRow, int]] = []
    first_places: dict[str, str] = {}
    for parsed_row in parsed.rows:
        prefix = f"{parsed.name} {parsed_row.where}"
        if parsed_row.id is None:
            faults.append(f"{prefix}: has no id, and other rows have one")
        elif parsed_row.id not in index_of:
            faults.append(
                f"{prefix} (row {parsed_row.id!r}): the data have no row of this id; theirs are {_few(index_of)}"
            )
        elif parsed_row.id in first_places:
            faults.append(
                f"{prefix} (row {parsed_row.id!r}): the id stands twice, first in {first_places[parsed_row.id]}"
            )
        else:
            matched.append((parsed_row, index_of[parsed_row.id]))
            first_places[parsed_row.id] = parsed_row.where
    return matched


def _units(parsed_row: ParsedRow, row: Row, kind: str | None) -> tuple[list[tuple[str, Span, float]], int]:
    """What stands in the texts, and how many tokens do not."""
    tokens, scores = parsed_row.tokens, parsed_row.scores
    if len(tokens) != len(scores):
        raise Fault(f"has {len(tokens)} tokens and {len(scores)} scores; each token has one")
    spans = (
        parsed_row.spans
        if parsed_row.spans is not None
        else align(tokens, row.texts, _segments(parsed_row, len(row.texts)))
    )
    units = []
    for number, (token, span, score) in enumerate(zip(tokens, spans, scores.tolist(), strict=True), 1):
        if span is None:
            continue
        name = f"token {number} of {len(tokens)}, {token!r},"
        if not np.isfinite(score):
            raise Fault(f"{name} scores {score}; scores are finite")
        if kind not in (None, "signed") and score < 0:
            raise Fault(f"{name} scores {score:g}; scores of kind {kind!r} are not negative")
        if kind == "binary" and score not in (0, 1):
            raise Fault(f"{name} scores {score:g}; marks (kind 'binary') are 0 or 1")
        units.append((row.texts[span.segment][span.start : span.end] or token, span, score))
    if kind == "distribution" and abs(scores.sum() - 1) > _ROUNDING:
        raise Fault(f"its scores sum to {scores.sum():g}; scores of kind 'distribution' sum to 1")
    if not units:
        raise Fault(f"none of its {len(tokens)} tokens stands in the text")
    return units, len(tokens) - len(units)


def _segments(parsed_row: ParsedRow, texts: int) -> Sequence[int] | None:
    """The text of each token; None where that is not told, or all are said to be of the first."""
    segments = parsed_row.segments
    if segments is None:
        return None
    if len(segments) != len(parsed_row.tokens):
        raise Fault(f"has {len(parsed_row.tokens)} tokens and {len(segments)} segments; each token has one")
    last = max(segments, default=0)
    if last >= texts:
        raise Fault(f"has tokens of segment {last} (counted from 0), and the row has {texts} text{'s'[: texts - 1]}")
    return segments if last == texts - 1 else None


def _few(names: dict[str, int]) -> str:
    listed = ", ".join(map(repr, list(names)[:3]))
    return f"{listed}, …" if len(names) > 3 else listed
