"""Options that several commands share, each told in one way. `teacher_of` opens the model they describe."""

from typing import Annotated, Any

import typer

Task = Annotated[str | None, typer.Option(help="If the model does not say: `pair` for one that reads two.")]
Length = Annotated[int | None, typer.Option(help="Read so many tokens at most.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut rows that are too long.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]
Revision = Annotated[str | None, typer.Option(help="Revision of a model on the hub.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run a model's own code.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def teacher_of(model: str, *, threads: int | None, **options: Any) -> Any:
    """The teacher, with as many threads as were asked for."""
    import torch

    from didact.models.load import load_teacher

    if threads is not None:
        torch.set_num_threads(threads)
    return load_teacher(model, **options)
