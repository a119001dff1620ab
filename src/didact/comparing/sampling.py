"""Draws the rows of a comparison: for training students (train), choosing epochs (dev) and testing (test).

Large splits are sampled before the teacher labels anything. If one answer of the teacher dominates, rows are drawn
balanced by its answers: students of a teacher that gives one answer to 97 % of rows would learn that answer only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from didact.comparing.answer_file import AnswerFile
from didact.core.dataset import Dataset, Split
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.data.subset import balanced_counts, subset
from didact.errors import OptionError
from didact.viz.progress import Progress

TEST_ROWS: Final = 2000  # default limit; more rows cost time and hardly narrow the intervals
ADVISED: Final = 1500  # recommended size of an unsplit file, enough for train, dev and test
DOMINANT: Final = 0.8  # rows are balanced if an answer is more frequent than this
_BATCH: Final = 256
_STORED_BATCH: Final = 32  # rows per query of a black box; its answers are stored after each
_SEED: Final = 0  # of the sample; each student draws from it with the seed of its cell
_MAX_LABELLED: Final = 20_000  # maximum rows of a split to label in search of rare answers
_SPLITS: Final = ("train", "dev", "test")


class Answers:
    """The teacher's answers to rows, cached in memory and, with a `file`, on disk for all runs that share it."""

    def __init__(self, teacher: Teacher, *, file: AnswerFile | None = None, progress: bool = False) -> None:
        self.teacher, self.file, self.progress = teacher, file, progress
        self._values: dict[str, np.ndarray] = {}
        self._texts: dict[str, tuple[str, ...]] = {}

    def of(self, rows: Sequence[Row]) -> Outputs:
        """The teacher's answers to these rows, in their order."""
        keys = [fingerprint_of([row]) for row in rows]
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._values}
        if self.file is not None:
            stored = {key: self.file.get(row) for key, row in missing.items()}
            self._values |= {key: values for key, values in stored.items() if values is not None}
            missing = {key: row for key, row in missing.items() if key not in self._values}
        size = _BATCH if self.file is None else _STORED_BATCH
        with Progress("labelling rows with the model", total=len(missing), shown=self.progress) as bar:
            pending = list(missing.items())
            for start in range(0, len(pending), size):
                batch = [row for _, row in pending[start : start + size]]
                outputs = self.teacher.predict(batch)
                self._store([key for key, _ in pending[start : start + size]], outputs)
                if self.file is not None:
                    self.file.add(batch, outputs)
                bar.advance(len(batch))
        values = np.stack([self._values[key] for key in keys])
        texts = tuple(self._texts[key] for key in keys) if self._texts else None
        return Outputs(self.teacher.task, tuple(row.id for row in rows), values, texts)

    def _store(self, keys: Sequence[str], outputs: Outputs) -> None:
        self._values.update(zip(keys, outputs.values, strict=True))
        if outputs.answers is not None:
            self._texts.update(zip(keys, outputs.answers, strict=True))

    def labels(self, rows: Sequence[Row]) -> list[int]:
        """The predicted class of each row."""
        return self.of(rows).labels.tolist() if rows else []


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a comparison as a data set, and the teacher's answers that were needed to choose them.

    `balance` is a sentence that says why and how rows were balanced; None if they were not.
    """

    data: Dataset
    answers: Answers
    notes: tuple[str, ...] = ()
    balance: str | None = None


@dataclass(frozen=True)
class RowLimits:
    """The maximum number of rows of each split; None for all. Subsets of students are drawn from `train`."""

    train: int | None = None
    dev: int | None = None
    test: int | None = TEST_ROWS


def draw_sample(
    teacher: Teacher,
    data: Dataset,
    limits: RowLimits,
    *,
    balance: bool | None = None,
    answers: Answers | None = None,
) -> Sample:
    """Draw the rows of a comparison.

    `balance` forces balanced rows on or off; None balances if the teacher gives one answer to more than 80 % of the
    test rows. The teacher labels only the rows needed to decide this, and no rows that `answers` already holds.
    """
    answers = answers or Answers(teacher)
    if balance is False or teacher.classes is None:
        return _limited(data, limits, answers)
    if not balance:
        plain = _limited(data, limits, answers)
        labels = answers.labels(_answerable(teacher, plain.data["test"].rows))
        if not labels or max(Counter(labels).values()) <= DOMINANT * len(labels):
            return plain
    return _balanced(data, limits, answers)


def data_for_students(teacher: Teacher, data: Dataset) -> tuple[Dataset, tuple[str, ...]]:
    """The data as students use them, and notes. In a file without splits, students also get the rows of `teach`.

    The exception is a teacher that didact trained, since it may have been trained on those rows.
    """
    if data.all_rows is None or "teach" not in data:
        return data, ()
    record = getattr(teacher, "record", {})
    train = data["train"].rows
    if not record:
        train_ids = {row.id for row in train}
        train = (*train, *(row for row in data["teach"] if row.id not in train_ids))
    data = replace(data, splits={**data.splits, "train": Split("train", train)})
    total = sum(len(data[name]) for name in _SPLITS)
    advice = "" if total >= ADVISED else f" {ADVISED:,} rows or more are advised."
    used = f"{len(data['train']):,} rows for students to learn from, {len(data['dev']):,} to choose their epochs by, "
    notes = [f"{data.name} has no splits and was cut: {used}{len(data['test']):,} to test on.{advice}"]
    if record:
        notes.append("Rows that didact may have trained the model on (the split 'teach') are left out.")
    return data, tuple(notes)


def _limited(data: Dataset, limits: RowLimits, answers: Answers) -> Sample:
    """The sample without balancing: rows drawn by a hash of their ids, in the order of the data."""
    splits, notes = dict(data.splits), []
    for name in _SPLITS:
        limit, rows = getattr(limits, name), splits[name].rows
        if limit is not None and len(rows) > limit:
            splits[name] = Split(name, _draw(rows, limit))
            notes.append(f"{limit:,} of {len(rows):,} rows of {name!r} are used, drawn at random.")
    return Sample(replace(data, splits=splits) if notes else data, answers, tuple(notes))


def _balanced(data: Dataset, limits: RowLimits, answers: Answers) -> Sample:
    teacher, splits = answers.teacher, dict(data.splits)
    classes = teacher.classes
    assert classes is not None
    counts: dict[str, Counter[int]] = {}
    before: Counter[int] = Counter()
    for name in _SPLITS:
        rows = _answerable(teacher, _draw(splits[name].rows, _MAX_LABELLED))
        labels = answers.labels(rows)
        before.update(labels)
        indices = _rare_first([row.id for row in rows], labels, getattr(limits, name) or len(rows))
        splits[name] = Split(name, [rows[index] for index in indices])
        counts[name] = Counter(labels[index] for index in indices)
    label, count = before.most_common(1)[0]
    if min(len(counts[name]) for name in ("train", "test")) < 2:
        raise OptionError(
            f"The model answers {classes[label]!r} on every train or every test row of {data.name!r}, so students have "
            "nothing to predict. Use data on which it gives several answers."
        )
    used = "; ".join(f"{name}: {_class_counts(counts[name], classes)}" for name in ("train", "test"))
    balance = (
        f"The model answers {classes[label]!r} on {count / before.total():.0%} of {before.total():,} rows, so rows are "
        "drawn balanced by its answers, and simulability is balanced agreement: the mean of the classes' recalls. "
        f"Rows to draw from: {used}."
    )
    return Sample(replace(data, splits=splits), answers, (balance,), balance)


def _answerable(teacher: Teacher, rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(filter(teacher.knows, rows))


def _draw(rows: Sequence[Row], limit: int) -> Sequence[Row]:
    """At most `limit` rows, in their order."""
    if len(rows) <= limit:
        return rows
    return [rows[index] for index in sorted(subset([row.id for row in rows], size=limit, seed=_SEED).tolist())]


def _rare_first(ids: Sequence[str], labels: Sequence[int], size: int) -> list[int]:
    """Indices of `size` rows with classes as equal as possible, filled up with rows of the frequent classes."""
    names = sorted(set(labels))
    members = {name: [index for index, label in enumerate(labels) if label == name] for name in names}
    quotas = balanced_counts([len(members[name]) for name in names], size)
    chosen: list[int] = []
    for name, count in zip(names, quotas, strict=True):
        spare = size - sum(quotas)  # left over, since `balanced_counts` limits the largest class
        count = min(count + spare, len(members[name])) if count == max(quotas) else count
        indices = subset([ids[index] for index in members[name]], size=count, seed=_SEED)
        chosen += [members[name][index] for index in indices]
    return sorted(chosen)


def _class_counts(counts: Mapping[int, int], classes: Sequence[str]) -> str:
    return ", ".join(f"{counts.get(index, 0):,} {name}" for index, name in enumerate(classes))
