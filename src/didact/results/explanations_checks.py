"""Validation of explanations, applied when they are created or loaded."""

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


def check_explanations(explanations: "Explanations") -> None:
    """Raise an error for an unknown kind or task, a wrong shape, an offset outside its text, or an invalid score."""
    for name, choices in (("kind", KINDS), ("task", tuple(TASK_KINDS))):
        if getattr(explanations, name) not in choices:
            raise OptionError(unknown_name_message(name, getattr(explanations, name), choices))
    _check_shapes(explanations)
    _check_offsets(explanations)
    _check_alignments(explanations)
    _check_scores(explanations)


def plain_options(method: str, options: Mapping[str, object]) -> dict[str, object]:
    """A copy of the options as JSON restores them, independent of the caller's objects."""
    try:
        return dict(json.loads(json.dumps(dict(options), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise OptionError(f"Options of {method!r} cannot be stored as JSON ({error}).") from error


def plain_alignment(pair: Alignment) -> Alignment:
    """Convert a pair of spans to tuples of Python integers."""
    (question, start, end), (passage, passage_start, passage_end) = pair
    return (int(question), int(start), int(end)), (int(passage), int(passage_start), int(passage_end))


def _check_shapes(explanations: "Explanations") -> None:
    rows, units, sides = len(explanations.ids), len(explanations.tokens), 4 if explanations.is_image else 2
    shapes: dict[str, tuple[int, ...]] = {"bounds": (rows + 1,), "offsets": (units, sides)}
    shapes |= dict.fromkeys(("texts", "targets", "predictions", "residuals", "probabilities", "labels"), (rows,))
    shapes |= dict.fromkeys(("segments", "word_index", "scores"), (units,))
    for name, shape in shapes.items():
        value = getattr(explanations, name)
        actual = value.shape if isinstance(value, np.ndarray) else (len(value),)
        if actual != shape:
            raise ShapeError(f"{rows} rows with {units} units need {name} of shape {shape}, got {actual}.")
    if explanations.bounds[0] != 0 or explanations.bounds[-1] != units or (np.diff(explanations.bounds) < 0).any():
        raise ShapeError(
            f"Bounds must increase from 0 to {units}, the number of units, got {_shorten(explanations.bounds)}."
        )
    if explanations.images is not None and len(explanations.images) != rows:
        raise ShapeError(f"{rows} rows need {rows} images, got {len(explanations.images)}.")
    for image in explanations.images or ():
        if image.ndim != 3 or image.dtype != np.uint8:
            raise ShapeError(f"An image must be height x width x channel of uint8, got {image.dtype} {image.shape}.")


def _check_offsets(explanations: "Explanations") -> None:
    """Check that every unit is inside its text, or is a patch with its corners in order."""
    rows, is_in_text = row_of_units(explanations.bounds), explanations.segments >= 0
    half = explanations.offsets.shape[1] // 2
    starts, ends = explanations.offsets[:, :half], explanations.offsets[:, half:]
    is_wrong = (explanations.segments < -1) | (explanations.word_index < -1)
    is_wrong |= is_in_text & ((starts < 0) | (ends < starts)).any(1)
    if not explanations.is_image:
        lengths = np.full((len(explanations) + 1, max(map(len, explanations.texts), default=0) + 1), -1)
        for row, texts in enumerate(explanations.texts):
            lengths[row, : len(texts)] = [len(text) for text in texts]
        limits = lengths[rows, np.clip(explanations.segments, -1, lengths.shape[1] - 1)]
        is_wrong |= is_in_text & (ends[:, 0] > limits)
    if is_wrong.any():
        unit = int(np.flatnonzero(is_wrong)[0])
        raise ShapeError(
            f"Unit {explanations.tokens[unit]!r} of row {explanations.ids[rows[unit]]!r} is outside its text or "
            f"image: segment {explanations.segments[unit]}, word {explanations.word_index[unit]}, "
            f"offsets {_shorten(explanations.offsets[unit])}."
        )


def _check_alignments(explanations: "Explanations") -> None:
    """Check that each row has pairs of a question span and a passage span, inside their texts."""
    if explanations.alignments is None:
        return
    if not task_kind(explanations.task).has_alignments:
        raise ShapeError(
            f"Only task 'reading' has aligned spans (of question and passage), not task {explanations.task!r}."
        )
    if len(explanations.alignments) != len(explanations):
        raise ShapeError(
            f"{len(explanations)} rows need {len(explanations)} sets of alignments, got {len(explanations.alignments)}."
        )
    for name, texts, pairs in zip(explanations.ids, explanations.texts, explanations.alignments, strict=True):
        for pair in pairs:
            for number, (segment, start, end) in enumerate(pair):
                if segment != number or not 0 <= start <= end <= len(texts[number]):
                    raise ShapeError(
                        f"An alignment of row {name!r} is outside its texts: {pair}. The first span must be (0, start, "
                        "end) in the question, the second (1, start, end) in the passage, in characters."
                    )


def _check_scores(explanations: "Explanations") -> None:
    is_wrong = ~np.isfinite(explanations.scores)
    if explanations.kind != "signed":
        is_wrong |= explanations.scores < 0
    if is_wrong.any():
        units = zip(row_of_units(explanations.bounds)[is_wrong], np.flatnonzero(is_wrong), strict=True)
        requirement = "finite" if explanations.kind == "signed" else "finite and not negative"
        raise DataError(
            f"Scores of kind {explanations.kind!r} must be {requirement}; those of method {explanations.method!r} "
            "are not.",
            [
                f"row {explanations.ids[row]!r}, unit {explanations.tokens[unit]!r}: {explanations.scores[unit]}"
                for row, unit in units
            ],
        )


def _shorten(values: np.ndarray) -> str:
    return np.array2string(values, threshold=8, separator=", ")
