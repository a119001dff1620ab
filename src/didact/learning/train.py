"""`train_teacher`: train a model on a data set, measure it, and save it."""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from didact import __version__
from didact.core.dataset import Dataset
from didact.core.human import HumanTeacher
from didact.core.measure import measure
from didact.core.model import Model, Row
from didact.core.precision import check_trainable
from didact.data.load import load_data
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.verify import verify
from didact.errors import DataError, OptionError, TrainingError
from didact.files.atomic import atomic_folder, check_new_folder
from didact.files.checksummed import hash_of_file
from didact.learning.fit import Examples, Training, fit
from didact.models.build import build_model
from didact.models.load import RECORD, RECORD_VERSION, WEIGHTS, checked_device
from didact.results.documents import save_document

log = logging.getLogger(__name__)

# Default options for small models from scratch and for pretrained ones. Callers can set each of them.
TEACHER_FROM_SCRATCH = Training(epochs=10, batch_size=64, rate=2e-3, patience=3)
TEACHER_PRETRAINED = Training(epochs=3, batch_size=16, rate=5e-5, patience=2)
# Narrow pretrained models need a higher rate: MiniLM after an epoch on SST has a dev accuracy of 87.4, not 86.4 %.
NARROW_WIDTH, NARROW_LEARNING_RATE = 512, 1e-4


def train_teacher(
    data: str | Path | Dataset,
    model: str | Path = "native",
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    seed: int = 0,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    warmup: float | None = None,
    clip: float | None = None,
    patience: int | None = None,
    max_length: int | None = None,
    truncate: bool = False,
    device: str | torch.device | None = None,
    precision: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
    rate: float | None = None,
) -> Model:
    """Train a model on the split `teach`, choose its epoch on `dev`, and measure it on `test`.

    Args:
        data: A `Dataset`, or what `load_data` accepts.
        model: An architecture of didact (`"native(layers=2, width=64, heads=4)"`), a hub name, a folder, or `"minilm"`.
        out: Folder to save the model in. Omit it to keep the model in memory.
        overwrite: Replace a model in `out`.
        seed: Seed of the first weights and of the order of rows.
        epochs: Passes over the training rows. This and the following options default to values that suit the model.
        batch_size: Rows per step.
        learning_rate: Peak learning rate.
        weight_decay: Weight decay of AdamW.
        warmup: Share of the steps in which the learning rate rises.
        clip: Maximum norm of the gradient.
        patience: Epochs without progress on `dev` before training stops.
        max_length: Maximum number of tokens per row.
        truncate: Cut longer rows. Otherwise they are an error.
        device: Device to train on.
        precision: single, bfloat16 or float16.
        revision: Revision of a model on the hub.
        trust_remote_code: Run code that comes with the model.
        progress: Show a progress bar.
        rate: Former name of `learning_rate`.

    Returns:
        The model. `model.record["metrics"]` holds what was measured. On planted data it also says whether the model is
        verified, i.e. whether it answers from the planted rationale. `load_teacher` opens the folder; for Hugging Face
        models transformers opens it, too.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.train_teacher(data, "native(layers=2, width=32, heads=4)", progress=False)
        print(teacher.record["metrics"])
        ```
    """
    _check_request(out, overwrite=overwrite, seed=seed, rate=rate)
    options: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "rate": rate if learning_rate is None else learning_rate,
        "weight_decay": weight_decay,
        "warmup": warmup,
        "clip": clip,
        "patience": patience,
        "precision": precision,
    }
    overrides = {name: value for name, value in options.items() if value is not None}
    # Invalid options raise before anything is loaded.
    torch_device = torch.device("cpu") if device is None else checked_device(device)
    check_trainable(Training(**overrides).precision, torch_device)
    data = data if isinstance(data, Dataset) else load_data(data)
    input_options: dict[str, Any] = {"max_length": max_length, "truncate": truncate}
    hub_options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    teacher = build_model(str(model), data, seed=seed, **input_options, **hub_options)
    if device is not None:
        teacher = teacher.to(torch_device)
    training = replace(default_training(teacher), seed=seed, **overrides)
    metrics = _train(teacher, data, training, progress=progress)
    teacher.record = _record(
        teacher, data, training, metrics, base=str(model), revision=revision, input_options=input_options
    )
    if out is not None:
        save_teacher(teacher, Path(out), overwrite=overwrite)
        teacher.name = str(out)
    return teacher


