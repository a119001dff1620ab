"""Explanations of a run: computed once, kept, shared by all cells, and only those added that are missing."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from didact.core.encode import device_of
from didact.core.explainer import Explainer
from didact.core.fingerprint import forget_fingerprint
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
from didact.explaining.dataset import DatasetJob, FillStore
from didact.explaining.job import ExplainJob
from didact.explaining.score_checks import warn_of_scores
from didact.explaining.to_columns import gold_labels
from didact.files.store import key_of
from didact.models.native import NativeModel
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import to_parquet

# How an explainer may be given: by spec, as a file of explanations, as explanations, or as an object.
Method = str | Explainer | Explanations | Callable[..., Any]
# Larger batches of a large model spend their time in page faults: MiniLM, 128 pieces, 64 rows against 16: 1.3 to 1.5x.
_ON_CPU: Final = 16


@dataclass(frozen=True, eq=False)
class Kept:
    """A file of explanations in the run's folder, and what goes into the keys of the cells that use it."""

    file: str
    key: str


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
    given = as_explanations(method)
    if given is not None:
        return _keep_given(folder, chosen(given, rows, label=label), label, whole=given)
    job = _job(teacher, method, background)
    if not job.method.is_known:
        work = DatasetJob(job, rows, outputs)
        work.check()
        explanations = work.explain(progress=progress)
        warn_of_scores(job.method, explanations.residuals, explanations.cautions, stacklevel=2)
        return _keep_given(folder, explanations, label)
    cached = _lookup(folder, job, fingerprint, rows, label)
    if _loaded(cached.path) is not None:
        return cached.kept
    known, missing = cached.parts()
    if not missing:
        _save(cached.path, teacher, rows, known)
        return cached.kept
    work = DatasetJob(job, missing, outputs)
    work.check()
    forget_fingerprint(teacher)
    store = work.store(cached.path)
    new = work.explain(store, progress=progress, fill=fill)
    _save(cached.path, teacher, rows, [*known, new])
    store.clear()
    warn_of_scores(job.method, new.residuals, new.cautions, stacklevel=2)
    return cached.kept


def _save(path: Path, teacher: Teacher, rows: Sequence[Row], parts: Sequence[Explanations]) -> None:
    """Save the explanations of all rows, in their order, from the parts that hold some of them."""
    fingerprints = {"teacher": parts[-1].fingerprints["teacher"], "data": fingerprint_of(rows)}
    alike = [replace(part, fingerprints=fingerprints, teacher=teacher.name, images=None) for part in parts]
    explanations = alike[0] if len(alike) == 1 else Explanations.joined(alike)
    # The same text may have got another label since.
    replace(chosen(explanations, rows, label=path.name), labels=gold_labels(teacher, rows)).save(path)


@dataclass(frozen=True, eq=False)
class CacheLookup:
    """Where the explanations of some rows belong, and the files of smaller plans that may hold some of them.

    Of explanations that were given, no `rows` are left to explain.
    """

    path: Path
    key: str
    rows: Sequence[Row] = ()
    others: Sequence[Path] = ()

    @property
    def kept(self) -> Kept:
        return Kept(self.path.name, self.key)

    def missing_rows(self) -> Sequence[Row]:
        """The rows that are in none of the files."""
        return () if _loaded(self.path) is not None else self.parts()[1]

    def parts(self) -> tuple[list[Explanations], list[Row]]:
        """What the other files hold of the rows, and the rows they do not hold."""
        parts: list[Explanations] = []
        have: set[str] = set()
        for other in self.others:
            explanations = _loaded(other)
            if explanations is None or explanations.task == "image":  # texts tell whether a row is the same
                continue
            texts = dict(zip(explanations.ids, explanations.texts, strict=True))
            rows = [row for row in self.rows if row.id not in have and texts.get(row.id) == row.texts]
            have |= {row.id for row in rows}
            if rows:
                parts.append(chosen(explanations, rows, label=other.name))
        return parts, [row for row in self.rows if row.id not in have]


