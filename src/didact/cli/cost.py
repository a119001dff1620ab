"""`didact cost`: what methods take for a row."""

from typing import Final

import typer

from didact.cli import inputs
from didact.cli.configs import CostConfig
from didact.cli.options import Json, configured
from didact.cli.output import print_json, print_table

EXAMPLES: Final = (
    "didact cost --model my-model --data reviews.csv",
    "didact cost --model my-model --data sst --methods lrp,kernel_shap --rows 64",
)


@configured(CostConfig)
def cost(config: CostConfig, as_json: Json = False) -> None:
    """Measure what methods cost per row: passes, time and memory.

    Counts forward and backward passes of the model, and measures milliseconds and peak memory.
    """
    inputs.check_methods(config.methods)

    from didact.evaluation.cost import cost_of
    from didact.explaining.input_rows import asks_for_gold

    loaded = inputs.loaded_data(config, seed=config.seed, uses_splits=config.split not in (None, "all"))
    teacher = inputs.teacher_of(config)
    loaded = inputs.aligned(loaded, teacher, config.classes, required=asks_for_gold(*config.methods))
    chosen = loaded[inputs.chosen_split(loaded, config.split)][: config.rows]
    found = cost_of(teacher, chosen, list(config.methods), batch_size=config.batch_size)
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