def _check_request(out: str | Path | None, *, overwrite: bool, seed: int, rate: float | None) -> None:
    """Checks that need no data and no model."""
    if rate is not None:
        log.warning("rate is now called learning_rate. The former name still works.")
    if out is not None:
        check_new_folder(Path(out), overwrite=overwrite)
    if not -(2**63) <= seed < 2**63:
        raise OptionError(f"seed must fit into 64 bits, got {seed}.")


def _train(teacher: Model, data: Dataset, training: Training, *, progress: bool) -> dict[str, Any]:
    """Train the teacher in place, and return its metrics."""
    started = time.monotonic()
    if all(row.label is None for row in data["teach"].rows):
        raise DataError(
            f"Training needs labels, and {data.name} has none. Name their column: columns={{'label': NAME}} "
            "(--columns label=NAME)."
        )
    gold = HumanTeacher(data.task, data.classes)
    _check_classes(data)
    train, dev = (Examples.of(teacher, rows, gold.predict(rows)) for rows in (data["teach"].rows, data["dev"].rows))
    history = fit(teacher, train, dev, training, progress=progress, on_epoch_end=lambda epoch: log.info("%s", epoch))
    metrics = {"epochs": len(history), **_evaluate(teacher, data)}
    log.info("trained in %.1f s: %s", time.monotonic() - started, metrics)
    return metrics


def _record(
    teacher: Model,
    data: Dataset,
    training: Training,
    metrics: Mapping[str, Any],
    *,
    base: str,
    revision: str | None,
    input_options: Mapping[str, Any],
) -> dict[str, Any]:
    """The record of a trained teacher: base, data, options and metrics."""
    return {
        "didact": __version__,
        "kind": teacher.library,
        "base": base,
        "revision": revision,
        "task": data.task.name,
        **input_options,
        "data": {"name": data.name, "fingerprint": data.fingerprint},
        "training": training.facts(),
        "metrics": metrics,
    }


def save_teacher(model: Model, folder: Path, *, overwrite: bool = False) -> None:
    """Write weights, configuration, tokenizer, `metrics.json` and `didact.json`, all of them or nothing.

    Raises a `TrainingError` if a weight is NaN or infinite.
    """
    broken = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if broken:
        raise TrainingError(f"Weights of the model are NaN or infinite ({broken[0]}), so it is not saved.")
    with atomic_folder(folder, overwrite=overwrite) as draft:
        model.save(draft)
        _write(draft / "metrics.json", model.record.get("metrics", {}))
        weights = {path.name: hash_of_file(path) for path in sorted(draft.glob("*.safetensors"))}
        save_document(draft / RECORD, {**model.record, WEIGHTS: weights}, RECORD_VERSION, indent=1)


def _check_classes(data: Dataset) -> None:
    """Raise a `DataError` if all training rows have the same label: a constant answer would be perfect."""
    labels = {row.label for row in data["teach"].rows}
    if data.classes is not None and len(labels) == 1 and None not in labels:
        name = data.classes[int(next(iter(labels)))]  # type: ignore[arg-type]
        raise DataError(
            f"All {len(data['teach']):,} training rows of {data.name} have the class {name!r}, so there is nothing "
            "to learn. Use rows of at least two classes."
        )


def default_training(model: Model) -> Training:
    """The default training options of a teacher of this kind."""
    if model.pretrained != "everything":
        return TEACHER_FROM_SCRATCH
    network: Any = model.model
    width = getattr(network.config, "hidden_size", NARROW_WIDTH)
    return replace(TEACHER_PRETRAINED, rate=NARROW_LEARNING_RATE) if width < NARROW_WIDTH else TEACHER_PRETRAINED


def _evaluate(model: Model, data: Dataset) -> dict[str, object]:
    """Scores on dev and test; on planted data also whether the model uses the planted rationale."""
    gold = HumanTeacher(data.task, data.classes)
    metrics: dict[str, Any] = {}
    for name in ("dev", "test"):
        rows: tuple[Row, ...] = tuple(filter(gold.knows, data[name])) if name in data else ()
        if rows:
            metrics[f"{name}_{data.task.measure}"] = _number(measure(model.predict(rows), gold.predict(rows)))
            metrics[f"{name}_rows"] = len(rows)
    if isinstance(data, PlantedDataset):
        verification = verify(model, data)
        metrics |= {
            "kept": _number(verification.unchanged),
            "followed": _number(verification.followed),
            "verified": verification.verified,
        }
    return metrics


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
