"""Trains one cell: one student on one subset with one explainer and one seed. A pure function of its description."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Int

from didact.comparing.edited import edited_indices
from didact.comparing.run_inputs import EDITED_SPLIT, RunInputs
from didact.comparing.targets import TARGET
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
from didact.results.target_transform import TargetTransform
from didact.results.training_record import EpochRecord, LearnedRecord, LearningEpoch, TrainingRecord, TrialRecord
from didact.students.build import build_strategy
from didact.students.strategy import Strategy

# Part of every key. Increase it when the same description would give another result.
VERSION: Final = 1
_OUTPUTS: Final = {"values": "list float64", "answers": "list string"}


@dataclass(frozen=True)
class Cell:
    """One student to train. `key` hashes everything that decides the result.

    Attributes:
        explainer, student: names for people.
        start: folder of the student's initial weights.
        maps: file with the explanations; None trains on the teacher's answers alone.
        trials: changes to the strategy's options, and in entry `target` to the explanations' sharpness. One student is
            trained per trial; the best on dev is kept.
        learner: a SMaT explainer that is learned together with the student, from the component scores in file `parts`.
        extra: the student also trains on the dev rows and keeps its last epoch.
        balanced: rows are drawn balanced by the teacher's answers, and every class has the same weight in the measure.
        edited_rows: the student also predicts the edits of at most this number of its training rows.
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
    edited_rows: int = 0

    @property
    def explanations_file(self) -> str | None:
        """The file with the explanations. `maps` is its name in stored cells."""
        return self.maps

    def plain(self) -> dict[str, object]:
        """The cell as plain JSON, as manifests and records store it."""
        fields = asdict(self)
        for name in ("balanced", "edited_rows"):  # the description of cells from before these options existed
            if not fields[name]:
                del fields[name]
        return fields

    def rows_among(self, outputs: Outputs) -> Int[np.ndarray, " chosen"]:
        """Indices of the labelled rows that this student learns from."""
        labels = outputs.labels.tolist() if self.balanced else None
        return draw_subset(outputs.ids, size=self.size, seed=self.seed, labels=labels)


def run_cell(cell: Cell, run_inputs: RunInputs) -> tuple[TrainingRecord, Outputs]:
    """Train the student and predict the test rows, then its edited rows. Returns the record and the predictions."""
    started = time.monotonic()
    data = teaching_data(cell, run_inputs)
    trained = (
        _train_with_learner(cell, run_inputs, data.train, data.dev)
        if cell.learner is not None
        else _train_trials(cell, run_inputs, data)
    )
    outputs = predict_in_order(trained.student, data.test)
    edited = None if data.edited is None else predict_in_order(trained.student, data.edited)
    record, answers = make_record(cell, data, trained, outputs, time.monotonic() - started)
    return record, answers if edited is None else Outputs.joined([answers, edited])


@dataclass(frozen=True, eq=False)
class TeachingData:
    """Encoded rows of a cell, with targets scaled for training, and their explanations. `edited` are edited rows."""

    train: Examples
    dev: Examples
    test: Examples
    scale: TargetScaler
    explanations: Explanations | None
    edited: Examples | None = None


