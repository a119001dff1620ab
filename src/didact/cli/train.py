"""`didact train`: a teacher from a data set."""

import time
from pathlib import Path
from typing import Annotated

import typer

from didact.cli import options
from didact.cli.output import print_json, print_metrics, say


def train(
    data: Annotated[str, typer.Option("--data", help="A name from `didact data list`, or a file or folder.")],
    columns: options.Columns = None,
    model: Annotated[
        str,
        typer.Option("--model", help="native(layers=2, width=64), bilstm, minilm, a hub name or a folder."),
    ] = "native",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the teacher; else runs/teacher-DATA.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    seed: Annotated[int, typer.Option(help="Decides weights, order and planted data.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="At most so many.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    rate: Annotated[float | None, typer.Option(help="Highest learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option()] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of all steps.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest gradient norm.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without a better dev.")] = None,
    length: Annotated[int | None, typer.Option(help="Read so many tokens at most.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut rows that are too long.")] = False,
    data_dir: Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps.")] = None,
    precision: Annotated[str | None, typer.Option(help="single (default), bfloat16, or float16 on cuda.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; another number gives other weights.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run a model's own code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Train a teacher on `teach`, choose the epoch on `dev`, measure on `test`, keep everything in a folder."""
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
