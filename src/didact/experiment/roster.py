"""Who takes part in a comparison: explainers and controls, students and where they start, rows to draw from."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from didact.core.dataset import Dataset
from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import DidactError, PlanError
from didact.experiment.config import CONTROLS, CompareConfig
from didact.experiment.defaults import TRAIN_SIZE, default_methods, default_student, student_sentence
from didact.experiment.learner import Learner, is_learner, parse_learner
from didact.experiment.sampling import Answers, Sample
from didact.experiment.subset import balanced_counts, balanced_subset, subset
from didact.explainers import is_learned
from didact.explainers.build import build_explainer, knows_option
from didact.explainers.learned import Learned, load_explainer
from didact.explainers.mix import Mix
from didact.explaining.cache import Method, chosen
from didact.explaining.explain import explain
from didact.explaining.method_options import resolve
from didact.explaining.score_checks import unjudged
from didact.learning.fit import Training
from didact.learning.teach import student_training
from didact.models.student_init import StudentInit, student_init
from didact.records.explanations import Explanations
from didact.registry import Spec, parse_spec
from didact.students.build import StudentSpec, build_strategy, strategy_options

# What stands beside a learned explainer (DESIGN: fair controls). `fresh` is the explainer's own row.
Role = Literal["", "fresh", "cotrained", "flattened", "matched", "sharpened", "extra"]
# The method that each family starts as.
_STATIC: Final = {"attention_mix": "attention_all", "gradient_mix": "gradient_mix"}


@dataclass(frozen=True, eq=False)
class Entrant:
    """One row of the table: an explainer, or a control. `redrawn` ones are drawn anew for every seed.

    Rows with a `learner` are made by what it learns: with a student of their own (cotrained), frozen for new students
    (fresh), as flat as it was before it learned (flattened), or its start made as sharp as it became (matched).
    """

    label: str
    method: Method | None
    is_control: bool
    redrawn: bool = False
    role: Role = ""
    learner: Learner | None = None

    def for_seed(self, seed: int) -> Method | None:
        if not self.redrawn:
            return self.method
        spec = parse_spec(str(self.method))
        return str(Spec(spec.name, {**spec.options, "seed": seed}))


class Roster:
    """Everything that takes part, checked on two rows before hours of work. `notes` tell what was left out, and why.

    `plan` is the plan with all that it left open: explainers, students and sizes. `probe_seconds` is by label what
    explaining two rows took. Without `probe` nothing is tried: for a plan whose parts were tried before.
    """

    def __init__(
        self,
        plan: CompareConfig,
        teacher: Any,
        data: Dataset,
        methods: Sequence[Method],
        *,
        sample: Sample | None = None,
        probe: bool = True,
    ) -> None:
        self.plan = plan
        self.teacher: Teacher = HumanTeacher(data.task, data.classes) if teacher == "human" else teacher
        self.faults: list[str] = []
        self.probe_seconds: dict[str, float] = {}
        if sample is None:
            check_fit(self.teacher, data)
            sample = Sample(data, Answers(self.teacher))
        self.sample, self.data, self.notes = sample, sample.data, list(sample.notes)
        self.chosen: set[str] = set()  # methods that didact chose: one that the teacher cannot serve is left out
        if not plan.explainers and not methods:
            names = default_methods(self.teacher)
            self.chosen = set(names)
            self.plan = plan.with_fields(explainers=names)
        self.entrants = self._entrants(methods)
        self._add_companions()
        self._tell_choices()
        self._check_seen()
        self.pool = self._pool()
        self.used = self._used()
        self.students = self._students()
        self.starts = self._starts()
        self.skipped: set[tuple[str, str]] = set()
        if probe:
            self._probe()
        if not self.plan.explainers and not methods:
            self.faults.append("explainers: name at least one to compare, e.g. occlusion. `didact methods` lists them.")
        if self.faults:
            raise _refused(self.faults)

    @property
    def is_balanced(self) -> bool:
        return self.sample.balance is not None

    def _left_out(self, label: str, error: DidactError) -> bool:
        """Leave a method out that didact chose itself and that cannot be used here; False for one asked for."""
        if label not in self.chosen:
            return False
        self.notes.append(f"{label} is left out, since this model cannot serve it: {error}")
        self.entrants = [one for one in getattr(self, "entrants", []) if one.label != label]
        explainers = tuple(name for name in self.plan.explainers if name != label)
        self.plan = self.plan.with_fields(explainers=explainers)
        return True

    def _entrants(self, methods: Sequence[Method]) -> list[Entrant]:
        found = [Entrant("none", None, True)]
        asked: list[Method] = [*self.plan.explainers, *methods]
        for name in CONTROLS[1:]:
            if name not in asked and not self._is_left_out(name) and self._is_possible(name):
                found.append(Entrant(name, name, True, redrawn=name == "random"))
        for method in asked:
            if method == "none":
                continue
            label = self._label(method, {one.label for one in found})
            redrawn = False
            if is_learner(method):
                learner = parse_learner(str(method))
                found.append(Entrant(label, None, False, role="fresh", learner=learner))
                continue
            if _is_spec(method):
                assert isinstance(method, str)
                try:
                    _, built = resolve(self.teacher, method, {})
                except DidactError as error:
                    if not self._left_out(method, error):
                        self.faults.append(f"explainers: {error}")
                    continue
                drawn = bool(getattr(built.explainer, "is_redrawn", False))
                redrawn = drawn and "seed" not in parse_spec(method).options and knows_option(built.name, "seed")
            found.append(Entrant(label, method, _is_spec(method) and method in CONTROLS, redrawn))
        return found

    def _add_companions(self) -> None:
        """What must stand beside a learned explainer, so that its row can be read."""
        learners = [one.learner for one in self.entrants if one.learner is not None]
        if not learners:
            return
        found: list[Entrant] = []
        statics: list[str] = []
        for learner in learners:
            found.append(Entrant(learner.row("cotrained"), None, True, role="cotrained", learner=learner))
            static = _STATIC.get(learner.family)
            if static is None:  # the members of a blend are what it is held against
                found += [Entrant(name, name, True) for name in self._members(learner)]
                continue
            is_plain = not set(learner.spec.options) - {"family"}
            name = f"{static}(matched)" if is_plain else f"{static}(matched, {learner.label})"
            found.append(Entrant(learner.row("flattened"), None, True, role="flattened", learner=learner))
            found.append(Entrant(name, None, True, role="matched", learner=learner))
            statics.append(static)
        for static in dict.fromkeys(statics):
            found.append(Entrant(static, static, True))
            found.append(Entrant(f"{static}(sharpened)", static, True, role="sharpened"))
        if any(learner.smat.outer == "dev" for learner in learners):
            found.append(Entrant("none+extra", None, True, role="extra"))
        taken = {one.label for one in self.entrants}
        for one in found:
            if one.label not in taken and not self._is_left_out(one.role):
                self.entrants.append(one)
                taken.add(one.label)

    def _tell_choices(self) -> None:
        """What a reader of the table would take for granted, and the plan has otherwise."""
        left = [name for name in self.plan.skip_controls if name not in {one.label for one in self.entrants}]
        if left:
            self.notes.append(f"Left out as the plan asks: {', '.join(left)}.")
        sharp = [one.label for one in self.entrants if one.role == "sharpened"]
        if sharp and len(self.plan.temperatures) == 1:
            self.notes.append(
                f"{', '.join(sharp)}: the temperature is {self.plan.temperatures[0]:g}, fixed beforehand and "
                "not chosen "
                "on dev."
            )

    def _check_seen(self) -> None:
        """A learned explainer says which rows it saw, and of which teacher: never those that students are tested on."""
        for one in self.entrants:
            found = load_explainer(one.method) if isinstance(one.method, str) and is_learned(one.method) else one.method
            if not isinstance(found, Learned) or not found.learned:
                continue
            seen = set(found.learned.get("rows", ()))
            tested = sum(fingerprint_of([row]) in seen for row in self.data["test"])
            if tested:
                self.faults.append(
                    f"explainers: {one.label} learned from {tested} of the rows in 'test': it would be judged by what "
                    "it saw. Learn it from other rows."
                )
            else:
                anew = (
                    " Name `smat` to have it learned from each student's rows alone." if isinstance(found, Mix) else ""
                )
                self.notes.append(
                    f"{one.label} saw the teacher's answers to {len(seen):,} rows when it was learned; students taught "
                    f"by others did not.{anew}"
                )
            told = found.learned.get("teacher_fingerprint")
            if isinstance(self.teacher, Model) and told not in (None, self.teacher.fingerprint()):
                self.notes.append(f"{one.label} was learned for another teacher ({found.learned.get('teacher')}).")

    def _members(self, learner: Learner) -> tuple[str, ...]:
        try:
            return learner.explainer().part_names(self.teacher, self.data["train"][0])
        except DidactError as error:
            self.faults.append(f"explainers: {learner.label}: {error}")
            return ()

    def _is_left_out(self, name: str) -> bool:
        return name in self.plan.skip_controls

    def _is_possible(self, control: str) -> bool:
        """Whether a control has a meaning here. What has none is left out, and the table says so."""
        if control == "trivial" and not self.data.task.has_classes:
            self.notes.append(f"The control 'trivial' gives away a class, and {self.data.task} has none.")
            return False
        if control == "human":
            marked = sum(row.rationale is not None for row in self.data["train"])
            if not 0 < marked == len(self.data["train"]):
                if marked:
                    self.notes.append(
                        f"The control 'human' is left out: {marked} of {len(self.data['train'])} train rows have a "
                        "rationale. Ask for it by name to keep to those rows."
                    )
                return False
        return True

    def _label(self, method: Method, taken: set[str]) -> str:
        """What the row of the table is called: no two alike, and none like a control or a spec that is asked for."""
        if isinstance(method, str) and _is_spec(method):
            return method
        if isinstance(method, str):
            name = Path(method).name.removesuffix(".parquet")
        else:
            name = method.method if isinstance(method, Explanations) else build_explainer(method).name
        number = 2
        label = name
        while label in taken | {*CONTROLS, *self.plan.explainers}:
            label, number = f"{name}#{number}", number + 1
        return label

    def _pool(self) -> tuple[Row, ...]:
        """The rows that subsets are drawn from: those that the teacher and the explainers can speak of."""
        rows = self.data["train"].rows
        if any(_is_spec(one.method) and str(one.method).partition("(")[0] == "human" for one in self.entrants):
            kept = tuple(row for row in rows if row.rationale is not None)
            if len(kept) < len(rows):
                self.notes.append(f"{len(rows) - len(kept)} of {len(rows)} train rows have no rationale: left out.")
            rows = kept
        rows = tuple(row for row in rows if self.is_known(row))
        self._pool_labels = self.sample.answers.labels(rows) if self.is_balanced else []
        most = len(rows)
        if self.is_balanced:
            most = sum(balanced_counts(list(Counter(self._pool_labels).values()), len(rows)))
        if not self.plan.train_sizes:
            self.plan = self.plan.with_fields(train_sizes=(max(min(TRAIN_SIZE, most), 1),))
        if max(self.plan.train_sizes) > most and self.is_balanced:
            self.notes.append(f"Only {most:,} rows can be drawn balanced: sizes above that are cut to it.")
            self.plan = self.plan.with_fields(
                train_sizes=tuple(sorted({min(size, most) for size in self.plan.train_sizes}))
            )
        elif max(self.plan.train_sizes) > most:
            self.faults.append(
                f"train_sizes: {max(self.plan.train_sizes):,} rows were asked for, and {self.data.name!r} has {most:,} "
                "to draw from. Take smaller sizes."
            )
        return rows

    def seed_rows(self, seed: int, size: int | None = None) -> list[Row]:
        """The rows that a student of this seed sees; the largest student, where no size is given."""
        size = size or max(self.plan.train_sizes)
        ids = [row.id for row in self.pool]
        if self.is_balanced:
            places = balanced_subset(ids, self._pool_labels, size=size, seed=seed)
        else:
            places = subset(ids, size=size, seed=seed)
        return [self.pool[place] for place in places]

    def _used(self) -> tuple[Row, ...]:
        """All rows that any student sees, in the order of the data."""
        used = {row.id for seed in self.plan.seeds for row in self.seed_rows(seed)}
        return tuple(row for row in self.pool if row.id in used)

    def takes_part(self, one: Entrant, student: StudentSpec) -> bool:
        """Whether there are runs of this row of the table with this student."""
        if (one.label, str(student)) in self.skipped:
            return False
        if student.strategy.name == "none" and (one.method is not None or one.learner is not None):
            return False
        return one.role != "sharpened" or "temperature" in strategy_options(student.strategy)

    def kinds_of_runs(self, labels: Sequence[str]) -> int:
        """The different runs of one seed and size. Without explanations, students of all strategies are the same."""
        kinds: set[tuple[Any, ...]] = set()
        for one in self.entrants:
            for student in self.students:
                if one.label not in labels or not self.takes_part(one, student):
                    continue
                trials = 1 if one.role == "extra" else len(self.plan.trials(student.strategy))
                is_plain = one.method is None and one.learner is None
                kind = (student.architecture, student.optimiser, trials) if is_plain else (str(student),)
                kinds.add((one.label, *kind))
        return len(kinds)

    def is_known(self, row: Row) -> bool:
        return not isinstance(self.teacher, HumanTeacher) or self.teacher.knows(row)

    def _students(self) -> tuple[StudentSpec, ...]:
        if self.plan.students:
            return self.plan.students
        return (default_student(self.teacher, self.data.task, self.plan.base),)

    def _starts(self) -> dict[str, StudentInit]:
        found: dict[str, StudentInit] = {}
        for student in self.students:
            if student.architecture in found:
                continue
            try:
                found[student.architecture] = student_init(
                    student.architecture, teacher=self.teacher, task=self.data.task, classes=self.teacher.classes,
                    rows=self.pool, read_rows=(*self.pool, *self.data["dev"], *self.data["test"]),
                    base=self.plan.base, trust_remote_code=self.plan.trust_remote_code,
                )  # fmt: skip
            except DidactError as error:
                self.faults.append(f"students: {student.architecture}: {error}")
        return found

    def _probe(self) -> None:
        """Explain two rows with every method and teach every student with them, so that what is refused is told now."""
        rows = self.used[:2]
        if not rows:
            return  # a fault already: no size is that small
        maps: dict[str, Explanations] = {}
        for one in self.entrants:
            if one.role == "fresh":
                self._probe_learner(one, rows)
            if one.method is None:
                continue
            try:
                began = time.perf_counter()
                maps[one.label] = self._explained_here(one, rows)
                self.probe_seconds[one.label] = time.perf_counter() - began
            except DidactError as error:
                if not self._left_out(one.label, error):
                    self.faults.append(f"explainers: {one.label}: {error}")
        for student in self.students:
            start = self.starts.get(student.architecture)
            if start is None:
                continue
            try:
                model = start.build(0)
                batch = model.encode(rows)
                strategy = build_strategy(student.strategy)
                strategy.attach(model, batch)
            except DidactError as error:
                self.faults.append(f"students: {student}: {error}")
                continue
            for label, found in maps.items():
                if student.strategy.name == "alignment" and found.alignments is None:
                    self.skipped.add((label, str(student)))
                    continue
                try:
                    strategy.lesson(found, batch)
                except DidactError as error:
                    self.faults.append(f"students: {student} with {label}: {error}")
            if student.strategy.name == "alignment":
                left = sorted(label for label, name in self.skipped if name == str(student))
                if left:
                    self.notes.append(f"{student} needs aligned spans, which {', '.join(left)} do not give: left out.")

    def _probe_learner(self, entrant: Entrant, rows: Sequence[Row]) -> None:
        """Whether the teacher can serve the family, students can be taught by it, and there are rows enough."""
        learner = entrant.learner
        assert learner is not None
        try:
            with unjudged():
                explain(self.teacher, rows, learner.explainer(), background_rows=rows)
        except DidactError as error:
            self.faults.append(f"explainers: {entrant.label}: {error}")
        for student in self.students:
            options = strategy_options(student.strategy)
            if student.strategy.name != "attention" or options["send"] != "whole":
                labels = [one.label for one in self.entrants if one.learner == learner]
                self.skipped |= {(label, str(student)) for label in labels}
                self.notes.append(
                    f"{learner.label} is learned through what it sends whole: left out for student {student}."
                )
            elif student.architecture in self.starts:
                training = self.training(student)
                size = learner.smat.outer_batch or training.batch_size
                needed = training.batch_size + (size if learner.smat.outer == "train" else 0)
                if min(self.plan.train_sizes) < needed:
                    self.faults.append(
                        f"train_sizes: {entrant.label} needs {needed} rows to learn from ({training.batch_size} to "
                        f"teach {student} and {needed - training.batch_size} others to judge it by), and "
                        f"{min(self.plan.train_sizes)} were asked for. Take larger sizes, or a smaller batch_size."
                    )

    def sentence(self, student: StudentSpec) -> str:
        """What the student is and where it starts, for people."""
        return student_sentence(student, self.teacher, self.starts[student.architecture].origin)

    def training(self, student: StudentSpec) -> Training:
        """How this student is trained."""
        kind = student_training(self.starts[student.architecture].build(0), student.optimiser)
        return replace(kind, **self.plan.training, precision=self.plan.precision, balanced=self.is_balanced)

    def _explained_here(self, entrant: Entrant, rows: Sequence[Row]) -> Explanations:
        method = entrant.for_seed(self.plan.seeds[0])
        if isinstance(method, str) and method.endswith(".parquet"):
            method = Explanations.load(method)
        if isinstance(method, Explanations):  # all that will be needed must be there
            return chosen(chosen(method, self.used, label=entrant.label), rows, label=entrant.label)
        assert method is not None
        known = isinstance(self.teacher, FunctionTeacher)  # its answers may cost something
        outputs = self.sample.answers.of(rows) if known else None
        with unjudged():
            return explain(self.teacher, rows, method, background_rows=rows, outputs=outputs)


def check_fit(teacher: Teacher, data: Dataset) -> None:
    """Refuse a teacher and data of different tasks, and splits that would end a run half way."""
    faults = []
    if teacher.task != data.task:
        faults.append(f"data: {data.name!r} is {data.task}, and the teacher does {teacher.task}.")
    elif isinstance(teacher, HumanTeacher) and teacher.classes is not None and teacher.classes != data.classes:
        faults.append("model: the teacher 'human' must have the classes of the data.")
    for split in ("train", "dev", "test"):
        if split not in data or not len(data[split]):
            faults.append(f"data: {data.name!r} has no rows in {split!r}, which students need.")
        else:
            faults += [f"data: {fault}" for fault in _split_faults(teacher, data, split)]
    if faults:
        raise _refused(faults)


def _split_faults(teacher: Teacher, data: Dataset, split: str) -> list[str]:
    """What would end a run half way, or pair answers with the wrong rows."""
    rows = data[split].rows
    faults = []
    known = sum(not isinstance(teacher, HumanTeacher) or teacher.knows(row) for row in rows)
    least = 2 if split == "test" else 1
    if known < least:
        faults.append(f"{split!r} has {known} rows that the teacher can answer, and needs {least} at least.")
    twice = [name for name, count in Counter(row.id for row in rows).items() if count > 1]
    if twice:
        faults.append(f"two rows in {split!r} share an id; ids must differ: {', '.join(map(str, twice[:3]))}.")
    blank = [row.id for row in rows if row.image is None and not any(text.strip() for text in row.texts)]
    if blank:
        faults.append(f"{len(blank)} rows in {split!r} are empty texts; leave them out: {', '.join(blank[:3])}.")
    return faults


def _is_spec(method: Method | None) -> bool:
    """Whether it is a name with options, and no file or folder."""
    return isinstance(method, str) and not method.endswith(".parquet") and not is_learned(method)


def _refused(faults: Sequence[str]) -> PlanError:
    return PlanError(f"The plan has {len(faults)} fault{'s' * (len(faults) > 1)}; nothing was computed:", faults)
