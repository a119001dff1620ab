"""`didact train`: a teacher from a data set."""

import time
from pathlib import Path
from typing import Annotated, Final

from didact.cli import options
from didact.cli.options import option
from didact.cli.output import print_json, print_metrics, say

EXAMPLES: Final = (
    "didact train --data planted/sentiment --out my-model",
    "didact train --data reviews.csv --columns text=comment,label=verdict \\\n    --model minilm --epochs 3",
)


def train(
    data: options.Data,
    columns: options.Columns = None,
    model: Annotated[
        str,
        option("--model", "MODEL", "native(layers=2), bilstm, minilm, a hub name or a folder.", options.MODEL),
    ] = "native",
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", "Folder for the model (default: runs/teacher-DATA).", options.OUTPUT),
    ] = None,
    overwrite: options.Overwrite = False,
    seed: Annotated[int, option("--seed", "N", "Seed of weights, order and planted data.", options.TRAINING)] = 0,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    rate: Annotated[float | None, option("--rate", "RATE", "Highest learning rate.", options.TRAINING)] = None,
    weight_decay: Annotated[
        float | None, option("--weight-decay", "DECAY", "Weight decay of the optimiser.", options.TRAINING)
    ] = None,
    warmup: Annotated[
        float | None, option("--warmup", "SHARE", "Share of steps with a rising rate: 0.1.", options.TRAINING)
    ] = None,
    clip: Annotated[float | None, option("--clip", "NORM", "Maximum norm of the gradient.", options.TRAINING)] = None,
    patience: Annotated[
        int | None, option("--patience", "N", "Stop after N epochs without a better dev score.", options.TRAINING)
    ] = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    device: Annotated[str | None, option("--device", "DEVICE", "cpu, cuda or mps.", options.MODEL)] = None,
    precision: Annotated[
        str | None,
        option("--precision", "NAME", "single (default), bfloat16, or float16 on cuda.", options.ADVANCED),
    ] = None,
    threads: options.TrainingThreads = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Train a model of your own on a data set.

    Trains on the split teach, chooses the epoch on dev, measures on test, and saves everything in a folder.
    """
    began = time.monotonic()
    import torch

    from didact.learning.train import train_teacher

    if threads is not None:
        torch.set_num_threads(threads)
    loaded = options.loaded_data(data, columns=columns, data_dir=data_dir, seed=seed)
    folder = out or Path("runs") / f"teacher-{loaded.name.replace('/', '-')}"
    teacher = train_teacher(
        loaded,
        model,
        out=folder,
        overwrite=overwrite,
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        rate=rate,
        weight_decay=weight_decay,
        warmup=warmup,
        clip=clip,
        patience=patience,
        max_length=length,
        truncate=truncate,
        device=device,
        precision=precision,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    seconds = round(time.monotonic() - began, 1)
    metrics = teacher.record["metrics"]
    if as_json:
        print_json({"out": str(folder), "metrics": metrics, "seconds": seconds})
        return
    print_metrics(metrics)
    say(f"Kept in {folder} after {seconds:.0f} s. Open it with didact.load_teacher({str(folder)!r}).")
