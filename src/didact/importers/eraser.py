"""The prediction format of the ERASER benchmark (DeYoung et al. 2020): one line per row, tokens parted by white space.

`{"annotation_id", "rationales": [{"docid", "hard_rationale_predictions": [{"start_token", "end_token"}],
"soft_rationale_predictions": [float]}], "classification", "classification_scores"}`. A rationale belongs to the text
whose name its docid ends with (`17_hypothesis`); where no docid tells, there is one for each text, in their order.
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
from didact.importers.parsed import Fault, ImportOptions, ParsedFile, ParsedRow, named, numbers, present, short_repr
from didact.results.explanations import Explanations
from didact.results.row_explanation import RowExplanation, top_count
from didact.results.task_kinds import TASK_KINDS, task_kind

HARD, SOFT = "hard_rationale_predictions", "soft_rationale_predictions"
# What data sets call their first and second text.
_PAIRS = [kind.segments for kind in TASK_KINDS.values() if len(kind.segments) == 2]
NAMES = tuple(zip(*_PAIRS, ("premise", "hypothesis"), strict=True))


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:
    """Soft scores where all rows have them; hard marks where none has, or where kind 'binary' is asked for."""
    parsed = ParsedFile(name)
    known = {row.id: row for row in rows}
    found = []
    for where, record in records(source, parsed):
        with parsed.reading(where):
            id = named(present(record, "annotation_id"), "annotation_id")
            given = present(record, "rationales")
            if not isinstance(given, list | tuple):
                raise Fault(f"'rationales' are {short_repr(given)}, where a list belongs")
            found.append((where, str(id), record, [_checked(one) for one in given]))
    is_soft = [all(one.get(SOFT) is not None for one in given) and bool(given) for _, _, _, given in found]
    parsed.is_marked = options.kind == "binary" or not any(is_soft)
    for (where, id, record, given), soft in zip(found, is_soft, strict=True):
        with parsed.reading(where, id):
            if not soft and not parsed.is_marked:
                raise Fault(f"has no {SOFT!r}, and other rows have; kind='binary' reads the hard marks of all")
            if id in known:
                parsed.rows.append(_row(where, id, record, given, known[id].texts, is_marked=parsed.is_marked))
            else:  # told with the other unknown rows, once all are read
                parsed.rows.append(ParsedRow(where, id, (), np.zeros(0)))
    return parsed


def _checked(one: Any) -> Mapping[str, object]:
    present(one, "docid")
    if one.get(HARD) is None and one.get(SOFT) is None:
        raise Fault(f"the rationale of {short_repr(one['docid'])} has neither {HARD!r} nor {SOFT!r}")
    return dict(one)


def _row(
    where: str,
    id: str,
    record: Mapping[str, object],
    given: Sequence[Mapping[str, object]],
    texts: Sequence[str],
    *,
    is_marked: bool,
) -> ParsedRow:
    tokens, places, scores = [], [], []
    of = _texts_of(given, len(texts))
    for segment, text in enumerate(texts):
        mine = fields.tokens(text, segment)
        one = next((one for one, its in zip(given, of, strict=True) if its == segment), None)
        if one is None and not is_marked:
            continue
        tokens += [text[place.start : place.end] for place in mine]
        places += mine
        scores.append(np.zeros(len(mine)) if one is None else _marks(one, mine) if is_marked else _soft(one, mine))
    said = record.get("classification")
    if said is not None and not isinstance(said, str):
        raise Fault(f"'classification' is {short_repr(said)}, where a class is named")
    return ParsedRow(where, id, tokens, np.concatenate(scores), places=places, target=said, prediction=said)


def _texts_of(given: Sequence[Mapping[str, object]], texts: int) -> list[int]:
    """The number of the text that each rationale is about."""
    docids = [str(one["docid"]) for one in given]
    told = [next((n for n in range(min(texts, 2)) if docid.endswith(NAMES[n])), None) for docid in docids]
    if texts > 1 and all(one is not None for one in told):
        of = [one for one in told if one is not None]
    elif len(given) == texts or not given:
        of = list(range(len(given)))
    else:
        raise Fault(
            f"has rationales for {len(given)} documents ({', '.join(docids)}), and its row has {texts} "
            f"text{'s' if texts > 1 else ''}; a docid may end with {' or '.join(sorted({*NAMES[0], *NAMES[1]}))}"
        )
    if len(set(of)) < len(of):
        raise Fault(f"has two rationales for the same document ({', '.join(docids)})")
    return of


def _marks(one: Mapping[str, object], places: Sequence[Span]) -> Float[np.ndarray, " token"]:
    spans = one.get(HARD)
    if not isinstance(spans, list | tuple):
        raise Fault(f"has no list {HARD!r} to take marks from")
    marks = np.zeros(len(places))
    for span in spans:
        start, end = present(span, "start_token"), present(span, "end_token")
        if not (_is_whole(start) and _is_whole(end) and 0 <= start < end <= len(places)):
            raise Fault(f"marks the tokens {short_repr(start)} to {short_repr(end)} of a text of {len(places)}")
        if marks[start:end].any():
            raise Fault(f"marks the tokens {start} to {end}, and some of them twice")
        marks[start:end] = 1
    return marks


def _soft(one: Mapping[str, object], places: Sequence[Span]) -> Float[np.ndarray, " token"]:
    scores = numbers(one[SOFT], repr(SOFT))
    if len(scores) != len(places):
        raise Fault(f"has {len(scores)} soft scores for a text of {len(places)} tokens (parted by white space)")
    return scores


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def write_eraser(
    maps: Explanations,
    path: Path | str,
    *,
    k: float | None = None,
    probabilities: Float[np.ndarray, "row class"] | None = None,
) -> None:
    """Write explanations as ERASER predictions: soft scores, or hard marks for kind 'binary'.

    Units are brought to white-space tokens as `maps.words()` joins pieces. With `k` (a number of tokens, or a fraction)
    the best ones are marked too. ERASER wants a class only with the probabilities of all, so both are written only
    where `probabilities` are given.
    """
    if maps.is_image:
        raise OptionError("ERASER holds rationales of texts; these explanations are of images.")
    if probabilities is not None and (maps.classes is None or probabilities.shape != (len(maps), len(maps.classes))):
        raise ShapeError(
            f"{len(maps)} rows of the classes {maps.classes} do not go with probabilities {probabilities.shape}."
        )
    lines = []
    for number, row in enumerate(maps):
        record: dict[str, object] = {"annotation_id": row.id, "rationales": _rationales(row, k)}
        if probabilities is not None and maps.classes is not None:
            chances = dict(zip(maps.classes, probabilities[number].tolist(), strict=True))
            record |= {"classification": max(chances, key=chances.__getitem__), "classification_scores": chances}
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(ensure_parent(Path(path)), "".join(lines))


def _rationales(row: RowExplanation, k: float | None) -> list[dict[str, object]]:
    scores = [_on_tokens(row, segment) for segment in range(len(row.texts))]
    marks = scores if row.kind == "binary" else None if k is None else _best(scores, k, row.kind)
    names = task_kind(row.task).segments
    found = []
    for segment, mine in enumerate(scores):
        one: dict[str, object] = {"docid": row.id if len(scores) == 1 else f"{row.id}_{names[segment]}"}
        if marks is not None:
            one[HARD] = _runs(marks[segment] != 0)
        if row.kind != "binary":
            one[SOFT] = mine.tolist()
        found.append(one)
    return found


def _on_tokens(row: RowExplanation, segment: int) -> Float[np.ndarray, " token"]:
    """Scores that add up are shared among the tokens a unit touches, by characters; others count whole in each."""
    tokens = np.array([place[1:] for place in fields.tokens(row.texts[segment])], dtype=np.int64).reshape(-1, 2)
    mine = row.segments == segment
    offsets, scores = row.offsets[mine], row.scores[mine]
    starts = np.maximum(offsets[:, None, 0], tokens[None, :, 0])
    ends = np.minimum(offsets[:, None, 1], tokens[None, :, 1])
    shared = np.maximum(ends - starts, 0).astype(np.float64)
    if row.kind == "binary":
        return ((shared * scores[:, None]) > 0).any(0).astype(np.float64)
    if row.kind == "magnitude":
        return np.sqrt(((shared > 0) * scores[:, None] ** 2).sum(0))
    return (shared / np.maximum(shared.sum(1, keepdims=True), 1) * scores[:, None]).sum(0)


def _best(scores: Sequence[np.ndarray], k: float, kind: str) -> list[np.ndarray]:
    """Marks on the best tokens of the whole row; of equal ones the first."""
    whole = np.concatenate(scores)
    ranks = np.abs(whole) if kind == "signed" else whole
    marks = np.zeros(len(whole))
    marks[np.argsort(-ranks, kind="stable")[: top_count(k, len(whole))]] = 1
    return np.split(marks, np.cumsum([len(one) for one in scores])[:-1])


def _runs(marks: np.ndarray) -> list[dict[str, int]]:
    """Marked tokens as spans, neighbours in one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marks.astype(np.int64), [0]])))
    return [{"start_token": int(start), "end_token": int(end)} for start, end in edges.reshape(-1, 2)]
