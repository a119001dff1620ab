"""The page of a study alone: what `didact study analyze` found, as one HTML file."""

from pathlib import Path
from typing import Final

from didact.files.atomic import with_folder, write_text
from didact.render.page import safe
from didact.render.tables import cut
from didact.reports.build import export, whole
from didact.reports.sections import people
from didact.results.study_analysis import StudyAnalysis

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
    part = people.part(study, is_alone=True)
    target = study.folder / FILE if path is None else with_folder(Path(path))
    title = f"didact: {study.title or 'a study with people'}"
    write_text(target, whole(title, _header(study), [part]))
    if figures is not None:
        export([part], Path(figures))
    return target


def _header(study: StudyAnalysis) -> str:
    counts = study.counts
    made = f"<span>{counts.synthetic} of {counts.people} people are synthetic</span>" if counts.synthetic else ""
    seconds = "–" if counts.median_seconds is None else f"{counts.median_seconds:.0f} s"
    facts = {
        "kind": study.kind, "people": f"{counts.people} ({counts.finished} finished)",
        "items": f"{counts.items:,}", "answers": f"{counts.answers:,}", "median time of a page": seconds,
    }  # fmt: skip
    asked = f"<p>Participants were asked: “{safe(cut(study.question, 200))}”</p>" if study.question else ""
    inside = "".join(f"<div><dt>{name}</dt><dd>{safe(value)}</dd></div>" for name, value in facts.items())
    return (
        '<header id="headline">'
        f'<p class="over">didact · a study with people: <b>{safe(cut(study.title, 120))}</b></p>'
        f"<h1>{HEADINGS[study.kind]}</h1>"
        f'<p class="summary">{safe(cut(study.headline, 1000))}</p>'
        f"{asked}"
        f'<p class="badges">{made}</p><dl class="facts">{inside}</dl></header>'
    )
