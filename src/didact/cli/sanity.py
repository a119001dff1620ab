"""`didact sanity`: do explanations depend on the model? `didact cost`: what do they take?"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from didact.cli.options import DataDir, Device, Json, Length, Task, Threads, Truncate, teacher_of
from didact.cli.output import print_json, print_table, say
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.registry import parse_spec, split_list

Methods = Annotated[str, typer.Option("--methods", help="Names from `didact methods`, with commas.")]
Model = Annotated[str, typer.Option("--model", help="A folder or a hub name.")]
Data = Annotated[str, typer.Option("--data", help="A name from `didact data list`, or a file.")]
Split = Annotated[str, typer.Option(help="teach, explain, train, dev or test.")]


def sanity(
    model: Model,
    data: Data,
    methods: Methods = "gradient_input,integrated_gradients,occlusion,attention_all",
    checks: Annotated[
        str | None, typer.Option(help="weights, labels (trains a twin), trivial; default: all but labels.")
    ] = None,
    split: Split = "test",
    rows: Annotated[int, typer.Option(min=2, help="So many of the split's first rows.")] = 100,
    epochs: Annotated[int | None, typer.Option(help="Of the twin that learns shuffled labels.")] = None,
    seed: Annotated[int, typer.Option(help="Decides what is drawn, and planted data.")] = 0,
    task: Task = None,
    length: Length = None,
    truncate: Truncate = False,
    data_dir: DataDir = None,
    device: Device = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Check that explanations depend on what the model has learned, and that metrics are not fooled.

    Weights are drawn anew from the answer down to the embeddings; explanations that stay as they were do not explain
    the model. Trivial ones, which only give the label away, should not beat random ones.
    """
    asked = _methods(methods)

    from didact.experiment.sanity import sanity as checked

    teacher, loaded = _loaded(model, data, data_dir, seed, task, length, truncate, device, threads)
    found = checked(
        teacher, loaded, asked, checks=None if checks is None else split_list(checks), split=split, rows=rows,
        seed=seed, epochs=epochs, progress=True,
    )  # fmt: skip
    if as_json:
        print_json(found.to_document())
        return
    for title, lines in (("weights drawn anew", found.weights), ("labels shuffled", found.labels)):
        if lines:
            _print_steps(title, lines, asked)
    if found.trivial:
        columns = ("metric", "trivial", "random", "difference", "95 % interval", "fooled")
        shown = [one for one in found.trivial if one["rows"]]
        print_table(columns, [_fooled(one) for one in shown])
        typer.echo(
            "Trivial explanations mark a place for each class. A metric that prefers them to random ones is fooled."
        )
    for note in found.notes:
        say(f"note: {note}")


def cost(
    model: Model,
    data: Data,
    methods: Methods = "gradient_input,integrated_gradients,occlusion,lime,kernel_shap",
    split: Split = "test",
    rows: Annotated[int, typer.Option(min=1, help="So many of the split's first rows.")] = 32,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Altered rows that pass at once; 64.")] = None,
    seed: Annotated[int, typer.Option(help="Of planted data.")] = 0,
    task: Task = None,
    length: Length = None,
    truncate: Truncate = False,
    data_dir: DataDir = None,
    device: Device = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Count what methods take for a row: passes forward and backward, seconds, memory."""
    asked = _methods(methods)

    from didact.experiment.cost import cost_of, to_documents

    teacher, loaded = _loaded(model, data, data_dir, seed, task, length, truncate, device, threads)
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


def _methods(methods: str) -> list[str]:
    asked = split_list(methods)
    if not asked:
        raise OptionError("Name a method: --methods lime. `didact methods` lists them.")
    for one in asked:  # a wrong name is told before anything heavy is loaded
        if not is_learned(one):
            EXPLAINERS[parse_spec(one).name]
    return asked


def _loaded(
    model: str,
    data: str,
    data_dir: str | None,
    seed: int,
    task: str | None,
    length: int | None,
    truncate: bool,
    device: str | None,
    threads: int | None,
) -> tuple[Any, Any]:
    from didact.data.load import load_data

    loaded = load_data(data, data_dir=data_dir, seed=seed)
    return teacher_of(model, threads=threads, task=task, device=device, max_length=length, truncate=truncate), loaded


def _print_steps(title: str, lines: Any, methods: list[str]) -> None:
    """Steps down, methods across: how like the first explanations are, and how near to the rationales."""
    cells = {(one["step"], one["method"]): one for one in lines}
    known = any(one["roc_auc"] == one["roc_auc"] for one in lines)
    rows = []
    for step in dict.fromkeys(one["step"] for one in lines):
        own = [cells[step, method] for method in methods]
        rows.append([step, *(_step(one, known) for one in own)])
    print_table((title, *methods), rows)
    said = "Spearman's ρ of |scores| with those of the model as it is, mean over rows"
    typer.echo(f"{said}{'; in brackets ROC-AUC against the rationales' if known else ''}.")


def _step(one: dict[str, Any], known: bool) -> str:
    like = "–" if one["similarity"] != one["similarity"] else f"{one['similarity']:.2f}"
    return f"{like} ({one['roc_auc']:.2f})" if known else like


def _fooled(one: Mapping[str, Any]) -> tuple[str, ...]:
    interval = f"[{one['low']:+.3f}, {one['high']:+.3f}]"
    sign = "↑" if one["better"] == "higher" else "↓"
    means = f"{one['trivial']:.3f}", f"{one['random']:.3f}"
    return f"{one['metric']} {sign}", *means, f"{one['difference']:+.3f}", interval, "yes" if one["fooled"] else "no"
