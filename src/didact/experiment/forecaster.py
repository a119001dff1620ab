"""Finds out what a comparison will take, by short probes on this machine. Nothing of them is kept.

The teacher is asked about some rows of three lengths, every method explains some, and every kind of student is taught a
few batches (`rehearsal`) by as many processes as the run would have. What the plan asks for is then added up.
"""

import heapq
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from didact.core.explainer import Explainer
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import Task
from didact.core.words import words_of
from didact.errors import RecordError
from didact.experiment.cell import Cell, finished
from didact.experiment.classroom import Labelled, read_rows, write_rows
from didact.experiment.engines import Engine, Helper
from didact.experiment.explain import Work, explain, resolve
from didact.experiment.explained import (
    Kept,
    batches_of,
    chosen,
    given_maps,
    kept_as,
    located,
    located_parts,
    slug,
    teacher_fingerprint,
    unexplained,
)
from didact.experiment.forecast import Forecast, Stage
from didact.experiment.group import leaders
from didact.experiment.learner import parse_learner
from didact.experiment.measure import TIMED, Measuring
from didact.experiment.parts import parts_of
from didact.experiment.place import Place
from didact.experiment.rehearsal import Pace, peak_memory
from didact.experiment.roster import Entrant, Roster
from didact.experiment.run import Run
from didact.experiment.summary import interval_of
from didact.explainers.mix import Mix
from didact.records.explanations import Explanations
from didact.records.parts import Parts
from didact.records.store import Store, canonical
from didact.render.progress import Progress

_BUDGET: Final = 1.5  # seconds that one probe may take, where a row takes less
_MOST: Final = 64  # rows that are probed together: a batch
_PLACES: Final = (1 / 6, 1 / 2, 5 / 6)  # among the lengths of rows
_BATCHES: Final = 8  # that students rehearse with
_ANSWERED: Final = 256  # rows of dev, and of test, that they rehearse with
_REPLICATES: Final = 100  # of the bootstrap that are timed
_CACHED: Final = 16  # files of explanations that a process holds at most (`classroom`)
_UNIT: Final = 110  # bytes of memory for a unit of an explanation: its score, its place, its text
_SAID: Final = 1000  # bytes of a record beside its cell, its epochs and its trials


