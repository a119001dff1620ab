"""Learns SMaT explainers outside a comparison: `didact learn smat`."""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.measure import measure
from didact.core.row import Row, fingerprint_of
from didact.core.seeds import seed_from
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.data.subset import subset
from didact.errors import OptionError, RecordError
from didact.explainers import EXPLAINERS
from didact.explainers.mix import ComponentMix
from didact.explaining.component_scores import compute_component_scores
from didact.explaining.input_rows import explains_gold_label
from didact.files.atomic import check_new_folder, write_bytes, write_text
from didact.files.store import key_of
from didact.learned.smat_spec import Learner, learner_of
from didact.learning.choose import choose_by_new_students
from didact.learning.defaults import default_student
from didact.learning.fit import Examples, Training, predict_in_order
from didact.learning.smat import run_smat
from didact.learning.smat_checks import check_row_counts
from didact.learning.smat_options import SmatResult
from didact.learning.student_objects import DEFAULT, as_student_spec
from didact.learning.target_scaler import TargetScaler
from didact.learning.teach import STUDENT_FROM_SCRATCH, STUDENT_PRETRAINED, student_training
from didact.models import MODELS
from didact.models.load import load_teacher
from didact.models.student_init import StudentInit, student_init
from didact.option_types import check_option_types
from didact.registry import unknown_name_message
from didact.results.component_scores import ComponentScores
from didact.results.documents import plain
from didact.students.build import StudentSpec, build_strategy, parse_student, strategy_options

log = logging.getLogger(__name__)

METRICS_FILE: Final = "metrics.json"


def learn_smat(
    teacher: Any,
    data: Any,
    *,
    family: str = "attention_mix",
    student: Any = None,
    size: int = 500,
    seed: int = 0,
    base: str | Path | None = None,
    soft: bool = False,
    training: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    trust_remote_code: bool = False,
    classes: Sequence[str] | None = None,
    **options: Any,
) -> ComponentMix:
    """Learn explanations that teach: SMaT (Fernandes et al. 2022).

    A student learns from the explanations, and the explainer learns what helps that student. To see whether the result
    teaches better than its components, pass the folder or `smat` to `compare`.

    Args:
        teacher: The model.
        data: A data set, or its name. Learning uses the split `explain`, or `train` if the data lack it; `dev` chooses
            the epoch.
        family: What is weighed: attention_mix (heads), gradient_mix (layers), or blend (other methods).
        student: The student to learn with (default: one that suits the teacher).
        size: Number of rows to learn from.
        seed: Seed of rows and first weights.
        base: Pretrained model that the student starts from.
        soft: Learn the teacher's probabilities instead of its predicted classes.
        training: Options of the student's training, such as `{"epochs": 5}`.
        out: Folder to save the explainer in, with pictures of its weights. A stopped call resumes when it is repeated.
        overwrite: Replace an explainer in `out`.
        progress: Show a progress bar.
        trust_remote_code: Run code that comes with a model.
        classes: The data's class names in the teacher's order, if names differ and gold labels are explained.
        **options: Options of learning (outer, pilot, outer_rate, route, keep, …) and of the family (normaliser,
            temperature, members, …); docs/smat.md lists them.

    Returns:
        The explainer. `explainer.learned["metrics"]` holds what was measured.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        explainer = didact.learn_smat(teacher, data, size=60, training={"epochs": 2})
        didact.explain(teacher, ["a good film"], explainer).show()
        ```
    """
    learner = learner_of({"family": family, **options})
    student = None if student is None else str(as_student_spec(student))
    requested_training = checked_training(training)
    folder = None if out is None else check_new_folder(Path(out), overwrite=overwrite)
    loaded_data = data if isinstance(data, Dataset) else load_data(data)
    check_smat(loaded_data, learner, student=student, size=size, training=requested_training)
    loaded_teacher = load_teacher(teacher, trust_remote_code=trust_remote_code)
    loaded_data = align_labels(
        loaded_data, loaded_teacher, classes=classes, required=explains_gold_label(family, options)
    )
    job = _SmatJob(
        loaded_teacher,
        loaded_data,
        learner,
        student,
        size,
        seed,
        None if base is None else str(base),
        soft,
        requested_training,
        trust_remote_code,
    )
    working_folder = None if folder is None else folder.with_name(f"{folder.name}.learning")
    explainer, learned, metrics = job.learn(working_folder, progress)
    metrics, epochs = plain(metrics), [plain(asdict(epoch)) for epoch in learned.history]
    explainer.learned = job.provenance() | {
        "metrics": metrics, "route": learned.route, "epochs": epochs,
        "notes": list(learned.notes),
    }  # fmt: skip
    if folder is not None and working_folder is not None:
        explainer.save_pretrained(folder, overwrite=overwrite)
        write_text(folder / METRICS_FILE, json.dumps(metrics, indent=2) + "\n")
        view = explainer.view(f"{learner.label} of {loaded_teacher.name}")
        for kind in ("png", "svg"):
            write_bytes(folder / f"mix.{kind}", view.picture(kind))
        shutil.rmtree(working_folder, ignore_errors=True)
    return explainer


