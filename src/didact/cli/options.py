"""Options that several commands share, each told in one way, and what they open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.registry import parse_spec, split_list

Model = Annotated[str, typer.Option("--model", help="A folder or a hub name.")]
Data = Annotated[str, typer.Option("--data", help="A name from `didact data list`, or a file.")]
Methods = Annotated[str, typer.Option("--methods", help="Names from `didact methods`, with commas.")]
Split = Annotated[str, typer.Option(help="teach, explain, train, dev or test.")]
Task = Annotated[str | None, typer.Option(help="If the model does not say: `pair` for one that reads two.")]
Length = Annotated[int | None, typer.Option(help="Read so many tokens at most.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut rows that are too long.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps; auto: over all there are (accelerate).")]
TeacherDevice = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, mps; auto: the teacher over all there are (accelerate), what learns on one."),
]
Precision = Annotated[str | None, typer.Option(help="single (default), bfloat16 or float16.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]
Revision = Annotated[str | None, typer.Option(help="Revision of a model on the hub.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run a model's own code.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def methods_of(text: str) -> list[str]:
    """The methods that are named; an unknown one is told before anything heavy is loaded."""
    asked = split_list(text)
    if not asked:
        raise OptionError("Name a method: lime. `didact methods` lists them.")
    for one in asked:
        if not is_learned(one):
            EXPLAINERS[parse_spec(one).name]
    return asked


def check_files(files: Sequence[Path], *, has_data: bool) -> bool:
    """Whether some are of another tool, which needs data. What is missing is told before anything heavy is loaded."""
    missing = [str(one) for one in files if not one.exists()]
    if missing:
        raise OptionError(
            f"There is no file {', '.join(missing)}. Explanations are written by didact explain --out FILE."
        )
    from didact.experiment.bring import is_foreign, without_data

    foreign = [one for one in files if is_foreign(one)]
    if foreign and not has_data:
        raise without_data(foreign)
    return bool(foreign)


def data_of(name: str, split: str | None, *, data_dir: str | None, seed: int, rows: int | None = None) -> Any:
    """The data that files are about: all of them, or one split alone, or its first rows. They keep their classes."""
    from didact.core.dataset import Dataset
    from didact.data.load import load_data

    loaded = load_data(name, data_dir=data_dir, seed=seed)
    if split is None:
        return loaded
    return Dataset(loaded.name, loaded.task, {split: loaded[split][:rows]}, loaded.classes, loaded.segments)


def check_device(device: str | None) -> None:
    """An error if the device is not there, before anything is loaded. What `auto` finds is known when it is used."""
    from didact.models.load import checked_device
    from didact.models.spread import AUTO

    if device not in (None, AUTO):
        checked_device(device)


def teacher_of(model: str, *, threads: int | None, device: str | None, **loading: Any) -> Any:
    """The teacher where it was asked for, with as many threads."""
    import torch

    from didact.models.load import load_teacher

    if threads is not None:
        torch.set_num_threads(threads)
    return load_teacher(model, device=device, **loading)
