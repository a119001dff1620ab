"""Gains on edited rows: every student has other rows, so contrasts are those of an incomplete crossing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.comparing.cell import Cell, load_outputs
from didact.comparing.edited import is_flip
from didact.comparing.run_inputs import EDITED_SPLIT, LabelledSplit
from didact.comparing.statistics import gain_rows
from didact.core.outputs import Outputs
from didact.files.store import Store
from didact.results.comparison import Arm
from didact.results.contrast import Column, Contrast, ContrastTable
from didact.results.edited import EDITED, FLIPS, STAYS, SUBSETS, EditedResults, EditedSubset
from didact.results.training_record import TrainingRecord
from didact.stats.incomplete import CellDesign


@dataclass(frozen=True, eq=False)
class StudentAnswers:
    """The edited rows that a student was tested on, as indices, and its agreement with the teacher on each."""

    rows: Int[np.ndarray, " row"]
    agreement: Float[np.ndarray, " row"]

    def select(self, chosen: Bool[np.ndarray, " row"]) -> "StudentAnswers":
        return StudentAnswers(self.rows[chosen], self.agreement[chosen])


# By arm and seed.
Answers = Mapping[Arm, Mapping[int, StudentAnswers]]


@dataclass(frozen=True, eq=False)
class EditedAnswers:
    """The answers of all students to edited rows. `flips` and `sources` (a number) are those of each edited row."""

    students: Answers
    flips: Bool[np.ndarray, " edited"]
    sources: Int[np.ndarray, " edited"]

    @classmethod
    def load(
        cls,
        cells: Sequence[Cell],
        records: Mapping[str, TrainingRecord],
        store: Store,
        splits: Mapping[str, LabelledSplit],
    ) -> "EditedAnswers":
        """Read the answers of finished cells."""
        edited, test_rows = splits[EDITED_SPLIT], len(splits["test"])
        index_of = {row.id: index for index, row in enumerate(edited.rows)}
        students: dict[Arm, dict[int, StudentAnswers]] = {}
        for cell in cells:
            table = load_outputs(store, records[cell.key])
            ids = tuple(table.columns["row"][test_rows:])
            rows = np.array([index_of[row_id] for row_id in ids], dtype=np.int64)
            values = np.array(table.columns["values"][test_rows:], dtype=np.float64).reshape(len(ids), -1)
            labels = Outputs(edited.outputs.task, ids, values).labels if len(ids) else rows
            agreement = (labels == edited.outputs.labels[rows]).astype(np.float64)
            arm = (cell.explainer, cell.student, cell.size)
            students.setdefault(arm, {})[cell.seed] = StudentAnswers(rows, agreement)
        return cls(students, is_flip(edited, splits["train"]), np.unique(edited.sources, return_inverse=True)[1])

    def subset(self, name: str) -> Answers:
        """The answers to flips or stays, or for `edited` to both, by students that have any.

        A student without flips or without stays has no mean of the two.
        """
        chosen: dict[Arm, dict[int, StudentAnswers]] = {}
        for arm, by_seed in self.students.items():
            for seed, answers in by_seed.items():
                is_flip = self.flips[answers.rows]
                selected = answers if name == EDITED else answers.select(is_flip if name == FLIPS else ~is_flip)
                if len(selected.rows) and (name != EDITED or 0 < is_flip.sum() < len(is_flip)):
                    chosen.setdefault(arm, {})[seed] = selected
        return chosen

    def weighted(self, answers: StudentAnswers, name: str) -> Float[np.ndarray, " row"]:
        """Agreement of each row, for `edited` weighted such that its mean is the mean of flips and stays."""
        if name != EDITED:
            return answers.agreement
        is_flip = self.flips[answers.rows]
        counts = np.where(is_flip, is_flip.sum(), (~is_flip).sum())
        return answers.agreement * len(is_flip) / (2 * counts)

    def contrast(
        self, first: Mapping[int, StudentAnswers], second: Mapping[int, StudentAnswers], name: str
    ) -> Contrast | None:
        """The contrast of two arms over the seeds that both have; None with fewer than two source rows."""
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        rows = np.concatenate([first[seed].rows for seed in seeds])
        if len(np.unique(self.sources[rows])) < 2:
            return None
        by_value = np.repeat(seeds, [len(first[seed].rows) for seed in seeds])
        strata = self.flips[rows].astype(np.int64) if name == EDITED else None
        design = CellDesign.of(by_value, self.sources[rows], strata)
        return design.contrast(*(np.concatenate([arm[seed].agreement for seed in seeds]) for arm in (first, second)))


def edited_results(
    answers: EditedAnswers,
    *,
    kind: str,
    explainers: Sequence[str],
    controls: Sequence[str],
    columns: Sequence[Column],
) -> EditedResults:
    """Gains on all edited rows, on flips and on stays, each with the claims of its own family of methods."""
    subsets = {name: _subset(answers, name, explainers, controls, columns) for name in SUBSETS}
    flips = int(answers.flips.sum())
    sources = len(np.unique(answers.sources))
    return EditedResults(str(kind), sources, flips, len(answers.flips) - flips, subsets)


def _subset(
    answers: EditedAnswers, name: str, explainers: Sequence[str], controls: Sequence[str], columns: Sequence[Column]
) -> EditedSubset:
    students = answers.subset(name)
    entries = {}
    for column in columns:
        arms = [explainer for explainer in explainers if (explainer, *column) in students]
        for first, second in combinations(arms, 2):
            contrast = answers.contrast(students[first, *column], students[second, *column], name)
            if contrast is not None:
                entries[first, second, column] = contrast
    contrasts = ContrastTable(entries)
    scores = {
        arm: {seed: answers.weighted(student, name) for seed, student in by_seed.items()}
        for arm, by_seed in students.items()
    }
    counts = {EDITED: len(answers.flips), FLIPS: int(answers.flips.sum()), STAYS: int((~answers.flips).sum())}
    rows = gain_rows(
        scores,
        contrasts,
        explainers=explainers,
        controls=controls,
        columns=columns,
        measure="accuracy",
        lost={},
        test_rows=counts[name],
        has_shares=False,
    )
    return EditedSubset(tuple(rows), contrasts)
