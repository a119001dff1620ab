"""`didact sanity`: checks that explanations depend on the model, and that metrics cannot be fooled."""

from collections.abc import Sequence
from typing import Final

import typer

from didact.cli import inputs
from didact.cli.configs import SanityConfig
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, format_interval, format_number, print_json, print_table
from didact.results.sanity import FooledMetric, Sanity, SanityStep

EXAMPLES: Final = (
    "didact sanity --model my-model --data reviews.csv",
    "didact sanity --model my-model --data sst --methods lrp,attention_all \\\n    --checks weights,labels",
)


@configured(SanityConfig)
def sanity(config: SanityConfig, as_json: Json = False) -> None:
    """Check that explanations depend on what the model has learned.

    Randomises the weights from the output layer down to the embeddings: explanations that do not change do not explain
    the model. Also checks metrics: trivial explanations, which only give the label away, should not beat random ones.
    """
    inputs.check_methods(config.methods)

    from didact.evaluation.sanity import sanity as checked

    data = inputs.open_data(config, seed=config.seed)
    result = checked(
        inputs.open_teacher(config), data, config.methods, checks=config.checks or None,
        classes=config.classes or None, progress=True, **config.pick("split", "rows", "seed", "epochs"),
    )  # fmt: skip
    if as_json:
        print_json(result.to_document())
    else:
        _print(result, config.methods)


def _print(result: Sanity, methods: Sequence[str]) -> None:
    for title, lines in (("weights redrawn", result.weights), ("labels shuffled", result.labels)):
        if lines:
            _print_steps(title, lines, methods)
    if result.trivial:
        headings = ("metric", "trivial", "random", "difference", "95 % interval", "fooled")
        print_table(headings, [_fooled_cells(line) for line in result.trivial if line.rows])
        typer.echo(
            "Trivial explanations mark one position per class. A metric that prefers them to random ones is fooled."
        )
    for note in result.notes:
        echo_stderr(f"note: {note}")


def _print_steps(title: str, lines: Sequence[SanityStep], methods: Sequence[str]) -> None:
    """Print steps as rows and methods as columns: similarity to the original explanations, and to the rationales."""
    cells = {(line.step, line.method): line for line in lines}
    has_truth = any(line.roc_auc == line.roc_auc for line in lines)
    rows = []
    for step in dict.fromkeys(line.step for line in lines):
        rows.append([step, *(_step_cell(cells[step, method], has_truth) for method in methods)])
    print_table((title, *methods), rows)
    legend = "Spearman's ρ of |scores| with those of the unchanged model, mean over rows"
    typer.echo(f"{legend}{'; in brackets ROC-AUC against the rationales' if has_truth else ''}.")


def _step_cell(line: SanityStep, has_truth: bool) -> str:
    similarity = format_number(line.similarity, ".2f")
    return f"{similarity} ({format_number(line.roc_auc, '.2f')})" if has_truth else similarity


def _fooled_cells(line: FooledMetric) -> tuple[str, ...]:
    return (
        f"{line.metric} {'↑' if line.better == 'higher' else '↓'}",
        f"{line.trivial:.3f}",
        f"{line.random:.3f}",
        f"{line.difference:+.3f}",
        format_interval(line.low, line.high, "+.3f"),
        "yes" if line.fooled else "no",
    )
