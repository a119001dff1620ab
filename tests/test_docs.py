"""What the documentation lists, is there. Its examples, commands and links are tested in tests/docs."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "first.py"


def test_the_readme_shows_the_example_that_is_tested():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"## A first example\n+```python\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() in EXAMPLE.read_text(encoding="utf-8")


def test_the_readme_names_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_every_data_set_is_in_the_docs():
    from didact.data import DATASETS

    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in DATASETS if f"`{name}`" not in page] == []


def test_every_native_model_is_in_the_docs():
    from didact.models import MODELS

    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert [name for name in MODELS if f"| `{name}` |" not in page] == []


def test_every_explainer_is_in_the_docs_as_the_registry_says():
    from didact.explainers import EXPLAINERS
    from didact.explainers.presets import PRESETS

    page = (ROOT / "docs" / "explainers.md").read_text(encoding="utf-8")
    rows = [f"| `{name}` | {e.kind} | {e.needs} | {e.cost} | {e.paper} |" for name, e in EXPLAINERS.items()]
    assert [row for row in rows if row not in page] == []
    assert [name for name in PRESETS if f"`{name}`" not in page] == []


def test_every_strategy_and_plan_entry_is_in_the_docs():
    from didact.experiment.plan import CONTROLS
    from didact.students import STRATEGIES

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    assert [name for name in (*STRATEGIES, *CONTROLS) if f"| `{name}` |" not in page] == []


def test_the_plan_in_the_docs_is_a_plan(tmp_path, monkeypatch):
    """As written, but for the file of scores, which is the reader's own."""
    import tomllib

    from didact.experiment.plan import make_plan

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-scores.parquet").touch()
    plan = make_plan(tomllib.loads(shown[1]))
    assert plan.sizes == (250, 500)
    assert len(plan.students) == 3


@pytest.mark.slow
def test_the_first_example_runs(capsys):
    """As a user would run it: it trains a teacher on the whole default data set."""
    runpy.run_path(str(EXAMPLE))
    printed = capsys.readouterr().out
    assert "'verified': True" in printed


def test_every_metric_is_in_the_docs():
    from didact.metrics import METRICS

    text = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in text] == []
