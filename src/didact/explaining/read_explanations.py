"""`didact.read_explanations`: reads explanations of other tools and aligns them with the rows of the data."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from didact.core.dataset import Dataset
from didact.core.row import Row, fingerprint_of
from didact.core.task import task_named
from didact.core.teacher import Predictor
from didact.core.words import word_index
from didact.errors import DataError, OptionError
from didact.explaining.input_rows import rows_with_ids
from didact.files.paths import check_readable, kind_at, shorten_path
from didact.importers import FORMATS
from didact.importers.align_rows import AlignedRows, align_rows
from didact.importers.detect import detect_format, is_scores_only
from didact.importers.parsed import ImportOptions
from didact.registry import checked_options, parse_spec, python_number, unknown_name_message
from didact.results.explanations import Explanations
from didact.results.explanations_checks import KINDS
from didact.results.explanations_parquet import is_explanations_parquet

_LOG = logging.getLogger(__name__)


def read_explanations(
    source: Any,
    data: Any,
    *,
    format: str | None = None,
    method: str | None = None,
    kind: str | None = None,
    target: str | int | None = None,
    tokens: Any = None,
    task: str | None = None,
    teacher: Predictor | None = None,
) -> Explanations:
    """Read explanations that another tool made, from a file or from its objects.

    Rows are matched by id; without ids by order, if all rows are there. Tokens are placed by their characters. A token
    that cannot be placed is refused with file, row and reason.

    Args:
        source: A file or an object of the tool.
        data: The rows, texts or data set that was explained.
        format: eraser, inseq, jsonl, arrays, shap or captum. Detected if the source allows it.
        method: The name to give to the method.
        kind: What scores mean: signed, magnitude, distribution or binary. Default: binary for marks, signed if any
            score is negative, else magnitude.
        target: The class of shap values or the step of inseq to read. For other formats, the name of what was
            explained.
        tokens: Lists of tokens, or a JSON file of them, for formats without tokens.
        task: The task of the data, if it is not known.
        teacher: The model that was explained. It names a class that is given by number, and predicts the target where
            the source does not name one. Without it, classes are named as in the data.

    Returns:
        `Explanations`, as from `explain`.

    Examples:
        ```python
        import json
        from pathlib import Path

        line = {"tokens": ["a", "good", "film"], "attributions": [0.0, 0.9, 0.1]}
        Path("scores.jsonl").write_text(json.dumps(line))
        maps = didact.read_explanations("scores.jsonl", ["a good film"], format="jsonl", method="mine")
        print(maps.top(1))
        ```
    """
    explanations = _read_source(
        source, data, format=format, method=method, kind=kind, target=target, tokens=tokens, task=task, teacher=teacher
    )
    if (warning := _class_name_warning(_source_name(source), explanations, data)) is not None:
        _LOG.warning(warning)
    return _with_targets(explanations, teacher)


def _read_source(
    source: Any,
    data: Any,
    *,
    format: str | None = None,
    method: str | None = None,
    kind: str | None = None,
    target: str | int | None = None,
    tokens: Any = None,
    task: str | None = None,
    teacher: Predictor | None = None,
) -> Explanations:
    target = python_number(target)
    if target is not None and (isinstance(target, bool) or not isinstance(target, str | int)):
        raise OptionError(f"target must be the name or the number of a class or step, got {target!r}.")
    if teacher is not None and not isinstance(teacher, Predictor):
        raise OptionError(f"teacher must be a teacher, such as didact.load_teacher returns, got {teacher!r}.")
    if kind is not None and kind not in KINDS:
        raise OptionError(unknown_name_message("kind", kind, KINDS))
    rows, has_order = _rows(data)
    if isinstance(source, str | Path):
        source = Path(source)
        if kind_at(source) in ("nothing", "special"):
            raise OptionError(f"There is no file or folder {shorten_path(source)} to read explanations from.")
        check_readable(source)
        if format is None and is_explanations_parquet(source):
            return _read_own_file(source, rows, method=method, kind=kind)
    elif format is None and tokens is not None and is_scores_only(source):
        source = {"scores": source}
    spec = parse_spec(format or detect_format(source))
    reader = FORMATS.load(spec.name)
    options = checked_options(spec.options, reader, of=f"format {spec.name!r}")
    name = str(source) if isinstance(source, Path) else f"The {spec.name} object"
    parsed = reader(source, name, rows, ImportOptions(target, tokens, kind), **options)
    aligned = align_rows(parsed, rows, kind="binary" if parsed.is_marked else kind, order=has_order)
    stem = source.name.partition(".")[0] if isinstance(source, Path) else spec.name
    explanations = _build_explanations(
        aligned,
        [rows[index] for index in aligned.rows],
        method=method or parsed.method or stem,
        kind=kind or _guess_kind(aligned, is_marked=parsed.is_marked),
        teacher=parsed.teacher,
        options={"format": spec.name, **options, **({} if target is None else {"target": target})},
        task=task_named(task).name if task is not None else _guess_task(data, rows),
        classes=_classes_of(data) if teacher is None else teacher.classes,
        target=None if spec.name in ("inseq", "shap") else target,
    )
    _log_rows(name, aligned, len(rows))
    return explanations


def _with_targets(explanations: Explanations, teacher: Predictor | None) -> Explanations:
    """Set the teacher's predictions as targets if the source does not say what it explains.

    Marks of people have no target: they do not depend on the teacher's answers.
    """
    if teacher is None or all(explanations.targets) or explanations.kind == "binary":
        return explanations
    if teacher.task.name != explanations.task or teacher.task.is_per_token:
        return explanations
    rows = [Row(id, texts) for id, texts in zip(explanations.ids, explanations.texts, strict=True)]
    predictions = teacher.task.format_answers(teacher.predict(rows), teacher.classes)
    answers = ["value"] * len(rows) if teacher.classes is None else predictions
    _LOG.info("The source does not say what its scores explain. The target is set to the teacher's prediction.")
    return replace(
        explanations,
        targets=tuple(
            target or teacher_answer for target, teacher_answer in zip(explanations.targets, answers, strict=True)
        ),
        predictions=tuple(
            prediction or teacher_answer
            for prediction, teacher_answer in zip(explanations.predictions, predictions, strict=True)
        ),
    )


def open_sets(sets: Iterable[Any], data: Any, teacher: Predictor | None = None) -> tuple[list[Any], list[str]]:
    """Read files of other tools, and leave didact's own as they are. Also returns warnings about what was read."""
    sources = list(sets)
    foreign = [source for source in sources if is_foreign_file(source)]
    if foreign and data is None:
        raise missing_data_error(foreign)
    loaded, warnings = [], []
    for source in sources:
        explanations = _read_source(source, data, teacher=teacher) if source in foreign else source
        warning = _class_name_warning(_source_name(source), explanations, data) if source in foreign else None
        loaded.append(_with_targets(explanations, teacher) if source in foreign else explanations)
        warnings += [] if warning is None else [warning]
    return loaded, warnings