def check_smat(data: Dataset, learner: Learner, *, student: str | None, size: int, training: Mapping[str, Any]) -> None:
    """Raise OptionError for a request that is invalid for every teacher, before a teacher is loaded."""
    architecture = None if student is None else parse_student(student).architecture.partition("(")[0]
    is_native = architecture in MODELS if architecture else not data.task.is_per_token
    # If the kind of student depends on the teacher, assume the smaller of the two default batch sizes.
    minimum = replace(STUDENT_FROM_SCRATCH if is_native else STUDENT_PRETRAINED, **training)
    split = _split(data)
    for name in (split, "dev"):
        if name not in data or not len(data[name]):
            raise OptionError(f"{data.name!r} has no rows in {name!r}, which SMaT needs.")
    if not 1 <= size <= len(data[split]):
        raise OptionError(
            f"{size:,} rows were requested, and {data.name!r} has {len(data[split]):,} in {split!r}. Give a size (on "
            f"the command line --size) of at most {len(data[split]):,}."
        )
    check_row_counts(size, len(data["dev"]), batch_size=minimum.batch_size, smat=learner.smat)


def _split(data: Dataset) -> str:
    """The split to learn from."""
    return "explain" if "explain" in data and len(data["explain"]) else "train"


def checked_training(training: Mapping[str, Any] | None) -> dict[str, object]:
    """Check training options from a user and return them under the names of `Training`.

    Raises:
        OptionError: an option is unknown or has the wrong type.
    """
    entries = dict(training or {})
    names = {field.name: field.name for field in fields(Training) if field.name not in ("seed", "rate")}
    names |= {"learning_rate": "rate"}
    if "rate" in entries:
        log.warning("rate is now called learning_rate. The former name still works.")
        entries = {("learning_rate" if name == "rate" else name): value for name, value in entries.items()}
    for name in entries:
        if name not in names:
            raise OptionError(unknown_name_message("entry of training", name, list(names)))
    entries = {names[name]: value for name, value in entries.items()}
    check_option_types(entries, Training, of="training")
    return entries


