"""A comparison from beginning to end, in five steps: label, explain, train, summarise, evaluate.

Each step keeps what it made. A run that was stopped goes through the same steps, and each finds what it made before.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from didact.comparing.cell import Cell
from didact.comparing.evaluation import MethodEvaluation
from didact.comparing.explanations import (
    EXPLANATIONS_FOLDER,
    derive_explanations,
    learned_explainers,
    make_explanations,
)
from didact.comparing.grid import ExplanationFiles, Grid, build_grid, student_init_name
from didact.comparing.run_inputs import LabelledSplit, read_rows, write_rows
from didact.comparing.setup import Setup
from didact.comparing.summarise import RESULTS, CellResults, summarise, write_results
from didact.comparing.training import TrainingStage
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.errors import OptionError, RecordError
from didact.execution.base import Executor, JobKind, Manifest
from didact.execution.in_process import InProcess
from didact.execution.run_dir import RunDirectory
from didact.explaining.dataset import FillStore
from didact.explaining.shard_jobs import ShardDistributor
from didact.files.atomic import atomic_folder, remove_stale_drafts, write_text
from didact.files.checksummed import write_json
from didact.files.store import Store, UnreadableError, canonical_json, key_of
from didact.models.student_init import StudentInit
from didact.registry import parse_spec
from didact.results.comparison import FILE, Comparison
from didact.results.run_record import RunRecord
from didact.viz.progress import announce

_SUBFOLDERS: Final = ("cells", "classroom", EXPLANATIONS_FOLDER, "measured")


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows of all splits with the teacher's answers, and the file in the folder `classroom` that keeps them."""

    fingerprint: str
    file: str
    splits: Mapping[str, LabelledSplit]


