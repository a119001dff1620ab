"""Matches the classes of data with those of a model by name. Only this module maps labels to a model's classes.

Matching ignores case, white space and order, and the data may have fewer classes than the model. Integers match the
placeholder names LABEL_0, LABEL_1, … by number. Anything else raises an error unless the caller passes `classes`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from didact.core.dataset import Dataset, Split
from didact.core.row import Revision, Row
from didact.errors import OptionError

_SHOWN = 12  # class names in a message


@dataclass(frozen=True)
class ClassMatch:
    """`mapping[i]` is the model's index of the data's class `i`. `note` describes a match that is not obvious."""

    mapping: tuple[int, ...]
    note: str | None = None

    def relabel(self, rows: Iterable[Row]) -> list[Row]:
        """The rows with the model's class indices as labels. Labels that are no class index stay."""
        return [self._relabelled(row) for row in rows]

    def _relabelled(self, row: Row) -> Row:
        """The row with the model's class indices as its label and as that of its revision."""
        if row.revision is not None and (index := _label_index(row.revision)) is not None:
            row = replace(row, revision=replace(row.revision, label=self.mapping[index]))
        return row if (index := _label_index(row)) is None else replace(row, label=self.mapping[index])


def match_classes(
    data_classes: Sequence[str], model_classes: Sequence[str], *, classes: Sequence[Any] | None = None
) -> ClassMatch:
    """Find the model's class for each class of the data.

    `classes` names the data's classes in the model's order: `classes[i]` is what the data call the model's class `i`.
    Write any other name for a class that does not occur in the data. Raises `OptionError` if the names do not decide
    the match.
    """
    data, model = tuple(map(str, data_classes)), tuple(map(str, model_classes))
    if classes is not None:
        return _match_explicit(data, model, classes)
    by_name = [_position_of(name, model) for name in data]
    if None not in by_name:
        mapping = tuple(position for position in by_name if position is not None)
        return ClassMatch(mapping, _merged_note(data, model, mapping))
    numbers = [_number(name) for name in data]
    valid_numbers = [number for number in numbers if number is not None and number < len(model)]
    if _are_placeholders(model) and len(valid_numbers) == len(data):
        pairs = ", ".join(f"{name} = {model[number]}" for name, number in zip(data, valid_numbers, strict=True))
        return ClassMatch(
            tuple(valid_numbers), f"Labels are matched to the model's classes by number: {_shorten(pairs)}."
        )
    raise OptionError(_mismatch_message(data, model))


def align_labels(
    data: Dataset, teacher: Any, *, classes: Sequence[Any] | None = None, required: bool = True
) -> Dataset:
    """The data set with the teacher's classes, and labels as indices of them.

    `classes` names the data's classes in the teacher's order (see `match_classes`). Labels that cannot be matched raise
    `OptionError`; with `required=False` they are dropped, and a note says so. Data sets and teachers without classes
    are returned unchanged, and so is a data set that is aligned already.
    """
    model = getattr(teacher, "classes", None)
    if data.classes is None or model is None or data.task != teacher.task:
        return data
    if (data.classes == tuple(model) and classes is None) or (data.is_aligned and data.classes == tuple(model)):
        return data
    splits = dict(data.splits) | ({} if data.all_rows is None else {_ALL_ROWS: data.all_rows})
    relabelled, note = _align(splits, data.classes, model, classes, required)
    all_rows = relabelled.pop(_ALL_ROWS, None)
    notes = data.notes if note is None else (*data.notes, note)
    return replace(data, splits=relabelled, classes=tuple(model), all_rows=all_rows, notes=notes, is_aligned=True)


def align_rows(
    rows: Sequence[Row],
    model: Sequence[str] | None,
    *,
    classes: Sequence[Any] | None = None,
    required: bool = True,
) -> tuple[Sequence[Row], str | None]:
    """The rows of a split with labels as indices of the classes `model`, and a note, as `align_labels`.

    Only a `Split` carries class names. Labels of other rows are assumed to be indices of `model` already.
    """
    data_classes = rows.classes if isinstance(rows, Split) else None
    if data_classes is None or model is None:
        if classes is not None:
            raise OptionError(
                "classes= names the classes of a data set, and these rows carry no class names. Leave it out (labels "
                "of plain rows are indices of the model's classes), or pass a split of a data set, data['test']."
            )
        return rows, None
    if data_classes == tuple(model) and classes is None:
        return rows, None
    assert isinstance(rows, Split)
    relabelled, note = _align({rows.name: rows}, data_classes, model, classes, required)
    return relabelled[rows.name].with_classes(tuple(model)), note


_ALL_ROWS = "\0all"  # key of `Dataset.all_rows` among the splits