def is_foreign_file(source: Any) -> bool:
    """True for a file or folder of another tool."""
    return (
        not isinstance(source, Explanations)
        and kind_at(source) != "nothing"
        and not is_explanations_parquet(Path(source))
    )


def missing_data_error(files: Iterable[Any]) -> OptionError:
    """The error for files of other tools without the data that they explain."""
    return OptionError(
        f"Not written by didact, or damaged: {', '.join(map(str, files))}. To match explanations of another tool "
        "with rows, give the data (--data)."
    )


def _classes_of(data: Any) -> tuple[str, ...] | None:
    return data.classes if isinstance(data, Dataset) else None


def _class_name_warning(name: str, explanations: Explanations, data: Any) -> str | None:
    """The warning if a source has classes, and the teacher's class names differ from those of the data."""
    teacher_classes, data_classes = explanations.classes, _classes_of(data)
    if (
        teacher_classes is None
        or data_classes is None
        or teacher_classes == data_classes
        or not any((*explanations.targets, *explanations.predictions))
    ):
        return None
    return (
        f"{name}: class numbers are read as the teacher's classes ({', '.join(teacher_classes)}), which differ from "
        f"those of the data ({', '.join(data_classes)})."
    )


def _source_name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else f"The {type(source).__name__}"


def _rows(data: Any) -> tuple[Sequence[Row], bool]:
    """The rows, and whether their order is defined. That of several splits is not."""
    has_order = not isinstance(data, Dataset) or len(data) == 1 or data.all_rows is not None
    rows: Sequence[Row]
    if isinstance(data, Dataset):
        rows = list(_merged(data) if data.all_rows is None else data.all_rows)
    else:
        rows = rows_with_ids(data)
    if any(row.image is not None for row in rows):
        raise OptionError("Explanations of images cannot be read: scores are placed by the characters of texts.")
    return rows, has_order


