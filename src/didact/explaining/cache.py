"""Explanations of a run: computed once, kept, shared by all cells, and only those added that are missing."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.model import Model
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import DataError, RecordError
from didact.explainers import EXPLAINERS
from didact.explainers.learned import name_of
from didact.explainers.mix import Mix
from didact.explainers.parts import blended
from didact.explaining.component_scores import parts_of
from didact.explaining.explain import (
    FillStore,
    Work,
    check_learned,
    explain,
    explain_shards,
    explanation_facts,
    look_again,
    resolve,
)
from didact.explaining.score_checks import warn_of_scores
from didact.explaining.to_columns import gold_labels
from didact.models.native import NativeModel
from didact.records.explanations import Explanations
from didact.records.parquet import to_parquet
from didact.records.parts import Parts
from didact.records.store import key_of

# How an explainer may be given: by spec, as a file of explanations, as explanations, or as an object.
Method = str | Explainer | Explanations | Callable[..., Any]
# Larger batches of a large model spend their time in page faults: MiniLM, 128 pieces, 64 rows against 16: 1.3 to 1.5x.
_ON_CPU: Final = 16


@dataclass(frozen=True, eq=False)
class Kept:
    """A file of explanations in the run's folder, and what goes into the keys of the cells that use it."""

    file: str
    key: str


def teacher_fingerprint(teacher: Teacher, rows: Sequence[Row], said: Outputs | None = None) -> str:
    """A hash of a model; of whatever else answers, of what it answers to these rows (`said`, if that is known)."""
    if isinstance(teacher, Model):
        return teacher.fingerprint()  # not the remembered one: changes through .data leave no trace torch counts
    if isinstance(teacher, FunctionTeacher):
        return teacher.fingerprint(rows, said)
    if isinstance(teacher, HumanTeacher):
        return teacher.name  # its answers are the rows' labels, which rows are known by
    said = teacher.predict(rows) if said is None else said
    classes = None if teacher.classes is None else list(teacher.classes)
    answers = None if said.answers is None else [list(one) for one in said.answers]
    values = np.round(said.values, 6).tolist()
    return key_of({"task": teacher.task.name, "classes": classes, "values": values, "answers": answers})


def keep_explanations(
    folder: Path,
    teacher: Teacher,
    fingerprint: str,
    rows: Sequence[Row],
    method: Method,
    *,
    label: str,
    background: Sequence[Row],
    outputs: Outputs | None = None,
    progress: bool = False,
    fill: FillStore | None = None,
) -> Kept:
    """The explanations of these rows in a file: those kept before, with the missing ones computed now.

    A plan that grows (more seeds, larger sizes) explains only the rows it adds. `outputs` are the teacher's answers.
    `fill` may explain shards elsewhere.
    """
    given = given_maps(method)
    if given is not None:
        return _given(folder, chosen(given, rows, label=label), label, whole=given)
    found = located(folder, teacher, fingerprint, rows, method, label=label, background=background)
    if found is None:
        assert not isinstance(method, Explanations)
        maps = explain(
            teacher, rows, method, background_rows=background, outputs=outputs, progress=progress, **batches_of(teacher)
        )
        return _given(folder, maps, label)
    path = folder / found.kept.file
    if _loaded(path) is None:
        known, missing = _taken(rows, found.others)
        work = _work(teacher, missing, method, outputs) if missing else None
        _complete(path, teacher, rows, known, work, background, progress=progress, fill=fill)
    return found.kept


@dataclass(frozen=True, eq=False)
class Located:
    """Where explanations belong, and the files of smaller plans that may hold some of them."""

    kept: Kept
    others: Sequence[Path]


def located(
    folder: Path,
    teacher: Teacher,
    fingerprint: str,
    rows: Sequence[Row],
    method: Method,
    *,
    label: str,
    background: Sequence[Row],
) -> Located | None:
    """Where the explanations of a method are kept; None for one whose making is not known."""
    if isinstance(method, Explanations) or (isinstance(method, str) and method.endswith(".parquet")):
        return None
    facts = explanation_facts(teacher, method, background)
    if facts is None:
        return None
    key = key_of({"teacher": fingerprint, **facts})
    known = {row.id: fingerprint_of([row]) for row in rows}
    path = folder / f"{slug(label)}-{key}-{key_of(known)}.parquet"
    # Where labels or rationales decide the scores, the same text may now have others.
    is_label = facts["options"]["target"] == "gold" or isinstance(teacher, HumanTeacher)
    by_text = EXPLAINERS[facts["method"]].needs != "rationales" and not is_label
    others = sorted(folder.glob(f"{path.stem.rpartition('-')[0]}-*.parquet")) if by_text else []
    return Located(Kept(path.name, key), others)


def unexplained(folder: Path, rows: Sequence[Row], found: Located) -> list[Row]:
    """The rows that are in none of the files."""
    return [] if _loaded(folder / found.kept.file) is not None else _taken(rows, found.others)[1]


def keep_parts(
    folder: Path,
    teacher: Teacher,
    fingerprint: str,
    rows: Sequence[Row],
    explainer: Mix,
    *,
    members: Sequence[tuple[str, Kept]] = (),
    background: Sequence[Row],
    outputs: Outputs | None = None,
    progress: bool = False,
) -> Kept:
    """What a learned explainer weighs, in two files; `members` are the kept explanations that a blend is made of."""
    found = located_parts(fingerprint, rows, explainer, members)
    path = folder / found.file
    if not Parts.is_whole(path):
        if members:
            blended([(label, Explanations.load(folder / kept.file)) for label, kept in members]).save(path)
        else:
            asked: dict[str, Any] = {"background_rows": background, "outputs": outputs, "progress": progress}
            parts_of(teacher, rows, explainer, **asked, **batches_of(teacher)).save(path)
    return found


