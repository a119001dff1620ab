"""Writes what the audits of the confirmation found about each student to src/didact/results/validation.json.

    python evidence/write_validation.py

`didact compare` and its report show these figures beside a verdict. The same audits give the same bytes; without
audits, no student is validated.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import didact
from didact.results.audit import Audit
from didact.results.audit_summary import AuditSummary
from didact.results.validation import FILE, Validation, save_validations

CONFIRMATION = Path(__file__).parent / "audit" / "confirmation"


def load_audits(folder: Path) -> list[Audit]:
    """The audits in a folder, by the name of their file. There are none without the folder."""
    return [Audit.load(path) for path in sorted(folder.rglob("*.json"))]


def validations_of(audits: Sequence[Audit]) -> list[Validation]:
    """One record for each kind of task and student evaluator, over the audits that the evaluator took part in."""
    records = []
    for task in sorted({audit.task for audit in audits}):
        of_task = [audit for audit in audits if audit.task == task]
        names = sorted({item.name for audit in of_task for item in audit.evaluators if not item.is_metric})
        summaries: dict[tuple[str, ...], AuditSummary] = {}
        for name in names:
            taken = [audit for audit in of_task if name in audit.by_evaluator]
            key = tuple(audit.name for audit in taken)
            if key not in summaries:
                summaries[key] = didact.summarise_audits(taken)
            score = summaries[key].score(name)
            assert score is not None
            description = description_of(taken, score.student)
            records.append(Validation.of(score, summaries[key], description=description))
    return records


def description_of(audits: Sequence[Audit], student: str) -> str:
    """What the student and its first weights were; empty if that was not the same in all audits."""
    descriptions = {str(audit.evidence.settings.get("students", {}).get(student, "")) for audit in audits}
    return descriptions.pop() if len(descriptions) == 1 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=Path, default=CONFIRMATION, help="folder of audits")
    parser.add_argument("--out", type=Path, default=FILE, help="the file to write")
    asked = parser.parse_args()
    records = validations_of(load_audits(asked.audits))
    save_validations(records, asked.out)
    print(f"{len(records)} records in {asked.out}")


if __name__ == "__main__":
    main()
