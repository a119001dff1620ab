"""One call explains a whole data set with any method, and goes on where it was stopped."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, overload
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from didact.core.aim import ALL, TARGETS, ClassIndex, aim, default_scale, refusal, target_names
from didact.core.batch import Batch
from didact.core.batching import row_batches
from didact.core.encode import device_of, encoded
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.function import FunctionTeacher
from didact.core.model import Model, TooLongError
from didact.core.outputs import Outputs
from didact.core.players import LEVELS
from didact.core.precision import SINGLE, answering_in, check_gradients, check_precision
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import (
    DataError,
    DidactError,
    ExplanationWarning,
    OptionError,
    ShapeError,
    UnsupportedError,
)
from didact.explainers import EXPLAINERS, is_learned
from didact.explainers.build import Built, build_explainer, in_new_names, knows_option
from didact.explainers.default import default_method
from didact.explainers.kernel_shap import AUTO_SAMPLES
from didact.explainers.learned import Learned, load_explainer
from didact.explainers.presets import preset_named
from didact.explaining.input_rows import labelled_rows, rows_of
from didact.explaining.score_checks import warn_of_scores
from didact.explaining.shard_store import ShardStore, shard_settings
from didact.explaining.to_columns import answers_of, columns_of, in_words, probabilities_of
from didact.records.atomic import check_new_file
from didact.records.by_class import ByClass
from didact.records.explanations import Explanations
from didact.records.normalise import absolute_of, normalised, parse_normalisation
from didact.records.origin import check_same_origin
from didact.records.parquet import is_explanations
from didact.registry import check_types, parse_spec, plain
from didact.render.progress import Progress

_SHARD = 256  # rows that are kept together, or fewer where each is asked about many times: what a killed run loses
_ASKED = 16_384  # questions to the teacher that are kept together, about


@dataclass(frozen=True)
class Asked:
    """The options that every method shares, each with its one default."""

    target: str | int = "predicted"
    scale: str | None = None
    level: str = "token"
    special: bool = False
    absolute: bool = False
    normalise: str = "raw"
    precision: str = SINGLE

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.level not in LEVELS:
            raise OptionError(f"Option 'level' is 'token' or 'word', not {self.level!r}.")
        parse_normalisation(self.normalise)


COMMON: Final = tuple(one.name for one in fields(Asked))


@overload
def explain(teacher: Teacher, data: Any, method: Any = ..., *, target: Literal["all"], **options: Any) -> ByClass: ...
@overload
def explain(teacher: Teacher, data: Any, method: Any = ..., **options: Any) -> Explanations: ...
def explain(
    teacher: Teacher,
    data: Any,
    method: str | Explainer | Callable[..., Any] | None = None,
    *,
    preset: str | None = None,
    background_rows: Any = None,
    batch_size: int | None = None,
    seed: int | None = None,
    outputs: Outputs | None = None,
    classes: Sequence[str] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **options: Any,
) -> Explanations | ByClass:
    """Explain rows, texts, pairs of texts or images with one method.

    Without a `method`, `didact.explainers.default.default_method` chooses: `lrp` for models on which its scores add up,
    `integrated_gradients` for other models, `occlusion` for functions. The result's `method` names it.
    Common options: `target` (predicted, gold, contrast, a class), `scale` (logit, probability, log_probability),
    `level` (token, word), `special` (score special tokens too), `absolute`, `normalise` (raw, softmax,
    softmax(temperature=0.1), top(k=0.1)), `precision` (single, bfloat16, float16: of a model's passes, for methods that
    take no gradient). All others are the method's own; docs/explainers.md lists them. `target="all"` explains every
    class, one after another, and returns the explanations by class (`ByClass`, a mapping that shows them side by side).
    `batch_size` (64) altered rows pass through the model at once; `seed` (0) decides random draws. `background_rows`
    are what gradient_shap and deep_shap compare with; the explained rows themselves if there are none. `outputs` are
    what the teacher answered to these rows, where that is known already: it is not asked again. Gold labels of a split
    are matched to the teacher's classes by name; `classes` names the data's classes in the teacher's order where the
    names differ. A data set that came from one file without splits is explained as a whole. With `out` the result is
    also kept there as Parquet, and a run that was stopped goes on where it was. A file there that holds no
    explanations, or those of another model, method, options or data, is replaced only with `overwrite`.

    Warns (`ExplanationWarning`) where scores that promise to add up are off by more than 5 % in the median of the rows.
    """
    rows = rows_of(teacher, data)
    if method is None:
        method = default_method(teacher, rows)
        _check_options_of_default(method, options)
    if options.get("target") == ALL and ALL not in (teacher.classes or ()):
        shared = {
            "preset": preset, "background_rows": background_rows, "batch_size": batch_size, "seed": seed,
            "outputs": outputs, "progress": progress,
        }  # fmt: skip
        return _every_class(teacher, rows, method, out, options | shared)
    asked, built = resolve(teacher, method, options, preset=preset, batch_size=batch_size, seed=seed)
    rows = labelled_rows(teacher, data, rows, classes=classes, required=asked.target == "gold")
    work = Work(teacher, rows, asked, built, batch_size or 64, outputs)
    work.check()
    check_learned(teacher, built.explainer)
    if out is not None and not isinstance(out, str | Path):
        raise OptionError(f"out must be the path of a file, not {out!r}.")
    path = None if out is None else check_new_file(Path(out), overwrite=overwrite, replaces=is_explanations)
    if path is not None:
        look_again(teacher)
        if not overwrite:
            work.check_origin(path, work.fingerprints if path.exists() else {})
    background = rows if background_rows is None else rows_of(teacher, background_rows)
    store = None if path is None else work.shard_store(path, background)
    maps = explain_shards(work, background, store, progress=progress)
    if store is not None:
        maps.save(store.path)
        store.clear()
    warn_of_scores(built.name, built.explainer, maps.residuals, maps.cautions, stacklevel=2)
    return maps


def _every_class(
    teacher: Teacher, rows: Sequence[Row], method: Any, out: str | Path | None, options: Mapping[str, Any]
) -> ByClass:
    """The rows explained once for each class."""
    if teacher.classes is None:
        raise OptionError(f"Target 'all' explains every class, and task {teacher.task} has none: leave target out.")
    if out is not None:
        raise OptionError(
            "Target 'all' explains several classes, and a file holds one: leave out (--out) out and save each, "
            "found['CLASS'].save(path), or name one class as the target."
        )
    maps = {}
    for index, name in enumerate(teacher.classes):
        target = ClassIndex(index) if name in TARGETS else name  # a class that is named like a kind of target
        maps[name] = explain(teacher, rows, method, **{**options, "target": target})
    return ByClass(maps)


def _check_options_of_default(method: str, options: Mapping[str, Any]) -> None:
    """An error for an option of another method, where no method was named."""
    strange = [name for name in options if name not in COMMON and not knows_option(method, name)]
    if strange:
        raise OptionError(
            f"No method was named, so this teacher is explained with {method!r}, which has no option {strange[0]!r}. "
            "Name the method that has it: method='integrated_gradients'."
        )


def check_learned(teacher: Teacher, explainer: Any) -> None:
    """A warning where an explainer was learned for another teacher, however alike it looks."""
    told = explainer.learned.get("teacher_fingerprint") if isinstance(explainer, Learned) else None
    if told is not None and isinstance(teacher, Model) and model_fingerprint(teacher) != told:
        warnings.warn(
            f"This explainer was learned for another teacher ({explainer.learned.get('teacher')}); what it weighs may "
            f"mean something else in {teacher.name!r}. Learn it anew (didact learn).",
            ExplanationWarning,
            stacklevel=3,
        )


def explain_shards(
    work: "Work",
    background: Sequence[Row],
    store: ShardStore | None,
    *,
    progress: bool = False,
    fill: "FillStore | None" = None,
) -> Explanations:
    """All rows of the work, shard by shard. With a `store`, finished shards are loaded from it and new ones saved.

    `fill` may explain what the store lacks elsewhere; what it leaves is explained here.
    """
    is_filled = fill is not None and store is not None and fill(work, background, store, progress)
    with torch.inference_mode(False):  # a caller's would leave nothing to take gradients of
        if isinstance(work.built.explainer, Explainer):
            with work.in_precision():
                work.built.explainer.prepare(work.teacher, background)
        with Progress(
            f"explaining with {work.built.name}", total=len(work.rows), shown=progress and not is_filled
        ) as bar:
            shards = [_shard(work, store, start, bar) for start in work.starts]
    return replace(Explanations.joined(shards), fingerprints=work.fingerprints, images=work.images)


def _shard(work: "Work", store: ShardStore | None, start: int, bar: Progress) -> Explanations:
    """The rows from `start` on: loaded if they were finished before, else explained now."""
    rows = work.rows[start : start + work.shard]
    if store is None:
        return work.explained(rows, bar)
    file = work.shard_file(store, start)
    shard = store.load(file)
    if shard is not None:
        bar.skip(len(rows))
        return shard
    shard = work.explained(rows, bar)
    store.save(file, shard)
    return shard


def resolve(
    teacher: Teacher,
    method: str | Explainer | Callable[..., Any],
    options: Mapping[str, Any],
    *,
    preset: str | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
) -> tuple[Asked, Built]:
    """Options sorted into those common to all and the method's own; unknown ones are refused."""
    given = {name: plain(value) for name, value in options.items()}
    shared = {"batch_size": plain(batch_size), "seed": plain(seed)}
    shared = {name: value for name, value in shared.items() if value is not None}
    if is_learned(method):
        method = load_explainer(str(method))
    if isinstance(method, str):
        spec = parse_spec(method)
        EXPLAINERS[spec.name]  # an unknown method is told before an unknown option
        twice = sorted(spec.options.keys() & (given | shared).keys())
        if twice:
            raise OptionError(f"Option {twice[0]!r} is given twice: in {method!r} and beside it.")
        method, given = spec.name, in_new_names(spec.name, given | dict(spec.options))
    for name, value in given.items():
        reason = refusal(teacher, name, value)
        if reason is not None:
            raise OptionError(reason)
    if preset is not None:
        if not isinstance(method, str):
            raise OptionError("A preset sets options of a named method, and this explainer is already made.")
        for name, value in preset_named(preset).options(method).items():
            if (name in COMMON or knows_option(method, name)) and refusal(teacher, name, value) is None:
                given.setdefault(name, value)
    made = getattr(method, "level", None)
    if made is not None and given.setdefault("level", made) != made:
        raise OptionError(f"The explainer was made with level={made!r}, and level={given['level']!r} was asked for.")
    common = {name: value for name, value in given.items() if name in COMMON}
    check_types(common, Asked, of="every method")
    asked = Asked(**common)
    own = {name: value for name, value in given.items() if name not in COMMON}
    if isinstance(method, str):
        wanted = {"level": asked.level} | shared
        own = {name: value for name, value in wanted.items() if knows_option(method, name)} | own
    check_types(shared, explain, of="explain")
    return asked, build_explainer(method, **own)


