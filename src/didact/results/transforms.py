"""Normalisation of scores row by row: absolute values, a softmax, or marks on the top units."""

import numpy as np

from didact.errors import OptionError
from didact.registry import Spec, parse_spec
from didact.results.explanations import Explanations
from didact.results.ragged import row_of_units
from didact.results.row_explanation import top_count

_DEFAULTS = {"raw": {}, "softmax": {"temperature": 1.0}, "top": {"k": 0.1}}


def parse_normalisation(text: str) -> Spec:
    """Parse `raw`, `softmax`, `softmax(temperature=0.1)`, `top` or `top(k=0.1)` and fill in the defaults."""
    spec = parse_spec(text)
    defaults = _DEFAULTS.get(spec.name)
    if defaults is None or set(spec.options) - set(defaults):
        raise OptionError(
            f"Option 'normalise' must be raw, softmax, softmax(temperature=0.1), top or top(k=0.1), got {text!r}."
        )
    options = dict(defaults) | dict(spec.options)
    if any(not isinstance(value, int | float) or value <= 0 for value in options.values()):
        raise OptionError(f"The number in {text!r} must be above 0.")
    if options.get("k", 0) > 1:
        raise OptionError(f"k in {text!r} is a fraction of the units and must be at most 1.")
    return Spec(spec.name, options)


def absolute_scores(explanations: Explanations) -> Explanations:
    """Absolute values of signed scores, as magnitudes. Other kinds are unchanged."""
    if explanations.kind != "signed":
        return explanations
    return explanations.derive(scores=np.abs(explanations.scores), kind="magnitude")


def normalise_scores(explanations: Explanations, how: str) -> Explanations:
    """Normalise each row: `raw` changes nothing, `softmax` uses score / temperature, `top` marks ceil(k · units) units.

    `top` ranks by |score| and marks at least one unit; ties keep the order of the text.
    """
    spec = parse_normalisation(how)
    if spec.name == "raw":
        return explanations
    if spec.name == "top":
        return mark_top(explanations, float(spec.options["k"]))
    scores = np.zeros_like(explanations.scores)
    for start, end in zip(explanations.bounds[:-1], explanations.bounds[1:], strict=True):
        if end > start:
            row_scores = explanations.scores[start:end]
            exponentials = np.exp((row_scores - row_scores.max()) / spec.options["temperature"])
            scores[start:end] = exponentials / exponentials.sum()
    return explanations.derive(scores=scores, kind="distribution")


def mark_top(explanations: Explanations, k: float) -> Explanations:
    """Mark the top ceil(k · units) units of each row by |score|, at least one. Ties keep the order of the text."""
    counts, rows = np.diff(explanations.bounds), row_of_units(explanations.bounds)
    best_first = np.lexsort((-np.abs(explanations.scores), rows))
    limits = np.array([top_count(float(k), int(count)) if count else 0 for count in counts], dtype=np.int64)
    scores = np.zeros_like(explanations.scores)
    scores[best_first] = np.arange(len(rows)) - explanations.bounds[rows] < limits[rows]
    return explanations.derive(scores=scores, kind="binary")
