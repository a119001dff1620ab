"""What explanations are worth by every measure but teaching: faithfulness, plausibility, stability."""

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
    """Measure explanations, and give a data frame: method, metric, value, low, high, rows, skipped, better, how.

    `explanations` are sets, files that `save` wrote (or of other tools, which are read onto `data`), or several of
    either, all of the same rows. The `teacher` is asked for faithfulness; `data` (a data set, its name, or rows) hold
    the rationales. `metrics` names what is measured (`didact metrics` lists them; options in brackets:
    comprehensiveness(k=0.2)), by default all that can be. A metric of your own is any callable (explained, row) ->
    number with an attribute `better`, higher or lower. What is taken away is replaced by the mask token
    (`replace=mask`), deleted, padded or zero; `preset` is eraser or l2e. `level=word` joins pieces first. `encoder`
    tells which rows mean the same: a model, or minilm; the teacher by default. A `random` explanation stands beside
    the others unless `control=False`; `seed` draws it. `classes` names the data's classes in the teacher's order
    where the names differ, for a metric of your own that reads labels. `value` is the mean over rows, `low` and `high`
    its 95 % interval. `frame.attrs` holds notes, and tests between the methods.
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
    """As `evaluate`, with the numbers of every row."""
    asked = (
        None
        if metrics is None
        else _metrics([metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics))
    )
    replace = _replacement(**renamed_option({"replace": replace, "remove": remove}, "remove", "replace"), preset=preset)
    loaded = load_data(data) if isinstance(data, str | Path) else data
    known: Teacher | None = None if teacher is None else load_teacher(teacher)
    maps, said = _sets(explanations, loaded, known, level)
    special = [name for name, one in maps.items() if not one.is_image and (one.segments < 0).any()]
    maps = {name: without_special(one) for name, one in maps.items()}
    first = next(iter(maps.values()))
    if control and RANDOM not in maps:
        maps[RANDOM] = _random(first, seed, signed=any(one.kind == "signed" for one in maps.values()))
    rows, note = _labelled(_rows(first, loaded), loaded, first if known is None else known, classes)
    job = MetricsJob(maps, rows, known, loaded, encoder, replace, batch_size, said)
    if note is not None and any(parse_spec(name).name not in METRICS for name in asked or ()):
        job.notes.append(note)
    if special:
        job.notes.append(f"Scores of special tokens were left out: {', '.join(special)}.")
    return job.run(job.applicable_metrics() if asked is None else asked, progress)


# -- what is asked for ------------------------------------------------------------------------------------------------


def _metrics(asked: Sequence[str | Callable[..., Any]]) -> dict[str, object]:
    """Metrics by what they are called, with their options; those of the caller's own by their names."""
    found: dict[str, object] = {}
    for one in asked:
        one = METRICS.name_of(one) or one if isfunction(one) else one  # a decorated function goes by its name
        if isinstance(one, str):
            spec = parse_spec(one)
            made = METRICS.load(spec.name)
            options = checked_options(spec.options, made, of=spec.name)
            check_option_types(options, made, of=spec.name)
            found[str(spec)] = METRICS.build(spec.name, options)
        else:
            found[_own_name(one, found)] = one
    if not found:
        raise OptionError("Name a metric, or leave the choice to didact. `didact metrics` lists them.")
    return found


def _own_name(metric: Any, taken: Mapping[str, object]) -> str:
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if not callable(metric) or isinstance(metric, type):
        raise OptionError(f"A metric is a name, or a callable (explained, row) -> number, not {metric!r}.")
    if getattr(metric, "better", None) not in ("higher", "lower"):
        raise OptionError(f"Is a higher {name} better, or a lower one? Say so: {name}.better = 'higher' (or 'lower').")
    if name in METRICS or name in taken:
        raise OptionError(f"There is a metric named {name!r} already. Give yours another name.")
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
            f"Preset {preset!r} means replace={PRESETS[preset]}, and replace={replace} was asked for, too."
        )
    return PRESETS[preset]


def _sets(
    explanations: Any, data: Any, teacher: Teacher | None, level: str | None
) -> tuple[dict[str, Explanations], list[str]]:
    """Explanations by name, all with the rows of the first; and what must be told of files of other tools."""
    if level not in (None, *LEVELS):
        raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
    is_one = isinstance(explanations, str | Path | Explanations) or not isinstance(explanations, Iterable)
    several = [explanations] if is_one else list(explanations)
    if not several:
        raise OptionError("There is nothing to measure: give explanations, or files of them.")
    check_sets(several)
    found, said = open_sets(several, data, teacher)
    return match_rows(label_sets({"all": [ExplanationSet.of(one, level) for one in found]})["all"]), said


def _rows(maps: Explanations, data: Any) -> list[Row]:
    """The rows that were explained, with rationales where the data have them."""
    if data is None:
        images = maps.images or (None,) * len(maps)
        return [Row(name, texts, image) for name, texts, image in zip(maps.ids, maps.texts, images, strict=True)]
    known: dict[str, list[Row]] = {}
    for row in data.iter_rows() if isinstance(data, Dataset) else rows_with_ids(data):
        known.setdefault(row.id, []).append(row)
    missing = [name for name in maps.ids if name not in known]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(maps):,} explained rows are not in the data. Give the data that they are of. "
            "Missing are:",
            missing,
        )
    found, other = [], []
    for name, texts in zip(maps.ids, maps.texts, strict=True):
        same = [row for row in known[name] if row.image is not None or row.texts == texts]
        found.append((same or known[name])[0])
        other += [] if same else [name]
    if other:
        raise DataError(f"{len(other):,} of {len(maps):,} explained rows have other texts in the data:", other)
    return found


def _labelled(
    rows: list[Row], data: Any, model: Teacher | Explanations, classes: Sequence[str] | None
) -> tuple[list[Row], str | None]:
    """The rows with labels as indices into the classes of what was explained: a metric of the caller's may read them.

    Labels that do not fit are left out, with a note, unless `classes` says which is which.
    """
    known = Split("explained", rows, data.classes if isinstance(data, Dataset | Split) else None)
    found, note = align_rows(known, model.classes, classes=classes, required=False)
    return list(found), note


def _random(maps: Explanations, seed: int, *, signed: bool) -> Explanations:
    """Scores drawn for each row: what an explanation that knows nothing reaches."""
    drawn = [numpy_generator(seed, "random", name).random(len(one)) for name, one in zip(maps.ids, maps, strict=True)]
    scores = np.concatenate([*drawn, np.zeros(0)])
    return replace(
        maps, method=RANDOM, options={}, fingerprints={}, kind="signed" if signed else "magnitude",
        scores=2 * scores - 1 if signed else scores, residuals=np.full(len(maps), np.nan), alignments=None,
        cautions=(),
    )  # fmt: skip
