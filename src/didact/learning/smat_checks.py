"""Checks before SMaT starts: strategy, components, number of rows, and the teacher's answers."""

import numpy as np

from didact.core.precision import SINGLE
from didact.errors import OptionError, TrainingError, UnsupportedError
from didact.learning.fit import Examples, Training
from didact.learning.smat_options import SmatOptions
from didact.results.component_scores import ComponentScores
from didact.students.attention import Attention
from didact.students.strategy import Strategy


def check_strategy(strategy: Strategy, training: Training) -> Attention:
    """The strategy, if SMaT supports it. Else raises an `UnsupportedError`."""
    if training.precision != SINGLE:
        raise UnsupportedError(
            f"SMaT needs second derivatives, for which {training.precision} is not precise enough. Leave precision out."
        )
    if not isinstance(strategy, Attention) or strategy.send != "whole" or strategy.signed == "split":
        name = repr(type(strategy).__name__.lower())
        if isinstance(strategy, Attention):
            name += " (send=top)" if strategy.send != "whole" else " (signed=split)"
        raise UnsupportedError(
            f"SMaT needs a strategy that uses the whole distribution of an explanation, and the strategy is {name}. "
            "Choose the strategy 'attention' (send=whole)."
        )
    return strategy


def check_components(components: ComponentScores) -> None:
    """Raise a `TrainingError` if the components do not differ."""
    if len(components.names) < 2 or np.ptp(components.values, axis=1).max() < 1e-6:
        raise TrainingError(
            f"The {len(components.names)} components ({', '.join(components.names[:3])}) all have the same scores, so "
            "there is nothing to choose from. Use another family or other members, e.g. family='blend'."
        )


def check_row_counts(train: int, dev: int, *, batch_size: int, smat: SmatOptions) -> None:
    """Raise an `OptionError` if there are too few rows for the inner and the outer batch of a step."""
    size = smat.outer_batch or batch_size
    if train < batch_size + (size if smat.outer == "train" else 0):
        raise OptionError(
            f"SMaT needs {batch_size} rows for each step"
            + (f" and {size} others for the outer loss" if smat.outer == "train" else "")
            + f", and there are {train}. Use more rows, or lower batch_size or outer_batch "
            "(on the command line --size, --batch-size, --outer-batch)."
        )
    if smat.outer == "dev" and dev < size:
        raise OptionError(
            f"Each step of SMaT needs {size} rows of dev, and there are {dev}. Lower outer_batch (--outer-batch)."
        )


def check_answers(train: Examples) -> None:
    """Raise a `TrainingError` if the teacher gives all rows the same answer."""
    answers = train.outputs
    is_constant = len(set(answers.labels.tolist())) == 1 if answers.task.has_classes else False
    if answers.task.is_score:
        is_constant = float(np.ptp(answers.values[:, 0])) == 0.0
    if is_constant:
        raise TrainingError(
            f"The teacher gives the same answer to all {len(train)} rows, so there is nothing to teach. "
            "Look at teacher.predict(rows), or use rows of other classes."
        )
