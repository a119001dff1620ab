"""Which method teaches best, how sure that is, and what it does not mean."""

from didact.render.page import safe
from didact.reports.read import FEW, Run
from didact.reports.table import cut
from didact.reports.verdict import CAUTION, Verdict, favourites, verdict_of


def header(run: Run) -> str:
    """The head of the page."""
    found = verdict_of(run)
    return (
        '<header id="headline">'
        f'<p class="over">didact · which explanation of <b>{safe(cut(run.name))}</b> can you trust?</p>'
        f"<h1>{safe(cut(found.title, 200))}</h1>"
        f'<p class="summary">{safe(cut(found.summary, 600))}</p>'
        f"{_badge(run)}"
        f'<div class="cards">{_card("How sure is that?", found.sure)}{_card("Against what?", found.against)}'
        f"{_card('What it does not mean', [*_others(run, found), *CAUTION])}</div>"
        f"{_facts(run)}</header>"
    )


def _badge(run: Run) -> str:
    said = []
    if run.rows and run.least_seeds < FEW:
        said.append(f"few seeds ({run.least_seeds})")
    if run.failed:
        said.append(f"{len(run.failed):,} failed cells")
    if run.measured is None:
        said.append("taught, not measured otherwise")
    return f'<p class="badges">{"".join(f"<span>{safe(one)}</span>" for one in said)}</p>' if said else ""


def _card(title: str, lines: object) -> str:
    assert isinstance(lines, list | tuple)
    if not lines:
        return ""
    inside = "".join(f"<p>{safe(cut(line, 600))}</p>" for line in lines)
    return f'<div class="card"><h2>{safe(title)}</h2>{inside}</div>'


def _others(run: Run, found: Verdict) -> list[str]:
    """Whether other measures point to other methods."""
    told = [f"{family} is led by {name} (best in {count} of {total})" for family, name, count, total in favourites(run)]
    if not told or found.best is None:
        return []
    agree = all(name == found.best for _, name, _, _ in favourites(run))
    start = "Other measures point the same way" if agree else "Teaching is one measure. By others"
    return [f"{start}: {'; '.join(told)}."]


def _facts(run: Run) -> str:
    tests = sorted({row.test_rows for row in run.rows})
    facts = {
        "model": run.name,
        "data": str(run.about.get("data") or "–"),
        "task": str(run.about.get("task") or "–"),
        "students": ", ".join(run.students) or "–",
        "rows they learn from": ", ".join(f"{size:,}" for size in run.sizes) or "–",
        "seeds": str(len(run.about.get("seeds") or ()) or run.least_seeds),
        "test rows": ", ".join(f"{count:,}" for count in tests) or "–",
        "methods": f"{len(set(run.explainers) - run.controls)} and {len(set(run.explainers) & run.controls)} controls",
    }
    inside = "".join(f"<div><dt>{name}</dt><dd>{safe(cut(value, 200))}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{inside}</dl>'
