"""Applies the rule for finalists (docs/audit.md) to the screening: `python evidence/choose_finalists.py`.

Written before the screening was finished.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from didact.auditing.summarise import summarise_audits
from didact.results.audit import Audit
from didact.results.audit_summary import EvaluatorScore
from didact.results.evidence import load_evidence

FOLDER: Final = Path(__file__).parent / "audit" / "screening"
FINALISTS: Final = 3
PER_STUDENT: Final = 2
LEAST, MOST = 0.60, 0.85  # simulability without explanations
SHARPNESS: Final = "-sharpness"


def main() -> None:
    audits = [Audit.of_evidence(evidence) for evidence in load_evidence(FOLDER, kind="audit")]
    finalists = choose([audit for audit in audits if not audit.name.endswith(SHARPNESS)])
    for score in finalists:
        print(f"{score.name}: misses {', '.join(score.missed) or 'nothing'}, steps {score.steps_right}/{score.steps}")
    for rival, score in replacements([audit for audit in audits if audit.name.endswith(SHARPNESS)], audits, finalists):
        print(f"{rival.name} replaces {score.name}")


def choose(audits: Sequence[Audit]) -> list[EvaluatorScore]:
    """The finalists, best first."""
    teachers = len({audit.teacher.fingerprint for audit in audits})
    candidates = [
        score
        for score in summarise_audits(audits).scores
        if not score.is_metric and score.audits == teachers and _is_within_limits(score.name, audits)
    ]
    chosen: list[EvaluatorScore] = []
    for score in sorted(candidates, key=order):
        if Counter(other.student for other in chosen)[score.student] < PER_STUDENT:
            chosen.append(score)
    return chosen[:FINALISTS]


def order(score: EvaluatorScore) -> tuple[int, float, float, str]:
    """Fewest goals missed, then the share of steps in the right order, then τ."""
    share = score.steps_right / score.steps if score.steps else 0.0
    return len(score.missed), -share, -(score.tau.value if score.tau is not None else -1.0), score.name


def replacements(
    sharpness: Sequence[Audit], audits: Sequence[Audit], finalists: Sequence[EvaluatorScore]
) -> list[tuple[EvaluatorScore, EvaluatorScore]]:
    """Evaluators with `tuned` or `band` that miss fewer goals than a finalist in the audits that they took part in."""
    teachers = {audit.teacher.fingerprint for audit in sharpness}
    same = [audit for audit in audits if audit.teacher.fingerprint in teachers]
    if not sharpness:
        return []
    on_same = summarise_audits(same)
    found = []
    for rival in (score for score in on_same.scores if score.normalisation in ("tuned", "band")):
        for finalist in reversed(finalists):
            score = on_same.score(finalist.name)
            if score is not None and len(rival.missed) < len(score.missed):
                found.append((rival, finalist))
                break
    return found


def _is_within_limits(name: str, audits: Sequence[Audit]) -> bool:
    """Whether `none` is within the limits on every data set, on average over its teachers."""
    by_data: dict[str, list[float]] = {}
    for audit in audits:
        evaluator = audit.by_evaluator.get(name)
        if evaluator is not None and evaluator.reference is not None:
            by_data.setdefault(str(audit.evidence.settings["data"]), []).append(evaluator.reference)
    return all(LEAST <= fmean(values) <= MOST for values in by_data.values())


if __name__ == "__main__":
    main()
