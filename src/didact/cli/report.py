"""`didact report`: writes one HTML page about a comparison."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, print_json
from didact.config import Config, Group, Option
from didact.errors import RecordError
from didact.field_types import Switch

EXAMPLES: Final = (
    "didact report runs/first",
    'didact report runs/first --figures figures --title "Reviews, 2024"',
)


class ReportConfig(Config):
    """The options of `didact report`."""

    run: Annotated[str, Option(Group.DATA, "RUN", is_argument=True)]
    """Folder or URL that `didact compare --out RUN` wrote."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """The page (default: RUN/report.html)."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""
    figures: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Also write charts (PNG, SVG, PDF) and tables (CSV, LaTeX)."""
    title: Annotated[str | None, Option(Group.OUTPUT, "TEXT")] = None
    """Title of the page and of the charts."""
    study: Annotated[tuple[Path, ...], Option(Group.OUTPUT, "STUDY", repeatable=True)] = ()
    """Add an analysed study with people (repeatable)."""


@configured(ReportConfig)
def report(config: ReportConfig, as_json: Json = False) -> None:
    """Write one HTML page about a comparison.

    The page shows which method teaches best, with its confidence, and all other results. It opens offline and needs
    neither the model nor the data. Run `didact compare` with `--eval-rows 200` to add other metrics and examples.
    """
    from didact.files.remote import is_url
    from didact.reports.build import report_sections, write_report
    from didact.reports.verdict import verdict_of
    from didact.results.comparison import Comparison
    from didact.results.study_analysis import StudyAnalysis
    from didact.results.trust import Trust

    start = time.monotonic()
    comparison = Comparison.load(config.run)
    parts = report_sections(comparison, [StudyAnalysis.load(folder) for folder in config.study])
    page = write_report(comparison, parts, config.out, **config.pick("figures", "title", "overwrite"))
    path = _upload(page, config.run) if config.out is None and is_url(config.run) else str(page)
    verdict, trust = verdict_of(comparison), Trust.of(comparison)
    if as_json:
        print_json(
            {
                "out": path, "figures": None if config.figures is None else str(config.figures),
                "level": verdict.level,
                "best": verdict.best, "tied": list(verdict.tied), "text": verdict.text,
                "validation": trust.to_document(),
                "seconds": time.monotonic() - start,
            }
        )  # fmt: skip
        return
    typer.echo(" ".join(filter(None, [verdict.text, trust.remark()])))
    charts = "" if config.figures is None else f"; charts and tables are in {config.figures}"
    echo_stderr(f"\nThe page is {path}{charts}.")


def _upload(page: Path, run: str) -> str:
    """Upload the page to the URL of the run, and return its URL."""
    from didact.files.remote import RemoteFolder
    from didact.reports.build import FILE

    store = RemoteFolder(run)
    try:
        store.upload(page, FILE)
    except RecordError as error:
        raise RecordError(f"{error} Choose a local file for the page (--out).") from None
    return f"{store.url}/{FILE}"
