"""The true AUC of the explanations of an audit, on the rows that students learn from and on the evaluated rows."""

from collections.abc import Collection, Mapping

import numpy as np

from didact.auditing.metric_values import MetricValues
from didact.auditing.trained import trained_students
from didact.comparing.explanations import EXPLANATIONS_FOLDER
from didact.core.dataset import Dataset
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.metrics.truth import true_area
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations


def train_areas(
    comparison: Comparison, explainers: Collection[str], data: Dataset, teacher: Teacher
) -> dict[str, float | None]:
    """The mean true AUC of the explanations that students were sent, before target normalisation."""
    rows = {row.id: row for row in data["train"]}
    return {
        name: _mean_area(Explanations.load(comparison.folder / EXPLANATIONS_FOLDER / file), rows, teacher)
        for name, file in _files(comparison, explainers).items()
    }


def test_areas(measured: MetricValues, teacher: Teacher) -> dict[str, float | None]:
    """The mean true AUC of the explanations of the evaluated rows."""
    rows = {row.id: row for row in measured.rows}
    return {name: _mean_area(explanations, rows, teacher) for name, explanations in measured.explanations.items()}


def _mean_area(explanations: Explanations, rows: Mapping[str, Row], teacher: Teacher) -> float | None:
    """The mean over rows; None if no row has an AUC."""
    words = explanations if explanations.is_image else explanations.words()
    areas = true_area(words, [rows[row_id] for row_id in words.ids], teacher)
    return float(np.nanmean(areas)) if np.isfinite(areas).any() else None


def _files(comparison: Comparison, explainers: Collection[str]) -> dict[str, str]:
    """The file with the explanations that students were sent, by explainer. Of resampled ones that of one seed."""
    files: dict[str, str] = {}
    for trained in trained_students(comparison, explainers):
        file = trained.record.cell.get("maps")
        if file is not None:
            files.setdefault(trained.explainer, str(file))
    return files
