"""The fields of `CompareConfig` as typed keyword arguments, for completion in editors. A test compares the two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class CompareFields(TypedDict, total=False):
    """All fields except the named arguments of `compare` (data, explainers, students), and the table `training`."""

    plan: str | Path | None
    model: str | None
    task: str | None
    max_length: int | None
    truncate: bool | None
    device: str | None
    revision: str | None
    trust_remote_code: bool | None
    threads: int | None
    columns: Mapping[str, str | None] | None
    classes: Sequence[str] | None
    data_dir: str | Path | None
    data_seed: int | None
    balance: bool | None
    test_sets: Sequence[str] | str | None
    edited_rows: int | None
    train_rows: int | None
    dev_rows: int | None
    test_rows: int | None
    skip_controls: Sequence[str] | None
    base: str | Path | None
    train_sizes: Sequence[int] | int | None
    seeds: Sequence[int] | int | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    weight_decay: float | None
    warmup: float | None
    clip: float | None
    schedule: Literal["linear", "constant"] | None
    momentum: float | None
    training: Mapping[str, Any] | None
    soft_labels: bool | None
    search_space: bool | Mapping[str, Sequence[Any]] | None
    temperatures: Sequence[float] | None
    target_normalisation: Literal["raw", "tuned", "matched", "ranks", "band"] | None
    target_temperatures: Sequence[float] | None
    eval_rows: int | None
    out: str | Path | None
    cache: str | Path | None
    budget: str | float | None
    precision: str | None
    workers: int | None
    engine: Literal["local", "ray"]
    address: str | None
    gpus: float | None
    recheck: int | None
    progress: bool
    fitted_from: str | None
    left_out: Sequence[str] | None
