"""`didact cost`: what methods take for a row."""

from typing import Annotated, Final

import typer

from didact.cli import options
from didact.cli.options import option
from didact.cli.output import print_json, print_table

EXAMPLES: Final = (
    "didact cost --model my-model --data reviews.csv",
    "didact cost --model my-model --data sst --methods lrp,kernel_shap --rows 64",
)


def cost(
    model: options.Model,
    data: options.Data,
    columns: options.Columns = None,
    classes: options.Classes = None,
    methods: options.Methods = "gradient_input,integrated_gradients,occlusion,lime,kernel_shap",
    split: options.AnySplit = None,
    rows: Annotated[int, option("--rows", "N", "Use only the first N rows.", options.DATA, min=1)] = 32,
    batch_size: options.PassSize = None,
    seed: options.PlantedSeed = 0,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Measure what methods cost per row: passes, time and memory.

    Counts forward and backward passes of the model, and measures milliseconds and peak memory.
    """
    asked = options.methods_of(methods)

    from didact.experiment.cost import cost_of
    from didact.experiment.rows import asks_for_gold

    loaded = options.loaded_data(
        data, columns=columns, data_dir=data_dir, seed=seed, uses_splits=split not in (None, "all")
    )
    teacher = options.teacher_of(
        model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    loaded = options.aligned(loaded, teacher, classes, required=asks_for_gold(*asked))
    chosen = loaded[options.chosen_split(loaded, split)][:rows]
    found = cost_of(teacher, chosen, asked, batch_size=batch_size)
    if as_json:
        print_json({"rows": [cost.to_document() for cost in found]})
        return
    headings = ("method", "forward", "backward", "ms", "MB")
    lines = [
        (one.method, f"{one.forward:.1f}", f"{one.backward:.1f}", f"{1e3 * (one.seconds or 0.0):.2f}",
         "–" if one.memory is None else f"{one.memory:.1f}")
        for one in found
    ]  # fmt: skip
    print_table(headings, lines)
    typer.echo("For one row: passes through the model, milliseconds; MB: the most held at once beyond what rested.")
