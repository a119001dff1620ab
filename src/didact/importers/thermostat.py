"""Rows as the Thermostat collection has them (Feldhus et al. 2021): `attributions` beside `tokens` or `input_ids`.

JSON lines, Parquet, a folder that `datasets` saved, a live data set or a list of dictionaries. `predictions` are the
model's outputs; the scores explain the largest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from didact.importers.files import records
from didact.importers.parsed import (
    Fault,
    ImportOptions,
    ParsedFile,
    ParsedRow,
    Texts,
    named,
    numbers,
    present,
    shown,
    whole_numbers,
    words_in,
)

IDS = ("id", "row_id", "idx", "index_running")


def read(source: Any, name: str, rows: Sequence[Texts], options: ImportOptions) -> ParsedFile:
    """`options.tokens` names `input_ids`: a tokenizer of transformers, a list of tokens by number, or a mapping."""
    parsed = ParsedFile(name)
    found = records(source, parsed)
    counted = _only_counted([record for _, record in found], rows)
    for where, record in found:
        id = None
        try:
            key = next((key for key in IDS if record.get(key) is not None), None)
            id = None if key is None or counted else named(record[key], key)
            scores = numbers(present(record, "attributions"), "'attributions'")
            segments = record.get("token_type_ids")
            segments = None if segments is None else whole_numbers(segments, "'token_type_ids'")
            said = _prediction(record)
            parsed.rows.append(
                ParsedRow(where, id, _tokens(record, options.tokens), scores, segments, None, said, said)
            )
        except Fault as fault:
            parsed.fault(where, fault, id)
    parsed.method = next((_name(record.get("explainer")) for _, record in found), None)
    parsed.teacher = next((_name(record.get("model")) for _, record in found), None) or ""
    return parsed


def _only_counted(found: Sequence[Mapping[str, Any]], rows: Sequence[Texts]) -> bool:
    """Whether numbers only count the rows (0, 1, 2, …), and are no ids that the data know."""
    numbers = [next((record[key] for key in IDS if record.get(key) is not None), None) for record in found]
    return numbers == list(range(len(found))) and not {str(one) for one in numbers} <= {row.id for row in rows}


def _tokens(record: Mapping[str, Any], names: Any) -> tuple[str, ...]:
    if record.get("tokens") is not None:
        return words_in(record["tokens"])
    if record.get("input_ids") is None:
        raise Fault(f"has neither 'tokens' nor 'input_ids'; it has {', '.join(map(repr, record))}")
    if names is None:
        model = _name(record.get("model")) or "…"
        raise Fault(f"has 'input_ids' without 'tokens': give tokens=AutoTokenizer.from_pretrained({model!r})")
    return tuple(_named(one, names) for one in whole_numbers(record["input_ids"], "'input_ids'"))


def _named(number: int, names: Any) -> str:
    find: Callable[[int], Any] = getattr(names, "convert_ids_to_tokens", None) or names.__getitem__
    try:
        token = find(number)
    except (LookupError, TypeError, OverflowError):
        token = None
    if not isinstance(token, str):
        raise Fault(f"'input_ids' holds {number}, which the tokenizer does not know")
    return token


def _prediction(record: Mapping[str, Any]) -> int | str | None:
    """The class of the largest output; a single output is a value."""
    if record.get("predictions") is None:
        return None
    outputs = numbers(record["predictions"], "'predictions'")
    if not np.isfinite(outputs).all():
        raise Fault(f"'predictions' hold {shown(outputs.tolist())}, where numbers belong")
    return None if not len(outputs) else f"{outputs[0]:.4g}" if len(outputs) == 1 else int(outputs.argmax())


def _name(value: Any) -> str | None:
    """A method or model as it is called, alone or among its options."""
    return (
        value if isinstance(value, str) else str(value["name"]) if isinstance(value, dict) and "name" in value else None
    )
