"""Runs a comparison in five steps: label, explain, train, summarise, evaluate.

1. `label`: the teacher predicts every row of the train, dev and test splits.
2. `explain`: every method explains the training rows.
3. `train`: students learn the teacher's answers, each with the explanations of one method (or none).
4. `summarise`: a table shows how well the students predict the teacher on the test rows.
5. `evaluate`: all other metrics score the methods (optional).

A cell is one student to train; `build_grid` lists them.

Each step stores its results in the run's folder and skips what is already there, so a stopped run resumes by running
all five steps again.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from didact.comparing.cell import Cell
from didact.comparing.edited import EditedRows
from didact.comparing.evaluation import MethodEvaluation
from didact.comparing.explanations import (
    EXPLANATIONS_FOLDER,
    derive_explanations,
    learned_explainers,
    make_explanations,
)
from didact.comparing.grid import ExplanationFiles, Grid, build_grid, student_init_name
from didact.comparing.run_inputs import EDITED_SPLIT, LabelledSplit, read_rows, write_rows
from didact.comparing.setup import Setup
from didact.comparing.summarise import RESULTS, CellResults, summarise, write_results
from didact.comparing.training import TrainingStage
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.errors import OptionError, RecordError
from didact.execution.base import Executor, JobKind, Manifest
from didact.execution.in_process import InProcess
from didact.execution.run_dir import RunDirectory
from didact.explaining.dataset import ExplainShards
from didact.explaining.shard_jobs import ShardDistributor
from didact.files.atomic import atomic_folder, remove_stale_drafts, write_text
from didact.files.checksummed import write_json
from didact.files.store import Store, UnreadableError, canonical_json, key_of
from didact.models.student_init import StudentInit
from didact.registry import parse_spec
from didact.results.comparison import FILE, Comparison
from didact.results.run_record import RunRecord
from didact.viz.progress import announce

# Subfolders: results of cells, inputs of workers ("classroom"), explanations, scores of other metrics.
_SUBFOLDERS: Final = ("cells", "classroom", EXPLANATIONS_FOLDER, "measured")


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows of all splits with the teacher's answers, as read back from `classroom/{file}`."""

    teacher_fingerprint: str
    file: str
    splits: Mapping[str, LabelledSplit]


