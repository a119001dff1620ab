"""What a run measured without students: explained rows, metrics, agreement and cost, as the report reads them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MeasuredRow:
    """One row that all methods explained. `rationale` holds (text, start, end), or for images four sides."""

    id: str
    gold: str | None
    prediction: str
    is_right: bool | None
    sureness: float | None
    agreement: float | None
    rationale: tuple[tuple[int, ...], ...]
    picture: str | None


@dataclass(frozen=True)
class Method:
    """One set of explanations of the measured rows."""

    label: str
    file: str
    kind: str
    is_control: bool


@dataclass(frozen=True)
class Measured:
    """What else was measured: explanations of test rows, and numbers about them."""

    split: str
    task: str
    rows: tuple[MeasuredRow, ...]
    methods: tuple[Method, ...]
    skipped: tuple[Mapping[str, Any], ...]
    metrics: Mapping[str, Any]
    agreement: tuple[Mapping[str, Any], ...]
    cost: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def measured_of(found: Mapping[str, Any]) -> Measured:
    return Measured(
        split=str(found.get("split") or "test"),
        task=str(found.get("task") or ""),
        rows=tuple(map(_row, list_of(found.get("rows") or []))),
        methods=tuple(
            Method(str(one["label"]), str(one["file"]), str(one.get("kind") or ""), bool(one.get("is_control")))
            for one in list_of(found.get("methods") or [])
        ),
        skipped=tuple(map(dict, list_of(found.get("skipped") or []))),
        metrics=dict(found.get("metrics") or {}),
        agreement=tuple(map(dict, list_of(found.get("agreement") or []))),
        cost=tuple(map(dict, list_of(found.get("cost") or []))),
        notes=tuple(map(str, list_of(found.get("notes") or []))),
    )


def _row(row: Mapping[str, Any]) -> MeasuredRow:
    right = row.get("is_right")
    return MeasuredRow(
        id=str(row["id"]),
        gold=None if row.get("gold") is None else _said(row["gold"]),
        prediction="" if row.get("prediction") is None else _said(row["prediction"]),
        is_right=None if right is None else bool(right),
        sureness=number(row.get("sureness")),
        agreement=number(row.get("agreement")),
        rationale=tuple(tuple(map(int, span)) for span in list_of(row.get("rationale") or [])),
        picture=None if row.get("picture") is None else str(row["picture"]),
    )


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected where {type(value).__name__} {str(value)[:40]!r} stands")
    return value
