"""`didact methods`: what can be asked for as an explanation."""

from typing import Annotated

import typer

from didact.cli.output import print_json, print_table
from didact.explainers import EXPLAINERS


def methods(as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False) -> None:
    """Every method: the kind of its scores, what it needs of a model, its cost per row, its paper. Loads nothing."""
    if as_json:
        rows = [
            {"name": name, "kind": one.kind, "needs": one.needs, "cost": one.cost, "paper": one.paper, "ours": one.ours}
            for name, one in EXPLAINERS.items()
        ]
        print_json({"rows": rows})
        return
    columns = ("name", "kind", "needs", "cost per row", "paper")
    print_table(columns, [(name, e.kind, e.needs, e.cost, e.paper) for name, e in EXPLAINERS.items()])
    typer.echo("n is the number of units. Options go in brackets: didact explain --method 'lime(samples=200)'.")
