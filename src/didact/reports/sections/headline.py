"""The header of a report: which method teaches best, how sure that is, and what it does not mean."""

from didact.reports.describe import method_text, row_counts
from didact.reports.section import Card, Header
from didact.reports.sections import trust
from didact.reports.verdict import CAUTIONS, verdict_of
from didact.results.comparison import Comparison
from didact.results.gains import FEW_SEEDS
from didact.results.target_normalisation import RAW
from didact.viz.html import cut


def header(run: Comparison, title: str | None = None) -> Header:
    """The header of the page. `title` replaces the usual question above the headline."""
    verdict = verdict_of(run)
    question = ("which explanation of ", cut(run.name), " can you trust?")
    leaders = verdict.tied or (() if verdict.best is None else (verdict.best,))
    balance = run.about.get("balance")
    cards = [
        Card("How sure is that?", verdict.confidence_notes, str(balance) if balance and run.rows else ""),
        Card("Against what?", verdict.comparison_notes),
        Card("By other measures", verdict.other_notes),
    ]
    return Header(
        overline=question if title is None else (cut(title, 200), "", ""),
        title=verdict.title,
        summary=cut(verdict.summary, 600),
        leaders=[(name, method_text(name)) for name in leaders[:4]],
        when=_when(run),
        badges=_badges(run),
        cards=[card for card in cards if card.lines or card.small],
        cautions=() if verdict.best is None else CAUTIONS,  # a run without a verdict needs no such warning
        facts=_facts(run),
    )


def _when(run: Comparison) -> str:
    """Date and row counts in one line."""
    counts = row_counts(run)
    texts = [run.launch.date, f"{counts['in the data']} rows in the data" if "in the data" in counts else ""]
    texts.append(f"students learn from {counts['students learn from']} rows" if "students learn from" in counts else "")
    texts += [f"{counts[name]} {name} rows" for name in ("dev", "test", "measured") if name in counts]
    return " · ".join(filter(None, texts))


def _badges(run: Comparison) -> list[str]:
    badges = []
    if run.about.target_normalisation != RAW:
        badges.append(f"target normalisation: {run.about.target_normalisation}")
    if run.rows and run.least_seeds < FEW_SEEDS:
        badges.append(f"few seeds ({run.least_seeds})")
    if any(row.low_seeds for row in run.rows):
        badges.append("some students failed to learn (‡)")
    if run.failed:
        badges.append(f"{len(run.failed):,} failed runs")
    if run.unlearned:
        scope = f" in {len(run.unlearned)} of {len(run.columns)}" if run.judged else ""
        badges.append(f"students did not learn{scope}")
    if run.about.get("left_out"):
        badges.append("parts of the plan were left out")
    if run.measured is None:
        badges.append("no other measures")
    return [*trust.badges(run), *badges]


def _facts(run: Comparison) -> list[tuple[str, str]]:
    return [
        ("model", run.name),
        ("data", str(run.about.get("data") or "–")),
        ("task", str(run.about.get("task") or "–")),
        ("students", ", ".join(run.students) or "–"),
        ("seeds", str(len(run.about.get("seeds") or ()) or run.least_seeds)),
        ("methods", f"{len(set(run.ranked) - run.controls)} and {len(set(run.ranked) & run.controls)} controls"),
    ]
