"""`didact report`: what a run found, as one page."""

import time
from pathlib import Path
from typing import Annotated

import typer

from didact.cli import options
from didact.cli.output import print_json, say
from didact.errors import RecordError


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The folder or URL that `didact compare … --out RUN` wrote.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="The page; default: RUN/report.html.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write charts (PNG, SVG, PDF) and tables (CSV, LaTeX) there.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the page and of the charts that --figures writes.")
    ] = None,
    study: Annotated[
        list[Path] | None,
        typer.Option(
            "--study", help="Also show a study with people that `didact study analyze` analysed; again for more."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one HTML file about a run: which method teaches best, how sure that is, and everything beside it.

    It opens offline and needs neither the model nor the data. Give `didact compare` the option `--measure 200` for all
    other measures and for examples.
    """
    from didact.records.remote import Remote, is_url
    from didact.reports.build import FILE, parts_of, write
    from didact.reports.read import read_run
    from didact.reports.read_study import read_study
    from didact.reports.verdict import verdict_of

    began = time.monotonic()
    found = read_run(run)
    parts = parts_of(found, [read_study(one) for one in study or []])
    path: Path | str = write(found, parts, out, figures=figures, title=title)
    if out is None and is_url(run):
        store = Remote(run)
        try:
            store.upload(Path(path), FILE)
        except RecordError as error:
            raise RecordError(f"{error} Choose a file of this machine for the page (--out).") from None
        path = f"{store.url}/{FILE}"
    verdict = verdict_of(found)
    if as_json:
        print_json(
            {
                "out": str(path), "figures": None if figures is None else str(figures), "level": verdict.level,
                "best": verdict.best, "tied": list(verdict.tied), "text": verdict.text,
                "seconds": time.monotonic() - began,
            }
        )  # fmt: skip
        return
    typer.echo(verdict.text)
    say(f"\nThe page is {path}" + ("." if figures is None else f"; charts and tables are in {figures}."))
