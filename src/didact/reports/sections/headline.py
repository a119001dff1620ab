"""Which method teaches best, how sure that is, and what it does not mean."""

import re
from collections.abc import Sequence

from didact.render.page import safe
from didact.render.tables import cut, soft
from didact.reports.describe import method_text, row_counts
from didact.reports.verdict import CAUTION, Verdict, verdict_of
from didact.results.comparison import Comparison
from didact.results.gains import FEW

_WIDE = 30  # characters of a fact above which it takes two columns


def header(run: Comparison, title: str | None = None) -> str:
    """The head of the page. `title` stands above the headline instead of the usual question."""
    found = verdict_of(run)
    question = f"which explanation of <b>{safe(cut(run.name))}</b> can you trust?"
    return (
        '<header id="headline">'
        f'<p class="over">didact · {question if title is None else safe(cut(title, 200))}</p>'
        f"<h1>{safe(cut(found.title, 200))}</h1>"
        f'<p class="summary">{safe(cut(found.summary, 600))}</p>'
        f"{_leaders(found)}{_when(run)}{_badge(run)}"
        f'<div class="cards">{_sure(run, found)}{_card("Against what?", found.against)}'
        f"{_card('By other measures', found.beside)}</div>"
        f"{_caution(found)}{_facts(run)}</header>"
    )


def _leaders(found: Verdict) -> str:
    """What the methods of the headline are."""
    names = found.tied or (() if found.best is None else (found.best,))
    texts = "; ".join(f"<b>{safe(cut(name))}</b>: {safe(method_text(name))}" for name in names[:4])
    return f'<p class="what">{texts}.</p>' if texts else ""


def _when(run: Comparison) -> str:
    """Date and row counts, in one line."""
    counts = row_counts(run)
    texts = [run.launch.date, f"{counts['in the data']} rows in the data" if "in the data" in counts else ""]
    texts.append(f"students learn from {counts['students learn from']} rows" if "students learn from" in counts else "")
    texts += [f"{counts[name]} {name} rows" for name in ("dev", "test", "measured") if name in counts]
    return f'<p class="when">{safe(" · ".join(filter(None, texts)))}</p>'


def _badge(run: Comparison) -> str:
    said = []
    if run.rows and run.least_seeds < FEW:
        said.append(f"few seeds ({run.least_seeds})")
    if any(row.low_seeds for row in run.rows):
        said.append("some students failed to learn (‡)")
    if run.failed:
        said.append(f"{len(run.failed):,} failed runs")
    if run.unlearned:
        count = len(run.unlearned)
        said.append("students did not learn" + ("" if not run.judged else f" in {count} of {len(run.columns)}"))
    if run.about.get("left_out"):
        said.append("parts of the plan were left out")
    if run.measured is None:
        said.append("taught, not measured otherwise")
    return f'<p class="badges">{"".join(f"<span>{safe(one)}</span>" for one in said)}</p>' if said else ""


def _sure(run: Comparison, found: Verdict) -> str:
    balance = run.about.get("balance")
    return _card("How sure is that?", found.sure, small=str(balance) if balance and run.rows else "")


def _card(title: str, lines: Sequence[str], *, small: str = "") -> str:
    if not lines and not small:
        return ""
    inside = "".join(f"<p>{_flags(safe(cut(line, 600)))}</p>" for line in lines)
    aside = f'<p class="small">{safe(cut(small, 600))}</p>' if small else ""
    return f'<div class="card"><h2>{safe(title)}</h2>{inside}{aside}</div>'


def _flags(html: str) -> str:
    """Options of the command line are not broken at their hyphens."""
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r'<span class="flag">\1</span>', html)


def _caution(found: Verdict) -> str:
    """What a good teacher's explanation still is not. A run without a verdict needs no such warning."""
    if found.best is None:
        return ""
    inside = "".join(f"<p>{safe(line)}</p>" for line in CAUTION)
    return f'<div class="card flat"><h2>What it does not mean</h2><div class="flow">{inside}</div></div>'


def _facts(run: Comparison) -> str:
    facts = {
        "model": run.name,
        "data": str(run.about.get("data") or "–"),
        "task": str(run.about.get("task") or "–"),
        "students": ", ".join(run.students) or "–",
        "seeds": str(len(run.about.get("seeds") or ()) or run.least_seeds),
        "methods": f"{len(set(run.ranked) - run.controls)} and {len(set(run.ranked) & run.controls)} controls",
    }
    inside = ""
    for name, value in facts.items():
        look = ' class="wide"' if len(value) > _WIDE else ""
        inside += f"<div{look}><dt>{name}</dt><dd>{soft(cut(value, 200))}</dd></div>"
    return f'<dl class="facts">{inside}</dl>'
