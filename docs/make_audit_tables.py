"""Writes the tables of docs/audit.md from the files in evidence/audit: `python docs/make_audit_tables.py`.

A table stands between the comments `<!-- table NAME -->` and `<!-- end of table -->`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from didact.auditing.summarise import summarise_audits
from didact.results.audit import Audit, Change
from didact.results.audit_summary import AuditSummary, EvaluatorScore, Mean
from didact.results.evidence import load_evidence

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "audit.md"
EVIDENCE: Final = ROOT / "evidence" / "audit"
_BLOCK: Final = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def with_tables(page: str, audits: Sequence[Audit]) -> str:
    """The page with its tables made from the audits. A table without evidence says so."""

    def table(match: re.Match[str]) -> str:
        stage, _, kind = match[2].partition(":")
        chosen = [audit for audit in audits if audit.name.startswith(f"{stage}/")]
        lines = TABLES[kind](chosen) if chosen else ["Not run yet."]
        return "\n".join([match[1].rstrip(), "", *lines, "", match[3]])

    return _BLOCK.sub(table, page)


def read_audits(folder: Path = EVIDENCE) -> list[Audit]:
    """All audits in the folder."""
    return [Audit.of_evidence(evidence) for evidence in load_evidence(folder, kind="audit")]


def _students(audits: Sequence[Audit]) -> list[str]:
    summary = summarise_audits(audits)
    return _markdown(
        [
            "evaluator",
            "steps right",
            "equal differ",
            "move / span",
            "lost info",
            "leaks",
            "τ [95 %]",
            "none",
            "s",
            "misses",
        ],
        [_line(score) for score in summary.scores if not score.is_metric],
    )


def _metrics(audits: Sequence[Audit]) -> list[str]:
    summary = summarise_audits(audits)
    rows = [_line(score) for score in summary.scores if score.is_metric]
    return _markdown(
        ["metric", "steps right", "equal differ", "lost info", "leaks", "τ [95 %]", "methods ranked", "s"],
        [
            [*row[:3], *row[4:7], str(score.methods), row[8]]
            for row, score in zip(rows, _metric_scores(summary), strict=True)
        ],
    )


def _metric_scores(summary: AuditSummary) -> list[EvaluatorScore]:
    return [score for score in summary.scores if score.is_metric]


def _line(score: EvaluatorScore) -> list[str]:
    constructed = f" (+{score.by_construction})" if score.by_construction else ""
    return [
        f"`{score.name}`",
        f"{score.steps_right}/{score.steps}{_share(score.right)}",
        f"{score.equal_differ}/{score.equal}{constructed}{_share(score.differ)}",
        f"{_points(None if score.move is None else score.move.value)} / {_points(score.span)}",
        f"{score.less_win}/{score.less}",
        f"{score.leaks_win}/{score.leaks}",
        "–" if score.tau is None else f"{score.tau.value:.2f}{_interval(score.tau)}",
        _points(score.reference),
        "–" if score.seconds is None else f"{score.seconds:.2g}",
        ", ".join(score.missed) or "nothing",
    ]


def _areas(audits: Sequence[Audit]) -> list[str]:
    """The true AUC of every level of damage, on the rows of students."""
    rows = []
    for audit in audits:
        for start in (item for item in audit.explanations if item.change == Change.START):
            levels = [item for item in audit.explanations if item.base == start.base and item.change == Change.DAMAGE]
            for by in dict.fromkeys(item.damaged for item in levels):
                series = sorted((item for item in levels if item.damaged == by), key=lambda item: item.level)
                areas = " → ".join(_area(item.train_auc) for item in (start, *series))
                rows.append([audit.name, f"`{start.base}`", by, areas])
    return _markdown(["audit", "base", "damaged", "true AUC, from undamaged to most damaged"], rows)


def _teachers(audits: Sequence[Audit]) -> list[str]:
    rows = []
    for audit in audits:
        teacher, evidence = audit.teacher, audit.evidence
        kept = "exact" if teacher.is_exact else f"{_percent(teacher.unchanged)}, {_percent(teacher.followed)}"
        rows.append(
            [audit.name, _percent(teacher.accuracy), kept, {True: "yes", False: "no", None: "–"}[teacher.verified],
             str(len(evidence.seeds)), f"{evidence.hours:.2f}", evidence.date]
        )  # fmt: skip
    hours = sum(audit.evidence.hours for audit in audits)
    table = _markdown(["audit", "accuracy", "kept, followed", "verified", "seeds", "hours", "date"], rows)
    return [*table, "", f"{len(audits)} parts, {hours:.1f} hours of two cores."]


def _methods(audits: Sequence[Audit]) -> list[str]:
    """The true AUC of every method, mean over the audits, and its value by the students that pass most goals."""
    names = list(dict.fromkeys(item.name for audit in audits for item in audit.explanations if item.is_method))
    best = [score.name for score in summarise_audits(audits).scores if not score.is_metric][:3]
    rows = []
    for name in names:
        areas = [
            item.train_auc for audit in audits for item in audit.explanations if item.name == name and item.is_method
        ]
        known = [area for area in areas if area is not None]
        values = [
            [
                value.value
                for audit in audits
                for value in audit.values_by_evaluator.get(evaluator, ())
                if value.explainer == name
            ]
            for evaluator in best
        ]
        means = [_points(sum(each) / len(each)) if each else "–" for each in values]
        rows.append([f"`{name}`", _area(sum(known) / len(known)) if known else "–", *means])
    return _markdown(["method", "true AUC", *(f"`{name}`" for name in best)], rows)


TABLES: Final[Mapping[str, Callable[[Sequence[Audit]], list[str]]]] = {
    "students": _students,
    "metrics": _metrics,
    "areas": _areas,
    "teachers": _teachers,
    "methods": _methods,
}


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _share(mean: Mean | None) -> str:
    return "" if mean is None else f" ({100 * mean.value:.0f} %)"


def _interval(mean: Mean) -> str:
    return "" if mean.low is None or mean.high is None else f" [{mean.low:.2f}, {mean.high:.2f}]"


def _points(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _area(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), read_audits()), encoding="utf-8")
