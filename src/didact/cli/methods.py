"""`didact methods`: lists the explanation methods, or shows one with its options."""

from dataclasses import asdict
from textwrap import fill
from typing import Annotated, Any, Final

import typer

from didact.cli.options import Json
from didact.cli.output import print_json, print_table
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, ExplainerEntry

START = (
    "Start with lrp: one pass, and its scores add up (the default for models). Compare it with integrated_gradients "
    "(slower) and gradient_norm. For a black-box function: occlusion (the default), then kernel_shap."
)
NEEDS = {
    "nothing": "no model",
    "rationales": "marked words in the data",
    "predictions": "only the answers, so it also explains functions",
    "gradients": "gradients of a model",
    "attention": "attention of a model",
}

EXAMPLES: Final = ("didact methods", "didact methods lime", "didact methods lime --check")


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this method with all its options.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the method against the contract of explainers.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List every explanation method, or show one with its options.

    Shows what a method does, what it needs of a model, and what it costs per row. --check runs a method, such as one of
    your own package, on tiny models with random weights.
    """
    if check:
        _check(name, as_json=as_json)
    elif name is not None:
        _show_one(name, EXPLAINERS[name], as_json=as_json)
    elif as_json:
        entries = [_entry_document(name, entry) for name, entry in EXPLAINERS.items()]
        print_json({"rows": entries} | ({"broken": dict(EXPLAINERS.broken)} if EXPLAINERS.broken else {}))
    else:
        _show_all()


def _check(name: str | None, *, as_json: bool) -> None:
    """Print the promises of a method, one per line. Exits with 1 if one is broken."""
    from didact.explaining.check_explainer import check_explainer

    if name is None:
        raise OptionError("--check needs the NAME of a method: didact methods lime --check")
    result = check_explainer(name, raises=False)
    if as_json:
        print_json(
            {
                "name": result.method,
                "passed": result.passed,
                "promises": [asdict(promise) for promise in result.promises],
            }
        )
    else:
        typer.echo(str(result))
    if not result.passed:
        raise typer.Exit(1)


def _show_all() -> None:
    typer.echo(fill(START, 79))
    rows = [
        (name, entry.needs, f"{_sentence(_description(entry))} Cost: {entry.cost}.")
        for name, entry in EXPLAINERS.items()
    ]
    print_table(("name", "needs", "what it does, and what it costs per row"), rows)
    for name, reason in EXPLAINERS.broken.items():
        typer.echo(fill(f"Not available: {name}, of a package that cannot be loaded. {reason}", 79))
    typer.echo(
        "n is the number of units; a forward or backward is a pass through the model.\n"
        "didact methods lime shows one method with its options. Options go in brackets:\n"
        "didact explain --method 'lime(samples=200)'."
    )


def _show_one(name: str, entry: ExplainerEntry, *, as_json: bool) -> None:
    options = _options(name)
    if as_json:
        print_json(_entry_document(name, entry) | {"options": options})
        return
    typer.echo(fill(f"{name}: {_sentence(_description(entry))}", 79) + "\n")
    properties = {
        "scores": entry.kind, "needs": NEEDS.get(entry.needs, entry.needs), "cost per row": entry.cost,
        "paper": entry.paper, "differs from it": entry.ours,
    }  # fmt: skip
    for label, text in properties.items():
        if text:
            typer.echo(fill(f"{label + ':':<17}{text}", 79, subsequent_indent=" " * 17))
    if options:
        print_table(("option", "default", "meaning"), [(o["name"], o["default"], o["meaning"]) for o in options])
        first = options[0]
        typer.echo(f"didact explain --method '{name}({first['name']}={first['default']})'")
    else:
        typer.echo("\nIt has no options of its own.")
    typer.echo("Options that all methods share (target, scale, level …): didact explain --help.")


def _options(name: str) -> list[dict[str, Any]]:
    from didact.explainers.build import options_of
    from didact.explainers.options import option_help

    defaults = {option: parameter.default for option, parameter in options_of(name).items()}
    return [
        {"name": option, "default": value, "meaning": option_help(name, option)} for option, value in defaults.items()
    ]


def _entry_document(name: str, entry: ExplainerEntry) -> dict[str, Any]:
    return {
        "name": name, "about": _description(entry), "kind": entry.kind, "needs": entry.needs, "cost": entry.cost,
        "paper": entry.paper, "ours": entry.ours,
    }  # fmt: skip


def _description(entry: ExplainerEntry) -> str:
    """What the method does. Entries of other packages without a description give their paper."""
    return getattr(entry, "about", "") or entry.paper


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
