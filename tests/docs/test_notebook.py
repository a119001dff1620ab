"""The example notebook: it was executed, by this version, as its script says, and can be executed again."""

import runpy

import nbformat
import pytest
from pages import DOCS

import didact

NOTEBOOK = DOCS / "example.ipynb"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(DOCS / "make_notebook.py"))


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_it_is_what_the_script_makes(script, kept):
    nbformat.validate(kept)
    assert [cell.source for cell in kept.cells] == [cell.source for cell in script["notebook"]().cells]
    assert kept.metadata["didact"] == didact.__version__


def test_it_was_executed_without_an_error(kept):
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert cell.outputs, cell.source
        assert {one.output_type for one in cell.outputs} == {"execute_result"}, (
            cell.source,
            cell.outputs,
        )  # no error, no warning


def test_results_show_themselves_and_nothing_runs(kept):
    pages = [
        one.data["text/html"] for cell in kept.cells if cell.cell_type == "code" for one in cell.outputs
        if "text/html" in one.data
    ]  # fmt: skip
    text = "\n".join(pages)
    assert text.count('<div class="didact"') == 2
    assert text.count("didact-grid") > 2
    assert "truth" in text  # its teacher is verified
    assert "<script" not in text
    assert "http" not in text
    assert "/tmp" not in nbformat.writes(kept)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_runs_again(script, tmp_path, monkeypatch):
    """In a process of its own, as written but for less data, smaller sizes and fewer seeds."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = script["notebook"]()
    small = {
        '"planted/sentiment"': '"planted/sentiment(teach=600, explain=50, train=100, dev=50, test=100)"',
        "train_sizes=[300]": "train_sizes=[60]", '"same/attention", 300': '"same/attention", 60', "seeds=5": "seeds=2",
    }  # fmt: skip
    for cell in made.cells:
        for much, little in small.items():
            cell.source = cell.source.replace(much, little)
    made = script["executed"](made, tmp_path)
    for cell in made.cells:
        if cell.cell_type == "code":
            assert {one.output_type for one in cell.outputs} == {"execute_result"}, (cell.source, cell.outputs)
