"""What a set of explanations must fulfil. It is checked where it comes from outside: when it is made, or loaded."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from didact.errors import DataError, OptionError, ShapeError
from didact.registry import unknown_name_message
from didact.results.ragged import row_of_units
from didact.results.row_explanation import Alignment
from didact.results.task_kinds import TASK_KINDS, task_kind

if TYPE_CHECKING:
    from didact.results.explanations import Explanations

KINDS = ("signed", "magnitude", "distribution", "binary")


def check_explanations(maps: "Explanations") -> None:
    """An error that names what does not fit: a kind, a shape, a place outside its text, a score that is no number."""
    for name, choices in (("kind", KINDS), ("task", tuple(TASK_KINDS))):
        if getattr(maps, name) not in choices:
            raise OptionError(unknown_name_message(name, getattr(maps, name), choices))
    _check_shapes(maps)
    _check_places(maps)
    _check_alignments(maps)
    _check_scores(maps)


def plain_options(method: str, options: Mapping[str, object]) -> dict[str, object]:
    """The options as they will be read back, and safe from later changes to the caller's own."""
    try:
        return dict(json.loads(json.dumps(dict(options), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise OptionError(f"Options of {method!r} cannot be written as JSON ({error}).") from error


def plain_alignment(pair: Alignment) -> Alignment:
    """Plain numbers, whatever kind of tuple or number they came as."""
    (first, start, end), (second, begin, finish) = pair
    return (int(first), int(start), int(end)), (int(second), int(begin), int(finish))


def _check_shapes(maps: "Explanations") -> None:
    rows, units, sides = len(maps.ids), len(maps.tokens), 4 if maps.is_image else 2
    shapes: dict[str, tuple[int, ...]] = {"bounds": (rows + 1,), "offsets": (units, sides)}
    shapes |= dict.fromkeys(("texts", "targets", "predictions", "residuals", "probabilities", "labels"), (rows,))
    shapes |= dict.fromkeys(("segments", "word_index", "scores"), (units,))
    for name, shape in shapes.items():
        value = getattr(maps, name)
        actual = value.shape if isinstance(value, np.ndarray) else (len(value),)
        if actual != shape:
            raise ShapeError(f"{rows} rows of {units} units need {name} of shape {shape}, not {actual}.")
    if maps.bounds[0] != 0 or maps.bounds[-1] != units or (np.diff(maps.bounds) < 0).any():
        raise ShapeError(f"Bounds must rise from 0 to the {units} units, not {_few(maps.bounds)}.")
    if maps.images is not None and len(maps.images) != rows:
        raise ShapeError(f"{rows} rows need {rows} images, not {len(maps.images)}.")
    for image in maps.images or ():
        if image.ndim != 3 or image.dtype != np.uint8:
            raise ShapeError(f"An image is height x width x channel of uint8, not {image.dtype} {image.shape}.")


def _check_places(maps: "Explanations") -> None:
    """Every unit lies inside its text, or is a patch with its corners in order."""
    rows, inside = row_of_units(maps.bounds), maps.segments >= 0
    half = maps.offsets.shape[1] // 2
    first, last = maps.offsets[:, :half], maps.offsets[:, half:]
    wrong = (maps.segments < -1) | (maps.word_index < -1)
    wrong |= inside & ((first < 0) | (last < first)).any(1)
    if not maps.is_image:
        lengths = np.full((len(maps) + 1, max(map(len, maps.texts), default=0) + 1), -1)
        for row, texts in enumerate(maps.texts):
            lengths[row, : len(texts)] = [len(text) for text in texts]
        limits = lengths[rows, np.clip(maps.segments, -1, lengths.shape[1] - 1)]
        wrong |= inside & (last[:, 0] > limits)
    if wrong.any():
        unit = int(np.flatnonzero(wrong)[0])
        raise ShapeError(
            f"Unit {maps.tokens[unit]!r} of row {maps.ids[rows[unit]]!r} lies outside its text or image: "
            f"segment {maps.segments[unit]}, word {maps.word_index[unit]}, offsets {_few(maps.offsets[unit])}."
        )


def _check_alignments(maps: "Explanations") -> None:
    """One set of pairs per row, each a span of the question with one of the passage, inside their texts."""
    if maps.alignments is None:
        return
    if not task_kind(maps.task).has_alignments:
        raise ShapeError(f"Only questions and passages (task reading) have aligned spans, not task {maps.task!r}.")
    if len(maps.alignments) != len(maps):
        raise ShapeError(f"{len(maps)} rows need alignments for {len(maps)}, not {len(maps.alignments)}.")
    for name, texts, pairs in zip(maps.ids, maps.texts, maps.alignments, strict=True):
        for pair in pairs:
            for number, (segment, start, end) in enumerate(pair):
                if segment != number or not 0 <= start <= end <= len(texts[number]):
                    raise ShapeError(
                        f"An alignment of row {name!r} lies outside its texts: {pair}. The first span is of the "
                        "question (0, start, end), the second of the passage (1, start, end), in characters."
                    )


def _check_scores(maps: "Explanations") -> None:
    wrong = ~np.isfinite(maps.scores)
    if maps.kind != "signed":
        wrong |= maps.scores < 0
    if wrong.any():
        units = zip(row_of_units(maps.bounds)[wrong], np.flatnonzero(wrong), strict=True)
        wanted = "finite" if maps.kind == "signed" else "finite and not negative"
        raise DataError(
            f"Scores of kind {maps.kind!r} must be {wanted}; method {maps.method!r} gave others.",
            [f"row {maps.ids[row]!r}, unit {maps.tokens[unit]!r}: {maps.scores[unit]}" for row, unit in units],
        )


def _few(values: np.ndarray) -> str:
    return np.array2string(values, threshold=8, separator=", ")
