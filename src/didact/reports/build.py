"""The page of a run: its sections put together into one HTML file that needs nothing else, and figures for papers."""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from didact import __version__
from didact.errors import OptionError
from didact.files.atomic import check_new_file, check_output_folder, is_page, with_folder, write_bytes, write_text
from didact.files.remote import Remote, is_url
from didact.render import GENERATOR
from didact.render.page import safe, shades
from didact.reports.assets import asset
from didact.reports.part import Part
from didact.reports.sections import (
    agreement,
    compared,
    cost,
    curves,
    examples,
    headline,
    learned,
    metrics,
    people,
    provenance,
    ranking,
    words,
)
from didact.results.comparison import Comparison
from didact.results.study_analysis import StudyAnalysis

FILE: Final = "report.html"
# A section that has nothing to say of a run gives None.
PARTS: Final[tuple[Callable[[Comparison], Part | None], ...]] = (
    compared.part,
    ranking.part,
    curves.part,
    metrics.part,
    agreement.part,
    examples.part,
    words.part,
    learned.part,
    cost.part,
    provenance.part,
)


def report(
    run: Path | str | object,
    path: Path | str | None = None,
    *,
    figures: Path | str | None = None,
    studies: Sequence[Path | str] = (),
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the report of a run, and tell where it is: `report.html` in the run's folder, or `path`.

    `run` is the folder that `didact compare` wrote, or the `Comparison` that `didact.compare` gave, or the URL of a
    store: the page is then put there, too, and the path is that of a copy on this machine. With `figures`
    every chart is also written there as PNG, SVG and PDF, and every table as CSV and LaTeX. `studies` are folders of
    studies with people that `didact study analyze` has analysed; each becomes a section. `title` is the title of the
    page and of the charts in `figures`; without it charts are titled by student and size. A `Comparison` made without
    `out` has no folder that stays, and needs a `path`. A file at `path` that is no page of didact is replaced only
    with `overwrite`.
    """
    folder = getattr(run, "folder", run)
    if not isinstance(folder, str | Path):
        raise OptionError(f"A report is of a run's folder or of a Comparison, not of {type(run).__name__}.")
    if path is None and getattr(run, "is_temporary", False):
        raise OptionError(
            "This comparison was made without `out`: its folder is temporary, and a report in it would be deleted with "
            "it. Name a file for the report, didact.report(comparison, 'report.html'), or keep the run, "
            "didact.compare(…, out='runs/first')."
        )
    found = Comparison.load(folder)
    target = write(
        found, parts_of(found, [StudyAnalysis.load(one) for one in studies]), path, figures=figures, title=title,
        overwrite=overwrite,
    )  # fmt: skip
    if path is None and is_url(folder):
        Remote(str(folder)).upload(target, FILE)
    return target


def write(
    run: Comparison,
    parts: Sequence[Part],
    path: Path | str | None = None,
    *,
    figures: Path | str | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """The page into its file, charts and tables into theirs."""
    target = run.folder / FILE if path is None else Path(path)
    if path is not None:
        check_new_file(target, overwrite=overwrite, replaces=is_page)
    if figures is not None:
        check_output_folder(Path(figures))
    with_folder(target)
    write_text(target, page(run, parts, title))
    if figures is not None:
        export(parts, Path(figures), title=title)
    return target


def parts_of(run: Comparison, studies: Sequence[StudyAnalysis] = ()) -> list[Part]:
    """All sections; what people said stands before what was run."""
    found = [one for part in PARTS if (one := part(run)) is not None]
    asked = [people.part(study, place=place) for place, study in enumerate(studies, 1)]
    return [*found[:-1], *asked, found[-1]]


def page(run: Comparison, parts: Sequence[Part], title: str | None = None) -> str:
    """The document of a run."""
    question = f"didact: which explanation of {run.name} can you trust?"
    return whole(title or question, headline.header(run, title or None), parts)


def whole(title: str, header: str, parts: Sequence[Part]) -> str:
    """One document: no request leaves it, and no script runs but its own."""
    scripts = [part.script for part in parts if part.script]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}"
    links = "".join(f'<li><a href="#{part.id}">{part.id.capitalize()}</a></li>' for part in parts)
    return "\n".join(
        [
            "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', GENERATOR,
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">', '<link rel="icon" href="data:,">',
            f"<title>{safe(title)}</title>",
            f"<style>{asset('style.css')}{shades('main')}{''.join(part.style for part in parts)}</style>",
            "</head>", "<body>",
            '<a class="skip" href="#main">Skip to the results</a>',
            '<main id="main">', header, f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
            *(part.html() for part in parts), f"<footer>Made by didact {safe(__version__)}.</footer>", "</main>",
            *(f"<script>{script}</script>" for script in scripts), "</body>", "</html>\n",
        ]
    )  # fmt: skip


def export(parts: Sequence[Part], folder: Path, *, title: str | None = None) -> None:
    """Every chart as PNG, SVG and PDF, every table as CSV and LaTeX.

    `title` is the title of a chart, followed by what the chart shows where a section has several of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        for figure in part.figures:
            own = title and (title if len(part.figures) == 1 else f"{title}: {figure.caption or figure.name}")
            for kind in ("png", "svg", "pdf"):
                write_bytes(folder / f"{_file(figure.name)}.{kind}", figure.file(kind, title=own))
        for table in part.tables:
            write_text(folder / f"{_file(table.name)}.csv", table.csv())
            write_text(folder / f"{_file(table.name)}.tex", table.latex())


def _file(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-.")[:100] or "figure"


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
