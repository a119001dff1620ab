"""`didact cost`: what methods take for a row."""

from typing import Final

import typer

from didact.cli import inputs
from didact.cli.configs import CostConfig
from didact.cli.options import Json, configured
from didact.cli.output import figure, print_json, print_table

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

    from didact.cli.explain import chosen_rows
    from didact.evaluation.cost import cost_of
    from didact.explaining.input_rows import asks_for_gold

    teacher = inputs.teacher_of(config)
    chosen, _ = chosen_rows(teacher, config, needs_labels=asks_for_gold(*config.methods))
    costs = cost_of(teacher, chosen, list(config.methods), batch_size=config.batch_size)
    if as_json:
        print_json({"rows": [cost.to_document() for cost in costs]})
        return
    headings = ("method", "forward", "backward", "ms", "MB")
    lines = [
        (cost.method, *(figure(value, ".1f") for value in (cost.forward, cost.backward)),
         f"{1e3 * (cost.seconds or 0.0):.2f}", figure(cost.memory, ".1f"))
        for cost in costs
    ]  # fmt: skip
    print_table(headings, lines)
    typer.echo("For one row: passes through the model, milliseconds; MB: the most held at once beyond what rested.")