def teaching_data(cell: Cell, run_inputs: RunInputs) -> TeachingData:
    """Select and encode the rows and explanations of a cell."""
    examples = run_inputs.examples(cell.start, cell.soft)
    indices = cell.rows_among(examples["train"].outputs)
    train, dev, edited = examples["train"].select(indices), examples["dev"], None
    if cell.edited_rows:
        chosen = edited_indices(run_inputs.labelled[EDITED_SPLIT], train.outputs.ids, cell.edited_rows)
        edited = examples[EDITED_SPLIT].select(chosen) if len(chosen) else None
    if cell.extra:
        model = run_inputs.student_init(cell.start).build(0)
        rows, outputs = (*train.rows, *dev.rows), Outputs.joined([train.outputs, dev.outputs])
        train = Examples.of(model, rows, outputs, soft=cell.soft)
    scale = TargetScaler.of(train)
    row_explanations = None
    if cell.explanations_file is not None:
        explanations, index = run_inputs.explanations(cell.explanations_file)
        row_explanations = explanations.select([index[row.id] for row in train.rows])
    return TeachingData(scale.transform(train), scale.transform(dev), examples["test"], scale, row_explanations, edited)


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A trained student with its training history. `epoch` is the epoch that was kept, `trial` the best trial."""

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
    """The record of a trained student, and its answers on the teacher's scale.

    Raises:
        TrainingError: the answers are not finite.
    """
    outputs = data.scale.inverse_transform(answers)
    if not np.isfinite(outputs.values).all():
        raise TrainingError(
            "Training diverged: the student's answers are not finite numbers. The learning rate "
            f"({cell.training['rate']:g}) is probably too high. Lower it (learning_rate, --learning-rate)."
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
    """Train one student per trial and keep the best on dev."""
    explanations, train, dev = data.explanations, data.train, data.dev
    training = Training(**cell.training, seed=cell.seed)
    trial_records: list[TrialRecord] = []
    best: TrainedStudent | None = None
    keep = "last" if cell.extra else "best"
    for trial, changes in enumerate(cell.trials):
        # Without explanations there is nothing to tune. To be fair, the student gets as many trials with other weights.
        seed_parts = (cell.seed, "student") if explanations is not None or trial == 0 else (cell.seed, "student", trial)
        student = run_inputs.student_init(cell.start).build(seed_from(*seed_parts)).to(cell.device)
        strategy_changes = {name: value for name, value in changes.items() if name != TARGET}
        strategy = build_strategy(parse_spec(cell.strategy), **({} if explanations is None else strategy_changes))
        sent = explanations if explanations is None else sent_explanations(explanations, changes)
        trained = teach(student, strategy, sent, train, dev, training, keep=keep)
        epoch = trained.history[-1] if cell.extra else best_epoch(trained.history)
        options = {"start": trial} if explanations is None else dict(changes)
        trial_records.append(TrialRecord(options, number(epoch.dev_measure)))
        if best is None or epoch.rank > best.epoch.rank:
            best = TrainedStudent(student, trained.history, epoch, trial, trial_records, trained.lost_rows)
    assert best is not None
    return best


def sent_explanations(explanations: Explanations, trial: Mapping[str, Any]) -> Explanations:
    """The explanations as a trial sends them: with the sharpness that target normalisation sets, if any."""
    return TargetTransform.from_document(trial[TARGET]).apply(explanations) if TARGET in trial else explanations


def _train_with_learner(cell: Cell, run_inputs: RunInputs, train: Examples, dev: Examples) -> TrainedStudent:
    """Train a student together with a SMaT explainer.

    The student's initial weights differ from those of all other cells of this seed, so the learned explainer is later
    tested on students that it was not fitted to.
    """
    assert cell.learner is not None
    learner = parse_learner(cell.learner)
    student, explainer, components = init_learning(cell, run_inputs, train)
    training = Training(**cell.training, seed=cell.seed)
    result = run_smat(student, _strategy(cell), explainer, components, train, dev, training, learner.smat)
    notes, choice = list(result.notes), None
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
        route=result.route,
        notes=tuple(notes),
        temperature=explainer.current_temperature,
        kept="learned" if choice is None else choice.name,
        epochs=tuple(LearningEpoch(epoch.outer_loss, epoch.entropy, epoch.active) for epoch in result.history),
    )
    trials = [TrialRecord({}, number(result.kept_epoch.dev_measure))]
    return TrainedStudent(student, result.history, result.kept_epoch, 0, trials, result.lost_rows, learned)


def init_learning(cell: Cell, run_inputs: RunInputs, train: Examples) -> tuple[Model, ComponentMix, ComponentScores]:
    """An untrained student, an untrained explainer, and the component scores of the training rows."""
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
    """Write the answers, then the record with their checksum. A cell without a record counts as not done.

    Answers to edited rows follow those to test rows; then the ids of all rows are written, too.
    """
    columns: dict[str, Sequence[object]] = {
        "values": outputs.values.tolist(),
        "answers": [None] * len(outputs) if outputs.answers is None else [list(texts) for texts in outputs.answers],
    }
    types = dict(_OUTPUTS)
    if record.cell.get("edited_rows"):
        columns["row"], types["row"] = outputs.ids, "string"
    checksum = write_table(outputs_path(store, record.key), Table(columns, {"key": record.key}), types=types)
    replace(record, outputs=checksum).save(store)


def load_outputs(store: Store, record: TrainingRecord) -> Table:
    """The answers of a finished cell. Raises RecordError if they are damaged."""
    return read_table(outputs_path(store, record.key), checksum=record.outputs)


def load_completed(store: Store, key: str) -> TrainingRecord | None:
    """The record of a finished cell; None if it is missing, failed or damaged, or its answers are.

    Raises:
        UnreadableError: a file exists but cannot be opened.
    """
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