def lookup(
    folder: Path,
    teacher: Teacher,
    fingerprint: str,
    rows: Sequence[Row],
    method: Method,
    *,
    label: str,
    background: Sequence[Row],
) -> CacheLookup | None:
    """Where the explanations by a method are kept; None for a method whose making is not known."""
    given = as_explanations(method)
    if given is not None:
        cached = _content_key(chosen(given, rows, label=label), label, whole=given)
        return CacheLookup(folder / cached.file, cached.key)
    job = _job(teacher, method, background)
    return _lookup(folder, job, fingerprint, rows, label) if job.method.is_known else None


def _lookup(folder: Path, job: ExplainJob, fingerprint: str, rows: Sequence[Row], label: str) -> CacheLookup:
    key = key_of({"teacher": fingerprint, **job.facts})
    stem = f"{slug(label)}-{key}"
    # Where labels or rationales decide the scores, the same text may now have others.
    is_label = job.common.target == "gold" or isinstance(job.teacher, HumanTeacher)
    by_text = EXPLAINERS[job.method.name].needs != "rationales" and not is_label
    others = sorted(folder.glob(f"{stem}-*.parquet")) if by_text else []
    return CacheLookup(folder / f"{stem}-{_rows_key(rows)}.parquet", key, rows, others)


def _rows_key(rows: Sequence[Row]) -> str:
    return key_of({row.id: fingerprint_of([row]) for row in rows})


def _job(teacher: Teacher, method: Any, background: Sequence[Row]) -> ExplainJob:
    return ExplainJob.of(teacher, method, background=background, batch_size=batch_size_for(teacher))


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
    cached = located_parts(fingerprint, rows, explainer, members)
    path = folder / cached.file
    if not ComponentScores.is_whole(path):
        if members:
            blended([(label, Explanations.load(folder / kept.file)) for label, kept in members]).save(path)
        else:
            options: dict[str, Any] = {"background_rows": background, "outputs": outputs, "progress": progress}
            parts_of(teacher, rows, explainer, batch_size=batch_size_for(teacher), **options).save(path)
    return cached


def located_parts(
    fingerprint: str, rows: Sequence[Row], explainer: Mix, members: Sequence[tuple[str, Kept]] = ()
) -> Kept:
    """Where what a learned explainer weighs is kept."""
    name = name_of(explainer)
    facts = {"teacher": fingerprint, "family": name, "version": explainer.version}
    key = key_of(facts | {"members": [(label, kept.key) for label, kept in members]})
    return Kept(f"parts-{name}-{key}-{_rows_key(rows)}", key)


def batch_size_for(teacher: Teacher) -> int | None:
    """Large models on the CPU are asked in smaller batches; None leaves it to `explain`."""
    is_large = isinstance(teacher, Model) and not isinstance(teacher, NativeModel)
    return _ON_CPU if is_large and device_of(teacher).type == "cpu" else None


def chosen(maps: Explanations, rows: Sequence[Row], *, label: str) -> Explanations:
    """The explanations of these rows, found by id; all must be there and be about the same texts."""
    index = {name: number for number, name in enumerate(maps.ids)}
    missing = [row.id for row in rows if row.id not in index]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(rows)} rows that students see have no explanation in {label!r}. "
            "Explain the whole split 'train', or take smaller sizes. The first are:",
            missing,
        )
    other = [row.id for row in rows if row.image is None and maps.texts[index[row.id]] != row.texts]
    if other:
        raise DataError(f"{len(other)} explanations in {label!r} are about other texts than the rows have:", other)
    order = [index[row.id] for row in rows]
    return maps if order == list(range(len(maps))) else maps.select(order)


def as_explanations(method: Method) -> Explanations | None:
    """Explanations that are given as they are, by a file or at hand; None for a method that makes them."""
    if isinstance(method, str) and method.endswith(".parquet"):
        return Explanations.load(method)
    return method if isinstance(method, Explanations) else None


def _keep_given(folder: Path, maps: Explanations, label: str, *, whole: Explanations | None = None) -> Kept:
    """Explanations whose making is not known, in a file: their content is their key."""
    cached = _content_key(maps, label, whole=whole)
    if _loaded(folder / cached.file) is None:
        replace(maps, images=None).save(folder / cached.file)
    return cached


def _content_key(maps: Explanations, label: str, *, whole: Explanations | None = None) -> Kept:
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
