"""Checks finished scores: warns if they do not add up as their method promises, or are mere rounding."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Float

from didact.core.explainer import Explainer
from didact.errors import ExplanationWarning
from didact.explainers.build import ResolvedMethod
from didact.viz.text_spans import COMPLETENESS_TOLERANCE


def warn_about_scores(
    method: ResolvedMethod, residuals: Float[np.ndarray, " row"], cautions: Iterable[str], *, stacklevel: int
) -> None:
    """Warn if the median residual exceeds 5 %, and once per caution of the explainer.

    Methods that promise no completeness have NaN residuals and get no warning about them.
    """
    defined = residuals[~np.isnan(residuals)]
    median = float(np.median(defined)) if len(defined) else 0.0
    if median > COMPLETENESS_TOLERANCE:
        remedy = method.explainer.remedy if isinstance(method.explainer, Explainer) else Explainer.remedy
        warnings.warn(
            f"{method.name}: scores do not add up. They are off by {100 * median:.3g} % of what they explain in the "
            f"median of {len(defined)} rows, and by {100 * defined.max():.3g} % at most. {remedy}",
            ExplanationWarning,
            stacklevel=stacklevel + 1,
        )
    for caution in cautions:
        warnings.warn(f"{method.name}: {caution}", ExplanationWarning, stacklevel=stacklevel + 1)


@contextmanager
def ignore_score_warnings() -> Iterator[None]:
    """Silence these warnings, for trial runs whose scores are not used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExplanationWarning)
        yield
