"""Format `jsonl`, for scripts: JSON lines (or a list) of `tokens` and `attributions`, one row each.

Other fields are optional. `id` is the id of the row in the data, `model` the name of the model. `predictions` are the
outputs of the model; the scores explain the largest. In rows of two texts `token_type_ids` (0 or 1) give the text of
each token.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from didact.core.row import Row
from didact.importers.files import records
from didact.importers.parsed import (
    Fault,
    ImportOptions,
    ParsedFile,
    ParsedRow,
    integers,
    numbers,
    optional_id,
    required,
    short_repr,
    token_list,
)


def read(source: Any, name: str, rows: Sequence[Row], options: ImportOptions) -> ParsedFile:  # noqa: ARG001
    parsed = ParsedFile(name)
    for location, record in records(source, parsed):
        id = None
        try:
            id = optional_id(record.get("id"), "id")
            scores = numbers(required(record, "attributions"), "'attributions'")
            segments = record.get("token_type_ids")
            segments = None if segments is None else integers(segments, "'token_type_ids'")
            tokens, prediction = token_list(required(record, "tokens")), _prediction(record)
            parsed.teacher = parsed.teacher or str(record.get("model") or "")
            parsed.rows.append(ParsedRow(location, id, tokens, scores, segments, None, prediction, prediction))
        except Fault as error:
            parsed.add_fault(location, error, id)
    return parsed


def _prediction(record: Mapping[str, object]) -> int | str | None:
    """The class with the largest output. A single output is a score, which is formatted as text."""
    if record.get("predictions") is None:
        return None
    outputs = numbers(record["predictions"], "'predictions'")
    if not np.isfinite(outputs).all():
        raise Fault(f"'predictions' must be finite numbers, got {short_repr(outputs.tolist())}")
    return None if not len(outputs) else f"{outputs[0]:.4g}" if len(outputs) == 1 else int(outputs.argmax())
