"""Export of answers: one row per judged method, with people's code names."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from didact.study.answers import Answer
from didact.study.design import Design
from didact.viz.formulas import csv_text

FORMATS: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json", "parquet": "application/x-parquet"}
COLUMNS: Final = (
    "person", "cohort", "step", "phase", "item", "method", "place", "rank", "choice", "prediction", "label", "rating",
    "seconds", "is_touched", "is_synthetic", "at",
)  # fmt: skip


def export_rows(
    design: Design, answers: Sequence[Answer], names: Mapping[str, str | None] | None = None
) -> list[dict[str, Any]]:
    """The rows to export. A ranking has one row per method; `place` is its position on the page.

    `names` adds a column with people's names.
    """
    items = {item.id: item for item in design.items}
    rows = []
    for answer in answers:
        seconds = None if math.isnan(answer.seconds) else round(answer.seconds, 1)
        common = asdict(answer) | asdict(items[answer.item]) | {"phase": answer.phase, "seconds": seconds}
        for position, method in enumerate(answer.shown or (None,), start=1):
            rank = None if answer.ranks is None or method is None else answer.ranks[method]
            row = {**common, "method": method, "place": None if method is None else position, "rank": rank}
            row = {name: row[name] for name in COLUMNS}
            rows.append(row if names is None else {"name": names.get(answer.person), **row})
    return rows


def export_answers(
    design: Design, answers: Sequence[Answer], kind: str, names: Mapping[str, str | None] | None = None
) -> bytes:
    """The answers as the content of a file: csv, json or parquet."""
    lines = export_rows(design, answers, names)
    columns = COLUMNS if names is None else ("name", *COLUMNS)
    if kind == "json":
        return (json.dumps(lines, ensure_ascii=False, indent=1) + "\n").encode()
    if kind == "csv":
        return csv_text([columns, *([line[name] for name in columns] for line in lines)]).encode()
    return _parquet(lines, columns)


def _parquet(lines: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    integer, floating, boolean = pa.int64(), pa.float64(), pa.bool_()
    types = {"step": integer, "place": integer, "rank": integer, "rating": integer, "seconds": floating, "at": floating}
    types |= {"is_touched": boolean, "is_synthetic": boolean}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(lines), schema=schema), sink)
    return bytes(sink.getvalue())
