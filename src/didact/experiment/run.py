"""A comparison carried out: answers, explanations, cells, table. Each step keeps what it made, for the next call."""

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from didact import __version__
from didact.core.human import HumanTeacher
from didact.core.measure import BALANCED
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.errors import OptionError, RecordError
from didact.execution.base import Executor, Job, JobKind, JobResult, JobStatus, Manifest
from didact.execution.run_dir import RunDirectory
from didact.experiment.cell import VERSION, Cell, finished
from didact.experiment.classroom import Labelled, read_rows, write_rows
from didact.experiment.explain import FillStore
from didact.experiment.explained import Kept, is_whole, keep_explanations, keep_parts, slug, teacher_fingerprint
from didact.experiment.learnedness import Floor, judge_columns
from didact.experiment.measure import Measuring
from didact.experiment.roster import Entrant, Roster
from didact.experiment.shard_jobs import SharedExplaining
from didact.experiment.summary import agreement_of, contrast_of_arms, contrasts_of, rows_of_table, scores_of
from didact.experiment.train_jobs import TrainJobs
from didact.explainers.learned import name_of
from didact.explainers.mix import Mix
from didact.explainers.parts import explained_by
from didact.files.atomic import new_folder, sweep, write_text
from didact.files.sealed import write_json
from didact.files.store import Store, UnreadableError, canonical, key_of
from didact.files.table_io import Table, write_table
from didact.models.student_init import StudentInit
from didact.registry import Spec
from didact.render.progress import Progress
from didact.results.comparison import FILE, Comparison
from didact.results.component_scores import ComponentScores
from didact.results.documents import plain
from didact.results.gains import FailedRun, GainRow, LearnedMix
from didact.results.run_facts import RunFacts
from didact.results.run_record import RunRecord
from didact.results.temperature import matching_temperature, mean_entropy, tempered
from didact.results.training_record import TrainingRecord
from didact.students import STRATEGIES
from didact.students.build import StudentSpec, strategy_options

_CEILING: Final = 0.99  # simulability without explanations above which none can help
_PLACES: Final = ("cells", "classroom", "explanations", "measured")
_RESULTS: Final = {
    "key": "string", "explainer": "string", "student": "string", "size": "int64", "seed": "int64", "status": "string",
    "measure": "string", "value": "float64", "dev": "float64", "epoch": "int64", "trial": "int64",
    "lost_rows": "int64", "error": "string",
}  # fmt: skip


