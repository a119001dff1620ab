"""Training sizes of the confirmation, by the rule in docs/audit.md, into evidence/sizes.json.

    python evidence/choose_sizes.py "pool/attention" "same/attention"

For each task and student, the smallest size with which students without explanations reach 65 %, on the teacher of
seed 9, which the confirmation leaves out, with seeds 100 to 102. Sizes that were chosen before stay.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import run_audit

import didact

FILE: Final = Path(__file__).parent / "sizes.json"
SIZES: Final = (100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000)
LEAST: Final = 0.65
PILOT: Final = 9
SEEDS: Final = (100, 101, 102)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("students", nargs="+", help="students, as `didact compare` takes them")
    parser.add_argument("--scratch", default="runs/audit", help="where teachers are kept")
    parser.add_argument("--data-dir", default=None, help="where the real data lie (or the variable DIDACT_DATA)")
    asked = parser.parse_args()
    sizes = json.loads(FILE.read_text()) if FILE.exists() else {}
    for task, setting in run_audit.CONFIRMED.items():
        teacher, data = setting(asked, PILOT)
        for student in asked.students:
            student = run_audit.student_for(task, student)
            if student not in sizes.setdefault(task, {}):
                sizes[task][student] = smallest_size(teacher, data, student)
                FILE.write_text(json.dumps(sizes, indent=1) + "\n")


def smallest_size(teacher: Any, data: Any, student: str) -> int:
    """The smallest size whose students without explanations reach the limit; the largest if none does."""
    for size in SIZES:
        result = didact.compare(
            teacher, data, ["random"], [student], train_sizes=[size], seeds=list(SEEDS), eval_rows=0, balance=False,
            skip_controls=["trivial", "human"],
        )  # fmt: skip
        reached = result.row("none").mean or 0.0
        print(f"{data.name}, {student}, {size} rows: {100 * reached:.1f} %", flush=True)
        if reached >= LEAST:
            break
    return size


if __name__ == "__main__":
    main()
