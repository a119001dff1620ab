"""One cell: one student, one subset, one explainer, one seed. A pure function of its description."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int

from didact.comparing.run_inputs import RunInputs
from didact.core.measure import measure
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.seeds import seed_from
from didact.data.subset import draw_subset
from didact.errors import RecordError, TrainingError
from didact.explainers.mix import ComponentMix
from didact.files.store import Store, UnreadableError
from didact.files.table_io import Table, read_table, write_table
from didact.learned.smat_spec import parse_learner
from didact.learning.choose import choose_by_new_students
from didact.learning.fit import Epoch, Examples, Training, best_epoch, predict_in_order
from didact.learning.smat import run_smat
from didact.learning.target_scaler import TargetScaler
from didact.learning.teach import teach
from didact.registry import parse_spec
from didact.results.component_scores import ComponentScores
from didact.results.documents import number
from didact.results.explanations import Explanations
from didact.results.training_record import EpochRecord, LearnedRecord, LearningEpoch, TrainingRecord, TrialRecord
from didact.students.build import build_strategy
from didact.students.strategy import Strategy

# Raise it when the same description would give another result.
VERSION: Final = 1
_OUTPUTS: Final = {"values": "list float64", "answers": "list string"}


@dataclass(frozen=True)
class Cell:
    """What is to be done. `key` hashes everything that decides the result; names are for people.

    `trials` are changes to the strategy's options, tried one after another; the best on dev is kept. `maps` is the file
    with the explanations; without one the student sees the teacher's answers alone. With `learner`, an explainer is
    learned beside the student from the `parts` in that file, and becomes part of the record. With `extra` the student
    learns from the dev rows too, and is kept as its last epoch leaves it. With `balanced` its rows
    are drawn balanced by the teacher's answers, and every class counts the same in what is measured.
    """

    key: str
    explainer: str
    student: str
    start: str
    strategy: str
    maps: str | None
    size: int
    seed: int
    soft: bool
    threads: int
    device: str
    training: Mapping[str, Any]
    trials: Sequence[Mapping[str, Any]]
    learner: str | None = None
    parts: str | None = None
    extra: bool = False
    balanced: bool = False

    def plain(self) -> dict[str, object]:
        fields = asdict(self)
        if not self.balanced:  # described as before there was a choice
            del fields["balanced"]
        return fields

    def rows_among(self, outputs: Outputs) -> Int[np.ndarray, " chosen"]:
        """Which of the rows that the teacher answered this student learns from."""
        labels = outputs.labels.tolist() if self.balanced else None
        return draw_subset(outputs.ids, size=self.size, seed=self.seed, labels=labels)


def run_cell(cell: Cell, run_inputs: RunInputs) -> tuple[TrainingRecord, Outputs]:
    """Teach the student and let it answer the test rows. Gives what is recorded, and the answers."""
    started = time.monotonic()
    data = teaching_data(cell, run_inputs)
    trained = (
        _train_with_learner(cell, run_inputs, data.train, data.dev)
        if cell.learner is not None
        else _train_trials(cell, run_inputs, data)
    )
    outputs = predict_in_order(trained.student, data.test)
    return make_record(cell, data, trained, outputs, time.monotonic() - started)


@dataclass(frozen=True, eq=False)
class TeachingData:
    """The rows of a cell, as its student learns them, and what explains them."""

    train: Examples
    dev: Examples
    test: Examples
    scale: TargetScaler
    maps: Explanations | None


def teaching_data(cell: Cell, run_inputs: RunInputs) -> TeachingData:
    """What the cell's student is taught with."""
    examples = run_inputs.examples(cell.start, cell.soft)
    indices = cell.rows_among(examples["train"].outputs)
    train, dev = examples["train"].select(indices), examples["dev"]
    if cell.extra:
        model = run_inputs.student_init(cell.start).build(0)
        rows, outputs = (*train.rows, *dev.rows), Outputs.joined([train.outputs, dev.outputs])
        train = Examples.of(model, rows, outputs, soft=cell.soft)
    scale = TargetScaler.of(train)
    row_explanations = None
    if cell.maps is not None:
        explanations, index = run_inputs.explanations(cell.maps)
        row_explanations = explanations.select([index[row.id] for row in train.rows])
    return TeachingData(scale.transform(train), scale.transform(dev), examples["test"], scale, row_explanations)


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A student that was taught, and how it came about."""

    student: Model
    history: Sequence[Epoch]
    epoch: Epoch
    trial: int
    trials: Sequence[TrialRecord]
    lost_rows: int
    learned: LearnedRecord | None = None


def make_record(
    cell: Cell, data: TeachingData, trained: TrainedStudent, answers: Outputs, seconds: float
) -> tuple[TrainingRecord, Outputs]:
    """What is recorded of a taught student, and its answers in the teacher's units."""
    outputs = data.scale.inverse_transform(answers)
    if not np.isfinite(outputs.values).all():
        raise TrainingError(
            "The student's answers are not numbers. The learning rate "
            f"({cell.training['rate']:g}) is probably too high: lower it (learning_rate, --learning-rate)."
        )
    record = TrainingRecord(
        cell=cell.plain(),
        value=number(float(measure(outputs, data.test.outputs, balanced=cell.balanced))),
        dev=number(trained.epoch.dev_measure),
        epoch=trained.epoch.number,
        trial=trained.trial,
        trials=tuple(trained.trials),
        lost_rows=trained.lost_rows,
        epochs=tuple(EpochRecord(epoch.loss, epoch.dev_loss, epoch.dev_measure) for epoch in trained.history),
        seconds=round(seconds, 3),
        learned=trained.learned,
        key=cell.key,
    )
    return record, outputs


