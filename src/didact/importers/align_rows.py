"""Rows of other tools, matched with the data by id or order, with aligned tokens. One error reports all faults."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.core.row import Row, Span
from didact.errors import DataError
from didact.importers.align import align
from didact.importers.parsed import Fault, ParsedFile, ParsedRow

_ROUNDING: Final = 1e-2  # tolerance of sums of scores in half precision or with few digits


@dataclass(frozen=True, eq=False)
class AlignedRows:
    """Units and scores on the texts of the data.

    `rows` are indices into the data; `sources` are the parsed rows in the same order. The units of row i are
    `bounds[i]` to `bounds[i + 1]`. `special` counts the special tokens, which are left out. `by_order` says that rows
    were matched by their order.
    """

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
    """Match the rows of a source with `rows`, and its tokens with their characters.

    Rows without ids are matched by their order, if `order` says that the data have one. Raises `DataError` with all
    faults.
    """
    faults = list(parsed.faults)
    if not parsed.rows and not faults:
        raise DataError(f"{parsed.name} contains no rows.")
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
        hint = (
            " Its rows have no ids and were matched in order. Check that the data have the same order."
            if by_order
            else ""
        )
        raise DataError(f"{parsed.name} cannot be read, and none of it was loaded.{hint}", faults)
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
        faults.append(
            f"{parsed.name}: its {count} rows have no ids, and the data set has several splits. Choose a split"
        )
        return []
    if count != len(rows) and not parsed.faults:
        faults.append(
            f"{parsed.name}: its {count} rows have no ids, but the data have {len(rows)} rows. Pass the rows that "
            "were explained, in the same order, or add ids"
        )
    return list(zip(parsed.rows, range(len(rows)), strict=True)) if count == len(rows) else []


def _match_by_id(parsed: ParsedFile, rows: Sequence[Row], faults: list[str]) -> list[tuple[ParsedRow, int]]:
    index_of = {row.id: index for index, row in enumerate(rows)}
    matched: list[tuple[ParsedRow, int]] = []
    first_places: dict[str, str] = {}
    for parsed_row in parsed.rows:
        prefix = f"{parsed.name} {parsed_row.where}"
        if parsed_row.id is None:
            faults.append(f"{prefix}: has no id, but other rows have one")
        elif parsed_row.id not in index_of:
            faults.append(
                f"{prefix} (row {parsed_row.id!r}): the data have no row with this id; their ids are {_few(index_of)}"
            )
        elif parsed_row.id in first_places:
            faults.append(
                f"{prefix} (row {parsed_row.id!r}): the id is repeated, first in {first_places[parsed_row.id]}"
            )
        else:
            matched.append((parsed_row, index_of[parsed_row.id]))
            first_places[parsed_row.id] = parsed_row.where
    return matched


def _units(parsed_row: ParsedRow, row: Row, kind: str | None) -> tuple[list[tuple[str, Span, float]], int]:
    """Token, span and score of each unit of a row, and the number of tokens that are not in its texts."""
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
            raise Fault(f"{name} scores {score}; scores must be finite")
        if kind not in (None, "signed") and score < 0:
            raise Fault(f"{name} scores {score:g}; scores of kind {kind!r} must not be negative")
        if kind == "binary" and score not in (0, 1):
            raise Fault(f"{name} scores {score:g}; marks (kind 'binary') must be 0 or 1")
        units.append((row.texts[span.segment][span.start : span.end] or token, span, score))
    if kind == "distribution" and abs(scores.sum() - 1) > _ROUNDING:
        raise Fault(f"its scores sum to {scores.sum():g}; scores of kind 'distribution' must sum to 1")
    if not units:
        raise Fault(f"none of its {len(tokens)} tokens is in the text")
    return units, len(tokens) - len(units)


def _segments(parsed_row: ParsedRow, texts: int) -> Sequence[int] | None:
    """The segment of each token. None if unknown, or if no token is said to be in the last text."""
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
