"""`didact.explain`: explains a whole data set with one method, and resumes stopped runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from didact.core.adapt import as_teacher
from didact.core.explainer import Explainer
from didact.core.fingerprint import invalidate_fingerprint
from didact.core.outputs import Outputs
from didact.core.resolve_target import ALL, TARGETS, ClassIndex
from didact.core.row import Row
from didact.core.teacher import Predictor, Teacher
from didact.errors import OptionError
from didact.explainers.build import knows_option
from didact.explainers.default import default_method
from didact.explaining.dataset import DatasetJob
from didact.explaining.input_rows import labelled_rows, rows_for
from didact.explaining.job import ExplainJob
from didact.explaining.method_options import COMMON
from didact.explaining.score_checks import warn_about_scores
from didact.files.atomic import check_new_file
from didact.results.by_class import ByClass
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import is_explanations


@overload
def explain(teacher: Predictor, data: Any, method: Any = ..., *, target: Literal["all"], **options: Any) -> ByClass: ...
@overload
def explain(teacher: Predictor, data: Any, method: Any = ..., **options: Any) -> Explanations: ...
def explain(
    teacher: Predictor,
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

    Args:
        teacher: The model to explain, from `load_teacher`, or any object with `name`, `task`, `classes` and `predict`.
        data: A text, a list of texts or rows, pairs of texts, images, or a data set. A data set from one file without
            splits is explained as a whole.
        method: A name with options (`"lime(samples=200)"`; `didact methods` prints all), an explainer, or a callable
            `(teacher, batch, target) -> scores`. Default: `lrp` where its scores add up, `integrated_gradients` for
            other models, `occlusion` for functions. The result's `method` names it.
        preset: Settings of a paper: pruthi, smat, l2e or neely.
        background_rows: Rows that `gradient_shap` and `deep_shap` compare with. Default: the explained rows.
        batch_size: Perturbed rows per forward pass (default: 64).
        seed: Seed of random draws (default: 0).
        outputs: The teacher's answers to these rows, if they are known. The teacher is then not asked again.
        classes: The data's class names in the teacher's order, if the names differ. Gold labels are matched by name.
        out: Parquet file to save the scores in. A stopped run resumes from it.
        overwrite: Replace a file in `out` that holds other content: no explanations, or those of another model, method,
            options or data.
        progress: Show a progress bar.
        **options: Options of all methods, and those of this method. Of all methods: `target` (predicted, gold,
            contrast, a class, or all), `scale` (logit, probability, log_probability), `level` (token, word), `special`
            (score special tokens, too), `absolute`, `normalise` (raw, softmax, softmax(temperature=0.1), top(k=0.1))
            and `precision` (single, bfloat16, float16; for methods without gradients). docs/explainers.md lists the
            others.

    Returns:
        `Explanations`, one per row. With `target="all"`, explanations by class (`ByClass`, a mapping).

    Raises:
        UnsupportedError: The teacher does not have what the method needs. The message names methods that work.

    Warns:
        ExplanationWarning: The scores of a method that promises completeness miss the output by more than 5 % in the
            median of the rows. The message names a remedy.

    Examples:
        ```python
        teacher = didact.load_teacher("runs/demo/teacher")
        maps = didact.explain(teacher, ["a good film", "a bad plot"], "gradient_input")
        maps.show()
        ```
    """
    teacher = as_teacher(teacher)
    rows = rows_for(teacher, data)
    method = _default_method(teacher, rows, options) if method is None else method
    resolve_options: dict[str, Any] = {"preset": preset, "batch_size": batch_size, "seed": seed}
    if options.get("target") == ALL and ALL not in (teacher.classes or ()):
        call_options = {
            **options,
            **resolve_options,
            "background_rows": background_rows,
            "outputs": outputs,
            "progress": progress,
        }
        return _explain_every_class(teacher, rows, method, out, call_options)
    job = ExplainJob.of(teacher, method, options, **resolve_options)
    rows = labelled_rows(teacher, data, rows, classes=classes, required=job.common.target == "gold")
    job.background = rows if background_rows is None else rows_for(teacher, background_rows)
    dataset_job = DatasetJob(job, rows, outputs)
    dataset_job.check()
    explanations = (
        dataset_job.explain(progress=progress)
        if out is None
        else _explain_to_file(dataset_job, out, overwrite, progress)
    )
    warn_about_scores(job.method, explanations.residuals, explanations.cautions, stacklevel=2)
    return explanations


def _explain_to_file(dataset_job: DatasetJob, out: str | Path, overwrite: bool, progress: bool) -> Explanations:
    """Explain into a file, and resume a stopped run."""
    if not isinstance(out, str | Path):
        raise OptionError(f"out must be the path of a file, not {out!r}.")
    path = check_new_file(Path(out), overwrite=overwrite, replaces=is_explanations)
    invalidate_fingerprint(dataset_job.job.teacher)
    if not overwrite:
        dataset_job.job.check_origin(path, dataset_job.fingerprints if path.exists() else {})
    store = dataset_job.store(path)
    explanations = dataset_job.explain(store, progress=progress)
    explanations.save(path)
    store.clear()
    return explanations


def _explain_every_class(
    teacher: Teacher, rows: Sequence[Row], method: Any, out: str | Path | None, options: Mapping[str, Any]
) -> ByClass:
    """Explain the rows once per class."""
    if teacher.classes is None:
        raise OptionError(f"Target 'all' explains every class, but task {teacher.task} has none. Leave target out.")
    if out is not None:
        raise OptionError(
            "Target 'all' explains several classes, but a file holds one. Leave out (--out) and save each class, "
            "result['CLASS'].save(path), or name one class as the target."
        )
    by_class = {}
    for index, name in enumerate(teacher.classes):
        target = ClassIndex(index) if name in TARGETS else name  # a class may have the name of a kind of target
        by_class[name] = explain(teacher, rows, method, **{**options, "target": target})
    return ByClass(by_class)


def _default_method(teacher: Teacher, rows: Sequence[Row], options: Mapping[str, Any]) -> str:
    """The default method for this teacher. Raises `OptionError` if it lacks one of the options."""
    method = default_method(teacher, rows)
    unknown = [name for name in options if name not in COMMON and not knows_option(method, name)]
    if unknown:
        raise OptionError(
            f"Without a method, this teacher is explained with {method!r}, which has no option {unknown[0]!r}. "
            "Name the method that has it: method='integrated_gradients'."
        )
    return method
