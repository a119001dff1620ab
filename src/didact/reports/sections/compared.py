"""What was compared: a line of plain words for every method, control and student."""

from collections.abc import Iterable

from didact.render.page import safe
from didact.render.tables import cut, soft
from didact.reports.describe import method_text, student_text
from didact.reports.part import Part, lead
from didact.results.comparison import Comparison
from didact.results.gains import NONE


def part(run: Comparison) -> Part | None:
    """None where nothing was compared."""
    if not run.rows:
        return None
    methods = [name for name in run.ranked if name not in run.controls]
    controls = sorted((name for name in run.ranked if name in run.controls), key=lambda name: name != NONE)
    body = lead(
        "A method scores how much each word counts for the model's answer. Students see these scores while they learn "
        "to predict the model; the better they then predict it alone, the better the method taught them."
    )
    body += _list("Methods", ((name, method_text(name)) for name in methods))
    body += _list("Controls: what a method is held against", ((name, method_text(name)) for name in controls))
    body += _list("Students", ((name, student_text(run, name)) for name in run.students))
    return Part("methods", "What was compared", body)


def _list(title: str, lines: Iterable[tuple[str, str]]) -> str:
    found = "".join(f"<dt>{soft(cut(name))}</dt><dd>{safe(cut(text, 300))}</dd>" for name, text in lines)
    return f'<h3>{safe(title)}</h3><dl class="named">{found}</dl>' if found else ""