def _merged(data: Dataset) -> Iterable[Row]:
    """All rows of a data set. A row may be in two splits (teach and explain)."""
    rows: dict[str, Row] = {}
    for row in (row for split in data.values() for row in split):
        if rows.setdefault(row.id, row).texts != row.texts:
            raise OptionError(f"Two splits of {data.name!r} have different rows named {row.id!r}. Choose one split.")
    return rows.values()


def _build_explanations(
    aligned: AlignedRows,
    rows: Sequence[Row],
    *,
    method: str,
    kind: str,
    teacher: str,
    options: dict[str, object],
    task: str,
    classes: tuple[str, ...] | None,
    target: str | int | None,
) -> Explanations:
    words = [
        word_index(row.texts, aligned.segments[start:end], aligned.offsets[start:end])
        for row, start, end in zip(rows, aligned.bounds[:-1], aligned.bounds[1:], strict=True)
    ]
    return Explanations(
        method=method,
        kind=kind,
        options={**options, "special_left_out": aligned.special},
        task=task,
        classes=classes,
        teacher=teacher,
        fingerprints={"data": fingerprint_of(rows)},
        ids=tuple(row.id for row in rows),
        texts=tuple(row.texts for row in rows),
        bounds=aligned.bounds,
        tokens=aligned.tokens,
        segments=aligned.segments,
        word_index=np.concatenate(words),
        offsets=aligned.offsets,
        scores=aligned.scores,
        targets=tuple(
            _class_name(parsed_row.target if target is None else target, classes) for parsed_row in aligned.sources
        ),
        predictions=tuple(_class_name(parsed_row.prediction, classes) for parsed_row in aligned.sources),
        residuals=np.full(len(rows), np.nan),
    )


def _guess_kind(aligned: AlignedRows, *, is_marked: bool) -> str:
    return "binary" if is_marked else "signed" if (aligned.scores < 0).any() else "magnitude"


def _class_name(value: str | int | None, classes: Sequence[str] | None) -> str:
    """The name of a class, if known; else its number."""
    if isinstance(value, int) and classes is not None and 0 <= value < len(classes):
        return classes[value]
    return "" if value is None else str(value)


def _guess_task(data: Any, rows: Sequence[Row]) -> str:
    if isinstance(data, Dataset):
        return data.task.name
    labels = [row.label for row in rows if row.label is not None]
    if labels and all(isinstance(label, tuple) for label in labels):
        return "reading"
    if labels and all(isinstance(label, float) for label in labels):
        return "regression"
    return "pair" if len(rows[0].texts) > 1 else "classification"


def _read_own_file(path: Path, rows: Sequence[Row], *, method: str | None, kind: str | None) -> Explanations:
    """Load a file of didact. Raises `DataError` if it explains other rows or texts."""
    explanations = Explanations.load(path)
    known_texts = {row.id: row.texts for row in rows}
    faults = [f"row {id!r}: the data have no row of this id" for id in explanations.ids if id not in known_texts]
    faults += [
        f"row {id!r}: it explains another text than that of the data"
        for id, texts in zip(explanations.ids, explanations.texts, strict=True)
        if id in known_texts and known_texts[id] != texts
    ]
    if faults:
        raise DataError(f"{path} explains other rows than the data contain:", faults)
    return replace(explanations, method=method or explanations.method, kind=kind or explanations.kind)


def _log_rows(name: str, aligned: AlignedRows, rows: int) -> None:
    matching = "in the order of the data" if aligned.by_order else "by id"
    _LOG.info("%s: %d of %d rows of the data, matched %s.", name, len(aligned.rows), rows, matching)
    if aligned.special:
        _LOG.info("%s: %d special tokens were left out with their scores.", name, aligned.special)
