"""`didact cost`: what methods take for a row."""

from typing import Annotated

import typer

from didact.cli import options
from didact.cli.output import print_json, print_table


def cost(
    model: options.Model,
    data: options.Data,
    methods: options.Methods = "gradient_input,integrated_gradients,occlusion,lime,kernel_shap",
    split: options.Split = "test",
    rows: Annotated[int, typer.Option(min=1, help="So many of the split's first rows.")] = 32,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Altered rows that pass at once; 64.")] = None,
    seed: Annotated[int, typer.Option(help="Of planted data.")] = 0,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Count what methods take for a row: passes forward and backward, seconds, memory."""
    asked = options.methods_of(methods)

    from didact.data.load import load_data
    from didact.experiment.cost import cost_of, to_documents

    loaded = load_data(data, data_dir=data_dir, seed=seed)
    teacher = options.teacher_of(
        model, threads=threads, task=task, device=device, max_length=length, truncate=truncate
    )  # fmt: skip
    found = cost_of(teacher, loaded[split][:rows], asked, batch_size=batch_size)
    if as_json:
        print_json({"rows": to_documents(found)})
        return
    columns = ("method", "forward", "backward", "ms", "MB")
    lines = [
        (one.method, f"{one.forward:.1f}", f"{one.backward:.1f}", f"{1e3 * one.seconds:.2f}",
         "–" if one.memory is None else f"{one.memory:.1f}")
        for one in found
    ]  # fmt: skip
    print_table(columns, lines)
    typer.echo("For one row: passes through the model, milliseconds; MB: the most held at once beyond what rested.")
