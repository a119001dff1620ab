"""`didact sanity`: do explanations depend on the model, and can metrics be fooled?"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from didact.cli import options
from didact.cli.options import option
from didact.cli.output import figure, interval, print_json, print_table, say
from didact.registry import split_list

EXAMPLES: Final = (
    "didact sanity --model my-model --data reviews.csv",
    "didact sanity --model my-model --data sst --methods lrp,attention_all \\\n    --checks weights,labels",
)


def sanity(
    model: options.Model,
    data: options.Data,
    columns: options.Columns = None,
    classes: options.Classes = None,
    methods: options.Methods = "gradient_input,integrated_gradients,occlusion,attention_all",
    checks: Annotated[
        str | None,
        option(
            "--checks",
            "NAMES",
            "weights, trivial, labels (default: all but labels, which trains a second model).",
            options.METHODS,
        ),
    ] = None,
    split: options.Split = "test",
    rows: Annotated[int, option("--rows", "N", "Use only the first N rows.", options.DATA, min=2)] = 100,
    epochs: Annotated[
        int | None, option("--epochs", "N", "Epochs of the model trained on shuffled labels.", options.ADVANCED, min=1)
    ] = None,
    seed: Annotated[int, option("--seed", "N", "Seed of random draws and planted data.", options.ADVANCED)] = 0,
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
    """Check that explanations depend on what the model has learned.

    Randomises the weights from the output layer down to the embeddings: explanations that do not change do not explain
    the model. Also checks metrics: trivial explanations, which only give the label away, should not beat random ones.
    """
    asked = options.methods_of(methods)

    from didact.experiment.sanity import sanity as checked

    loaded = options.loaded_data(data, columns=columns, data_dir=data_dir, seed=seed)
    teacher = options.teacher_of(
        model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    found = checked(
        teacher, loaded, asked, checks=None if checks is None else split_list(checks), split=split, rows=rows,
        seed=seed, epochs=epochs, classes=options.parse_classes(classes), progress=True,
    )  # fmt: skip
    if as_json:
        print_json(found.to_document())
        return
    for title, lines in (("weights drawn anew", found.weights), ("labels shuffled", found.labels)):
        if lines:
            _print_steps(title, lines, asked)
    if found.trivial:
        headings = ("metric", "trivial", "random", "difference", "95 % interval", "fooled")
        shown = [one for one in found.trivial if one["rows"]]
        print_table(headings, [_fooled(one) for one in shown])
        typer.echo(
            "Trivial explanations mark a place for each class. A metric that prefers them to random ones is fooled."
        )
    for note in found.notes:
        say(f"note: {note}")


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
    like = figure(one["similarity"], ".2f")
    return f"{like} ({figure(one['roc_auc'], '.2f')})" if known else like


def _fooled(one: Mapping[str, Any]) -> tuple[str, ...]:
    sign = "↑" if one["better"] == "higher" else "↓"
    means = f"{one['trivial']:.3f}", f"{one['random']:.3f}"
    fooled = "yes" if one["fooled"] else "no"
    return (
        f"{one['metric']} {sign}",
        *means,
        f"{one['difference']:+.3f}",
        interval(one["low"], one["high"], "+.3f"),
        fooled,
    )