def _train_trials(cell: Cell, run_inputs: RunInputs, data: TeachingData) -> TrainedStudent:
    """The best on dev of the students that the trials teach."""
    explanations, train, dev = data.maps, data.train, data.dev
    training = Training(**cell.training, seed=cell.seed)
    trial_records: list[TrialRecord] = []
    best: TrainedStudent | None = None
    keep = "last" if cell.extra else "best"
    for trial, changes in enumerate(cell.trials):
        # A student without explanations has nothing to tune: its trials start from other weights.
        seed_parts = (cell.seed, "student") if explanations is not None or trial == 0 else (cell.seed, "student", trial)
        student = run_inputs.student_init(cell.start).build(seed_from(*seed_parts)).to(cell.device)
        strategy = build_strategy(parse_spec(cell.strategy), **({} if explanations is None else changes))
        trained = teach(student, strategy, explanations, train, dev, training, keep=keep)
        epoch = trained.history[-1] if cell.extra else best_epoch(trained.history)
        options = {"start": trial} if explanations is None else dict(changes)
        trial_records.append(TrialRecord(options, number(epoch.dev_measure)))
        if best is None or epoch.rank > best.epoch.rank:
            best = TrainedStudent(student, trained.history, epoch, trial, trial_records, trained.lost_rows)
    assert best is not None
    return best


def _train_with_learner(cell: Cell, run_inputs: RunInputs, train: Examples, dev: Examples) -> TrainedStudent:
    """The student that an explainer was learned with, and what it learned.

    It starts from weights of its own: the students that the finished explainer teaches are new to it.
    """
    assert cell.learner is not None
    learner = parse_learner(cell.learner)
    student, explainer, components = init_learning(cell, run_inputs, train)
    training = Training(**cell.training, seed=cell.seed)
    mix = run_smat(student, _strategy(cell), explainer, components, train, dev, training, learner.smat)
    notes, choice = list(mix.notes), None
    if learner.chooses:
        choice = choose_by_new_students(
            explainer, components, train, dev, training, strategy=lambda: _strategy(cell),
            student=lambda: run_inputs.student_init(cell.start).build(seed_from(cell.seed, "chooser")).to(cell.device),
        )  # fmt: skip
        notes.append(choice.note)
    view = explainer.view()
    learned = LearnedRecord(
        names=tuple(explainer.names),
        coefficients=tuple(explainer.coefficients.tolist()),
        log_temperature=explainer.log_temperature.item(),
        weights=tuple(explainer.weights.tolist()),
        entropy=view.entropy,
        active=view.active,
        route=mix.route,
        notes=tuple(notes),
        temperature=explainer.current_temperature,
        kept="learned" if choice is None else choice.name,
        epochs=tuple(LearningEpoch(epoch.outer_loss, epoch.entropy, epoch.active) for epoch in mix.history),
    )
    trials = [TrialRecord({}, number(mix.kept_epoch.dev_measure))]
    return TrainedStudent(student, mix.history, mix.kept_epoch, 0, trials, mix.lost_rows, learned)


def init_learning(cell: Cell, run_inputs: RunInputs, train: Examples) -> tuple[Model, ComponentMix, ComponentScores]:
    """A student and an explainer that know nothing yet, and what the explainer weighs of these rows."""
    assert cell.learner is not None
    assert cell.parts is not None
    components, index = run_inputs.component_scores(cell.parts)
    row_components = components.select([index[row.id] for row in train.rows])
    explainer = parse_learner(cell.learner).explainer()
    explainer.start(row_components.names)
    student = run_inputs.student_init(cell.start).build(seed_from(cell.seed, "learner")).to(cell.device)
    return student, explainer, row_components


def _strategy(cell: Cell) -> Strategy:
    return build_strategy(parse_spec(cell.strategy))


def save_cell(store: Store, record: TrainingRecord, outputs: Outputs) -> None:
    """The answers first, then the record that vouches for them: a cell without its record was never done."""
    columns: dict[str, Sequence[object]] = {
        "values": outputs.values.tolist(),
        "answers": [None] * len(outputs) if outputs.answers is None else [list(texts) for texts in outputs.answers],
    }
    checksum = write_table(outputs_path(store, record.key), Table(columns, {"key": record.key}), types=_OUTPUTS)
    replace(record, outputs=checksum).save(store)


def load_outputs(store: Store, record: TrainingRecord) -> Table:
    """The answers of a finished cell; damaged ones are an error."""
    return read_table(outputs_path(store, record.key), checksum=record.outputs)


def load_completed(store: Store, key: str) -> TrainingRecord | None:
    """The record of a cell that is done and whole, its answers too."""
    try:
        record = TrainingRecord.load(store, key)
        if not record.is_done:
            return None
        load_outputs(store, record)
    except UnreadableError:
        raise
    except RecordError:
        return None
    return record


def outputs_path(store: Store, key: str) -> Path:
    return store.folder / f"{key}.parquet"