def _align(
    splits: dict[str, Split],
    data_classes: tuple[str, ...],
    model_classes: Sequence[str],
    classes: Sequence[Any] | None,
    required: bool,
) -> tuple[dict[str, Split], str | None]:
    if all(_label_index(row) is None for split in splits.values() for row in split):
        return splits, None
    try:
        match = match_classes(data_classes, model_classes, classes=classes)
    except OptionError as error:
        if required or classes is not None:
            raise
        unlabelled = {name: Split(name, list(map(_without_labels, split))) for name, split in splits.items()}
        return (
            unlabelled,
            f"The labels are left out, because they are not needed here and do not fit the model. {error}",
        )
    return {name: Split(name, match.relabel(split)) for name, split in splits.items()}, match.note


def _match_explicit(data: tuple[str, ...], model: tuple[str, ...], classes: Sequence[Any]) -> ClassMatch:
    names = (classes,) if isinstance(classes, str) else tuple(map(str, classes))
    if len(names) != len(model):
        raise OptionError(
            f"classes= (--classes) names the data's classes in the model's order, one for each of the model's "
            f"{len(model)} classes ({_join_names(model)}), and {len(names)} were given: {_join_names(names)}."
        )
    positions = [_position_of(name, names) for name in data]
    missing = [name for name, position in zip(data, positions, strict=True) if position is None]
    if missing:
        raise OptionError(
            f"classes= (--classes) must name every class of the data once, and {_join_names(missing)} is missing. "
            f"Given: {_join_names(names)}. Classes of the data: {_join_names(data)}. "
            f"Classes of the model: {_join_names(model)}."
        )
    return ClassMatch(tuple(position for position in positions if position is not None))


def _position_of(name: str, names: Sequence[str]) -> int | None:
    """The index of `name` in `names`, exactly or ignoring case and white space; None without a unique match."""
    if names.count(name) == 1:
        return names.index(name)
    normalised = [_normalised(candidate) for candidate in names]
    return normalised.index(_normalised(name)) if normalised.count(_normalised(name)) == 1 else None


def _merged_note(data: tuple[str, ...], model: tuple[str, ...], mapping: tuple[int, ...]) -> str | None:
    """A note about classes of the data that differ in spelling only; None without such classes."""
    groups = [
        [name for name, model_index in zip(data, mapping, strict=True) if model_index == index]
        for index in range(len(model))
    ]
    merged = [f"{_join_names(group)} as {model[index]}" for index, group in enumerate(groups) if len(group) > 1]
    return f"Labels that differ only in case are read as one class: {'; '.join(merged)}." if merged else None


def _mismatch_message(data: tuple[str, ...], model: tuple[str, ...]) -> str:
    both_lists = f"The data's classes are {_join_names(data)}, and the model's are {_join_names(model)}."
    if len(data) > len(model):
        return (
            f"{both_lists} The data have more classes than the model ({len(data)} and {len(model)}), so labels cannot "
            "be matched. Remove the rows of other classes, or choose the column that the model was trained on "
            "(columns={'label': …}, on the command line --columns label=…)."
        )
    is_numbered = all(_number(name) is not None for name in data)
    reason = "Numbers do not identify the model's named classes." if is_numbered else "The names do not match."
    example = _example(data, model)
    meaning = ", ".join(
        f"{data_name} is {model_name}"
        for data_name, model_name in zip(example, model, strict=True)
        if data_name in data
    )
    return (
        f"{both_lists} {reason} Name the data's classes in the model's order. For example classes={example} (on the "
        f"command line --classes {','.join(example)}) means that {_shorten(meaning)}."
    )


def _example(data: Sequence[str], model: Sequence[str]) -> list[str]:
    """An example value of `classes`: matching names at their index, the others in the order of the data."""
    matched = {position: name for name in data if (position := _position_of(name, model)) is not None}
    unmatched = iter(name for name in data if name not in matched.values())
    return [matched[position] if position in matched else next(unmatched, "none") for position in range(len(model))]


def _are_placeholders(model: Sequence[str]) -> bool:
    """Whether these are the placeholder names of transformers for classes without names."""
    return all(_normalised(name) == f"label_{number}" for number, name in enumerate(model))


def _number(name: str) -> int | None:
    text = name.strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _label_index(row: Row | Revision) -> int | None:
    """The label if it is a class index, else None."""
    return int(row.label) if isinstance(row.label, int | np.integer) else None


def _without_labels(row: Row) -> Row:
    revision = None if row.revision is None else replace(row.revision, label=None)
    return replace(row, label=None, revision=revision)


def _normalised(name: str) -> str:
    return " ".join(name.casefold().split())


def _join_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _shorten(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def check_class_names(classes: Any) -> None:
    """Raise `OptionError` unless `classes` is None or an ordered collection of distinct names.

    Arrays are accepted, such as `classes_` of scikit-learn.
    """
    if classes is None:
        return
    if isinstance(classes, str | bytes | Mapping | Set) or not isinstance(classes, Collection):
        raise OptionError(f"classes must be a list of names such as ['no', 'yes'], got {classes!r}.")
    duplicates = sorted(name for name, count in Counter(map(str, classes)).items() if count > 1)
    if duplicates:
        raise OptionError(f"classes contains duplicates: {', '.join(duplicates)}. Name each class once.")
