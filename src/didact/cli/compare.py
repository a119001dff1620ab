"""`didact compare`: finds out which explanation method teaches best on this model and data."""

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, exit_on_interrupt, print_json
from didact.comparing.config import CompareConfig
from didact.config import Group
from didact.errors import DidactError, OptionError
from didact.files.remote import is_url

if TYPE_CHECKING:
    from didact.results.comparison import Comparison

EXAMPLES: Final = (
    "didact compare --model my-model --data reviews.csv --columns text=comment \\\n    --budget 20m",
    "didact compare --model my-model --data sst --explainers lrp,lime \\\n    --out runs/first",
)


@configured(CompareConfig)
def compare(
    config: CompareConfig,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the planned runs and time.", rich_help_panel=Group.OUTPUT)
    ] = False,
    as_json: Json = False,
) -> None:
    """Find out which explanation method teaches best.

    Students learn the model's answers with and without explanations, then predict the model on new rows. Only --model
    and --data are required. The command prints a table and writes a report. Both contain controls: none, random,
    trivial and, if people marked words, human. Run the same command again to resume a stopped run. The exit code is 1
    if a student failed.
    """
    out = None if config.out is None else str(config.out)
    if out is not None and out.startswith("memory://"):
        raise OptionError(f"--out {out} does not outlive the command. Give a folder, or an s3:// URL.")
    with exit_on_interrupt():
        from didact.comparing.compare import forecast_config, run_config

        plan = config.with_fields(progress=True)
        if dry_run:
            forecast = forecast_config(plan)
            print_json(forecast.to_document()) if as_json else typer.echo(forecast.table())
            return
        result = run_config(plan, command=_command())
    _show(result, out if out is not None and is_url(out) else str(result.folder), as_json=as_json)


def _show(result: "Comparison", location: str, *, as_json: bool) -> None:
    """Print the table and the failed runs, write the report, and print its path."""
    print_json(result.to_document()) if as_json else typer.echo(result.table())
    from didact.reports.build import report

    if is_url(location):
        echo_stderr(f"The run is saved in {location}.")
    if result.failed:
        echo_stderr(f"{len(result.failed)} runs failed. Run the same command to try them again.")
    try:
        echo_stderr(f"Report: {report(location)}")
    except DidactError as error:
        echo_stderr(f"The run is saved in {location}, but its report could not be written: {error}")
        raise typer.Exit(1) from None
    if result.failed:
        raise typer.Exit(1)


def _command() -> str:
    """The command line, with the name of the program instead of its path."""
    return shlex.join(["didact", *sys.argv[1:]])
