"""HTML reports of runs and studies, and their figures and tables as files for papers."""

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup

from didact import __version__
from didact.errors import OptionError
from didact.files.atomic import (
    check_new_file,
    check_output_folder,
    ensure_parent,
    is_didact_page,
    write_bytes,
    write_text,
)
from didact.files.remote import RemoteFolder, is_url
from didact.reports.section import Header, Section
from didact.reports.sections import (
    agreement,
    compared,
    cost,
    curves,
    edited,
    examples,
    headline,
    learned,
    metrics,
    people,
    provenance,
    ranking,
    sharpness,
    trust,
    words,
)
from didact.results.comparison import Comparison
from didact.results.study_analysis import StudyAnalysis
from didact.viz.html import asset, cut, render
from didact.viz.page import shade_css

FILE: Final = "report.html"
STUDY_FILE: Final = "analysis.html"
_STUDY_TITLES: Final = {
    "ranking": "Which explanations do people prefer?",
    "simulation": "Which explanations help people predict the model?",
    "rating": "How good do people find each explanation?",
}
# In the order of the page. A section without content for a run returns None.
SECTIONS: Final = (
    *(trust, compared, ranking, sharpness, edited, curves, metrics),
    *(agreement, examples, words, learned, cost, provenance),
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
    """Write the report of a run: one HTML page that holds all it needs.

    Args:
        run: The folder that `didact compare` wrote, a `Comparison`, or the URL of a store. For a URL the page is put
            there, too.
        path: The page to write. Default: `report.html` in the run's folder. A `Comparison` without a folder needs a
            path.
        figures: Folder for every chart as PNG, SVG and PDF, and every table as CSV and LaTeX.
        studies: Folders of analysed studies with people. Each becomes a section.
        title: Title of the page and of the charts in `figures`.
        overwrite: Replace a file at `path` that is not a page of didact.

    Returns:
        The path of the page. For a URL, the path of the copy on this machine.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        result = didact.compare(teacher, data, ["gradient_norm"], train_sizes=160, seeds=8, workers=0)
        print(didact.report(result, "report.html"))
        ```
    """
    folder = getattr(run, "folder", run)
    if not isinstance(folder, str | Path):
        raise OptionError(f"run must be a run's folder, a URL or a Comparison, not {type(run).__name__}.")
    if path is None and getattr(run, "is_temporary", False):
        raise OptionError(
            "This comparison was made without `out`: its folder is temporary, and a report in it would be deleted with "
            "it. Pass a file for the report, didact.report(comparison, 'report.html'), or keep the run, "
            "didact.compare(…, out='runs/first')."
        )
    comparison = Comparison.load(folder)
    sections = report_sections(comparison, [StudyAnalysis.load(study) for study in studies])
    target = write_report(comparison, sections, path, figures=figures, title=title, overwrite=overwrite)
    if path is None and is_url(folder):
        RemoteFolder(str(folder)).upload(target, FILE)
    return target


def write_report(
    run: Comparison,
    sections: Sequence[Section],
    path: Path | str | None = None,
    *,
    figures: Path | str | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the page, and with `figures` its charts and tables. Returns the path of the page."""
    target = run.folder / FILE if path is None else Path(path)
    if path is not None:
        check_new_file(target, overwrite=overwrite, replaces=is_didact_page)
    if figures is not None:
        check_output_folder(Path(figures))
    ensure_parent(target)
    write_text(target, page(run, sections, title))
    if figures is not None:
        export(sections, Path(figures), title=title)
    return target


def report_sections(run: Comparison, studies: Sequence[StudyAnalysis] = ()) -> list[Section]:
    """The sections of the page. Studies with people come last but one, before provenance."""
    sections = [section for module in SECTIONS if (section := module.section(run)) is not None]
    by_people = [people.section(study, number=number) for number, study in enumerate(studies, 1)]
    return [*sections[:-1], *by_people, sections[-1]]


def page(run: Comparison, sections: Sequence[Section], title: str | None = None) -> str:
    """The HTML of a run's report."""
    question = f"didact: which explanation of {run.name} can you trust?"
    return document(title or question, headline.header(run, title or None), sections)


def study_page(folder: Path | str, path: Path | str | None = None, *, figures: Path | str | None = None) -> Path:
    """Write the HTML report of an analysed study and return its path (default: `analysis.html` in its folder).

    With `figures`, every chart is also written there as PNG, SVG and PDF, and every table as CSV and LaTeX.
    """
    study = StudyAnalysis.load(folder)
    sections = [people.section(study, is_alone=True)]
    target = study.folder / STUDY_FILE if path is None else ensure_parent(Path(path))
    title = f"didact: {study.title or 'a study with people'}"
    write_text(target, document(title, _study_header(study), sections))
    if figures is not None:
        export(sections, Path(figures))
    return target


def _study_header(study: StudyAnalysis) -> Header:
    counts = study.counts
    return Header(
        overline=("a study with people: ", cut(study.title, 120), ""),
        title=_STUDY_TITLES[study.kind],
        summary=cut(study.headline, 1000),
        question=study.question,
        badges=[f"{counts.synthetic} of {counts.people} people are synthetic"] if counts.synthetic else [],
        facts=[
            ("kind", study.kind),
            ("people", f"{counts.people} ({counts.finished} finished)"),
            ("items", f"{counts.items:,}"),
            ("answers", f"{counts.answers:,}"),
            ("median time of a page", "–" if counts.median_seconds is None else f"{counts.median_seconds:.0f} s"),
        ],
    )


def document(title: str, header: Header, sections: Sequence[Section]) -> str:
    """One HTML document. Its Content-Security-Policy blocks requests and all scripts but its own."""
    scripts = [_asset(section.script) for section in sections if section.script]
    styles = [_asset(name) for name in ("style.css", *(section.style for section in sections)) if name]
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    return render(
        "didact.reports",
        "report.html.j2",
        title=title,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}",
        styles=[*styles[:1], shade_css("main"), *styles[1:]],
        header=header,
        sections=sections,
        scripts=scripts,
        version=__version__,
    )


def export(sections: Sequence[Section], folder: Path, *, title: str | None = None) -> None:
    """Write every chart as PNG, SVG and PDF, and every table as CSV and LaTeX.

    `title` is the title of each chart. In a section with several charts, the chart's caption follows it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for figure in section.figures:
            chart_title = title and (
                title if len(section.figures) == 1 else f"{title}: {figure.caption or figure.name}"
            )
            for kind in ("png", "svg", "pdf"):
                write_bytes(folder / f"{_file_name(figure.name)}.{kind}", figure.file(kind, title=chart_title))
        for table in section.tables:
            write_text(folder / f"{_file_name(table.name)}.csv", table.csv())
            write_text(folder / f"{_file_name(table.name)}.tex", table.latex())


def _asset(name: str) -> Markup:
    return asset("didact.reports", name)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-.")[:100] or "figure"


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
