"""`didact`: registers the commands, and turns errors into messages and exit codes."""

import logging
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from didact import __version__
from didact.cli import (
    agree,
    audit,
    combine,
    compare,
    cost,
    data,
    demo,
    explain,
    learn,
    methods,
    metrics,
    report,
    sanity,
    study,
    train,
)
from didact.cli.help import HelpGroup, command, epilog
from didact.errors import DidactError, ExplanationWarning, RequestError

app = typer.Typer(
    name="didact",
    cls=HelpGroup,
    help="Which explanation of your model can you trust? didact judges explanations by what they teach.",
    epilog=epilog(
        "didact demo --quick",
        "didact compare --model my-model --data reviews.csv --columns text=comment",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
START, MEASURE, LEARN, DATA = "Start here", "Measure", "Learn", "Data and people"
command(app, "demo", *demo.EXAMPLES, panel=START)(demo.demo)
command(app, "explain", *explain.EXAMPLES, panel=START)(explain.explain)
command(app, "compare", *compare.EXAMPLES, panel=START)(compare.compare)
command(app, "report", *report.EXAMPLES, panel=START)(report.report)
command(app, "combine", *combine.EXAMPLES, panel=MEASURE)(combine.combine)
command(app, "metrics", *metrics.EXAMPLES, panel=MEASURE)(metrics.metrics)
command(app, "agree", *agree.EXAMPLES, panel=MEASURE)(agree.agree)
command(app, "sanity", *sanity.EXAMPLES, panel=MEASURE)(sanity.sanity)
command(app, "cost", *cost.EXAMPLES, panel=MEASURE)(cost.cost)
command(app, "methods", *methods.EXAMPLES, panel=MEASURE)(methods.methods)
app.add_typer(audit.app, name="audit", rich_help_panel=MEASURE)
command(app, "train", *train.EXAMPLES, panel=LEARN)(train.train)
app.add_typer(learn.app, name="learn", rich_help_panel=LEARN)
app.add_typer(data.app, name="data", rich_help_panel=DATA)
app.add_typer(study.app, name="study", rich_help_panel=DATA)


def _print_version(is_requested: bool | None) -> None:
    if is_requested:
        typer.echo(f"didact {__version__}")
        raise typer.Exit


@app.callback()
def didact(
    version: Annotated[  # noqa: ARG001 - its callback prints
        bool | None,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print log messages to stderr.")] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_is_not_printed_elsewhere)
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s", handlers=[handler])
    if not verbose:
        # Hide the progress bars and hints of libraries that load models.
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TQDM_DISABLE", "1")


def _is_not_printed_elsewhere(record: logging.LogRecord) -> bool:
    """True if no logger below the root prints this record: Hugging Face libraries print theirs and propagate them."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        if any(isinstance(handler, logging.StreamHandler) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


def main() -> None:
    """Run the command line. A `DidactError` or an `ExplanationWarning` is printed as a message, without traceback."""
    format_other = warnings.formatwarning

    def format_warning(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> str:
        if issubclass(category, ExplanationWarning):
            return f"didact: warning: {message}\n"
        return format_other(message, category, *location, **options)

    warnings.formatwarning = format_warning
    try:
        app()
    except DidactError as error:
        typer.echo(f"didact: {error}", err=True)
        sys.exit(2 if isinstance(error, RequestError) else 1)
    except OSError as error:  # about a file or folder, and handled nowhere else
        if error.filename is None:
            raise
        typer.echo(f"didact: {error.filename} cannot be used: {error.strerror}.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