class _SmatJob:
    """Everything that decides what is learned: teacher, rows, student and options."""

    def __init__(
        self,
        teacher: Teacher,
        data: Dataset,
        learner: Learner,
        student: str | None,
        size: int,
        seed: int,
        base: str | None,
        soft: bool,
        training: Mapping[str, Any],
        trust_remote_code: bool,
    ) -> None:
        self.teacher, self.data, self.learner, self.seed, self.soft = teacher, data, learner, seed, soft
        self.split = _split(data)
        self.rows = self._draw_rows(size)
        self.student: StudentSpec
        default = default_student(teacher, data.task, base)
        self.student = parse_student(student) if student else default
        if self.student.architecture == DEFAULT:
            self.student = replace(self.student, architecture=default.architecture)
        self.base, self.trusts_code, self.options = base, trust_remote_code, training

    @cached_property
    def start(self) -> StudentInit:
        """The initial weights of the student."""
        teacher, task = self.teacher, self.data.task
        return student_init(
            self.student.architecture, teacher=teacher, task=task, classes=teacher.classes, rows=self.rows,
            read_rows=(*self.rows, *self.data["dev"]), base=self.base, trust_remote_code=self.trusts_code,
        )  # fmt: skip

    @cached_property
    def training(self) -> Training:
        kind = student_training(self.start.build(0), self.student.optimiser)
        return replace(kind, **self.options, seed=self.seed)

    @cached_property
    def fingerprint(self) -> str:
        return self.teacher.fingerprint(self.rows)

    def _draw_rows(self, size: int) -> tuple[Row, ...]:
        data, teacher = self.data, self.teacher
        if teacher.task != data.task:
            raise OptionError(f"The data {data.name!r} is {data.task}, but the teacher does {teacher.task}.")
        pool = data[self.split].rows
        indices = subset([row.id for row in pool], size=size, seed=self.seed)
        return tuple(pool[index] for index in indices)

    def provenance(self) -> dict[str, object]:
        """What the explainer is learned from, and how. `rows` has the fingerprints of all rows whose answers it saw."""
        return {
            "teacher": self.teacher.name, "teacher_fingerprint": self.fingerprint, "data": self.data.name,
            "split": self.split, "train_rows": len(self.rows), "seed": self.seed, "student": str(self.student),
            "student_start": self.start.origin, "learner": self.learner.identity(), "soft": self.soft,
            "training": self.training.facts(),
            "rows": [fingerprint_of([row]) for row in (*self.rows, *self.data["dev"].rows)],
        }  # fmt: skip

    def learn(self, folder: Path | None, progress: bool) -> tuple[ComponentMix, SmatResult, dict[str, object]]:
        """Compute component scores, learn the explainer, and measure the student that it was learned with."""
        dev_rows = self.data["dev"].rows
        device = getattr(self.teacher, "device", None)
        key = key_of({
            "facts": self.provenance(), "start": dict(self.start.facts),
            "strategy": strategy_options(self.student.strategy),
            "dev": fingerprint_of(dev_rows), "threads": torch.get_num_threads(),
            **({} if device is None or device.type == "cpu" else {"device": device.type}),
            **({"code": code} if (code := EXPLAINERS.local_source_hashes(*self.learner.mix.values())) else {}),
        })  # fmt: skip
        answers = {split: self.teacher.predict(rows) for split, rows in (("train", self.rows), ("dev", dev_rows))}
        explainer = self.learner.explainer()
        components = self._component_scores(
            explainer, None if folder is None else folder / f"parts-{key}", answers["train"], progress
        )
        explainer.start(components.names)
        student = self.start.build(seed_from(self.seed, "learner"))
        if device is not None:
            student = student.to(device)
        examples = Examples.of(student, self.rows, answers["train"], soft=self.soft)
        dev = Examples.of(student, dev_rows, answers["dev"], soft=self.soft)
        scale = TargetScaler.of(examples)
        train, held_out = scale.transform(examples), scale.transform(dev)
        learned = run_smat(
            student, build_strategy(self.student.strategy), explainer, components, train, held_out, self.training,
            self.learner.smat, checkpoint=None if folder is None else folder / f"{key}.safetensors", progress=progress,
        )  # fmt: skip
        if self.learner.chooses:
            choice = choose_by_new_students(
                explainer, components, train, held_out, self.training,
                strategy=lambda: build_strategy(self.student.strategy),
                student=lambda: self.start.build(seed_from(self.seed, "chooser")).to(student.device),
            )  # fmt: skip
            learned.notes.append(choice.note)
        measure_name = self.data.task.measure
        kept_epoch = learned.kept_epoch
        metrics: dict[str, Any] = {
            f"dev_{measure_name}": kept_epoch.dev_measure, "dev_rows": len(dev_rows), "epoch": kept_epoch.number,
            "active": explainer.view().active, "parts": len(explainer.names), "entropy": explainer.view().entropy,
            "temperature": explainer.current_temperature,
        }  # fmt: skip
        if "test" in self.data and len(self.data["test"]):
            rows = self.data["test"].rows
            test_answers = self.teacher.predict(rows)
            predicted = scale.inverse_transform(predict_in_order(student, Examples.of(student, rows, test_answers)))
            metrics |= {f"test_{measure_name}": measure(predicted, test_answers), "test_rows": len(rows)}
        return explainer, learned, metrics

    def _component_scores(
        self, explainer: ComponentMix, path: Path | None, outputs: Any, progress: bool
    ) -> ComponentScores:
        """Load the component scores from `path`, or compute and save them."""
        if path is not None:
            try:
                return ComponentScores.load(path)
            except RecordError:
                pass
        background: Sequence[Row] = self.data[self.split].rows
        components = compute_component_scores(
            self.teacher, self.rows, explainer, outputs=outputs, background_rows=background, progress=progress
        )
        if path is not None:
            components.save(path)
        return components