class Run:
    """One comparison in its place."""

    def __init__(self, roster: Roster, place: RunDirectory, *, progress: bool = False, command: str = "") -> None:
        self.command = command
        self.roster, self.plan, self.progress = roster, roster.plan, progress
        self.place, self.folder = place, place.folder
        # By file of explanations: the cell whose explainer makes them, and for which row.
        self.derived: dict[str, tuple[str, Entrant]] = {}
        self._fill: FillStore | None = None

    def comparison(self, executor: Executor) -> Comparison:
        """Do what is left to do, and sum up."""
        began = datetime.now(UTC)
        try:
            done = self._comparison(executor)
            RunRecord.now(self.command, began).save(self.folder)
            return done
        except RecordError as error:
            raise RecordError(
                f"{error} What was finished is kept in {self.place.name}: mend this, and give the same command again "
                "to go on."
            ) from error

    def _comparison(self, executor: Executor) -> Comparison:
        sweep(self.folder, inside=_PLACES)
        write_text(self.folder / "plan.toml", self._plan_text())
        splits = self._labelled()
        with SharedExplaining(executor, self.folder) as sharing:
            self._fill = sharing.fill if executor.shares_explaining else None
            kept = self._explanations(splits["train"].outputs)
            parts = self._parts(splits["train"].outputs, kept)
            cells = self.cells(splits, kept, parts)
            store = Store(self.folder / "cells")
            manifest = self.manifest(cells)
            learning = [cell for cell in cells if cell.learner is not None]
            if learning:
                self._train(executor, manifest, learning, store, "learning explainers")
                self._derive(cells, store)
            students = [cell for cell in cells if cell.learner is None]
            self._train(executor, manifest, students, store, "training students")
            found = self._summary(cells, store, splits["test"])
            if self.plan.eval_rows:
                self.place.pull("measured/*", "measured/pictures/*", "measured.json")
                learned = self._learned(cells, store)
                Measuring(
                    self.roster, self.folder, self.fingerprint, self.background(), learned, progress=self.progress,
                    labelled=splits["test"], fill=self._fill,
                ).done(self.plan.eval_rows)  # fmt: skip
        return found

    def _learned(self, cells: Sequence[Cell], store: Store) -> dict[str, Mix]:
        """Each learned explainer as one cell has it: of the first seed, with the most rows."""
        learners = {one.label: one.learner for one in self.roster.entrants if one.role == "fresh" and one.learner}
        found: dict[str, Mix] = {}
        for cell in sorted(cells, key=lambda cell: (self.plan.seeds.index(cell.seed), -cell.size)):
            if cell.learner in learners and cell.learner not in found:
                record = TrainingRecord.load(store, cell.key)
                if record.learned is not None:
                    found[cell.learner] = learners[cell.learner].restored(record.learned)
        return found

    def _plan_text(self) -> str:
        plan = self.plan.with_fields(students=self.roster.students)
        extra = [
            one.label for one in self.roster.entrants if one.method is not None and not isinstance(one.method, str)
        ]
        lines = [f"# also compared, as objects: {', '.join(extra)}\n"] if extra else []
        if plan.model is None:
            lines.append(f"# teacher, as an object: {self.roster.teacher.name}\n")
        if plan.data is None:
            lines.append(f"# data, as an object: {self.roster.data.name}\n")
        return "".join(lines) + plan.to_toml()

    def _labelled(self) -> dict[str, Labelled]:
        """The rows of all splits with the teacher's answers: as they were kept, or asked for now."""
        rows = {"train": self.roster.used, **self.held_out()}
        everything = [row for part in rows.values() for row in part]
        found = said = None
        if not isinstance(self.roster.teacher, Model | HumanTeacher):  # it is known by its answers alone
            found = self._asked(rows)
            said = Outputs.joined([one.outputs for one in found.values()])
        self.fingerprint = teacher_fingerprint(self.roster.teacher, everything, said)
        self.rows_file = self.name_of_rows(rows)
        path = self.folder / "classroom" / self.rows_file
        self.place.push("classroom/answers-*.jsonl")
        self.place.pull(f"classroom/{self.rows_file}")
        try:
            return read_rows(path)
        except UnreadableError:
            raise
        except RecordError:
            pass
        found = found or self._asked(rows)
        write_rows(path, found, task=self.roster.data.task, classes=self.roster.teacher.classes)
        self.place.push(f"classroom/{self.rows_file}", "classroom/answers-*.jsonl")
        return read_rows(path)

    def _asked(self, rows: Mapping[str, Sequence[Row]]) -> dict[str, Labelled]:
        """The teacher's answers to all rows, each asked once."""
        answers = self.roster.sample.answers
        answers.of([row for part in rows.values() for row in part])  # in one go, with one progress bar
        return {name: Labelled(tuple(part), answers.of(part)) for name, part in rows.items()}

    def name_of_rows(self, rows: Mapping[str, Sequence[Row]]) -> str:
        """The file that keeps them with the teacher's answers."""
        facts = {name: fingerprint_of(part) for name, part in rows.items()}
        return f"rows-{key_of({'teacher': self.fingerprint, **facts})}.parquet"

    def held_out(self) -> dict[str, tuple[Row, ...]]:
        """The rows of dev and test that the teacher can answer."""
        return {name: tuple(self._known(name)) for name in ("dev", "test")}

    def _known(self, split: str) -> list[Row]:
        return [row for row in self.roster.data[split] if self.roster.is_known(row)]

    def _explanations(self, outputs: Outputs) -> dict[tuple[str, int], Kept]:
        """By entrant and seed the file that holds its explanations."""
        folder = self.folder / "explanations"
        background = self.background()
        found: dict[tuple[str, int], Kept] = {}
        for one in self.roster.entrants:
            if one.method is None:
                continue
            shared: Kept | None = None
            label = str(one.method) if one.role == "sharpened" else one.label
            self.place.pull(f"explanations/{slug(label)}-*.parquet")
            for seed in self.plan.seeds:
                method = one.for_seed(seed)
                assert method is not None
                if shared is None or one.redrawn:
                    shared = keep_explanations(
                        folder, self.roster.teacher, self.fingerprint,
                        self.roster.seed_rows(seed) if one.redrawn else self.roster.used, method,
                        label=label, background=background, outputs=outputs, progress=self.progress and not one.redrawn,
                        fill=self._fill,
                    )  # fmt: skip
                found[one.label, seed] = shared
            self.place.push(f"explanations/{slug(label)}-*.parquet")
        return found

    def background(self) -> Sequence[Row]:
        """The rows that methods compare with."""
        data = self.roster.data
        return data["explain"].rows if "explain" in data and len(data["explain"]) else self.roster.pool

    def _parts(self, outputs: Outputs, kept: Mapping[tuple[str, int], Kept]) -> dict[str, Kept]:
        """By learner the files of what it weighs. A blend is made of its members' explanations, which are rows too."""
        found = {}
        for one in self.roster.entrants:
            if one.role != "fresh" or one.learner is None:
                continue
            explainer = one.learner.explainer()
            self.place.pull(f"explanations/parts-{name_of(explainer)}-*")
            members: list[tuple[str, Kept]] = []
            if one.learner.family == "blend":
                names = explainer.part_names(self.roster.teacher, self.roster.used[0])
                members = [(name, kept[name, self.plan.seeds[0]]) for name in names]
            found[one.label] = keep_parts(
                self.folder / "explanations", self.roster.teacher, self.fingerprint, self.roster.used, explainer,
                members=members, background=self.background(), outputs=outputs, progress=self.progress,
            )  # fmt: skip
            self.place.push(f"explanations/parts-{name_of(explainer)}-*")
        return found

    # -- cells --------------------------------------------------------------------------------------------------------

    def cells(
        self,
        splits: Mapping[str, Labelled],
        kept: Mapping[tuple[str, int], Kept],
        parts: Mapping[str, Kept],
    ) -> list[Cell]:
        """Every cell of the plan, `none` first and seed by seed, so that an early look is a fair one."""
        plan = self.plan
        held_out = {name: fingerprint_of(splits[name].rows) for name in ("dev", "test")}
        prepared = {str(student): self._prepared(student) for student in self.roster.students}
        cells = []
        for seed in plan.seeds:
            for size in plan.train_sizes:
                rows_key = fingerprint_of(self.roster.seed_rows(seed, size))
                for student in self.roster.students:
                    start, training = prepared[str(student)]
                    common = {
                        "version": VERSION, "teacher": self.fingerprint, "train": rows_key, **held_out, "start": start,
                        "training": training, "size": size, "seed": seed, "soft": plan.soft_labels,
                        "threads": plan.threads,
                        "device": plan.student_device, **({"balanced": True} if self.roster.is_balanced else {}),
                    }  # fmt: skip
                    learned: dict[str, str] = {}
                    for one in sorted(self.roster.entrants, key=lambda one: one.role != "cotrained"):
                        if not self.roster.takes_part(one, student):
                            continue
                        cell = self._cell(one, student, common, kept, parts, learned)
                        if one.role == "cotrained" and one.learner is not None:
                            learned[one.learner.label] = cell.key
                        cells.append(cell)
        places = {one.label: place for place, one in enumerate(self.roster.entrants)}
        columns = {str(student): place for place, student in enumerate(self.roster.students)}
        order = {seed: place for place, seed in enumerate(plan.seeds)}
        return sorted(
            cells, key=lambda cell: (order[cell.seed], cell.size, columns[cell.student], places[cell.explainer])
        )

    def _cell(
        self,
        one: Entrant,
        student: StudentSpec,
        common: Mapping[str, Any],
        kept: Mapping[tuple[str, int], Kept],
        parts: Mapping[str, Kept],
        learned: Mapping[str, str],
    ) -> Cell:
        """The cell of one row of the table. `learned` are the keys of the cells that learn explainers here."""
        trials = self.plan.trials(student.strategy)
        strategy, explained = student.strategy, None
        facts: dict[str, Any] = {}
        if one.role in ("fresh", "flattened", "matched"):
            assert one.learner is not None
            key = key_of({"learned": learned[one.learner.label], "role": one.role})
            explained = Kept(f"{slug(one.label)}-{key}.parquet", key)
            self.derived[explained.file] = (learned[one.learner.label], one)
        elif one.role == "cotrained":
            assert one.learner is not None
            trials = [{}]
            facts["learner"] = {**one.learner.facts(), "parts": parts[one.learner.label].key}
        elif one.method is not None:
            explained = kept[one.label, common["seed"]]
        else:
            strategy, trials = Spec("none"), [{} for _ in trials]
        if one.role in ("sharpened", "flattened", "matched"):  # how sharp these are is not for `search_space` to say
            others = [{name: value for name, value in trial.items() if name != "temperature"} for trial in trials]
            trials = [trial for place, trial in enumerate(others) if trial not in others[:place]]
        if one.role == "sharpened":
            trials = [{**trial, "temperature": sharp} for trial in trials for sharp in self.plan.temperatures]
        if one.role == "extra":
            trials, facts["extra"] = [{}], True
        facts |= {
            **common, "explanations": None if explained is None else explained.key, "strategy": strategy.name,
            "options": strategy_options(strategy), "strategy_version": STRATEGIES.load(strategy.name).version,
            "trials": trials,
        }  # fmt: skip
        learner = one.learner if one.role == "cotrained" else None
        return Cell(
            key=key_of(facts), explainer=one.label, student=str(student), start=common["start"],
            strategy=str(strategy), maps=None if explained is None else explained.file, size=common["size"],
            seed=common["seed"], soft=common["soft"], threads=common["threads"], device=common["device"],
            training=common["training"], trials=trials,
            learner=None if learner is None else learner.label,
            parts=None if learner is None else parts[learner.label].file,
            extra=one.role == "extra", balanced=self.roster.is_balanced,
        )  # fmt: skip

    def _derive(self, cells: Sequence[Cell], store: Store) -> None:
        """The explanations of what was learned, for the cells that teach with them. What was not learned is told."""
        by_key = {cell.key: cell for cell in cells}
        folder = self.folder / "explanations"
        waiting = {cell.maps: cell for cell in cells if cell.maps in self.derived}
        self.place.pull(*(f"explanations/{file}" for file in waiting))
        loaded: dict[str, ComponentScores] = {}  # the largest thing of a run: one at a time
        for file, cell in waiting.items():
            assert file is not None
            source, one = self.derived[file]
            record = TrainingRecord.load(store, source)
            if record.learned is None:
                error = f"Its explainer could not be learned: {record.error}"
                TrainingRecord(cell.plain(), error=error, key=cell.key).save(store)
                continue
            if is_whole(folder / file):
                continue
            assert one.learner is not None
            learning = by_key[source]
            assert learning.parts is not None
            if learning.parts not in loaded:
                loaded.clear()
                loaded[learning.parts] = ComponentScores.load(folder / learning.parts)
            parts = loaded[learning.parts]
            places = {row: place for place, row in enumerate(parts.maps.ids)}
            own = parts.select([places[row.id] for row in self.roster.seed_rows(cell.seed, cell.size)])
            maps = explained_by(one.learner.restored(record.learned), own)
            static = explained_by(one.learner.static(own.names), own)
            if one.role == "flattened":
                maps = tempered(maps, matching_temperature(maps, mean_entropy(static)))
            elif one.role == "matched":
                maps = tempered(static, matching_temperature(static, mean_entropy(maps)))
            maps.save(folder / file)
            self.place.push(f"explanations/{file}")

    def _prepared(self, student: StudentSpec) -> tuple[str, dict[str, object]]:
        """Where the student's start is kept, and how it is trained."""
        start = self.roster.starts[student.architecture]
        name = key_of(dict(start.facts))
        folder = self.folder / "classroom" / "starts" / name
        for overwrite in (False, True):  # first as a new folder, which never moves what another run has just written
            if _holds(folder, start):
                break
            try:
                with new_folder(folder, overwrite=overwrite, is_own=True) as draft:
                    start.save(draft)
            except (RecordError, OptionError):
                if overwrite and not _holds(folder, start):
                    raise
        training = self.roster.training(student).facts()
        training.pop("seed")
        return name, training

    def manifest(self, cells: Sequence[Cell]) -> Manifest:
        """The file that describes the students to train."""
        unique = {cell.key: cell for cell in cells}
        content = {
            "kind": JobKind.TRAIN, "rows": self.rows_file, "threads": self.plan.threads,
            "cells": [cell.plain() for cell in unique.values()],
        }  # fmt: skip
        name = hashlib.sha256(canonical(content).encode()).hexdigest()[:16]
        path = self.folder / "classroom" / f"cells-{name}.json"
        write_json(path, content)
        return Manifest(path, self.folder, self.plan.threads, on_gpu=self.plan.student_device == "cuda")

    def _train(self, executor: Executor, manifest: Manifest, cells: Sequence[Cell], store: Store, what: str) -> None:
        """Train the students that are not done, and keep what came of each."""
        work = _Training(cells, store)
        self.place.pull_cells(work.by_key)
        work.look()
        hopeless = {cell.key for cell in cells if cell.maps in self.derived and not self._is_there(cell)}
        waiting = [key for key in work.by_key if key not in work.done and key not in hopeless]
        work.done |= hopeless
        jobs = TrainJobs(self.folder, manifest.path, self.rows_file, {cell.key: cell for cell in cells})
        if executor.runs_elsewhere:
            jobs.check_bases()
        with Progress(what, total=len(work.by_key), shown=self.progress) as bar:
            bar.skip(len(work.done))
            queue = work.queue(self.place, waiting, jobs, bar)
            try:
                with closing(executor.run(manifest, queue) if waiting else _nothing()) as results:
                    for result in results:
                        if result.status is JobStatus.UNWRITABLE:
                            raise RecordError(f"{result.error} {work.so_far()} are done.")
                        work.keep(result, self.folder)
                        self.place.push_cells([result.key])
                        bar.advance(note=work.board.best())
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"Stopped. {work.so_far()} are kept in {self.place.name}; give the same command again to go on."
                ) from None

    def _is_there(self, cell: Cell) -> bool:
        """Whether the explanations that the cell teaches with were made: not if nothing was learned."""
        return cell.maps is not None and (self.folder / "explanations" / cell.maps).is_file()

    # -- the table ----------------------------------------------------------------------------------------------------

    def _note_ceiling(self, rows: Sequence[GainRow]) -> None:
        """A note where students need no explanation: what is foreseen perfectly cannot be foreseen better."""
        full = [row for row in rows if row.explainer == "none" and (row.mean or 0.0) >= _CEILING]
        self.roster.notes += [
            f"Students of {row.student} reach {100 * (row.mean or 0.0):.1f} % without any explanation, so there is "
            "next to nothing to gain. Compare with fewer rows to learn from (--train-sizes)."
            for row in full
        ]

    def _floor(self, test: Labelled) -> Floor | None:
        """What students reach without having learned anything; None for a reading task, which has no such answer."""
        outputs, classes = test.outputs, self.roster.teacher.classes
        if classes is not None and outputs.task.has_classes:
            return Floor.of_classes(outputs.labels, classes, balanced=self.roster.is_balanced)
        return Floor.of_values(outputs.values[:, 0]) if outputs.task.measure == "pearson" else None

    def _summary(self, cells: Sequence[Cell], store: Store, test: Labelled) -> Comparison:
        records = {cell.key: TrainingRecord.load(store, cell.key) for cell in cells}
        scores = scores_of(cells, records, store, test)
        columns = [(str(student), size) for student in self.roster.students for size in self.plan.train_sizes]
        controls = [one.label for one in self.roster.entrants if one.is_control]
        measure = BALANCED if self.roster.is_balanced else self.roster.data.task.measure
        strata = test.outputs.labels if self.roster.is_balanced else None
        lost: dict[tuple[str, str, int], int] = {}
        for cell in cells:
            name = (cell.explainer, cell.student, cell.size)
            lost[name] = lost.get(name, 0) + (records[cell.key].lost_rows or 0)
        labels = [one.label for one in self.roster.entrants]
        contrasts = contrasts_of(scores, explainers=labels, columns=columns, strata=strata)
        rows = rows_of_table(
            scores, contrasts, explainers=labels, controls=controls, columns=columns, measure=measure, lost=lost,
            test_rows=len(test.rows), strata=strata,
        )  # fmt: skip
        self._note_ceiling(rows)
        floor = self._floor(test)
        judged = judge_columns(scores, columns, floor, controls=controls)
        failed = [
            FailedRun(cell.key, cell.explainer, cell.student, cell.size, cell.seed, str(records[cell.key].error))
            for cell in cells
            if not records[cell.key].is_done
        ]
        about = RunFacts(
            didact=__version__, torch=torch.__version__, teacher=self.roster.teacher.name,
            teacher_fingerprint=self.fingerprint, data=self.roster.data.name,
            data_fingerprint=self.roster.data.fingerprint, task=self.roster.data.task.name, measure=measure,
            controls=tuple(controls), seeds=tuple(self.plan.seeds), tune=plain(self.plan.search_space),
            starts={name: start.origin for name, start in self.roster.starts.items()},
            students={str(student): self.roster.sentence(student) for student in self.roster.students},
            cells=len({cell.key for cell in cells}), train_rows=len(self.roster.pool), dev_rows=len(self._known("dev")),
            test_rows=len(test.rows), plan=self._plan_text(), balance=self.roster.sample.balance,
            majority=None if floor is None or floor.labels is None else floor.value, columns=tuple(judged),
            left_out=tuple(self.plan.left_out),
        )  # fmt: skip
        learned = [
            LearnedMix.of(mix, cell.learner, cell.student, cell.size, cell.seed)
            for cell in cells
            if cell.learner is not None and (mix := records[cell.key].learned) is not None
        ]
        found = Comparison(
            rows=tuple(rows), failed=tuple(failed), notes=tuple(self.roster.notes), about=about,
            agreement=agreement_of(rows, columns), folder=self.folder, learned=tuple(learned), scores=scores,
            contrasts=contrasts, contrast_arms=partial(contrast_of_arms, scores, strata),
        )  # fmt: skip
        _write_results(self.folder / "results.parquet", cells, records, measure)
        found.save(self.folder / FILE)
        return found


