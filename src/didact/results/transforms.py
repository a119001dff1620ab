"""Scores brought to one scale, row by row: absolute values, a softmax, or the top units marked."""

import numpy as np

from didact.errors import OptionError
from didact.registry import Spec, parse_spec
from didact.results.explanations import Explanations
from didact.results.ragged import row_of_units
from didact.results.row_explanation import top_count

_KNOWN = {"raw": {}, "softmax": {"temperature": 1.0}, "top": {"k": 0.1}}


def parse_normalisation(text: str) -> Spec:
    """`raw`, `softmax`, `softmax(temperature=0.1)`, `top` or `top(k=0.1)`, with every option filled in."""
    spec = parse_spec(text)
    known = _KNOWN.get(spec.name)
    if known is None or set(spec.options) - set(known):
        raise OptionError(
            f"Option 'normalise' is raw, softmax, softmax(temperature=0.1), top or top(k=0.1), not {text!r}."
        )
    options = dict(known) | dict(spec.options)
    if any(not isinstance(value, int | float) or value <= 0 for value in options.values()):
        raise OptionError(f"The number in {text!r} must be above 0.")
    if options.get("k", 0) > 1:
        raise OptionError(f"k in {text!r} is a share of the units, at most 1.")
    return Spec(spec.name, options)


def absolute_scores(maps: Explanations) -> Explanations:
    """Sizes without signs. Only signed scores change."""
    if maps.kind != "signed":
        return maps
    return maps.derive(scores=np.abs(maps.scores), kind="magnitude")


def normalise_scores(maps: Explanations, how: str) -> Explanations:
    """`raw` as they are; `softmax` of score / temperature; `top` marks ceil(k · units) units, at least one.

    `top` goes by |score| where scores are signed; ties by position.
    """
    spec = parse_normalisation(how)
    if spec.name == "raw":
        return maps
    if spec.name == "top":
        return mark_top(maps, float(spec.options["k"]))
    scores = np.zeros_like(maps.scores)
    for start, end in zip(maps.bounds[:-1], maps.bounds[1:], strict=True):
        if end > start:
            part = maps.scores[start:end]
            shifted = np.exp((part - part.max()) / spec.options["temperature"])
            scores[start:end] = shifted / shifted.sum()
    return maps.derive(scores=scores, kind="distribution")


def mark_top(maps: Explanations, k: float) -> Explanations:
    """The top ceil(k · units) units of each row marked, at least one: by |score|, ties by position."""
    counts, rows = np.diff(maps.bounds), row_of_units(maps.bounds)
    best_first = np.lexsort((-np.abs(maps.scores), rows))
    most = np.array([top_count(float(k), int(count)) if count else 0 for count in counts], dtype=np.int64)
    scores = np.zeros_like(maps.scores)
    scores[best_first] = np.arange(len(rows)) - maps.bounds[rows] < most[rows]
    return maps.derive(scores=scores, kind="binary")