def over_rows(rows: Sequence[Row], work: Callable[[Sequence[Row]], Any], *, fixed: float = 0.0) -> float:
    """Seconds that `work` takes for all rows, from some of three lengths; between these, a straight line.

    `fixed` are the seconds of a call that do not depend on its rows.
    """
    if not rows:
        return 0.0
    lengths = np.array([sum(map(len, row.texts)) for row in rows], dtype=np.float64)
    order = np.argsort(lengths, kind="stable")

    def near(place: float, count: int) -> list[int]:
        start = min(max(int(place * len(rows)) - count // 2, 0), len(rows) - count)
        found: list[int] = order[start : start + count].tolist()
        return found

    def spent(chosen: Sequence[int]) -> float:
        began = time.perf_counter()
        work([rows[index] for index in chosen])
        return max(time.perf_counter() - began - fixed, 1e-9)

    spent(near(0.5, 1))  # the first time is slower
    count = min(max(int(_BUDGET / len(_PLACES) / spent(near(0.5, 1))), 1), _MOST)
    if len(rows) <= count * len(_PLACES):
        return fixed + spent(range(len(rows)))
    points = []
    for place in _PLACES:
        chosen = near(place, count)
        points.append((lengths[chosen].mean(), spent(chosen) / count))
    known, each = np.array(points).T
    found = np.interp(lengths, known, each)
    if known[-1] > 0:  # the longest take more than the longest that were probed
        found = np.where(lengths > known[-1], each[-1] * lengths / known[-1], found)
    return fixed + float(found.sum())


def makespan(seconds: Sequence[float], at_once: int) -> float:
    """When the last is done, where each in turn goes to whoever is free first."""
    free = [0.0] * at_once
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


@dataclass(eq=False)
class Forecaster:
    """A run that does not take place. `engine` rehearses cells, `at_once` of them; `real` is where the run would be.

    `loading` are the seconds that teacher, data and the checks of the plan took.
    """

    roster: Roster
    engine: Engine
    real: Place
    at_once: int
    workers: int
    loading: float
    progress: bool = False
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan, self.teacher, self.task = self.roster.plan, self.roster.teacher, self.roster.data.task
        self.rows: dict[str, tuple[Row, ...]] = {"train": self.roster.used}
        for name in ("dev", "test"):
            self.rows[name] = tuple(row for row in self.roster.data[name] if self.roster.is_known(row))
        self.each: dict[str, float] = {}  # by label the seconds to explain a row of train
        self.explained: dict[str, int] = {}  # by file the rows of explanations that are to be made
        self.kept: dict[tuple[str, int], Kept] = {}
        self.parts: dict[str, Kept] = {}
        self.names: dict[str, tuple[str, ...]] = {}  # by learner what it weighs
        self.helpers = 1  # that explain at once

    def forecast(self) -> Forecast:
        """Probe, and add up."""
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="didact-forecast-") as place, torch.inference_mode(False):
            self.run = Run(self.roster, Place(Path(place) / "run"))
            self.run.fingerprint = self._fingerprint()
            stages = [Stage("loading, checking", len(self.roster.entrants), "methods", self.loading)]
            with Progress("probing", total=len(self.roster.entrants) + 3, shown=self.progress) as bar:
                stages.append(self._asking())
                bar.advance()
                # A blend weighs what others explain, so these are located first.
                for one in sorted(self.roster.entrants, key=lambda one: one.role == "fresh"):
                    stages += self._explaining(one)
                    bar.advance()
                cells = self.run.cells(self._labelled(self.rows), self.kept, self.parts)
                todo = self._todo(cells)
                stages += self._teaching(todo)
                bar.advance()
                stages.append(self._table())
                stages += [self._measuring(Path(place), bool(todo))] if self.plan.measure else []
                bar.advance()
            return self._summary(stages, cells, todo, began)

    def _fingerprint(self) -> str:
        """The teacher's; one that had to be asked about every row is taken for unknown."""
        if isinstance(self.teacher, Model | HumanTeacher):
            return teacher_fingerprint(self.teacher, ())
        if (self.real.folder / "cells").is_dir():
            self.notes.append(
                "What the run has done already is taken for undone: a function is known only by all its answers."
            )
        return "unknown"

    # -- the teacher and the methods ----------------------------------------------------------------------------------

    def _asking(self) -> Stage:
        rows = [row for part in self.rows.values() for row in part]
        name = f"classroom/{self.run.name_of_rows(self.rows)}"
        self.real.use(name)
        try:
            read_rows(self.real.folder / name)
            rows = []
        except RecordError:
            pass
        return Stage("asking the teacher", len(rows), "rows", over_rows(rows, self.teacher.predict))

    def _explaining(self, one: Entrant) -> list[Stage]:
        """What an entrant's explanations take, or what its explainer is learned from."""
        if one.role == "fresh":
            return [self._weighing(one)]
        if one.method is None:
            return []
        label = str(one.method) if one.role == "sharpened" else one.label
        rows = 0
        for seed in self.plan.seeds if one.redrawn else self.plan.seeds[:1]:
            rows += self._locate(one, label, seed)
        for seed in self.plan.seeds:
            self.kept.setdefault((one.label, seed), self.kept[one.label, self.plan.seeds[0]])
        if not rows:
            return []
        if label not in self.each:
            self.each[label] = self._probed(one.for_seed(self.plan.seeds[0])) / len(self.rows["train"])
        seconds = self.each[label] * rows / self._shared(one.for_seed(self.plan.seeds[0]), rows)
        return [Stage(f"explaining: {label}", rows, "rows", seconds)]

    def _shared(self, method: Any, rows: int) -> int:
        """By how many at once so many rows are explained: by this process alone, unless the engine helps."""
        if not isinstance(self.engine, Helper):
            return 1
        asked, built = resolve(self.teacher, method, {})
        some = self.rows["train"][:1]
        work = Work(self.teacher, some, asked, built, 64, _made_up(self.teacher, some))
        found = min(self.engine.shards_at_once(work, self.run.background()), -(-rows // work.shard))
        self.helpers = max(self.helpers, found)
        return found

    def _locate(self, one: Entrant, label: str, seed: int) -> int:
        """Where explanations would be kept, and how many rows of them are missing there."""
        rows = self.roster.seed_rows(seed) if one.redrawn else self.roster.used
        method = one.for_seed(seed)
        assert method is not None
        folder = self.real.folder / "explanations"
        self.real.use(f"explanations/{slug(label)}-*.parquet")
        given = given_maps(method)
        if given is not None:
            kept = self.kept[one.label, seed] = kept_as(chosen(given, rows, label=label), label, whole=given)
            self.explained[kept.file] = 0 if (folder / kept.file).is_file() else len(rows)
            return 0
        found = located(
            folder, self.teacher, self.run.fingerprint, rows, method, label=label, background=self.run.background()
        )
        if found is None:  # its content decides, and that is not known
            self.kept[one.label, seed] = Kept(f"{slug(label)}-unknown.parquet", "unknown")
            self.explained[self.kept[one.label, seed].file] = len(rows)
            if self.real.folder.exists():
                self.notes.append(f"What is done with {label} is taken for undone: it is an object without a name.")
            return len(rows)
        self.kept[one.label, seed] = found.kept
        if found.kept.file in self.explained:  # as another entrant's
            return 0
        missing = len(unexplained(folder, rows, found))
        self.explained[found.kept.file] = missing
        return missing

    def _probed(self, method: Any) -> float:
        """Seconds to explain all rows of train."""
        background = self.run.background()
        explainer = resolve(self.teacher, method, {})[1].explainer
        began = time.perf_counter()
        if isinstance(explainer, Explainer):
            explainer.prepare(self.teacher, background)
        fixed = time.perf_counter() - began
        asked: dict[str, Any] = {"background_rows": background, **batches_of(self.teacher)}

        def work(rows: Sequence[Row]) -> None:
            explain(self.teacher, rows, method, outputs=_made_up(self.teacher, rows), **asked)

        return over_rows(self.rows["train"], work, fixed=fixed)

    def _weighing(self, one: Entrant) -> Stage:
        """What the parts of a learned explainer take. A blend's are explanations that are counted already."""
        assert one.learner is not None
        explainer = one.learner.explainer()
        rows = self.rows["train"]
        names = self.names[one.label] = explainer.part_names(self.teacher, rows[0])
        members = []
        if one.learner.family == "blend":
            members = [(name, self.kept.get((name, self.plan.seeds[0]), Kept("", name))) for name in names]
        found = self.parts[one.label] = located_parts(self.run.fingerprint, rows, explainer, members)
        self.real.use(f"explanations/{found.file}*")
        if Parts.is_whole(self.real.folder / "explanations" / found.file):
            return Stage(f"weighing: {one.label}", 0, "rows", 0.0)
        self.explained[found.file] = len(rows)
        seconds = 0.0
        if not members:
            asked: dict[str, Any] = {"background_rows": self.run.background(), **batches_of(self.teacher)}
            seconds = over_rows(rows, lambda some: parts_of(self.teacher, some, one.learner.explainer(), **asked))  # type: ignore[union-attr]
        self.each[one.label] = seconds / len(rows)
        return Stage(f"weighing: {one.label}", len(rows), "rows", seconds)

    # -- the students -------------------------------------------------------------------------------------------------

    def _todo(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells that are not done, in their order; of a group that is not whole all."""
        self.real.share(cell.key for cell in cells)
        store = Store(self.real.folder / "cells")
        groups = leaders(cells)
        first = {key: leader for leader, keys in groups.items() for key in keys}
        whole = {leader: all(finished(store, key) is not None for key in keys) for leader, keys in groups.items()}
        return [cell for cell in cells if not whole[first[cell.key]]]

    def _teaching(self, todo: Sequence[Cell]) -> list[Stage]:
        """What the cells take: those that learn explainers, then all others."""
        self.paces: dict[tuple[Any, ...], Pace] = {}
        if not todo:
            return []
        units = [cell for cell in todo if not cell.together or cell.key == cell.together[0]]
        kinds = {_kind(cell): cell for cell in reversed(units)}
        self._rehearse(kinds, todo)
        dev, test = len(self.rows["dev"]), len(self.rows["test"])
        stages = []
        for name, learns in (("learning explainers", True), ("teaching students", False)):
            own = [cell for cell in units if (cell.learner is not None) == learns and _kind(cell) in self.paces]
            if not own:
                continue
            files = len({cell.maps for cell in own if cell.maps is not None})
            once = sum(self.paces[kind].encode for kind in {_kind(one)[:2]: _kind(one) for one in own}.values())
            ready = self.starting + once * sum(map(len, self.rows.values()))
            ready += self.reading * files * len(self.rows["train"])
            seconds = makespan(
                [self.paces[_kind(cell)].seconds(cell, dev=dev, test=test) for cell in own], self.at_once
            )
            count = sum(len(cell.together) or 1 for cell in own)
            stages.append(Stage(name, count, "cells", ready + seconds))
        return stages

    def _rehearse(self, kinds: Mapping[tuple[Any, ...], Cell], todo: Sequence[Cell]) -> None:
        """Every kind of cell in small, by as many processes at once as the run would have."""
        folder = self.run.folder
        batch = max(cell.training["batch_size"] for cell in kinds.values())
        learners = [parse_learner(cell.learner) for cell in kinds.values() if cell.learner is not None]
        judged = max((one.smat.outer_batch or 0 for one in learners), default=0)
        most = {"train": _BATCHES * max(batch, judged)}
        sample = {name: _spread(rows, most.get(name, max(_ANSWERED, judged))) for name, rows in self.rows.items()}
        labelled = self._labelled(sample)
        self.run.rows_file = "rows.parquet"
        write_rows(folder / "classroom" / self.run.rows_file, labelled, task=self.task, classes=self.teacher.classes)
        rows = sample["train"]
        maps = replace(explain(self.teacher, rows, "random", outputs=labelled["train"].outputs), images=None)
        maps.save(folder / "explanations" / "maps.parquet")
        self.units = len(maps.scores) / len(maps)
        self.map_bytes = (folder / "explanations" / "maps.parquet").stat().st_size / len(maps)
        began = time.perf_counter()
        Explanations.load(folder / "explanations" / "maps.parquet")
        self.reading = (time.perf_counter() - began) / len(maps)
        self.row_bytes = (folder / "classroom" / self.run.rows_file).stat().st_size / sum(map(len, sample.values()))
        self.sampled = sum(map(len, sample.values()))
        for label, names in self.names.items():
            values = np.random.default_rng(0).normal(size=(len(maps.scores), len(names))).astype(np.float32)
            Parts(maps, names, values).save(folder / "explanations" / f"parts-{slug(label)}")
        cells, copies = self._small(kinds, todo, len(rows))
        manifest = self.run.manifest(cells)
        store = Store(folder / "cells")
        began = time.perf_counter()
        told = {one.key: one for one in self.engine.run(manifest, [key for keys in copies.values() for key in keys])}
        wall, spent = time.perf_counter() - began, 0.0
        for kind, keys in copies.items():
            done = [store.load(key).payload for key in keys if told[key].status == "done"]
            if not done:
                cell, error = kinds[kind], told[keys[0]].error
                self.notes.append(f"{cell.explainer} with {cell.student} cannot be rehearsed, and may fail: {error}")
                continue
            spent += sum(one["seconds"] for one in done)
            paces = [Pace.of_payload(one) for one in done]
            self.paces[kind] = max(paces, key=lambda one: one.taught.step)
        self.starting = max(wall - spent / self.at_once, 0.0)

    def _small(
        self, kinds: Mapping[tuple[Any, ...], Cell], todo: Sequence[Cell], rows: int
    ) -> tuple[list[Cell], dict[tuple[Any, ...], list[str]]]:
        """The cells to rehearse, and by kind the keys to ask for."""
        by_key = {cell.key: cell for cell in todo}
        cells: list[Cell] = []
        copies: dict[tuple[Any, ...], list[str]] = {kind: [] for kind in kinds}
        for copy in range(self.at_once):
            for kind, cell in kinds.items():
                group = [by_key[key] for key in cell.together] or [cell]
                keys = [f"{one.key}-{copy}" for one in group]
                for one, key in zip(group, keys, strict=True):
                    has_maps = one.maps is not None or one.learner is not None
                    cells.append(
                        replace(
                            one, key=key, size=min(one.size, rows), maps="maps.parquet" if has_maps else None,
                            parts=None if one.learner is None else f"parts-{slug(one.learner)}",
                            together=keys if cell.together else (), extra=False,
                        )
                    )  # fmt: skip
                copies[kind].append(keys[0])
        return cells, copies

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _table(self) -> Stage:
        """What intervals take: some replicates of one row of the table, for all."""
        columns = len(self.roster.students) * len(self.plan.sizes)
        rows = (len(self.roster.entrants) - 1) * columns
        dice = np.random.default_rng(0)
        arm, control = (list(dice.random((len(self.plan.seeds), len(self.rows["test"])))) for _ in range(2))
        reference = dice.random(len(self.rows["test"])) if self.task.measure == "pearson" else None
        timed = min(self.plan.replicates, _REPLICATES)
        seconds = 0.0
        if timed:
            began = time.perf_counter()
            interval_of(arm, control, reference, replicates=timed)
            seconds = (time.perf_counter() - began) * self.plan.replicates / timed * rows
        return Stage("intervals", rows, "gains", seconds)

    def _measuring(self, place: Path, is_undone: bool) -> Stage:
        """What `measure` takes, from two small numbers of rows; nothing where all is done and the rows are measured."""
        learned: dict[str, Mix] = {}
        for one in self.roster.entrants:
            if one.role == "fresh" and one.learner is not None:
                learned[one.label] = one.learner.static(self.names[one.label])
        wanted = min(self.plan.measure, len(self.rows["test"]))

        def measuring(folder: Path) -> Measuring:
            return Measuring(self.roster, folder, self.run.fingerprint, self.run.background(), learned)

        def spent(rows: int, name: str) -> float:
            began = time.perf_counter()
            measuring(place / name).done(rows)
            return time.perf_counter() - began

        self.real.use("measured.json")
        if not is_undone and measuring(self.real.folder).has(wanted):
            return Stage("measuring", 0, "rows", 0.0)

        few = min(4, wanted)
        first = spent(few, "first")  # slower than those after it
        is_quick = first < 4 * _BUDGET
        few, more = (TIMED, 3 * TIMED) if is_quick else (few, 2 * few)
        if wanted <= more:
            return Stage("measuring", wanted, "rows", spent(wanted, "all") if is_quick else first * wanted / few)
        less, several = spent(few, "less") if is_quick else first, spent(more, "more")
        each = max(several - less, 0.0) / (more - few)
        seconds = several + each * (wanted - more)
        if not is_quick:  # what methods cost is measured on TIMED rows alone, by explaining them once more
            again = sum(self.each.get(one.label, 0.0) for one in self.roster.entrants if not one.is_control)
            seconds -= min(again, each / 2) * max(wanted - TIMED, 0)
        return Stage("measuring", wanted, "rows", seconds)

    def _labelled(self, splits: Mapping[str, Sequence[Row]]) -> dict[str, Labelled]:
        """As the classroom keeps them: without labels and rationales."""
        bare = {name: tuple(Row(row.id, row.texts, row.image) for row in rows) for name, rows in splits.items()}
        return {name: Labelled(rows, _made_up(self.teacher, rows)) for name, rows in bare.items()}

    def _summary(self, stages: Sequence[Stage], cells: Sequence[Cell], todo: Sequence[Cell], began: float) -> Forecast:
        everything = sum(map(len, self.rows.values()))
        count = len({cell.key for cell in cells})
        worker = None
        known = [pace for pace in self.paces.values() if pace.memory is not None]
        if known:
            files = min(len({cell.maps for cell in todo if cell.maps is not None}), _CACHED)
            train = self.units * len(self.rows["train"])
            weighed = max((len(names) for names in self.names.values()), default=0) * 4
            held = max(pace.held for pace in known) * max(everything - self.sampled, 0)
            peak = max(pace.memory or 0 for pace in known)
            worker = int(peak + held + train * (_UNIT * files + weighed))
        kept = count - len({cell.key for cell in todo})
        free = _free(self.real.folder)
        is_far = isinstance(self.engine, Helper)
        if is_far and todo:
            self.notes.append("The cells' memory is that of all machines of the cluster; that of GPUs is not known.")
        if self.helpers > 1 and self.plan.measure:
            self.notes.append("Measuring is forecast as this process alone would do it; the cluster explains for it.")
        return Forecast(
            tuple(stages), count, kept, self.at_once, self.workers if todo else 0, peak_memory(), worker,
            None if is_far else _all_memory(),
            self._disk(todo), free, time.perf_counter() - began,
            (*self.roster.notes, *self.notes),
        )  # fmt: skip

    def _disk(self, todo: Sequence[Cell]) -> int:
        """Bytes of the files that the run will write."""
        if not todo:
            return 0
        width = 1 if self.teacher.classes is None else len(self.teacher.classes)
        width = 2 if self.task.name == "reading" else width
        answers = 8 * width * len(self.rows["test"])
        found = self.row_bytes * sum(map(len, self.rows.values()))
        found += self.map_bytes * sum(self.explained.values())
        made = {cell.maps for cell in todo} - {kept.file for kept in self.kept.values()} - {None}
        found += self.map_bytes * sum(
            cell.size for cell in {cell.maps: cell for cell in todo if cell.maps in made}.values()
        )
        for label, names in self.names.items():
            found += 4 * len(names) * self.units * self.explained.get(self.parts[label].file, 0)
        for cell in {cell.key: cell for cell in todo}.values():
            told = 80 * cell.training["epochs"] + 60 * len(cell.trials)
            found += answers + len(canonical(cell.plain())) + told + _SAID
        return int(found)


def _kind(cell: Cell) -> tuple[Any, ...]:
    """What decides how fast a cell is, beside its rows and epochs."""
    is_explained = cell.maps is not None
    return cell.start, cell.student, cell.strategy, is_explained, cell.learner, len(cell.together)


def _spread(rows: Sequence[Row], count: int) -> tuple[Row, ...]:
    """So many rows of all lengths, the longest among them, in their order."""
    if len(rows) <= count:
        return tuple(rows)
    order = np.argsort([sum(map(len, row.texts)) for row in rows], kind="stable")
    chosen = order[np.linspace(0, len(rows) - 1, count).round().astype(np.int64)]
    return tuple(rows[place] for place in sorted(chosen.tolist()))


def _made_up(teacher: Any, rows: Sequence[Row]) -> Outputs:
    """Answers that nobody gave: how long it takes to learn them is the same."""
    task: Task = teacher.task
    ids, count = tuple(row.id for row in rows), len(rows)
    if task.name == "reading":
        words = [words_of(row.texts[1:])[0] for row in rows]  # the first of each passage
        values = np.array([[float(word.start), float(word.end)] for word in words])
        said = tuple((row.texts[1][word.start : word.end],) for row, word in zip(rows, words, strict=True))
        return Outputs(task, ids, values, said)
    if teacher.classes is None:
        return Outputs(task, ids, np.random.default_rng(0).normal(size=(count, 1)))
    values = np.zeros((count, len(teacher.classes)))
    values[np.arange(count), np.arange(count) % len(teacher.classes)] = 1.0
    return Outputs(task, ids, values)


def _free(folder: Path) -> int | None:
    """Bytes that are free where the folder is, or would be."""
    for place in (folder, *folder.absolute().parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return None


def _all_memory() -> int | None:
    """Bytes that this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
