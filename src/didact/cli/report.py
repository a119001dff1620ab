"""`didact report`: what a run found, as one page."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from didact.cli import options
from didact.cli.options import option
from didact.cli.output import print_json, say
from didact.errors import RecordError

EXAMPLES: Final = (
    "didact report runs/first",
    'didact report runs/first --figures figures --title "Reviews, 2024"',
)


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder or URL that `didact compare --out RUN` wrote.")],
    out: Annotated[Path | None, option("--out", "FILE", "The page (default: RUN/report.html).", options.OUTPUT)] = None,
    overwrite: options.OverwriteFile = False,
    figures: Annotated[
        Path | None,
        option("--figures", "FOLDER", "Also write charts (PNG, SVG, PDF) and tables (CSV, LaTeX).", options.OUTPUT),
    ] = None,
    title: Annotated[
        str | None, option("--title", "TEXT", "Title of the page and of the charts.", options.OUTPUT)
    ] = None,
    study: Annotated[
        list[Path] | None,
        option("--study", "STUDY", "Add an analysed study with people (repeatable).", options.OUTPUT),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one HTML page about a comparison.

    It shows which method teaches best, how sure that is, and all other results. The page opens offline and needs
    neither the model nor the data. Run `didact compare` with `--eval-rows 200` to add all other metrics and examples.
    """
    from didact.files.remote import Remote, is_url
    from didact.reports.build import FILE, parts_of, write
    from didact.reports.verdict import verdict_of
    from didact.results.comparison import Comparison
    from didact.results.study_analysis import StudyAnalysis

    began = time.monotonic()
    found = Comparison.load(run)
    parts = parts_of(found, [StudyAnalysis.load(one) for one in study or []])
    path: Path | str = write(found, parts, out, figures=figures, title=title, overwrite=overwrite)
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