def located_parts(
    fingerprint: str, rows: Sequence[Row], explainer: Mix, members: Sequence[tuple[str, Kept]] = ()
) -> Kept:
    """Where what a learned explainer weighs is kept."""
    name = name_of(explainer)
    facts = {"teacher": fingerprint, "family": name, "version": explainer.version}
    key = key_of(facts | {"members": [(label, kept.key) for label, kept in members]})
    return Kept(f"parts-{name}-{key}-{key_of({row.id: fingerprint_of([row]) for row in rows})}", key)


def batches_of(teacher: Teacher) -> dict[str, int]:
    """Large models on the CPU are asked in smaller batches."""
    if isinstance(teacher, Model) and not isinstance(teacher, NativeModel) and teacher.device.type == "cpu":
        return {"batch_size": _ON_CPU}
    return {}


def _work(teacher: Teacher, rows: Sequence[Row], method: Any, outputs: Outputs | None) -> Work:
    """The work of explaining these rows, checked."""
    batch_size = batches_of(teacher).get("batch_size")
    asked, built = resolve(teacher, method, {}, batch_size=batch_size)
    work = Work(teacher, rows, asked, built, batch_size or 64, outputs)
    work.check()
    check_learned(teacher, built.explainer)
    look_again(teacher)
    return work


def _complete(
    path: Path, teacher: Teacher, rows: Sequence[Row], known: Sequence[Explanations], work: Work | None,
    background: Sequence[Row], *, progress: bool, fill: FillStore | None,
) -> None:  # fmt: skip
    """Save the explanations of all rows: those that are known, and those of the work."""
    store = None if work is None else work.shard_store(path, background)
    new = [] if work is None else [explain_shards(work, background, store, progress=progress, fill=fill)]
    parts = [*known, *new]
    marks = {"teacher": parts[-1].fingerprints["teacher"], "data": fingerprint_of(rows)}
    alike = [replace(part, fingerprints=marks, teacher=teacher.name, images=None) for part in parts]
    maps = chosen(Explanations.joined(alike), rows, label=path.name)
    replace(maps, labels=gold_labels(teacher, rows)).save(path)  # the same text may have got another label since
    if work is not None and store is not None:
        store.clear()
        warn_of_scores(work.built.name, work.built.explainer, new[0].residuals, new[0].cautions, stacklevel=3)


def _taken(rows: Sequence[Row], others: Sequence[Path]) -> tuple[list[Explanations], list[Row]]:
    """What the files hold of these rows, and the rows they do not hold."""
    parts: list[Explanations] = []
    have: set[str] = set()
    for other in others:
        maps = _loaded(other)
        if maps is None or maps.task == "image":  # texts tell whether a row is the same; images are not kept
            continue
        texts = dict(zip(maps.ids, maps.texts, strict=True))
        mine = [row for row in rows if row.id not in have and texts.get(row.id) == row.texts]
        have |= {row.id for row in mine}
        if mine:
            parts.append(chosen(maps, mine, label=other.name))
    return parts, [row for row in rows if row.id not in have]


def chosen(maps: Explanations, rows: Sequence[Row], *, label: str) -> Explanations:
    """The explanations of these rows, found by id; all must be there and be about the same texts."""
    places = {name: place for place, name in enumerate(maps.ids)}
    missing = [row.id for row in rows if row.id not in places]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(rows)} rows that students see have no explanation in {label!r}. "
            "Explain the whole split 'train', or take smaller sizes. The first are:",
            missing,
        )
    other = [row.id for row in rows if row.image is None and maps.texts[places[row.id]] != row.texts]
    if other:
        raise DataError(f"{len(other)} explanations in {label!r} are about other texts than the rows have:", other)
    return maps.select([places[row.id] for row in rows])


def given_maps(method: Method) -> Explanations | None:
    """Explanations that are given as they are, by a file or at hand; None for a method that makes them."""
    if isinstance(method, str) and method.endswith(".parquet"):
        return Explanations.load(method)
    return method if isinstance(method, Explanations) else None


def _given(folder: Path, maps: Explanations, label: str, *, whole: Explanations | None = None) -> Kept:
    """Explanations whose making is not known, in a file: their content is their key."""
    found = kept_as(maps, label, whole=whole)
    if _loaded(folder / found.file) is None:
        replace(maps, images=None).save(folder / found.file)
    return found


def kept_as(maps: Explanations, label: str, *, whole: Explanations | None = None) -> Kept:
    """Where such explanations belong. `whole` is the set they were chosen from: it stays the same when a plan grows."""
    content = _hash(replace(maps, images=None))
    return Kept(f"{slug(label)}-{content}.parquet", content if whole is None else _hash(whole))


def _hash(maps: Explanations) -> str:
    return hashlib.sha256(to_parquet(maps)).hexdigest()[:16]


def is_whole(path: Path) -> bool:
    """Whether a file holds explanations that can be read."""
    return _loaded(path) is not None


def _loaded(path: Path) -> Explanations | None:
    """The explanations in a file; None if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        return Explanations.load(path)
    except RecordError:
        return None


def slug(label: Any) -> str:
    """A label as part of a file name."""
    return re.sub(r"[^\w]+", "-", Path(str(label)).name).strip("-")[:60] or "explanations"
