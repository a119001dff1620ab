"""Format `shap`: a `shap.Explanation` of texts, or an `.npz` archive of its `values`, `data`, `base_values` and
`output_names`.

The package shap is not needed. `values` are tokens, or tokens × classes, for each row; `data` are the tokens, each with
the white space after it. Without a target the scores of the predicted class are read: the class with the largest sum of
base value and scores.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.row import Row
from didact.errors import DataError, OptionError
from didact.importers.arrays import in_rows, scored_tokens, without_padding
from didact.importers.files import arrays
from didact.importers.parsed import Fault, ImportOptions, ParsedFile, ParsedRow, float_array, short_repr, token_list
from didact.registry import unknown_name_message

FIELDS = ("values", "data", "base_values", "output_names", "lengths")


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:  # noqa: ARG001
    """Read the scores of one class. `options.target` is its name or number; by default it is the predicted class."""
    loaded: Any = arrays(source) if isinstance(source, Path) else {key: getattr(source, key, None) for key in FIELDS}
    fields: dict[str, Any] = loaded
    if fields.get("values") is None:
        raise DataError(f"{name} has {', '.join(map(repr, fields)) or 'no arrays'}. Scores are read from 'values'.")
    names = _output_names(fields.get("output_names"))
    number = _class_index(options.target, names)
    if _is_single_row(fields.get("data")):
        fields |= {key: [fields[key]] for key in ("values", "data", "base_values") if fields.get(key) is not None}
    values, lists, widest = scored_tokens(fields, options.tokens, name, "values", "data")
    bases = _base_values(fields.get("base_values"), name, len(values))
    parsed = ParsedFile(name, method="shap")
    for index, (row_values, tokens) in enumerate(zip(values, lists, strict=True)):
        where = f"row {index + 1}"
        with parsed.reading(where):
            words = token_list(list(tokens) if isinstance(tokens, tuple) else tokens, "'data'")
            scores = without_padding(float_array(row_values, "values"), len(words), widest)
            base = None if bases is None else bases[index]
            parsed.rows.append(_row(where, words, scores, base, number, names))
    return parsed


def _row(
    where: str,
    tokens: Sequence[str],
    values: Float[np.ndarray, "..."],
    base: Float[np.ndarray, " class"] | None,
    number: int | None,
    names: Sequence[str] | None,
) -> ParsedRow:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 1:
        only = names[0] if names is not None and len(names) == 1 else None
        return ParsedRow(where, None, tokens, values, target=only)
    if values.ndim != 2:
        raise Fault(f"values must be tokens × classes, got the shape {values.shape}")
    classes = values.shape[1]
    if names is not None and len(names) != classes:
        raise Fault(f"values have {classes} classes, but 'output_names' has {len(names)}")
    class_list = ", ".join(map(repr, names or range(classes)))
    if number is not None and number >= classes:
        raise Fault(f"has no class {number}, only {class_list}")
    predicted = None
    if base is not None and base.shape == (classes,) and np.isfinite(base).all():
        predicted = int((base + values.sum(0)).argmax())
    chosen = predicted if number is None else number
    if chosen is None:
        raise Fault(
            f"has scores for the classes {class_list}, but no finite 'base_values' to compute the "
            "prediction: choose a target"
        )
    predicted_name = None if predicted is None else _class_name(predicted, names)
    return ParsedRow(
        where, None, tokens, values[:, chosen], target=_class_name(chosen, names), prediction=predicted_name
    )


def _class_name(number: int, names: Sequence[str] | None) -> str | int:
    return number if names is None else names[number]


def _output_names(value: Any) -> list[str] | None:
    if value is None:
        return None
    listed = [value] if isinstance(value, str) else value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise DataError(f"'output_names' must be the names of classes, got {short_repr(value)}.")
    return list(listed)


def _base_values(value: Any, name: str, count: int) -> Sequence[np.ndarray] | None:
    """The output of the model without any tokens, for each row."""
    if value is None:
        return None
    try:
        rows = in_rows(value, None, f"{name} 'base_values'")
        bases = [float_array(base if hasattr(base, "__len__") else [base], "base_values") for base in rows]
    except Fault as fault:
        raise DataError(f"{name}: {fault}.") from None
    if len(bases) != count:
        raise DataError(f"{name} has scores for {count} rows, but base values for {len(bases)}.")
    return bases


def _class_index(target: str | int | None, names: Sequence[str] | None) -> int | None:
    if isinstance(target, str):
        if names is None or target not in names:
            raise OptionError(unknown_name_message("class", target, list(names or ["0", "1", "…"])))
        return names.index(target)
    if target is not None and (not isinstance(target, int) or target < 0):
        raise OptionError(f"A class must be an integer >= 0 or a name, not {target!r}.")
    return target


def _is_single_row(data: Any) -> bool:
    """Whether `data` are the tokens of a single row instead of lists of tokens."""
    listed = data.tolist() if isinstance(data, np.ndarray) else data
    return isinstance(listed, list | tuple) and bool(listed) and isinstance(listed[0], str)
