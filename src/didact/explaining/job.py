"""`ExplainJob`: one method and one teacher, ready to explain rows."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from didact.core.batch import Batch
from didact.core.batching import row_batches
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.fingerprint import cached_fingerprint
from didact.core.model import TooLongError
from didact.core.outputs import Outputs
from didact.core.precision import SINGLE, check_method, in_precision
from didact.core.resolve_target import resolve_target, target_names
from didact.core.row import Row, fingerprint_of
from didact.core.teacher import Differentiable, Teacher
from didact.core.truth import has_truth
from didact.errors import DataError, DidactError, ExplanationWarning, ShapeError
from didact.explainers import is_learned
from didact.explainers.build import ResolvedMethod
from didact.explainers.kernel_shap import AUTO_SAMPLES
from didact.explainers.learned import LearnedExplainer
from didact.explainers.variants import Variant
from didact.explaining.input_rows import rows_for
from didact.explaining.method_options import CommonOptions, resolve_method
from didact.explaining.to_columns import BatchAnswers, batch_to_columns
from didact.registry import Spec, parse_spec
from didact.results.explanations import Explanations
from didact.results.origin import check_same_origin
from didact.results.transforms import absolute_scores, normalise_scores
from didact.viz.progress import Progress

SHARD_ROWS: Final = 256  # maximum rows per shard: what a killed run loses
_SHARD_CALLS: Final = 16_384  # perturbed rows per shard, about: a method with many samples gets smaller shards
_BATCH: Final = 64


@dataclass(eq=False)
class ExplainJob:
    """A method with its options, and a teacher: everything that decides scores, except the rows.

    The method is prepared once, with the `background`, or else with the first explained row.
    """

    teacher: Teacher
    common: CommonOptions
    method: ResolvedMethod
    batch_size: int = _BATCH
    background: Sequence[Row] | None = None
    _is_prepared: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls,
        teacher: Teacher,
        method: Any,
        options: Mapping[str, Any] | None = None,
        *,
        background: Sequence[Row] | None = None,
        batch_size: int | None = None,
        **resolve_options: Any,
    ) -> "ExplainJob":
        """Make the job from a user's method and options. Further options are those of `resolve_method`."""
        common, built = resolve_method(teacher, method, options or {}, batch_size=batch_size, **resolve_options)
        return cls(teacher, common, built, batch_size or _BATCH, background)

    @property
    def title(self) -> str:
        """The title of the progress bar."""
        return f"explaining with {self.method.name}"

    @cached_property
    def base(self) -> "ExplainJob | None":
        """The job whose explanations a variant of another method changes. Made on first use, with the background."""
        explainer = self.method.explainer
        if not isinstance(explainer, Variant):
            return None
        common = replace(self.common, absolute=False, normalise="raw")  # these apply to the changed scores
        return ExplainJob(self.teacher, common, explainer.base, self.batch_size, self.background)

    @property
    def base_label(self) -> str:
        """The name under which a comparison stores the explanations of `base`; "" for other methods."""
        if self.base is None:
            return ""
        name = self.method.explainer.base_name  # type: ignore[attr-defined]
        if is_learned(name):
            return Path(name).name
        spec, default = parse_spec(name), CommonOptions()
        common = {key: value for key, value in vars(self.base.common).items() if value != getattr(default, key)}
        return str(Spec(spec.name, {**spec.options, **common}))

    @property
    def shard_rows(self) -> int:
        """Rows per shard of a data set."""
        if self.base is not None:
            return self.base.shard_rows
        samples = self.method.options.get("samples")
        samples = AUTO_SAMPLES if samples == "auto" else samples
        if not isinstance(samples, int) or samples <= 0:
            return SHARD_ROWS
        return min(SHARD_ROWS, max(8, _SHARD_CALLS // samples))

    @cached_property
    def options(self) -> dict[str, Any]:
        """All options in effect: those that every method shares, and those of the method."""
        shared = {name: value for name, value in vars(self.common).items() if name != "precision" or value != SINGLE}
        shared["scale"] = None if self.teacher.task.is_score else self.common.scale or self.teacher.default_scale
        method_options = {name: value for name, value in self.method.options.items() if name != "batch_size"}
        if "replace" in method_options and not isinstance(self.teacher, Differentiable):
            method_options["replace"] = "absent"
        return shared | method_options

    @property
    def score_settings(self) -> dict[str, Any]:
        """What decides the scores, except teacher and rows."""
        explainer = self.method.explainer
        return {
            "method": self.method.name,
            "version": explainer.version if isinstance(explainer, Explainer) else 0,
            "options": self.options,
            "background": fingerprint_of(self.background or ()),
            **({} if self.base is None else {"base": self.base.score_settings}),
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the scores to the last digit, except the rows."""
        return {
            "teacher": self.fingerprint,
            "threads": torch.get_num_threads(),
            "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "device": self.teacher.device.type,
            "batch_size": self.batch_size,
            **self.score_settings,
        }

    @cached_property
    def fingerprint(self) -> str | None:
        """The fingerprint of the teacher. None for a function, whose answers are hashed instead."""
        return cached_fingerprint(self.teacher)

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprints that each shard stores."""
        return {"teacher": self.fingerprint or "function"}

    def check_origin(self, path: Path, fingerprints: Mapping[str, str], *, advice: str = "") -> None:
        """Raise an error if the file at `path` holds explanations of another model, method or data."""
        check_same_origin(
            path,
            teacher=self.teacher.name,
            method=self.method.name,
            options=self.options,
            fingerprints=fingerprints,
            is_reproducible=self.method.is_reproducible,
            advice=advice,
        )

    def check(self, rows: Sequence[Row]) -> None:
        """Raise errors now that would otherwise come in the middle of the work."""
        if self.base is not None:
            self.base.check(rows)
            return
        name = self.method.name
        check_method(self.teacher, name, self.method.needs, self.common.precision)
        without_rationale = [row.id for row in rows if row.rationale is None] if name == "human" else []
        unknown = [row.id for row in rows if not has_truth(row, self.teacher)] if name == "truth" else []
        if unknown:
            raise DataError(
                f"The true scores of {len(unknown)} of {len(rows)} rows are unknown: the teacher is not exact "
                "(teacher_from_sklearn, teacher_from_lexicon), and the rows have no rationale_weights "
                "(planted/graded). Choose 'human' if they have rationales, or another method:",
                unknown,
            )
        if without_rationale:
            raise DataError(
                f"{len(without_rationale)} of {len(rows)} rows have no rationale, which the explainer 'human' "
                "needs. Leave these rows out, or choose another method:",
                without_rationale,
            )

    def check_learned(self) -> None:
        """Warn if the explainer was learned for another teacher."""
        if self.base is not None:
            self.base.check_learned()
        explainer = self.method.explainer
        if not isinstance(explainer, LearnedExplainer) or self.fingerprint is None:
            return
        if explainer.learned.get("teacher_fingerprint") not in (None, cached_fingerprint(self.teacher)):
            warnings.warn(
                f"This explainer was learned for another teacher ({explainer.learned.get('teacher')}). Its "
                f"weights may not suit {self.teacher.name!r}. Learn one for this teacher (didact learn).",
                ExplanationWarning,
                stacklevel=4,
            )

    def explain(self, rows: Sequence[Row], outputs: Outputs | None = None, bar: Progress | None = None) -> Explanations:
        """Explain the rows in batches of similar length. `outputs` are the teacher's answers, in row order."""
        if self.base is not None:
            return self.derive(self.base.explain(rows, outputs, bar))
        self.check(rows_for(self.teacher, rows))
        groups = row_batches(rows, self.batch_size)
        pieces = []
        teacher = in_precision(self.teacher, self.common.precision, method=self.method.name)  # copies a model
        with torch.inference_mode(False):  # a caller's inference mode would disable gradients
            self._prepare(teacher, rows)
            for indices, batch in zip(groups, _encode(teacher, rows, groups), strict=True):
                batch_outputs = None if outputs is None else outputs.select(np.array(indices))
                batch_rows = [rows[index] for index in indices]
                pieces.append(self._explain_batch(teacher, batch_rows, batch.to(teacher.device), batch_outputs))
                if bar is not None:
                    bar.advance(len(indices))
        explanations = Explanations.joined(pieces).select(np.argsort(np.concatenate(groups)))
        if self.common.level == "word":
            explanations = explanations.words()
        return self._finished(explanations)

    def derive(self, explanations: Explanations) -> Explanations:
        """The variant of explanations by `base`."""
        explainer = self.method.explainer
        assert isinstance(explainer, Variant)
        changed = explainer.transform(explanations)
        return self._finished(replace(changed, method=self.method.name, options=self.options))

    def _finished(self, explanations: Explanations) -> Explanations:
        """Apply the options that change finished scores."""
        if self.common.absolute:
            explanations = absolute_scores(explanations)
        return normalise_scores(explanations, self.common.normalise)

    def _prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        if isinstance(self.method.explainer, Explainer) and not self._is_prepared:
            self.method.explainer.prepare(teacher, self.background or rows[:1])
        self._is_prepared = True

    def _explain_batch(
        self, teacher: Teacher, rows: Sequence[Row], batch: Batch, outputs: Outputs | None
    ) -> Explanations:
        if self.common.special:
            batch = replace(batch, units=batch.mask)
        answers = BatchAnswers.of(teacher, rows, batch, outputs)
        target = resolve_target(
            teacher, rows, batch, answers.logits, target=self.common.target, scale=self.common.scale
        )
        explanation = self.method.explainer(teacher, batch, target)
        _check_scores(explanation, rows, batch, method=self.method.name)
        return batch_to_columns(
            teacher,
            rows,
            batch,
            explanation,
            answers,
            target_names(teacher, rows, batch, target),
            method=self.method.name,
            options=self.options,
            fingerprints=self.fingerprints,
        )


def _encode(teacher: Teacher, rows: Sequence[Row], groups: Sequence[Sequence[int]]) -> list[Batch]:
    try:
        return [teacher.encode([rows[index] for index in indices]) for indices in groups]
    except TooLongError:  # names the rows of one batch; the caller needs those of all batches
        teacher.check_rows(rows)
        raise


def _check_scores(explanation: Any, rows: Sequence[Row], batch: Batch, *, method: str) -> None:
    """Raise an error if the explainer did not return an explanation of the batch."""
    if not isinstance(explanation, Explanation):
        raise ShapeError(f"Explainer {method!r} must return an Explanation, not {type(explanation).__name__}.")
    if explanation.scores.shape != batch.mask.shape or (explanation.units & ~batch.mask).any():
        raise ShapeError(
            f"Explainer {method!r} must score the positions of its batch, of shape {tuple(batch.mask.shape)}, except "
            f"padding. It returned scores of shape {tuple(explanation.scores.shape)}."
        )
    is_finite = explanation.scores.isfinite().all(-1).tolist()
    if not all(is_finite):
        faulty = [row.id for row, finite in zip(rows, is_finite, strict=True) if not finite]
        raise DidactError(
            f"{method!r} returned scores that are not finite for rows {', '.join(faulty[:10])}. "
            "The model's weights or answers may contain NaN: check teacher.predict(rows)."
        )
