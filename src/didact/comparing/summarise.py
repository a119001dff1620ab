"""Summarises trained cells as a Comparison: the table, its contrasts, failures, and notes for the reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from didact import __version__
from didact.comparing.bands import Bands
from didact.comparing.cell import Cell
from didact.comparing.chance_level import ChanceLevel, columns_above_chance
from didact.comparing.edited_statistics import EditedAnswers, edited_results
from didact.comparing.grid import Grid
from didact.comparing.run_inputs import LabelledSplit
from didact.comparing.setup import Setup
from didact.comparing.statistics import contrast_of_arms, contrasts_of, gain_rows, ranking_agreement, scores_by_arm
from didact.core.measure import BALANCED
from didact.files.store import Store
from didact.files.table_io import Table, write_table
from didact.results.comparison import Comparison
from didact.results.contrast import Column
from didact.results.documents import plain
from didact.results.edited import EditedResults
from didact.results.gains import FailedRun, GainRow, LearnedWeights
from didact.results.run_record import RunInfo
from didact.results.training_record import TrainingRecord

RESULTS: Final = "results.parquet"
_CEILING: Final = 0.99  # simulability without explanations above which explanations cannot help
_COLUMNS: Final[Mapping[str, str]] = {
    "key": "string",
    "explainer": "string",
    "student": "string",
    "size": "int64",
    "seed": "int64",
    "status": "string",
    "measure": "string",
    "value": "float64",
    "dev": "float64",
    "epoch": "int64",
    "trial": "int64",
    "lost_rows": "int64",
    "error": "string",
}


@dataclass(frozen=True, eq=False)
class CellResults:
    """The cells of a comparison with their records, and the rows of all splits with the teacher's answers."""

    setup: Setup
    fingerprint: str
    cells: Sequence[Cell]
    records: Mapping[str, TrainingRecord]
    store: Store
    splits: Mapping[str, LabelledSplit]

    @classmethod
    def load(
        cls, setup: Setup, fingerprint: str, grid: Grid, store: Store, splits: Mapping[str, LabelledSplit]
    ) -> "CellResults":
        return cls(
            setup, fingerprint, grid.cells, {key: TrainingRecord.load(store, key) for key in grid.keys}, store, splits
        )

    @property
    def test(self) -> LabelledSplit:
        return self.splits["test"]

    @property
    def measure(self) -> str:
        return BALANCED if self.setup.is_balanced else self.setup.task.measure

    @property
    def done(self) -> list[Cell]:
        return [cell for cell in self.cells if self.records[cell.key].is_done]

    def chance_level(self) -> ChanceLevel | None:
        """The result of a constant answer; None for reading tasks, which have no constant answer."""
        outputs, classes = self.test.outputs, self.setup.teacher.classes
        if classes is not None and outputs.task.has_classes:
            return ChanceLevel.of_classes(outputs.labels, classes, balanced=self.setup.is_balanced)
        return ChanceLevel.of_values(outputs.values[:, 0]) if outputs.task.is_score else None


def summarise(results: CellResults, folder: Path, plan: str) -> Comparison:
    """Compare the cells that did not fail. `plan` is the text of plan.toml."""
    setup, test = results.setup, results.test
    scores = scores_by_arm(results.cells, results.records, results.store, test)
    strata = test.outputs.labels if setup.is_balanced else None
    bands = Bands.of(setup)
    controls = [label for label in setup.arm_labels if bands.method_of(label) in setup.controls]
    contrasts = contrasts_of(scores, explainers=setup.arm_labels, columns=setup.columns, strata=strata)
    rows = gain_rows(
        scores,
        contrasts,
        explainers=setup.arm_labels,
        controls=controls,
        columns=setup.columns,
        measure=results.measure,
        lost=_lost_rows(results),
        test_rows=len(test.rows),
        strata=strata,
        bands=bands,
    )
    chance_level = results.chance_level()
    column_infos = columns_above_chance(scores, setup.columns, chance_level, controls=controls)
    best_arms = bands.best_arms(rows)
    scores |= {(method, *column): scores[arm, *column] for (method, column), arm in best_arms.items()}
    majority = None if chance_level is None or chance_level.labels is None else chance_level.value
    run_info = replace(_run_info(results), plan=plan, majority=majority, columns=tuple(column_infos))
    return Comparison(
        rows=tuple(rows),
        failed=tuple(_failed_runs(results)),
        notes=(*setup.notes, *_ceiling_notes(rows)),
        about=run_info,
        agreement=ranking_agreement(rows, setup.columns),
        folder=folder,
        learned=tuple(_learned_mixes(results)),
        scores=scores,
        contrasts=bands.select(contrasts, best_arms),
        contrast_arms=partial(contrast_of_arms, scores, strata),
        edited=_edited_results(results, bands, best_arms),
    )


