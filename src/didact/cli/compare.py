"""`didact compare`: which explanation method teaches best on this model and data."""

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
    "didact compare --model my-model --data sst --explainers lrp,lime --seeds 8 \\\n    --out runs/first",
)


@configured(CompareConfig)
def compare(
    config: CompareConfig,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the runs and the time.", rich_help_panel=Group.OUTPUT)
    ] = False,
    as_json: Json = False,
) -> None:
    """Find out which explanation method teaches best.

    Students learn the model's answers with and without explanations; all then predict it on rows they never saw.
    Only --model and --data are needed. The command prints a table and writes a report; the controls none, random,
    trivial and (where people marked words) human are always in it. The same command resumes a run that was stopped.
    Exit code 1 if a run failed.
    """
    out = None if config.out is None else str(config.out)
    if out is not None and out.startswith("memory://"):
        raise OptionError(f"--out {out} would be gone with this command. Give a folder, or an s3:// URL.")
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
    """The table, failed runs, and last of all where the report is."""
    print_json(result.to_document()) if as_json else typer.echo(result.table())
    from didact.reports.build import report

    if is_url(location):
        echo_stderr(f"The run is kept in {location}.")
    if result.failed:
        echo_stderr(f"{len(result.failed)} runs failed; the same command tries them again.")
    try:
        echo_stderr(f"Report: {report(location)}")
    except DidactError as error:
        echo_stderr(f"The run is kept in {location}, but its report could not be written: {error}")
        raise typer.Exit(1) from None
    if result.failed:
        raise typer.Exit(1)


def _command() -> str:
    """The command line as it was given, with the program's name instead of its path."""
    return shlex.join(["didact", *sys.argv[1:]])
