"""Format `captum`: lists of `VisualizationDataRecord`, with `word_attributions` for the tokens in `raw_input_ids`.

`attr_class` is the explained class, `pred_class` the prediction; both are names or numbers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from didact.core.row import Row
from didact.errors import DataError
from didact.importers.parsed import Fault, ImportOptions, ParsedFile, ParsedRow, numbers, short_repr, token_list
from didact.registry import python_number


def is_record(value: Any) -> bool:
    """Whether this is a record of captum. Checks its attributions and tokens, so captum need not be installed."""
    return hasattr(value, "word_attributions") and hasattr(value, "raw_input_ids")


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:  # noqa: ARG001
    parsed = ParsedFile(name)
    if not is_record(source) and not isinstance(source, Iterable):
        raise DataError(f"{name} is a {type(source).__name__}. Pass a list of VisualizationDataRecord.")
    for number, record in enumerate([source] if is_record(source) else source, 1):
        where = f"record {number}"
        with parsed.reading(where):
            if not is_record(record):
                raise Fault(f"must be a VisualizationDataRecord, got {short_repr(record)}")
            scores = numbers(record.word_attributions, "'word_attributions'")
            tokens = token_list(record.raw_input_ids, "'raw_input_ids'")
            target, prediction = (_class(getattr(record, key, None), key) for key in ("attr_class", "pred_class"))
            parsed.rows.append(ParsedRow(where, None, tokens, scores, target=target, prediction=prediction))
    return parsed


def _class(value: Any, key: str) -> str | int | None:
    """A class by name or number. Captum's own examples also write numbers as text."""
    value = python_number(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if value is None or (isinstance(value, int | str) and not isinstance(value, bool)):
        return None if value == "" else value
    raise Fault(f"{key!r} must be the name or number of a class, got {short_repr(value)}")