class ComparisonRunner:
    """Runs one comparison and stores everything in `directory`. `command` is recorded in the run.

    `directory.pull` and `directory.push` exchange files with a remote store; in a local directory they do nothing.
    """

    def __init__(self, setup: Setup, directory: RunDirectory, *, progress: bool = False, command: str = "") -> None:
        self.setup, self.directory, self.progress, self.command = setup, directory, progress, command
        self.folder = directory.folder
        self.store = Store(self.folder / "cells")

    def run(self, executor: Executor) -> Comparison:
        """Run all steps that are not done yet and return the result.

        Raises:
            RecordError: a file could not be read or written. Finished work stays on disk.
        """
        started = datetime.now(UTC)
        try:
            remove_stale_drafts(self.folder, inside=_SUBFOLDERS)
            write_text(self.folder / "plan.toml", self.plan_text())
            labelled = self.label()
            with ShardDistributor(executor, self.folder) as distributor:
                explain_shards = distributor.explain_shards if executor.shares_explaining else None
                files = self.explain(labelled, explain_shards)
                grid = build_grid(self.setup, labelled.teacher_fingerprint, files)
                self.train(executor, labelled, grid)
                comparison = self.summarise(labelled, grid)
                self.evaluate(labelled, grid, explain_shards)
        except RecordError as error:
            raise RecordError(
                f"{error} Finished work is in {self.directory.name}. Fix this and run the same command again to resume."
            ) from error
        RunRecord.now(self.command, started).save(self.folder)
        return comparison

    def label(self) -> LabelledRows:
        """Predict all rows with the teacher, or read the stored predictions."""
        rows = self.setup.splits()
        teacher = self.setup.teacher
        # A black box has no weights to hash. Its fingerprint is a hash of its answers, so it labels the rows first.
        splits = self._label_rows(rows) if teacher.is_identified_by_answers else None
        outputs = None if splits is None else Outputs.joined([split.outputs for split in splits.values()])
        fingerprint = teacher.fingerprint([row for split_rows in rows.values() for row in split_rows], outputs)
        file = rows_file(fingerprint, rows, self.setup.edited)
        path = self.folder / "classroom" / file
        self.directory.push("classroom/answers-*.jsonl")  # answers of a black box that were stored during preparation
        self.directory.pull(f"classroom/{file}")
        stored = _stored_rows(path)
        if stored is None:
            splits = (splits or self._label_rows(rows)) | self._label_edited()
            write_rows(path, splits, task=self.setup.task, classes=teacher.classes)
            self.directory.push(f"classroom/{file}", "classroom/answers-*.jsonl")
            stored = read_rows(path)  # without gold labels and rationales, as workers read them
        return LabelledRows(fingerprint, file, stored)

    def explain(self, labelled: LabelledRows, explain_shards: ExplainShards | None) -> ExplanationFiles:
        """Explain the training rows with every method.

        `explain_shards` runs them as jobs of the executor; None explains in this process.
        """
        outputs = labelled.splits["train"].outputs
        return make_explanations(
            self.setup,
            self.directory,
            labelled.teacher_fingerprint,
            outputs,
            explain_shards=explain_shards,
            progress=self.progress,
        )

    def train(self, executor: Executor, labelled: LabelledRows, grid: Grid) -> None:
        """Train all students.

        SMaT explainers are learned together with a student, so those students are trained first. Their explainers
        then produce the explanations that the remaining students learn from.
        """
        self._save_student_inits()
        manifest = self._write_manifest(labelled, grid)
        stage = TrainingStage(executor, manifest, labelled.file, self.directory, self.store, progress=self.progress)
        if grid.learner_cells:
            self._train_cells(stage, grid.learner_cells, "learning explainers", frozenset())
            derive_explanations(self.setup, self.directory, grid, self.store)
        # Cells whose explainer could not be learned. `derive_explanations` has recorded them as failed.
        failed = {
            cell.key
            for cell in grid.student_cells
            if cell.explanations_file in grid.derived and not self._has_explanations(cell)
        }
        self._train_cells(stage, grid.student_cells, "training students", failed)

    def _train_cells(self, stage: TrainingStage, cells: Sequence[Cell], description: str, failed: Set[str]) -> None:
        """Train these cells with the executor.

        Cells whose strategy or architecture is registered in this process only train in this process.
        """
        students = {str(student): student for student in self.setup.students}
        local: list[Cell] = []
        remote: list[Cell] = []
        for cell in cells:
            is_local = self.setup.is_local(students[cell.student], parse_spec(cell.strategy).name)
            (local if is_local else remote).append(cell)
        if not local or isinstance(stage.executor, InProcess):
            stage.run(cells, description, failed=failed)
            return
        message = (
            f"{len(local):,} runs use names registered in this process only, so they train in this process, not in "
            "workers."
        )
        announce([message], shown=self.progress)
        stage.run(remote, description, failed=failed)
        replace(stage, executor=InProcess()).run(local, f"{description} in this process", failed=failed)

    def summarise(self, labelled: LabelledRows, grid: Grid) -> Comparison:
        """Compute the table of gains.

        Write it to comparison.json, and one line per trained student to results.parquet.
        """
        results = CellResults.load(self.setup, labelled.teacher_fingerprint, grid, self.store, labelled.splits)
        comparison = summarise(results, self.folder, self.plan_text())
        write_results(self.folder / RESULTS, results)
        comparison.save(self.folder / FILE)
        return comparison

    def evaluate(self, labelled: LabelledRows, grid: Grid, explain_shards: ExplainShards | None) -> None:
        """Score the methods with all other metrics on `eval_rows` test rows; 0 skips this step."""
        if not self.setup.config.eval_rows:
            return
        # RunDirectory.__exit__ uploads what matches.
        self.directory.pull("measured/*", "measured/pictures/*", "measured.json")
        test, learned = labelled.splits["test"], learned_explainers(self.setup, grid.cells, self.store)
        evaluation = MethodEvaluation(
            self.setup, self.folder, labelled.teacher_fingerprint, test, learned, self.progress, explain_shards
        )
        evaluation.run(self.setup.config.eval_rows)

    def plan_text(self) -> str:
        """The content of plan.toml. Objects, which TOML cannot hold, are named in comments."""
        setup = self.setup
        plan = setup.config.with_fields(students=setup.students)
        objects = [
            method.label for method in setup.methods if method.method is not None and not isinstance(method.method, str)
        ]
        comments = [f"# also compared, as objects: {', '.join(objects)}\n"] if objects else []
        if plan.model is None:
            comments.append(f"# teacher, as an object: {setup.teacher.name}\n")
        if plan.data is None:
            comments.append(f"# data, as an object: {setup.data.name}\n")
        return "".join(comments) + plan.to_toml()

    def _label_rows(self, rows: Mapping[str, Sequence[Row]]) -> dict[str, LabelledSplit]:
        """Predict all rows with the teacher; a row that occurs twice is predicted once."""
        answers = self.setup.sample.answers
        answers.of([row for split_rows in rows.values() for row in split_rows])  # all at once, for one progress bar
        return {name: LabelledSplit(tuple(split_rows), answers.of(split_rows)) for name, split_rows in rows.items()}

    def _label_edited(self) -> dict[str, LabelledSplit]:
        """Predict the edited rows with the teacher, if there are any."""
        edited = self.setup.edited
        if edited is None:
            return {}
        return {EDITED_SPLIT: LabelledSplit(edited.rows, self.setup.sample.answers.of(edited.rows), edited.sources)}

    def _save_student_inits(self) -> None:
        """Save the initial weights of the students for the workers.

        If another run creates the folder in the meantime, that folder is used. Only a damaged folder is replaced.
        """
        for student in self.setup.students:
            student_init = self.setup.student_inits[student.architecture]
            folder = self.folder / "classroom" / "starts" / student_init_name(student_init)
            for overwrite in (False, True):  # without overwriting first: another run may have written it
                if _has_intact_init(folder, student_init):
                    break
                try:
                    with atomic_folder(folder, overwrite=overwrite, is_in_run=True) as draft:
                        student_init.save(draft)
                except (RecordError, OptionError):
                    if overwrite and not _has_intact_init(folder, student_init):
                        raise

    def _write_manifest(self, labelled: LabelledRows, grid: Grid) -> Manifest:
        """Write the file that describes the students to train. Workers read it."""
        config = self.setup.config
        content = {
            "kind": JobKind.TRAIN,
            "rows": labelled.file,
            "threads": config.threads,
            # Two table rows may need the same student, which is then trained once.
            "cells": [cell.plain() for cell in {cell.key: cell for cell in grid.cells}.values()],
        }
        name = hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]
        path = self.folder / "classroom" / f"cells-{name}.json"
        write_json(path, content)
        return Manifest(path, self.folder, config.threads, on_gpu=config.student_device == "cuda")

    def _has_explanations(self, cell: Cell) -> bool:
        """Whether the file with the cell's explanations exists. It does not if its explainer could not be learned."""
        file = cell.explanations_file
        return file is not None and (self.folder / EXPLANATIONS_FOLDER / file).is_file()


def rows_file(fingerprint: str, rows: Mapping[str, Sequence[Row]], edited: EditedRows | None) -> str:
    """The name of the file with these rows and the teacher's answers."""
    fingerprints = {name: fingerprint_of(split_rows) for name, split_rows in rows.items()}
    if edited is not None:
        fingerprints[EDITED_SPLIT] = fingerprint_of(edited.rows)
    return f"rows-{key_of({'teacher': fingerprint} | fingerprints)}.parquet"


def _has_intact_init(folder: Path, student_init: StudentInit) -> bool:
    """Whether the folder holds exactly these initial weights, undamaged."""
    try:
        stored = StudentInit.load(folder)
    except RecordError:
        return False
    facts = json.loads(json.dumps(dict(student_init.facts)))  # JSON turns tuples into lists
    return stored.facts == facts and stored.files == student_init.files


def _stored_rows(path: Path) -> dict[str, LabelledSplit] | None:
    """Read the labelled rows; None if the file is missing or damaged. Raises UnreadableError if it cannot be opened."""
    try:
        return read_rows(path)
    except UnreadableError:
        raise
    except RecordError:
        return None
