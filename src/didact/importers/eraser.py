"""Format `eraser`: predictions of the ERASER benchmark (DeYoung et al. 2020), one line per row, on whitespace tokens.

`{"annotation_id", "rationales": [{"docid", "hard_rationale_predictions": [{"start_token", "end_token"}],
"soft_rationale_predictions": [float]}], "classification", "classification_scores"}`. A rationale belongs to the text
whose name ends its docid (`17_hypothesis`). If docids do not end with such names, there is one per text, in order.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.row import Row, Span
from didact.data import fields
from didact.errors import OptionError, ShapeError
from didact.files.atomic import ensure_parent, write_text
from didact.importers.files import records
from didact.importers.parsed import (
    Fault,
    ImportOptions,
    ParsedFile,
    ParsedRow,
    numbers,
    optional_id,
    required,
    short_repr,
)
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count
from didact.results.task_kinds import TASK_KINDS, task_kind

HARD, SOFT = "hard_rationale_predictions", "soft_rationale_predictions"
# The names of first and second texts in data sets.
_PAIRS = [kind.segments for kind in TASK_KINDS.values() if len(kind.segments) == 2]
_SEGMENT_NAMES = tuple(zip(*_PAIRS, ("premise", "hypothesis"), strict=True))


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:
    """Read soft scores if all rows have them; hard marks if no row has them, or for kind 'binary'."""
    parsed = ParsedFile(name)
    row_of = {row.id: row for row in rows}
    entries = []
    for where, record in records(source, parsed):
        with parsed.reading(where):
            id = optional_id(required(record, "annotation_id"), "annotation_id")
            rationales = required(record, "rationales")
            if not isinstance(rationales, list | tuple):
                raise Fault(f"'rationales' must be a list, got {short_repr(rationales)}")
            entries.append((where, str(id), record, [_checked_rationale(rationale) for rationale in rationales]))
    is_soft = [
        all(rationale.get(SOFT) is not None for rationale in rationales) and bool(rationales)
        for _, _, _, rationales in entries
    ]
    parsed.is_marked = options.kind == "binary" or not any(is_soft)
    for (where, id, record, rationales), soft in zip(entries, is_soft, strict=True):
        with parsed.reading(where, id):
            if not soft and not parsed.is_marked:
                raise Fault(f"has no {SOFT!r}, but other rows have; kind='binary' reads the hard marks of all rows")
            if id in row_of:
                parsed.rows.append(_row(where, id, record, rationales, row_of[id].texts, is_marked=parsed.is_marked))
            else:  # `align_rows` reports unknown ids
                parsed.rows.append(ParsedRow(where, id, (), np.zeros(0)))
    return parsed


def _checked_rationale(rationale: Any) -> Mapping[str, object]:
    required(rationale, "docid")
    if rationale.get(HARD) is None and rationale.get(SOFT) is None:
        raise Fault(f"the rationale of {short_repr(rationale['docid'])} has neither {HARD!r} nor {SOFT!r}")
    return dict(rationale)


def _row(
    where: str,
    id: str,
    record: Mapping[str, object],
    rationales: Sequence[Mapping[str, object]],
    texts: Sequence[str],
    *,
    is_marked: bool,
) -> ParsedRow:
    tokens, spans, scores = [], [], []
    segments = _segments_of(rationales, len(texts))
    for segment, text in enumerate(texts):
        text_spans = fields.tokens(text, segment)
        rationale = next(
            (rationale for rationale, index in zip(rationales, segments, strict=True) if index == segment), None
        )
        if rationale is None and not is_marked:
            continue
        tokens += [text[span.start : span.end] for span in text_spans]
        spans += text_spans
        scores.append(
            np.zeros(len(text_spans))
            if rationale is None
            else _marks(rationale, text_spans)
            if is_marked
            else _soft(rationale, text_spans)
        )
    prediction = record.get("classification")
    if prediction is not None and not isinstance(prediction, str):
        raise Fault(f"'classification' must be the name of a class, got {short_repr(prediction)}")
    return ParsedRow(where, id, tokens, np.concatenate(scores), spans=spans, target=prediction, prediction=prediction)


def _segments_of(rationales: Sequence[Mapping[str, object]], text_count: int) -> list[int]:
    """The segment of each rationale."""
    docids = [str(segment["docid"]) for segment in rationales]
    named_segments = [
        next((index for index in range(min(text_count, 2)) if docid.endswith(_SEGMENT_NAMES[index])), None)
        for docid in docids
    ]
    if text_count > 1 and all(segment is not None for segment in named_segments):
        segments = [segment for segment in named_segments if segment is not None]
    elif len(rationales) == text_count or not rationales:
        segments = list(range(len(rationales)))
    else:
        raise Fault(
            f"has rationales for {len(rationales)} documents ({', '.join(docids)}), but its row has {text_count} "
            f"text{'s' if text_count > 1 else ''}; a docid may "
            f"end with {' or '.join(sorted({*_SEGMENT_NAMES[0], *_SEGMENT_NAMES[1]}))}"
        )
    if len(set(segments)) < len(segments):
        raise Fault(f"has two rationales for the same document ({', '.join(docids)})")
    return segments


def _marks(rationale: Mapping[str, object], spans: Sequence[Span]) -> Float[np.ndarray, " token"]:
    ranges = rationale.get(HARD)
    if not isinstance(ranges, list | tuple):
        raise Fault(f"has no list {HARD!r} to read marks from")
    marks = np.zeros(len(spans))
    for span in ranges:
        start, end = required(span, "start_token"), required(span, "end_token")
        if not (_is_integer(start) and _is_integer(end) and 0 <= start < end <= len(spans)):
            raise Fault(f"marks the tokens {short_repr(start)} to {short_repr(end)} of a text of {len(spans)}")
        if marks[start:end].any():
            raise Fault(f"marks some of the tokens {start} to {end} twice")
        marks[start:end] = 1
    return marks


def _soft(rationale: Mapping[str, object], spans: Sequence[Span]) -> Float[np.ndarray, " token"]:
    scores = numbers(rationale[SOFT], repr(SOFT))
    if len(scores) != len(spans):
        raise Fault(f"has {len(scores)} soft scores for a text of {len(spans)} whitespace tokens")
    return scores


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def write_eraser(
    maps: Explanations,
    path: Path | str,
    *,
    k: float | None = None,
    probabilities: Float[np.ndarray, "row class"] | None = None,
) -> None:
    """Write explanations as ERASER predictions: soft scores, or hard marks for the kind `binary`.

    Args:
        maps: The explanations. Units are joined to white-space tokens, as `maps.words()` joins pieces.
        path: The JSON Lines file to write.
        k: Also mark the best tokens: a number of tokens, or a fraction of them.
        probabilities: The model's probabilities. ERASER wants a class only together with them, so both are written only
            if this is given.

    Examples:
        ```python
        from didact import write_eraser

        teacher = didact.load_teacher("runs/demo/teacher")
        maps = didact.explain(teacher, ["a good film"], "gradient_norm")
        write_eraser(maps, "eraser.jsonl", k=1)
        ```
    """
    if maps.is_image:
        raise OptionError("The ERASER format is for texts; these explanations are of images.")
    if probabilities is not None and (maps.classes is None or probabilities.shape != (len(maps), len(maps.classes))):
        raise ShapeError(
            f"{len(maps)} rows with the classes {maps.classes} do not fit probabilities of shape {probabilities.shape}."
        )
    lines = []
    for number, row in enumerate(maps):
        record: dict[str, object] = {"annotation_id": row.id, "rationales": _rationales(row, k)}
        if probabilities is not None and maps.classes is not None:
            probability_of = dict(zip(maps.classes, probabilities[number].tolist(), strict=True))
            record |= {
                "classification": max(probability_of, key=probability_of.__getitem__),
                "classification_scores": probability_of,
            }
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(ensure_parent(Path(path)), "".join(lines))


def _rationales(row: RowExplanation, k: float | None) -> list[dict[str, object]]:
    scores = [_token_scores(row, segment) for segment in range(len(row.texts))]
    marks = scores if row.kind == "binary" else None if k is None else _mark_top(scores, k, row.kind)
    names = task_kind(row.task).segments
    rationales = []
    for segment, text_scores in enumerate(scores):
        rationale: dict[str, object] = {"docid": row.id if len(scores) == 1 else f"{row.id}_{names[segment]}"}
        if marks is not None:
            rationale[HARD] = _marked_ranges(marks[segment] != 0)
        if row.kind != "binary":
            rationale[SOFT] = text_scores.tolist()
        rationales.append(rationale)
    return rationales


def _token_scores(row: RowExplanation, segment: int) -> Float[np.ndarray, " token"]:
    """The scores of the whitespace tokens of a text.

    Signed scores and distributions are divided among the tokens that a unit overlaps, by characters. A magnitude counts
    fully in each of them (root of the sum of squares); a mark marks each of them.
    """
    tokens = np.array([span[1:] for span in fields.tokens(row.texts[segment])], dtype=np.int64).reshape(-1, 2)
    in_segment = row.segments == segment
    offsets, scores = row.offsets[in_segment], row.scores[in_segment]
    starts = np.maximum(offsets[:, None, 0], tokens[None, :, 0])
    ends = np.minimum(offsets[:, None, 1], tokens[None, :, 1])
    overlap = np.maximum(ends - starts, 0).astype(np.float64)
    if row.kind == "binary":
        return ((overlap * scores[:, None]) > 0).any(0).astype(np.float64)
    if row.kind == "magnitude":
        return np.sqrt(((overlap > 0) * scores[:, None] ** 2).sum(0))
    return (overlap / np.maximum(overlap.sum(1, keepdims=True), 1) * scores[:, None]).sum(0)


def _mark_top(scores: Sequence[np.ndarray], k: float, kind: str) -> list[np.ndarray]:
    """Marks on the top tokens of a row. Of equal tokens the first are marked."""
    all_scores = np.concatenate(scores)
    ranks = np.abs(all_scores) if kind == "signed" else all_scores
    marks = np.zeros(len(all_scores))
    marks[np.argsort(-ranks, kind="stable")[: top_count(k, len(all_scores))]] = 1
    return np.split(marks, np.cumsum([len(text_scores) for text_scores in scores])[:-1])


def _marked_ranges(marks: np.ndarray) -> list[dict[str, int]]:
    """Runs of marked tokens."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marks.astype(np.int64), [0]])))
    return [{"start_token": int(start), "end_token": int(end)} for start, end in edges.reshape(-1, 2)]
