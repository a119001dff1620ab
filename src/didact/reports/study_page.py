"""The page of a study alone: what `didact study analyze` found, as one HTML file."""

from pathlib import Path
from typing import Final

from didact.files.atomic import with_folder, write_text
from didact.reports.build import document, export
from didact.reports.header import Header
from didact.reports.sections import people
from didact.results.study_analysis import StudyAnalysis
from didact.viz.html import cut

FILE: Final = "analysis.html"
HEADINGS: Final = {
    "ranking": "Which explanations do people prefer?",
    "simulation": "Which explanations help people predict the model?",
    "rating": "How good do people find each explanation?",
}


def study_page(folder: Path | str, path: Path | str | None = None, *, figures: Path | str | None = None) -> Path:
    """Write the page of an analysed study, and tell where it is: `analysis.html` in its folder, or `path`.

    With `figures` every chart is also written there as PNG and SVG, and every table as CSV and LaTeX.
    """
    study = StudyAnalysis.load(folder)
    sections = [people.section(study, is_alone=True)]
    target = study.folder / FILE if path is None else with_folder(Path(path))
    title = f"didact: {study.title or 'a study with people'}"
    write_text(target, document(title, _header(study), sections))
    if figures is not None:
        export(sections, Path(figures))
    return target


def _header(study: StudyAnalysis) -> Header:
    counts = study.counts
    return Header(
        over=("a study with people: ", cut(study.title, 120), ""),
        title=HEADINGS[study.kind],
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
