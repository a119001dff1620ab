"""Where the numbers come from: plan, versions, fingerprints and seeds; what failed and what was left out."""

from typing import Any

from didact.reports.describe import row_counts
from didact.reports.section import MEASURE_HINT, Block, Code, Details, Heading, Notes, Paragraph, Section, lead
from didact.results.comparison import Comparison
from didact.results.gains import column_name
from didact.results.target_normalisation import RAW, TUNED
from didact.viz.html import cut
from didact.viz.tables import Cell, Table

_MAX_FAILURES = 50  # failed runs that are listed


def section(run: Comparison) -> Section:
    blocks: list[Block] = [
        lead("Everything that determines the numbers of this page, and everything that is missing from them."),
        _facts(run),
    ]
    if run.failed:
        retry_note = "Run the same didact compare command again: it repeats only the runs that failed."
        blocks += [Heading("Runs that failed"), _failed(run), Notes([retry_note])]
    else:
        blocks.append(Paragraph("All runs succeeded."))
    if left_out := _left_out(run):
        blocks += [Heading("What was left out, and why"), Notes(left_out, max_lines=200)]
    if plan := str(run.about.get("plan") or ""):
        summary = "The plan, as a file for didact compare PLAN.toml"
        blocks.append(Details(summary, [Code(cut(plan, 20_000))]))
    return Section("provenance", "Where these numbers come from", blocks)


def _facts(run: Comparison) -> Table:
    about = run.about
    seeds = ", ".join(map(str, about.get("seeds") or ())) or "–"
    facts = {
        "date": run.launch.date,
        "duration": _duration(run.launch.seconds),
        "command": run.launch.command,
        **_rows(run),
        "model": f"{run.name} (fingerprint {about.get('teacher_fingerprint') or '–'})",
        "data": f"{about.get('data') or '–'} (fingerprint {about.get('data_fingerprint') or '–'})",
        "students": ", ".join(run.students),
        "they start from": ", ".join(f"{name}: {start}" for name, start in dict(about.get("starts") or {}).items()),
        "seeds": seeds,
        "runs": f"{about.get('cells') or '–'} trained students, of which {len(run.failed)} failed",
        "students are sent": about.sent,
        "chosen on dev": _tuned(run),
        "didact": about.get("didact"),
        "torch": about.get("torch"),
    }
    rows: list[list[Cell | str]] = [
        [name, Cell(str(value), longest=1000)] for name, value in facts.items() if value not in (None, "")
    ]
    return Table("provenance", "What was run", ["what", "value"], rows, look="facts", words=(0, 1))


def _rows(run: Comparison) -> dict[str, str]:
    """Row counts as text, by their names in the table."""
    names = {"dev": "dev rows", "test": "test rows", "measured": "rows measured otherwise"}
    return {names.get(name, f"rows {name}"): text for name, text in row_counts(run).items()}


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _tuned(run: Comparison) -> str:
    tune: Any = run.about.get("tune")
    grids = dict(tune) if isinstance(tune, dict) else {}
    normalisation = run.about.target_normalisation
    if normalisation == TUNED:
        grids["temperature of what is sent"] = [f"{value:g}" for value in run.about.target_temperatures]
    if grids:
        return "; ".join(f"{name} from {', '.join(map(str, values))}" for name, values in grids.items())
    return "nothing" if normalisation != RAW else "nothing: the scores of every method are used unchanged"


def _failed(run: Comparison) -> Table:
    rows: list[list[Cell | str]] = []
    for failure in run.failed[:_MAX_FAILURES]:
        where = f"{failure.student}, {failure.size} rows, seed {failure.seed}"
        rows.append([failure.explainer, where, Cell(cut(" ".join(failure.error.split()), 300))])
    more = len(run.failed) - _MAX_FAILURES
    caption = f"{len(run.failed):,} runs failed" + (f"; the first {_MAX_FAILURES} of them" if more > 0 else "")
    return Table("failed", caption, ["explainer", "student", "error"], rows, words=(0, 1, 2), data=list(run.failed))


def _left_out(run: Comparison) -> list[str]:
    notes = [str(line) for line in run.about.get("left_out") or ()]
    notes += [
        f"{column_name(column)}: the students did not learn, so there is no verdict{f' ({reason})' if reason else ''}."
        for column, reason in run.unlearned.items()
    ]
    notes += run.notes
    lost = [row for row in run.rows if row.lost_rows]
    notes += [
        f"{row.explainer} for {row.student}, {row.size:,} rows: in {row.lost_rows:,} rows, a part of the explanation "
        "is beyond the text that the student reads, and was dropped."
        for row in lost
    ]
    if run.measured is not None:
        if len(run.measured.methods) > 1 and not run.measured.agreement:
            notes.append(f"Agreement between the methods was not measured. {MEASURE_HINT}")
        if not run.measured.cost:
            notes.append(f"The cost of the methods was not measured. {MEASURE_HINT}")
        notes += [f"{method.label} was not measured: {method.reason}" for method in run.measured.skipped]
        skipped: dict[tuple[str, int], list[str]] = {}
        for row in run.measured.metrics.rows:
            if row.skipped:
                skipped.setdefault((row.metric, row.skipped), []).append(row.method)
        notes += [
            f"{metric}: undefined for {count:,} {'row' if count == 1 else 'rows'} of {', '.join(methods)}"
            for (metric, count), methods in sorted(skipped.items())
        ]
    return list(dict.fromkeys(notes))
