"""Caches the explanations of a run in files, which all students share. Only missing rows are explained."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from didact.core.explainer import Explainer
from didact.core.fingerprint import invalidate_fingerprint
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import DataError, RecordError
from didact.explainers.combine import stack_members
from didact.explainers.learned import name_of
from didact.explainers.mix import ComponentMix
from didact.explaining.component_scores import compute_component_scores
from didact.explaining.dataset import DatasetJob, ExplainShards
from didact.explaining.job import ExplainJob
from didact.explaining.score_checks import warn_about_scores
from didact.explaining.to_columns import gold_labels
from didact.files.store import key_of
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import to_parquet

# A spec, a file of explanations, explanations in memory, or an object.
Method = str | Explainer | Explanations | Callable[..., Any]
# Larger batches of a large model lose time in page faults: MiniLM at 128 tokens takes 1.3 to 1.5x with 64 rows.
_ON_CPU: Final = 16


@dataclass(frozen=True)
class CachedFile:
    """A file in the folder of the cache. The keys of the students that use it contain `key`."""

    name: str
    key: str


Members = Sequence[tuple[str, CachedFile]]  # the explanations that a blend combines, by name


@dataclass(frozen=True, eq=False)
class CacheLookup:
    """The file for the explanations of some rows, and older files that may hold some of these rows.

    `rows` is empty for explanations that the user passed: nothing is left to explain.
    """

    path: Path
    key: str
    rows: Sequence[Row] = ()
    older_files: Sequence[Path] = ()

    @property
    def file(self) -> CachedFile:
        return CachedFile(self.path.name, self.key)

    def missing_rows(self) -> Sequence[Row]:
        """The rows that no file holds."""
        return () if _load_readable(self.path) is not None else self.load_cached()[1]

    def load_cached(self) -> tuple[list[Explanations], list[Row]]:
        """Load the explanations of these rows from older files; return them and the missing rows."""
        cached: list[Explanations] = []
        covered: set[str] = set()
        for file in self.older_files:
            explanations = _load_readable(file)
            if explanations is None or explanations.is_image:  # only texts show whether a row is the same
                continue
            texts = dict(zip(explanations.ids, explanations.texts, strict=True))
            rows = [row for row in self.rows if row.id not in covered and texts.get(row.id) == row.texts]
            covered |= {row.id for row in rows}
            if rows:
                cached.append(select_rows(explanations, rows, label=file.name))
        return cached, [row for row in self.rows if row.id not in covered]


@dataclass(frozen=True, eq=False)
class ExplanationCache:
    """The explanations of one teacher, in files of one folder. When a plan grows, only its new rows are explained.

    `fingerprint` is that of the teacher, `background` are the rows that methods compare with, and `outputs` the
    teacher's answers, if known. `explain_shards` may explain shards in other processes.
    """

    folder: Path
    teacher: Teacher
    fingerprint: str
    background: Sequence[Row]
    outputs: Outputs | None = None
    progress: bool = False
    explain_shards: ExplainShards | None = None

    def explain(self, method: Method, rows: Sequence[Row], *, label: str, quiet: bool = False) -> CachedFile:
        """Return the file with the explanations of these rows. Missing rows are explained first."""
        explanations = as_explanations(method)
        if explanations is not None:
            return self._save_as_is(select_rows(explanations, rows, label=label), label, source=explanations)
        return self._explain(self._job(method), rows, label, quiet=quiet)

    def _explain(self, job: ExplainJob, rows: Sequence[Row], label: str, *, quiet: bool) -> CachedFile:
        cached = self._lookup(job, rows, label) if job.method.is_reproducible else None
        if cached is not None and is_readable_file(cached.path):
            return cached.file
        if cached is not None and job.base is not None:  # the method itself runs once for all its variants
            base = self._explain(job.base, rows, job.base_label, quiet=quiet)
            self._save(cached.path, rows, [job.derive(Explanations.load(self.folder / base.name))])
            return cached.file
        existing, missing = ([], rows) if cached is None else cached.load_cached()
        if cached is not None and not missing:
            self._save(cached.path, rows, existing)
            return cached.file
        dataset_job = DatasetJob(job, missing, self.outputs)
        dataset_job.check()
        progress = self.progress and not quiet
        if cached is None:
            new = dataset_job.explain(progress=progress)
            file = self._save_as_is(new, label)
        else:
            invalidate_fingerprint(self.teacher)
            store, file = dataset_job.store(cached.path), cached.file
            new = dataset_job.explain(store, progress=progress, explain_shards=self.explain_shards)
            self._save(cached.path, rows, [*existing, new])
            store.clear()
        warn_about_scores(job.method, new.residuals, new.cautions, stacklevel=3)
        return file

    def lookup(self, method: Method, rows: Sequence[Row], *, label: str) -> CacheLookup | None:
        """Find the file for the explanations of a method. None for an object, whose settings are unknown."""
        explanations = as_explanations(method)
        if explanations is not None:
            file = _content_key(select_rows(explanations, rows, label=label), label, source=explanations)
            return CacheLookup(self.folder / file.name, file.key)
        job = self._job(method)
        return self._lookup(job, rows, label) if job.method.is_reproducible else None

    def file_labels(self, method: Method, label: str) -> list[str]:
        """The labels in the names of the files that `explain` reads or writes: `label`, and those of its bases."""
        job = self._job(method) if isinstance(method, str) and as_explanations(method) is None else None
        labels = [label]
        while job is not None and job.base is not None:
            labels.append(job.base_label)
            job = job.base
        return labels

    def components(self, explainer: ComponentMix, rows: Sequence[Row], members: Members = ()) -> CachedFile:
        """Return the component scores of a learned explainer, in two files. A blend combines the `members`."""
        file = self.lookup_components(explainer, rows, members)
        path = self.folder / file.name
        if not ComponentScores.is_readable_file(path):
            if members:
                stack_members(
                    [(label, Explanations.load(self.folder / member.name)) for label, member in members]
                ).save(path)
            else:
                compute_component_scores(
                    self.teacher, rows, explainer, batch_size=batch_size_for(self.teacher), outputs=self.outputs,
                    background_rows=self.background, progress=self.progress,
                ).save(path)  # fmt: skip
        return file

    def lookup_components(self, explainer: ComponentMix, rows: Sequence[Row], members: Members = ()) -> CachedFile:
        """Find the files for the component scores of a learned explainer."""
        name = name_of(explainer)
        key_fields = {"teacher": self.fingerprint, "family": name, "version": explainer.version}
        key = key_of(key_fields | {"members": [(label, member.key) for label, member in members]})
        return CachedFile(f"parts-{name}-{key}-{_rows_key(rows)}", key)

    def _job(self, method: Any) -> ExplainJob:
        return ExplainJob.of(self.teacher, method, background=self.background, batch_size=batch_size_for(self.teacher))

    def _lookup(self, job: ExplainJob, rows: Sequence[Row], label: str) -> CacheLookup:
        key = key_of({"teacher": self.fingerprint, **job.score_settings})
        stem = f"{slug(label)}-{key}"
        # If labels or rationales decide the scores, the same text may need other scores than before.
        is_label = job.common.target == "gold" or job.teacher.reads_labels
        by_text = job.method.needs != "rationales" and not is_label
        older_files = sorted(self.folder.glob(f"{stem}-*.parquet")) if by_text else []
        return CacheLookup(self.folder / f"{stem}-{_rows_key(rows)}.parquet", key, rows, older_files)

    def _save(self, path: Path, rows: Sequence[Row], pieces: Sequence[Explanations]) -> None:
        """Join the pieces, put the rows in order, and save them."""
        fingerprints = {"teacher": pieces[-1].fingerprints["teacher"], "data": fingerprint_of(rows)}
        uniform = [
            replace(piece, fingerprints=fingerprints, teacher=self.teacher.name, images=None) for piece in pieces
        ]
        explanations = uniform[0] if len(uniform) == 1 else Explanations.joined(uniform)
        # The label of a text may have changed since it was explained.
        replace(select_rows(explanations, rows, label=path.name), labels=gold_labels(self.teacher, rows)).save(path)

    def _save_as_is(self, explanations: Explanations, label: str, *, source: Explanations | None = None) -> CachedFile:
        """Save explanations of unknown origin in a file whose key is a hash of their content."""
        file = _content_key(explanations, label, source=source)
        if not is_readable_file(self.folder / file.name):
            replace(explanations, images=None).save(self.folder / file.name)
        return file


def _rows_key(rows: Sequence[Row]) -> str:
    return key_of({row.id: fingerprint_of([row]) for row in rows})


def batch_size_for(teacher: Teacher) -> int | None:
    """A smaller batch size for large models on the CPU; None for the default of `explain`."""
    return _ON_CPU if teacher.pretrained == "everything" and teacher.device.type == "cpu" else None


def select_rows(explanations: Explanations, rows: Sequence[Row], *, label: str) -> Explanations:
    """Select the explanations of these rows by id.

    Raises `DataError` if a row is missing or explains another text. `label` names the explanations in the message.
    """
    index = {name: number for number, name in enumerate(explanations.ids)}
    missing = [row.id for row in rows if row.id not in index]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(rows)} rows that students see have no explanation in {label!r}. "
            "Explain the whole split 'train', or choose smaller training sizes. Missing are:",
            missing,
        )
    changed = [row.id for row in rows if row.image is None and explanations.texts[index[row.id]] != row.texts]
    if changed:
        raise DataError(f"{len(changed)} explanations in {label!r} explain other texts than the rows have:", changed)
    order = [index[row.id] for row in rows]
    return explanations if order == list(range(len(explanations))) else explanations.select(order)


def as_explanations(method: Method) -> Explanations | None:
    """Explanations that the user passed, as a file or in memory; None for a method that computes them."""
    if isinstance(method, str) and method.endswith(".parquet"):
        return Explanations.load(method)
    return method if isinstance(method, Explanations) else None


def _content_key(explanations: Explanations, label: str, *, source: Explanations | None = None) -> CachedFile:
    """The file for explanations of unknown origin. The key hashes `source`, which stays the same when a plan grows."""
    content = _hash_of(replace(explanations, images=None))
    return CachedFile(f"{slug(label)}-{content}.parquet", content if source is None else _hash_of(source))


def _hash_of(explanations: Explanations) -> str:
    return hashlib.sha256(to_parquet(explanations)).hexdigest()[:16]


def is_readable_file(path: Path) -> bool:
    """True if a file holds explanations and is not damaged."""
    return _load_readable(path) is not None


def _load_readable(path: Path) -> Explanations | None:
    """Load the explanations in a file; None if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        return Explanations.load(path)
    except RecordError:
        return None


def slug(label: Any) -> str:
    """A label as part of a file name."""
    return re.sub(r"[^\w]+", "-", Path(str(label)).name).strip("-")[:60] or "explanations"