def _holds(folder: Path, start: StudentInit) -> bool:
    """Whether the folder holds this start, whole."""
    try:
        kept = StudentInit.load(folder)
    except RecordError:
        return False
    return kept.facts == json.loads(json.dumps(dict(start.facts))) and kept.files == start.files


def _write_results(path: Path, cells: Sequence[Cell], records: Mapping[str, TrainingRecord], measure: str) -> None:
    """One line per cell, sorted by key, without times or hosts: the same results give the same bytes."""
    lines = []
    for cell in sorted(cells, key=lambda cell: (cell.key, cell.student)):
        record = records[cell.key]
        lines.append(
            {
                "key": cell.key, "explainer": cell.explainer, "student": cell.student, "size": cell.size,
                "seed": cell.seed, "status": "done" if record.is_done else "failed", "measure": measure,
                "value": record.value, "dev": record.dev, "epoch": record.epoch, "trial": record.trial,
                "lost_rows": record.lost_rows, "error": record.error,
            }
        )  # fmt: skip
    columns = {name: [line[name] for line in lines] for name in _RESULTS}
    write_table(path, Table(columns, {"measure": measure}), types=_RESULTS)


def _nothing() -> Generator[JobResult, None, None]:
    yield from ()


class _Training:
    """The students of one stage: which are done, and who leads."""

    def __init__(self, cells: Sequence[Cell], store: Store) -> None:
        self.store = store
        self.by_key: dict[str, list[Cell]] = {}
        for cell in cells:
            self.by_key.setdefault(cell.key, []).append(cell)
        self.done: set[str] = set()
        self.board = _Board(self.by_key)

    def look(self) -> None:
        """Find what was done before."""
        for key in self.by_key:
            record = finished(self.store, key)
            if record is not None:
                self.done.add(key)
                self.board.add(key, record.value)

    def queue(self, place: RunDirectory, keys: Sequence[str], jobs: TrainJobs, bar: Progress) -> Iterator[Job]:
        """The jobs to do; not those that another run finished while they waited."""
        for key in place.ordered(keys):
            place.pull_cells([key])
            if finished(self.store, key) is None:
                yield jobs.job(key)
                continue
            self._count(key)
            bar.advance(note=self.board.best())

    def keep(self, result: JobResult, folder: Path) -> None:
        """Keep the record of a job. A failure does not replace what another run has done meanwhile."""
        key = result.key
        if result.status is not JobStatus.FAILED or finished(self.store, key) is None:
            result.write_files(folder)
        if result.status is JobStatus.DIED and finished(self.store, key) is None:
            cell = self.by_key[key][0].plain()
            TrainingRecord(cell, error=result.error or "", traceback=result.traceback or "", key=key).save(self.store)
        self._count(key)

    def so_far(self) -> str:
        return f"{len(self.done):,} of {len(self.by_key):,} cells"

    def _count(self, key: str) -> None:
        self.done.add(key)
        self.board.add(key, TrainingRecord.load(self.store, key).value)


class _Board:
    """Who leads so far: the mean gain over `none` of the seeds that are done."""

    def __init__(self, cells: Mapping[str, Sequence[Cell]]) -> None:
        self.cells = cells
        self.values: dict[tuple[str, str, int, int], float] = {}

    def add(self, key: str, value: float | None) -> None:
        for cell in self.cells[key]:
            if value is not None:
                self.values[cell.explainer, cell.student, cell.size, cell.seed] = value

    def best(self) -> str:
        gains: dict[tuple[str, str, int], list[float]] = {}
        for (explainer, student, size, seed), value in self.values.items():
            plain = self.values.get(("none", student, size, seed))
            if explainer != "none" and plain is not None:
                gains.setdefault((explainer, student, size), []).append(value - plain)
        if not gains:
            return ""
        name, found = max(gains.items(), key=lambda item: float(np.mean(item[1])))
        return f"best so far: {name[0]} {np.mean(found):+.3f}"