def _edited_results(
    results: CellResults, bands: Bands, best_arms: Mapping[tuple[str, Column], str]
) -> EditedResults | None:
    """The results on edited rows, if the plan has this test set; of a band, at the temperature best on new rows."""
    setup = results.setup
    if setup.edited is None:
        return None
    cells = []
    for cell in results.done:
        method = bands.method_of(cell.explainer)
        if best_arms.get((method, (cell.student, cell.size)), cell.explainer) == cell.explainer:
            cells.append(replace(cell, explainer=method))
    answers = EditedAnswers.load(cells, results.records, results.store, results.splits)
    columns, explainers = setup.columns, setup.labels
    return edited_results(
        answers, kind=setup.edited.kind, explainers=explainers, controls=setup.controls, columns=columns
    )


def _run_info(results: CellResults) -> RunInfo:
    """Versions, fingerprints and sizes of the comparison."""
    setup, config = results.setup, results.setup.config
    return RunInfo(
        didact=__version__,
        torch=torch.__version__,
        teacher=setup.teacher.name,
        teacher_fingerprint=results.fingerprint,
        data=setup.data.name,
        data_fingerprint=setup.data.fingerprint,
        task=setup.task.name,
        measure=results.measure,
        controls=tuple(setup.controls),
        seeds=tuple(config.seeds),
        tune=plain(config.search_space),
        starts={name: student_init.origin for name, student_init in setup.student_inits.items()},
        students={str(student): setup.describe(student) for student in setup.students},
        cells=len(results.records),
        train_rows=len(setup.pool),
        dev_rows=len(setup.held_out("dev")),
        test_rows=len(results.test.rows),
        balance=setup.sample.balance,
        left_out=tuple(config.left_out),
        target_normalisation=config.target_normalisation,
        target_temperatures=config.target_grid,
    )


def _lost_rows(results: CellResults) -> dict[tuple[str, str, int], int]:
    """For each arm, the number of training rows whose explanations students could not use."""
    lost: dict[tuple[str, str, int], int] = {}
    for cell in results.done:
        arm = (cell.explainer, cell.student, cell.size)
        lost[arm] = lost.get(arm, 0) + (results.records[cell.key].lost_rows or 0)
    return lost


def _failed_runs(results: CellResults) -> list[FailedRun]:
    failed = [(cell, results.records[cell.key]) for cell in results.cells if not results.records[cell.key].is_done]
    return [
        FailedRun(cell.key, cell.explainer, cell.student, cell.size, cell.seed, str(record.error))
        for cell, record in failed
    ]


def _learned_mixes(results: CellResults) -> list[LearnedWeights]:
    return [
        LearnedWeights.of(mix, cell.learner, cell.student, cell.size, cell.seed)
        for cell in results.cells
        if cell.learner is not None and (mix := results.records[cell.key].learned) is not None
    ]


def _ceiling_notes(rows: Sequence[GainRow]) -> list[str]:
    """A note for every column whose students predict the teacher almost perfectly without explanations."""
    return [
        f"Students of {row.student} reach {100 * row.mean:.1f} % without any explanation, so there is almost nothing "
        "to gain. Compare with fewer training rows (--train-sizes)."
        for row in rows
        if row.explainer == "none" and row.mean is not None and row.mean >= _CEILING
    ]


def write_results(path: Path, results: CellResults) -> None:
    """Write one line per cell, sorted by key, without times or hosts, so that equal results give equal bytes."""
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for cell in sorted(results.cells, key=lambda cell: (cell.key, cell.student)):
        record = results.records[cell.key]
        values_by_name = {
            "key": cell.key,
            "explainer": cell.explainer,
            "student": cell.student,
            "size": cell.size,
            "seed": cell.seed,
            "status": "done" if record.is_done else "failed",
            "measure": results.measure,
        }
        for name, values in columns.items():
            values.append(values_by_name[name] if name in values_by_name else getattr(record, name))
    write_table(path, Table(columns, {"measure": results.measure}), types=_COLUMNS)
