"""What was compared: every method, control and student in a line."""

from didact.reports.describe import method_text, student_text
from didact.reports.section import Block, Heading, Section, Terms, lead
from didact.results.comparison import Comparison
from didact.results.gains import NONE


def section(run: Comparison) -> Section | None:
    """The section, or None if nothing was compared."""
    if not run.rows:
        return None
    controls = sorted((name for name in run.ranked if name in run.controls), key=lambda name: name != NONE)
    lists = {
        "Methods": [(name, method_text(name)) for name in run.ranked if name not in run.controls],
        "Controls: what methods are compared with": [(name, method_text(name)) for name in controls],
        "Students": [(name, student_text(run, name)) for name in run.students],
    }
    blocks: list[Block] = [
        lead(
            "A method scores how much each word counts for the model's answer. Students see these scores while they "
            "learn to predict the model; the better they then predict it without scores, the better the method "
            "taught them."
        )
    ]
    for title, entries in lists.items():
        blocks += [Heading(title), Terms(entries)] if entries else []
    return Section("methods", "What was compared", blocks)