@dataclass(eq=False)
class Work:
    """Everything that decides the scores of a row."""

    teacher: Teacher
    rows: Sequence[Row]
    asked: Asked
    built: Built
    batch_size: int
    outputs: Outputs | None = None

    @property
    def shard(self) -> int:
        """How many rows are explained, and kept, together."""
        samples = self.built.options.get("samples")
        samples = AUTO_SAMPLES if samples == "auto" else samples
        return min(_SHARD, max(8, _ASKED // samples)) if isinstance(samples, int) and samples > 0 else _SHARD

    @property
    def starts(self) -> Sequence[int]:
        """The first row of each shard."""
        return range(0, len(self.rows), self.shard)

    def shard_store(self, path: Path, background: Sequence[Row]) -> ShardStore:
        """Where finished shards are kept until they are saved to `path`."""
        settings = shard_settings(
            self.teacher, self.fingerprints["teacher"], self.facts(background), shard=self.shard,
            batch_size=self.batch_size,
        )  # fmt: skip
        return ShardStore(path, settings, teacher=self.teacher.name, resumable=self.built.is_known)

    def shard_file(self, store: ShardStore, start: int) -> Path:
        """The file of the shard that begins with this row."""
        return store.file(start // self.shard, self.rows[start : start + self.shard])

    def check(self) -> None:
        """Refuse before any work what would be refused half way."""
        self._check_precision()
        if self.outputs is not None and not {row.id for row in self.rows} <= set(self.outputs.ids):
            raise ShapeError("The outputs given are not of all rows to explain. Leave them out: the teacher is asked.")
        if isinstance(self.teacher, Model) and len(self.rows) > _SHARD:  # else its one shard is encoded at once
            self.teacher.check_rows(self.rows)
        if self.built.name == "human":
            unmarked = [row.id for row in self.rows if row.rationale is None]
            if unmarked:
                raise DataError(
                    f"{len(unmarked)} of {len(self.rows)} rows have no rationale, and the explainer 'human' has "
                    "nothing else to show. Leave them out, or choose another method:",
                    unmarked,
                )

    def _check_precision(self) -> None:
        precision, name = self.asked.precision, self.built.name
        if not isinstance(self.teacher, Model):
            if precision != SINGLE:
                raise UnsupportedError(
                    f"precision={precision!r} is about models; teacher {self.teacher.name!r} computes as it does."
                )
            return
        if name in EXPLAINERS and EXPLAINERS[name].needs == "gradients":
            check_gradients(self.teacher, precision, method=name)

    @property
    def images(self) -> tuple[np.ndarray, ...] | None:
        images = tuple(row.image for row in self.rows if row.image is not None)
        return images or None

    @property
    def options(self) -> dict[str, Any]:
        """All options, the common and the method's own, as they were in force."""
        is_rated = self.teacher.task.name == "regression"
        shared = {name: value for name, value in vars(self.asked).items() if name != "precision" or value != SINGLE}
        found = shared | {"scale": None if is_rated else self.asked.scale or default_scale(self.teacher)}
        own = {name: value for name, value in self.built.options.items() if name != "batch_size"}
        if "replace" in own and isinstance(self.teacher, FunctionTeacher):
            own["replace"] = "absent"
        return found | own

    def facts(self, background: Sequence[Row]) -> dict[str, Any]:
        """What decides the scores beside teacher and rows."""
        version = self.built.explainer.version if isinstance(self.built.explainer, Explainer) else 0
        name, options = self.built.name, self.options
        return {"method": name, "version": version, "options": options, "background": fingerprint_of(background)}

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Of the teacher and of the rows. A function whose answers are not known is asked once more about each row."""
        if isinstance(self.teacher, FunctionTeacher):
            name = self.teacher.fingerprint(self.rows, self._known(self.rows))
        else:
            name = model_fingerprint(self.teacher) if isinstance(self.teacher, Model) else self.teacher.name
        return {"teacher": name, "data": fingerprint_of(self.rows)}

    def check_origin(self, path: Path, fingerprints: Mapping[str, str], *, advice: str = "") -> None:
        """An error if a file there holds explanations of another model, method or data."""
        check_same_origin(
            path, teacher=self.teacher.name, method=self.built.name, options=self.options, fingerprints=fingerprints,
            is_known=self.built.is_known, advice=advice,
        )  # fmt: skip

    def explained(self, rows: Sequence[Row], bar: Progress) -> Explanations:
        """The rows in batches of similar length, then in their own order again."""
        with self.in_precision():
            return self._explained(rows, bar)

    def in_precision(self) -> AbstractContextManager[None]:
        """While this lasts the teacher answers in the precision that was asked for."""
        if not isinstance(self.teacher, Model):
            return nullcontext()
        return answering_in(self.teacher, self.asked.precision, method=self.built.name)

    def _explained(self, rows: Sequence[Row], bar: Progress) -> Explanations:
        groups = row_batches(rows, self.batch_size)
        batches = self._encoded([[rows[index] for index in chosen] for chosen in groups])
        parts = []
        for chosen, batch in zip(groups, batches, strict=True):
            parts.append(self._batch([rows[index] for index in chosen], batch.to(device_of(self.teacher))))
            bar.advance(len(chosen))
        maps = Explanations.joined(parts).select(np.argsort([index for chosen in groups for index in chosen]))
        if self.asked.level == "word":
            maps = maps.words()
        if self.asked.absolute:
            maps = absolute_of(maps)
        maps = normalised(maps, self.asked.normalise)
        return replace(maps, options=self.options)

    def _encoded(self, groups: Sequence[Sequence[Row]]) -> list[Batch]:
        try:
            return [encoded(self.teacher, rows) for rows in groups]
        except TooLongError:  # of these rows; the caller wants to know of all
            assert isinstance(self.teacher, Model)
            self.teacher.check_rows(self.rows)
            raise

    def _answers(self, rows: Sequence[Row], batch: Batch) -> tuple[Tensor, list[str]]:
        """What the teacher says. Spans are known by characters only, so a reading teacher is always asked."""
        known = self._known(rows)
        if known is None or self.teacher.task.name == "reading":
            return answers_of(self.teacher, rows, batch)
        return torch.from_numpy(known.values).to(batch.device, torch.get_default_dtype()), in_words(self.teacher, known)

    def _known(self, rows: Sequence[Row]) -> Outputs | None:
        """What the teacher said about the rows, where that was given."""
        if self.outputs is None:
            return None
        return self.outputs.select(np.array([self._places[row.id] for row in rows], dtype=np.int64))

    @cached_property
    def _places(self) -> dict[str, int]:
        assert self.outputs is not None
        return {name: place for place, name in enumerate(self.outputs.ids)}

    def _batch(self, rows: Sequence[Row], batch: Batch) -> Explanations:
        if self.asked.special:
            batch = replace(batch, units=batch.mask)
        logits, predictions = self._answers(rows, batch)
        target = aim(self.teacher, rows, batch, logits, target=self.asked.target, scale=self.asked.scale)
        found = self.built.explainer(self.teacher, batch, target)
        if not isinstance(found, Explanation):
            raise ShapeError(f"Explainer {self.built.name!r} must return an Explanation, not {type(found).__name__}.")
        if found.scores.shape != batch.mask.shape or (found.units & ~batch.mask).any():
            raise ShapeError(
                f"Explainer {self.built.name!r} must score the positions of its batch, {tuple(batch.mask.shape)}, and "
                f"none that is padding; it gave scores of shape {tuple(found.scores.shape)}."
            )
        if not found.scores.isfinite().all():
            broken = [
                row.id for row, fine in zip(rows, found.scores.isfinite().all(-1).tolist(), strict=True) if not fine
            ]
            raise DidactError(
                f"{self.built.name!r} gave scores that are not finite for rows {', '.join(broken[:10])}. "
                "The model's weights or answers may hold NaN; look at teacher.predict(rows)."
            )
        names = target_names(self.teacher, rows, batch, target)
        sure = probabilities_of(self.teacher, logits)
        return columns_of(self.teacher, self.built.name, rows, batch, found, names, predictions, sure)


FillStore = Callable[[Work, Sequence[Row], ShardStore, bool], bool]  # work, background, store, progress


def model_fingerprint(model: Model) -> str:
    """The model's fingerprint, remembered while none of its tensors is changed or replaced."""
    tensors = [value for value in model.state_dict(keep_vars=True).values() if isinstance(value, Tensor)]
    state = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)  # int8 layers cannot be changed in place
    facts = (state, model.max_length, model.truncate)
    known = _FINGERPRINTS.get(model)
    if known is None or known[0] != facts:
        known = _FINGERPRINTS[model] = (facts, model.fingerprint())
    return known[1]


def look_again(teacher: Teacher) -> None:
    """Forget the fingerprint: weights can be changed unseen, and what is kept for long is named after a fresh look."""
    if isinstance(teacher, Model):
        _FINGERPRINTS.pop(teacher, None)


_FINGERPRINTS: WeakKeyDictionary[Model, tuple[Any, str]] = WeakKeyDictionary()


def explanation_facts(teacher: Teacher, method: Any, background: Sequence[Row]) -> dict[str, Any] | None:
    """Everything beside the rows that decides the scores of a method; None for one that was made elsewhere."""
    asked, built = resolve(teacher, method, {})
    if not built.is_known:
        return None
    return Work(teacher, (), asked, built, 64).facts(background)
