"""What keeps an explainer from being learned, found before the first step."""

import numpy as np

from didact.core.precision import SINGLE
from didact.errors import OptionError, TrainingError, UnsupportedError
from didact.learning.fit import Examples, Training
from didact.learning.smat_options import SmatOptions
from didact.results.component_scores import ComponentScores
from didact.students.attention import Attention
from didact.students.strategy import Strategy


def check_strategy(strategy: Strategy, training: Training) -> Attention:
    """The strategy, if an explainer can be learned through it."""
    if training.precision != SINGLE:
        raise UnsupportedError(
            f"An explainer is learned through second derivatives, which {training.precision} is too coarse for. "
            "Leave precision out."
        )
    if not isinstance(strategy, Attention) or strategy.send != "whole":
        name = "'attention' (send=top)" if isinstance(strategy, Attention) else repr(type(strategy).__name__.lower())
        raise UnsupportedError(
            f"An explainer is learned through what it sends whole, and the strategy is {name}. "
            "Choose the strategy 'attention' (send=whole)."
        )
    return strategy


def check_components(components: ComponentScores) -> None:
    if len(components.names) < 2 or np.ptp(components.values, axis=1).max() < 1e-6:
        raise TrainingError(
            f"The {len(components.names)} parts to be weighed ({', '.join(components.names[:3])}) all say the same: "
            "there is nothing to choose from. Take another family or other members, e.g. family='blend'."
        )


def check_row_counts(train: int, dev: int, *, batch_size: int, smat: SmatOptions) -> None:
    """Raise an OptionError if there are too few rows for a step and for the outer rows that judge it."""
    size = smat.outer_batch or batch_size
    if train < batch_size + (size if smat.outer == "train" else 0):
        raise OptionError(
            f"Learning takes {batch_size} rows for each step"
            + (f" and {size} others to judge it by" if smat.outer == "train" else "")
            + f", and there are {train}. Give more rows, or lower batch_size or outer_batch "
            "(on the command line --size, --batch-size, --outer-batch)."
        )
    if smat.outer == "dev" and dev < size:
        raise OptionError(
            f"Each step is judged by {size} rows of dev, and there are {dev}: lower outer_batch (--outer-batch)."
        )


def check_answers(train: Examples) -> None:
    """Raise a TrainingError if the teacher answers all rows alike."""
    answers = train.outputs
    is_constant = len(set(answers.labels.tolist())) == 1 if answers.task.has_classes else False
    if answers.task.is_score:
        is_constant = float(np.ptp(answers.values[:, 0])) == 0.0
    if is_constant:
        raise TrainingError(
            f"The teacher gives one and the same answer to all {len(train)} rows: there is nothing to teach. "
            "Look at teacher.predict(rows), or take rows of other classes."
        )
