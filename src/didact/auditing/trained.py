"""The students that were trained for a comparison, with the explanations and the time that each took."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from didact.comparing.summarise import RESULTS
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.results.comparison import Comparison
from didact.results.target_normalisation import method_of_arm
from didact.results.training_record import TrainingRecord


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """One student that was trained with explanations by this method. At each temperature of a band it is another."""

    explainer: str
    student: str
    seed: int
    record: TrainingRecord


def trained_students(comparison: Comparison, explainers: Collection[str]) -> Iterator[TrainedStudent]:
    """The students that were trained with these methods, as the last comparison in this folder lists them."""
    lines = read_table(comparison.folder / RESULTS).columns
    store = Store(comparison.folder / "cells")
    columns = (lines[name] for name in ("key", "explainer", "student", "seed", "status"))
    for key, arm, student, seed, status in zip(*columns, strict=True):
        explainer = method_of_arm(arm)
        if status == "done" and explainer in explainers:
            yield TrainedStudent(explainer, student, seed, TrainingRecord.load(store, key))
