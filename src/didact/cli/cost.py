"""`didact cost`: measures what methods cost per row."""

from typing import Final

import typer

from didact.cli import inputs
from didact.cli.configs import CostConfig
from didact.cli.options import Json, configured
from didact.cli.output import format_number, print_json, print_table

EXAMPLES: Final = (
    "didact cost --model my-model --data reviews.csv",
    "didact cost --model my-model --data sst --methods lrp,kernel_shap --rows 64",
)


@configured(CostConfig)
def cost(config: CostConfig, as_json: Json = False) -> None:
    """Measure what methods cost per row: passes, time and memory.

    Counts forward and backward passes through the model, and measures milliseconds and peak memory.
    """
    inputs.check_methods(config.methods)

    from didact.cli.explain import rows_to_explain
    from didact.evaluation.cost import cost_of
    from didact.explaining.input_rows import explains_gold_label

    teacher = inputs.open_teacher(config)
    rows, _ = rows_to_explain(teacher, config, needs_labels=explains_gold_label(*config.methods))
    costs = cost_of(teacher, rows, list(config.methods), batch_size=config.batch_size)
    if as_json:
        print_json({"rows": [cost.to_document() for cost in costs]})
        return
    headings = ("method", "forward", "backward", "ms", "MB")
    lines = [
        (cost.method, *(format_number(value, ".1f") for value in (cost.forward, cost.backward)),
         f"{1e3 * (cost.seconds or 0.0):.2f}", format_number(cost.memory, ".1f"))
        for cost in costs
    ]  # fmt: skip
    print_table(headings, lines)
    typer.echo("Per row: passes through the model, and milliseconds. MB: peak memory above idle.")
