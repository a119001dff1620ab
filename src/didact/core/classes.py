"""Classes matched by name: which class of a model a label of the data means. Labels meet a model here and nowhere else.

Case and surrounding white space are ignored, the order never matters, and the data may have fewer classes than the
model. Whole numbers meet the placeholder names LABEL_0, LABEL_1, … by number. Anything else is refused unless the
caller says which class is which (`classes`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.errors import OptionError

_SHOWN = 12  # class names in a message


@dataclass(frozen=True)
class ClassMatch:
    """`mapping[i]` is the model's index of the data's class `i`. `note` says what a reader could not guess."""

    mapping: tuple[int, ...]
    note: str | None = None

    def relabel(self, rows: Iterable[Row]) -> list[Row]:
        """The rows with labels as the model's indices. Labels that are no class index stay."""
        return [
            row if (index := _label_index(row)) is None else replace(row, label=self.mapping[index]) for row in rows
        ]


def match_classes(
    data_classes: Sequence[str], model_classes: Sequence[str], *, given: Sequence[Any] | None = None
) -> ClassMatch:
    """The model's class for each class of the data; `OptionError` if the names do not decide it.

    `given` names the data's classes in the model's order: `given[i]` is what the data call the model's class `i`. An
    entry that is no class of the data stands for a class that the data do not have.
    """
    data, model = tuple(map(str, data_classes)), tuple(map(str, model_classes))
    if given is not None:
        return _match_explicit(data, model, given)
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
    """The data set with labels as indices into the teacher's classes, and these classes as its own.

    `classes` names the data's classes in the teacher's order (see `match_classes`). Labels that cannot be matched are
    an error; with `required=False` they are dropped, and a note says so. Data and teachers without classes pass.
    A second call changes nothing.
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
    """Rows of a split with labels as indices into the classes `model`, and a note. As `align_labels`.

    Rows that are no `Split` know no classes: their labels are taken to be such indices already.
    """
    data_classes = rows.classes if isinstance(rows, Split) else None
    if data_classes is None or model is None:
        if classes is not None:
            raise OptionError(
                "classes= names the classes of a data set, and these rows carry no class names. Leave it out: labels "
                "of plain rows are indices of the model's classes. Or give a split of a data set, data['test']."
            )
        return rows, None
    if data_classes == tuple(model) and classes is None:
        return rows, None
    assert isinstance(rows, Split)
    relabelled, note = _align({rows.name: rows}, data_classes, model, classes, required)
    return relabelled[rows.name].with_classes(tuple(model)), note


_ALL_ROWS = "\0all"  # the rows of a file in its order, beside its splits


def _align(
    splits: dict[str, Split],
    data_classes: tuple[str, ...],
    model_classes: Sequence[str],
    given: Sequence[Any] | None,
    required: bool,
) -> tuple[dict[str, Split], str | None]:
    if all(_label_index(row) is None for split in splits.values() for row in split):
        return splits, None
    try:
        match = match_classes(data_classes, model_classes, given=given)
    except OptionError as error:
        if required or given is not None:
            raise
        unlabelled = {name: Split(name, [replace(row, label=None) for row in split]) for name, split in splits.items()}
        return (
            unlabelled,
            f"The labels are left out, because they are not needed here and do not fit the model. {error}",
        )
    return {name: Split(name, match.relabel(split)) for name, split in splits.items()}, match.note


def _match_explicit(data: tuple[str, ...], model: tuple[str, ...], given: Sequence[Any]) -> ClassMatch:
    names = (given,) if isinstance(given, str) else tuple(map(str, given))
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
            f"Given: {_join_names(names)}. Classes of the data: {_join_names(data)}. Classes of the model: "
            f"{_join_names(model)}."
        )
    return ClassMatch(tuple(position for position in positions if position is not None))


def _position_of(name: str, names: Sequence[str]) -> int | None:
    """Where `name` stands among `names`: as it is written, else without regard to case and white space."""
    if names.count(name) == 1:
        return names.index(name)
    normalised = [_normalised(candidate) for candidate in names]
    return normalised.index(_normalised(name)) if normalised.count(_normalised(name)) == 1 else None


def _merged_note(data: tuple[str, ...], model: tuple[str, ...], mapping: tuple[int, ...]) -> str | None:
    """Spellings of one class that the data tell apart."""
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
            "be "
            "matched. Leave out the rows of other classes, or choose the column that the model was trained on "
            "(columns={'label': …}, on the command line --columns label=…)."
        )
    is_numbered = all(_number(name) is not None for name in data)
    reason = (
        "A number does not say which of these names it means."
        if is_numbered
        else "The names do not say which is which."
    )
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
    """A value of `classes`: names that match stand where they belong, the others in the order of the data."""
    matched = {position: name for name in data if (position := _position_of(name, model)) is not None}
    unmatched = iter(name for name in data if name not in matched.values())
    return [matched[position] if position in matched else next(unmatched, "none") for position in range(len(model))]


def _are_placeholders(model: Sequence[str]) -> bool:
    """Whether the names are those that transformers makes up where nobody named the classes."""
    return all(_normalised(name) == f"label_{number}" for number, name in enumerate(model))


def _number(name: str) -> int | None:
    text = name.strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _label_index(row: Row) -> int | None:
    """The row's label, if it is a class index."""
    return int(row.label) if isinstance(row.label, int | np.integer) else None


def _normalised(name: str) -> str:
    return " ".join(name.casefold().split())


def _join_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _shorten(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def check_class_names(classes: Any) -> None:
    """An error if these are no names of classes in their order, each of them once. None means that none are given.

    An array or index of names is fine: `classes_` of scikit-learn is one.
    """
    if classes is None:
        return
    if isinstance(classes, str | bytes | Mapping | Set) or not isinstance(classes, Collection):
        raise OptionError(f"classes must be a list of names, as ['no', 'yes'], not {classes!r}.")
    duplicates = sorted(name for name, count in Counter(map(str, classes)).items() if count > 1)
    if duplicates:
        raise OptionError(f"classes names a class twice: {', '.join(duplicates)}. Each class has a name of its own.")
