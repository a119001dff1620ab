"""`didact.evaluate`: scores explanations with metrics of faithfulness, plausibility and stability."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np

from didact.core.classes import align_rows
from didact.core.dataset import Dataset, Split
from didact.core.perturb import DEFAULT, check_replace
from didact.core.row import Row
from didact.core.seeds import numpy_generator
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.errors import DataError, OptionError
from didact.evaluation.metrics_frame import metrics_frame
from didact.evaluation.metrics_job import RANDOM, MetricsJob
from didact.explaining.align_sets import LEVELS, ExplanationSet, check_sets, label_sets, match_rows, without_special
from didact.explaining.input_rows import rows_with_ids
from didact.explaining.read_explanations import open_sets
from didact.metrics import METRICS
from didact.metrics.probe import PRESETS
from didact.models.load import load_teacher
from didact.option_types import check_option_types, renamed_option
from didact.registry import checked_options, parse_spec, unknown_name_message
from didact.results.evaluation import Evaluation
from didact.results.explanations import Explanations


def evaluate(explanations: Any, teacher: Any = None, data: Any = None, **options: Any) -> Any:
    """Score explanations by faithfulness, plausibility and stability, with a random explanation beside them.

    Args:
        explanations: One or several sets of explanations of the same rows, or files of them. Files of other tools are
            read onto `data`.
        teacher: The model that was explained. Faithfulness needs it.
        data: A data set, its name, or rows. Plausibility needs their rationales.
        **options: `metrics` are names with options (`"comprehensiveness(k=0.2)"`; `didact metrics` prints all) or
            callables `(explained, row) -> number` with an attribute `better` (higher or lower); by default, all that
            can be computed except `f_fidelity`, which tunes a copy of the teacher on rows of `data` that are not
            explained. `replace` says what stands in the place of a removed unit: mask, delete, pad or zero.
            `preset` is eraser or l2e. `level="word"` joins pieces first. `encoder` says which rows are similar: a
            model, or minilm (default: the teacher). `control=False` leaves out the random explanation, and `seed` draws
            it. `batch_size` perturbed rows pass through the model at once. `classes` holds the data's class names in
            the teacher's order, if they differ. `progress` shows a progress bar.

    Returns:
        A pandas DataFrame with the columns method, metric, value, low, high, rows, skipped, better and how. `value` is
        the mean over rows, `low` and `high` its 95 % interval. `frame.attrs` holds notes, and tests between methods.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        maps = didact.explain(teacher, data["test"][:10], "gradient_input")
        frame = didact.evaluate(maps, teacher, data, metrics=["comprehensiveness", "roc_auc"])
        print(frame[["method", "metric", "value", "low", "high"]])
        ```
    """
    return metrics_frame(run_evaluation(explanations, teacher, data, **options))


def run_evaluation(
    explanations: Any,
    teacher: Any = None,
    data: Any = None,
    *,
    metrics: Sequence[str | Callable[..., Any]] | str | Callable[..., Any] | None = None,
    replace: str | None = None,
    remove: str | None = None,
    preset: str | None = None,
    level: str | None = None,
    encoder: Any = None,
    control: bool = True,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool = False,
    classes: Sequence[str] | None = None,
) -> Evaluation:
    """Run `evaluate`, but return the values of every row (`Evaluation`)."""
    requested = (
        None
        if metrics is None
        else _build_metrics([metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics))
    )
    replace = _replacement(**renamed_option({"replace": replace, "remove": remove}, "remove", "replace"), preset=preset)
    loaded_data = load_data(data) if isinstance(data, str | Path) else data
    loaded_teacher: Teacher | None = None if teacher is None else load_teacher(teacher)
    sets, notes = _open_sets(explanations, loaded_data, loaded_teacher, level)
    with_special = [name for name, item in sets.items() if not item.is_image and (item.segments < 0).any()]
    sets = {name: without_special(item) for name, item in sets.items()}
    first = next(iter(sets.values()))
    if control and RANDOM not in sets:
        sets[RANDOM] = _random_control(first, seed, signed=any(item.kind == "signed" for item in sets.values()))
    rows, note = _labelled(
        _explained_rows(first, loaded_data), loaded_data, first if loaded_teacher is None else loaded_teacher, classes
    )
    job = MetricsJob(sets, rows, loaded_teacher, loaded_data, encoder, replace, batch_size, notes)
    if note is not None and any(parse_spec(name).name not in METRICS for name in requested or ()):
        job.notes.append(note)
    if with_special:
        job.notes.append(f"Scores of special tokens were left out: {', '.join(with_special)}.")
    return job.run(job.applicable_metrics() if requested is None else requested, progress)


# -- reading the arguments ---------------------------------------------------------------------------------------------


def _build_metrics(requested: Sequence[str | Callable[..., Any]]) -> dict[str, object]:
    """Metrics by their spec; the caller's own metrics by the name of the callable."""
    metrics: dict[str, object] = {}
    for metric in requested:
        # A decorated function goes by its name.
        metric = METRICS.name_of(metric) or metric if isfunction(metric) else metric
        if isinstance(metric, str):
            spec = parse_spec(metric)
            factory = METRICS.load(spec.name)
            options = checked_options(spec.options, factory, of=spec.name)
            check_option_types(options, factory, of=spec.name)
            metrics[str(spec)] = METRICS.build(spec.name, options)
        else:
            metrics[_custom_name(metric, metrics)] = metric
    if not metrics:
        raise OptionError("Name at least one metric, or leave metrics out for all. `didact metrics` lists them.")
    return metrics


def _custom_name(metric: Any, taken: Mapping[str, object]) -> str:
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if not callable(metric) or isinstance(metric, type):
        raise OptionError(f"A metric must be a name or a callable (explained, row) -> number, got {metric!r}.")
    if getattr(metric, "better", None) not in ("higher", "lower"):
        raise OptionError(f"Metric {name} lacks a direction. Set {name}.better = 'higher' (or 'lower').")
    if name in METRICS or name in taken:
        raise OptionError(f"A metric named {name!r} exists already. Give yours another name.")
    return name


def _replacement(replace: str | None, preset: str | None) -> str:
    if replace is not None:
        check_replace(replace)
    if preset is None:
        return replace or DEFAULT
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset of removal", preset, list(PRESETS)))
    if replace not in (None, PRESETS[preset]):
        raise OptionError(
            f"Preset {preset!r} sets replace={PRESETS[preset]}, which excludes replace={replace}. Give one of the two."
        )
    return PRESETS[preset]


def _open_sets(
    explanations: Any, data: Any, teacher: Teacher | None, level: str | None
) -> tuple[dict[str, Explanations], list[str]]:
    """Explanations by label, all with the rows of the first set. Also returns notes about files of other tools."""
    if level not in (None, *LEVELS):
        raise OptionError(f"level must be 'token' or 'word', got {level!r}.")
    is_one = isinstance(explanations, str | Path | Explanations) or not isinstance(explanations, Iterable)
    sources = [explanations] if is_one else list(explanations)
    if not sources:
        raise OptionError("There is nothing to score: give explanations, or files of them.")
    check_sets(sources)
    sets, notes = open_sets(sources, data, teacher)
    return match_rows(label_sets({"all": [ExplanationSet.of(item, level) for item in sets]})["all"]), notes


def _explained_rows(explanations: Explanations, data: Any) -> list[Row]:
    """The explained rows, with rationales if the data have them."""
    if data is None:
        images = explanations.images or (None,) * len(explanations)
        return [
            Row(name, texts, image)
            for name, texts, image in zip(explanations.ids, explanations.texts, images, strict=True)
        ]
    candidates: dict[str, list[Row]] = {}
    for row in data.iter_rows() if isinstance(data, Dataset) else rows_with_ids(data):
        candidates.setdefault(row.id, []).append(row)
    missing = [name for name in explanations.ids if name not in candidates]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(explanations):,} explained rows are not in the data. Give the data "
            "that contain them. Missing are:",
            missing,
        )
    rows, changed = [], []
    for name, texts in zip(explanations.ids, explanations.texts, strict=True):
        matching = [row for row in candidates[name] if row.image is not None or row.texts == texts]
        rows.append((matching or candidates[name])[0])
        changed += [] if matching else [name]
    if changed:
        raise DataError(
            f"{len(changed):,} of {len(explanations):,} explained rows have other texts in the data:", changed
        )
    return rows


def _labelled(
    rows: list[Row], data: Any, model: Teacher | Explanations, classes: Sequence[str] | None
) -> tuple[list[Row], str | None]:
    """Map labels to indices of the explained classes, for metrics of the caller that read them.

    Labels that match no class are removed, with a note, unless `classes` maps them.
    """
    split = Split("explained", rows, data.classes if isinstance(data, Dataset | Split) else None)
    aligned, note = align_rows(split, model.classes, classes=classes, required=False)
    return list(aligned), note


def _random_control(explanations: Explanations, seed: int, *, signed: bool) -> Explanations:
    """Uniformly random scores for each row: chance level for any metric."""
    draws = [
        numpy_generator(seed, "random", name).random(len(row))
        for name, row in zip(explanations.ids, explanations, strict=True)
    ]
    scores = np.concatenate([*draws, np.zeros(0)])
    return replace(
        explanations, method=RANDOM, options={}, fingerprints={}, kind="signed" if signed else "magnitude",
        scores=2 * scores - 1 if signed else scores, residuals=np.full(len(explanations), np.nan), alignments=None,
        cautions=(),
    )  # fmt: skip