class ComparisonRunner:
    """Runs one comparison in its directory."""

    def __init__(self, setup: Setup, directory: RunDirectory, *, progress: bool = False, command: str = "") -> None:
        self.setup, self.directory, self.progress, self.command = setup, directory, progress, command
        self.folder = directory.folder
        self.store = Store(self.folder / "cells")

    def run(self, executor: Executor) -> Comparison:
        """Do what is left to do, and sum up."""
        started = datetime.now(UTC)
        try:
            remove_stale_drafts(self.folder, inside=_SUBFOLDERS)
            write_text(self.folder / "plan.toml", self.plan_text())
            labelled = self.label()
            with ShardDistributor(executor, self.folder) as sharing:
                fill = sharing.fill if executor.shares_explaining else None
                files = self.explain(labelled, fill)
                grid = build_grid(self.setup, labelled.fingerprint, files)
                self.train(executor, labelled, grid)
                comparison = self.summarise(labelled, grid)
                self.evaluate(labelled, grid, fill)
        except RecordError as error:
            raise RecordError(
                f"{error} What was finished is kept in {self.directory.name}: mend this, and give the same command "
                "again to go on."
            ) from error
        RunRecord.now(self.command, started).save(self.folder)
        return comparison

    def label(self) -> LabelledRows:
        """The rows of all splits with the teacher's answers: from the run's folder, or asked for now."""
        rows = self.setup.splits()
        teacher = self.setup.teacher
        # A black box is asked first: its answers are its fingerprint.
        splits = self._label_rows(rows) if teacher.is_identified_by_answers else None
        outputs = None if splits is None else Outputs.joined([split.outputs for split in splits.values()])
        fingerprint = teacher.fingerprint([row for split_rows in rows.values() for row in split_rows], outputs)
        file = rows_file(fingerprint, rows)
        path = self.folder / "classroom" / file
        self.directory.push("classroom/answers-*.jsonl")
        self.directory.pull(f"classroom/{file}")
        stored = _stored_rows(path)
        if stored is None:
            write_rows(path, splits or self._label_rows(rows), task=self.setup.task, classes=teacher.classes)
            self.directory.push(f"classroom/{file}", "classroom/answers-*.jsonl")
            stored = read_rows(path)  # as workers will read them
        return LabelledRows(fingerprint, file, stored)

    def explain(self, labelled: LabelledRows, fill: FillStore | None) -> ExplanationFiles:
        """Explanations of the rows that students learn from, by every method."""
        outputs = labelled.splits["train"].outputs
        return make_explanations(
            self.setup, self.directory, labelled.fingerprint, outputs, fill=fill, progress=self.progress
        )

    def train(self, executor: Executor, labelled: LabelledRows, grid: Grid) -> None:
        """Train the students that learn an explainer, make its explanations, then train all other students."""
        self._save_student_inits()
        manifest = self._manifest(labelled, grid)
        stage = TrainingStage(executor, manifest, labelled.file, self.directory, self.store, progress=self.progress)
        if grid.learning:
            self._train_cells(stage, grid.learning, "learning explainers", frozenset())
            derive_explanations(self.setup, self.directory, grid, self.store)
        # Without the explanations of an explainer that was not learned; `derive_explanations` recorded why.
        failed = {cell.key for cell in grid.teaching if cell.maps in grid.derived and not self._has_explanations(cell)}
        self._train_cells(stage, grid.teaching, "training students", failed)

    def _train_cells(self, stage: TrainingStage, cells: Sequence[Cell], description: str, failed: Set[str]) -> None:
        """Train students in workers, and in this process those whose strategy or architecture only it knows."""
        students = {str(student): student for student in self.setup.students}
        local: list[Cell] = []
        remote: list[Cell] = []
        for cell in cells:
            is_local = self.setup.is_local(students[cell.student], parse_spec(cell.strategy).name)
            (local if is_local else remote).append(cell)
        if not local or isinstance(stage.executor, InProcess):
            stage.run(cells, description, failed=failed)
            return
        message = f"Worker processes do not know what was named in this process: it trains {len(local):,} runs itself."
        announce([message], shown=self.progress)
        stage.run(remote, description, failed=failed)
        replace(stage, executor=InProcess()).run(local, f"{description} here", failed=failed)

    def summarise(self, labelled: LabelledRows, grid: Grid) -> Comparison:
        """The table, and a line for each run."""
        finished = CellResults.load(self.setup, labelled.fingerprint, grid, self.store, labelled.splits["test"])
        comparison = summarise(finished, self.folder, self.plan_text())
        write_results(self.folder / RESULTS, finished)
        comparison.save(self.folder / FILE)
        return comparison

    def evaluate(self, labelled: LabelledRows, grid: Grid, fill: FillStore | None) -> None:
        """Score the methods by all other metrics on some test rows, if the config asks for it."""
        if not self.setup.config.eval_rows:
            return
        self.directory.pull("measured/*", "measured/pictures/*", "measured.json")  # and pushed when the run ends
        test, learned = labelled.splits["test"], learned_explainers(self.setup, grid.cells, self.store)
        evaluation = MethodEvaluation(self.setup, self.folder, labelled.fingerprint, test, learned, self.progress, fill)
        evaluation.run(self.setup.config.eval_rows)

    def plan_text(self) -> str:
        """The plan of this run as a file, with what it cannot hold as comments."""
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
        """The teacher's answers to all rows, each asked once."""
        answers = self.setup.sample.answers
        answers.of([row for split_rows in rows.values() for row in split_rows])  # in one go, with one progress bar
        return {name: LabelledSplit(tuple(split_rows), answers.of(split_rows)) for name, split_rows in rows.items()}

    def _save_student_inits(self) -> None:
        """Save where students start, for workers to read.

        A missing folder is made. One that another run made meanwhile is used; only a damaged one is replaced.
        """
        for student in self.setup.students:
            student_init = self.setup.student_inits[student.architecture]
            folder = self.folder / "classroom" / "starts" / student_init_name(student_init)
            for overwrite in (False, True):
                if _holds_init(folder, student_init):
                    break
                try:
                    with atomic_folder(folder, overwrite=overwrite, is_in_run=True) as draft:
                        student_init.save(draft)
                except (RecordError, OptionError):
                    if overwrite and not _holds_init(folder, student_init):
                        raise

    def _manifest(self, labelled: LabelledRows, grid: Grid) -> Manifest:
        """The file that describes the students to train."""
        config = self.setup.config
        content = {
            "kind": JobKind.TRAIN,
            "rows": labelled.file,
            "threads": config.threads,
            "cells": [cell.plain() for cell in {cell.key: cell for cell in grid.cells}.values()],  # rows may share one
        }
        name = hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]
        path = self.folder / "classroom" / f"cells-{name}.json"
        write_json(path, content)
        return Manifest(path, self.folder, config.threads, on_gpu=config.student_device == "cuda")

    def _has_explanations(self, cell: Cell) -> bool:
        """Whether the explanations that the cell teaches with were made: not if nothing was learned."""
        return cell.maps is not None and (self.folder / EXPLANATIONS_FOLDER / cell.maps).is_file()


def rows_file(fingerprint: str, rows: Mapping[str, Sequence[Row]]) -> str:
    """The file that keeps these rows with the teacher's answers."""
    fingerprints = {name: fingerprint_of(split_rows) for name, split_rows in rows.items()}
    return f"rows-{key_of({'teacher': fingerprint} | fingerprints)}.parquet"


def _holds_init(folder: Path, student_init: StudentInit) -> bool:
    """Whether the folder holds this start, whole."""
    try:
        stored = StudentInit.load(folder)
    except RecordError:
        return False
    return stored.facts == json.loads(json.dumps(dict(student_init.facts))) and stored.files == student_init.files


def _stored_rows(path: Path) -> dict[str, LabelledSplit] | None:
    """The labelled rows in the file; None if it is missing or damaged. One that cannot be opened is an error."""
    try:
        return read_rows(path)
    except UnreadableError:
        raise
    except RecordError:
        return None
