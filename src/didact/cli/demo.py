"""`didact demo`: something worth seeing, offline, in a minute or two."""

import time
from pathlib import Path
from typing import Annotated

import typer

from didact.cli.output import console, say

METHODS = ("human", "integrated_gradients", "lime(samples=100)", "lrp", "gradient_norm", "attention_all", "random")


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for what the demo makes.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option()] = 0,
) -> None:
    """Make a data set whose truth is known, train a teacher on it, and see whether it answers for the right reasons.

    Then look at what several methods say about why it answers.
    """
    began = time.monotonic()
    from didact.cli.data import label_text, show_rows
    from didact.data.load import load_data
    from didact.experiment.explain import explain
    from didact.learning.train import train_teacher
    from didact.records.views import page, side_by_side

    heading("1. Data whose truth is known: planted/sentiment")
    data = load_data("planted/sentiment", seed=seed)
    typer.echo("The marked words decide the label; nothing else does.")
    show_rows(list(data["test"][:3]), data)

    heading("2. A teacher: a transformer of two layers, from scratch")
    teacher = train_teacher(data, "native", out=out / "teacher", overwrite=True, seed=seed)
    metrics = teacher.record["metrics"]
    typer.echo(f"Accuracy on {metrics['test_rows']:,} test sentences: {metrics['test_accuracy']:.1%}.")

    heading("3. Does it answer for the right reasons?")
    typer.echo(f"All other words re-drawn: it keeps its answer on {metrics['kept']:.1%} of sentences (99 % wanted).")
    typer.echo(f"The marked words re-drawn: it follows the new label on {metrics['followed']:.1%} (95 % wanted).")
    verdict = "So the marked words are" if metrics["verified"] else "So the marked words are not proven to be"
    typer.echo(f"{verdict} what this teacher reads, and explanations can be held against them as truth.")

    heading("4. What it says")
    shown = data["test"][3:6]
    for row, label, chances in zip(shown, (o := teacher.predict(shown.rows)).labels, o.probabilities, strict=True):
        assert data.classes is not None
        said = f"{data.classes[label]} ({chances[label]:.0%} sure)"
        typer.echo(f"\nteacher: {said}   truth: {label_text(row, data)}")
        show_rows([row], data)

    heading("5. Why? Several explanations of the same sentences")
    typer.echo("human is the truth here; random is what chance looks like. They do not agree. Which one to trust?\n")
    maps = [explain(teacher, shown, method, background_rows=data["explain"], seed=seed) for method in METHODS]
    side_by_side(maps)
    page(maps, out / "explanations.html", title="The same sentences, explained by several methods")
    say(
        f"\nDone in {time.monotonic() - began:.0f} s. The teacher is kept in {out / 'teacher'}; "
        f"open {out / 'explanations.html'} to see the explanations in colour."
    )


def heading(text: str) -> None:
    from rich.text import Text

    console().print(Text(f"\n{text}", style="bold"))
