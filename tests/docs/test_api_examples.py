"""The reference is made from docstrings: every public function has an example there, and it runs as it is written."""

import inspect
import re
import textwrap

import pytest
from pages import small
from running import run_command

import didact

FUNCTIONS = [
    name for name in didact.__all__ if name == "teacher_from_function" or inspect.isfunction(getattr(didact, name))
]


def example_of(name: str) -> str:
    """The code below `Examples:` in the docstring."""
    _, _, examples = (inspect.getdoc(getattr(didact, name)) or "").partition("\nExamples:\n")
    code = re.search(r"```python\n(.*?)```", textwrap.dedent(examples), re.DOTALL)
    assert code is not None, f"didact.{name} has no example"
    return code[1]


def test_all_functions_are_looked_at():
    assert len(FUNCTIONS) == 28
    assert {"compare", "explain", "load_teacher", "teacher_from_function"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_names_every_parameter(name):
    documentation = inspect.getdoc(getattr(didact, name)) or ""
    _, _, arguments = documentation.partition("\nArgs:\n")
    described = set(re.findall(r"^    (\*{0,2}\w+): ", arguments.partition("\n\n")[0], re.MULTILINE))
    assert described == {
        ("**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else "") + parameter.name
        for parameter in inspect.signature(getattr(didact, name)).parameters.values()
    }


@pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed
@pytest.mark.filterwarnings("ignore::didact.learned.l2e.ImitationWarning")  # few rows, for speed
@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.slow]
            * (
                name
                in ("audit", "combine", "compare", "forecast", "learn_l2e", "learn_smat", "report", "summarise_audits")
            ),
        )
        for name in FUNCTIONS
    ],
)
def test_the_example_runs(name):
    if name == "analyze_study":  # it needs a study and answers
        run(example_of("new_study"))
        run_command("didact study simulate runs/study --people 2")
    run(example_of(name))


def run(code: str) -> None:
    exec(compile(small(code), "example", "exec"), {"didact": didact, "__name__": "example"})
