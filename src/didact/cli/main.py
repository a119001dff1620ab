"""`didact`: the commands, and how their errors end."""

import logging
import os
import sys
from typing import Annotated

import typer

from didact import __version__
from didact.cli import agree, compare, cost, data, demo, explain, learn, methods, metrics, report, sanity, study, train
from didact.errors import DidactError, RequestError

app = typer.Typer(
    name="didact",
    help="Which explanation of your model can you trust? didact judges explanations by what they teach.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("explain")(explain.explain)
app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("report")(report.report)
app.command("agree")(agree.agree)
app.command("methods")(methods.methods)
app.command("metrics")(metrics.metrics)
app.command("sanity")(sanity.sanity)
app.command("cost")(cost.cost)
app.add_typer(learn.app, name="learn")
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")


def _print_version(asked: bool | None) -> None:
    if asked:
        typer.echo(f"didact {__version__}")
        raise typer.Exit


@app.callback()
def didact(
    version: Annotated[  # noqa: ARG001 - its callback speaks
        bool | None,
        typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on stderr.")] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_is_unsaid)
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s", handlers=[handler])
    if not verbose:
        # Their progress bars and hints are about loading, not about what was asked.
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TQDM_DISABLE", "1")


def _is_unsaid(record: logging.LogRecord) -> bool:
    """Whether nobody below the root prints this: the libraries of the hub print theirs themselves, and pass it on."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if any(isinstance(one, logging.StreamHandler) for one in logger.handlers):
            return False
        logger = logger.parent
    return True


def main() -> None:
    """Run the command line. A `DidactError` is a message, not a traceback."""
    try:
        app()
    except DidactError as error:
        typer.echo(f"didact: {error}", err=True)
        sys.exit(2 if isinstance(error, RequestError) else 1)


if __name__ == "__main__":
    main()
