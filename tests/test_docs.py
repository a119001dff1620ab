"""What the documentation lists, is there. Its examples, commands and links are tested in tests/docs."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from didact import Comparison

ROOT = Path(__file__).parents[1]


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


@pytest.mark.parametrize(
    "package",
    [
        "auditing",
        "comparing",
        "core",
        "evaluation",
        "execution",
        "explainers",
        "explaining",
        "files",
        "learned",
        "learning",
        "metrics",
        "models",
        "reports",
        "results",
        "stats",
        "study",
        "viz",
    ],
)
def test_a_package_names_all_its_modules(package):
    folder = ROOT / "src" / "didact" / package
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert [path.stem for path in folder.glob("[!_]*.py") if f"`{path.stem}`" not in said] == []
    assert "To add" in said


@pytest.mark.parametrize("picture", ["packages", "walk"])
def test_pictures_of_the_architecture_are_drawn_anew(picture):
    """Run `python docs/make_architecture.py` after a change of packages."""
    drawing = runpy.run_path(str(ROOT / "docs" / "make_architecture.py"))
    kept = (ROOT / "docs" / "images" / f"{picture}.svg").read_text(encoding="utf-8")
    assert kept == drawing[f"{picture}_picture"]()


def test_the_architecture_names_only_files_that_are_there():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "images" / "walk.svg").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/[\w/]*\.?(?:py)?)`", page) + re.findall(r"\b[a-z]+/\w+\.py", drawn)
    assert len(named) > 20
    assert [
        name for name in named if not (ROOT / "src" / "didact" / name).exists() and not (ROOT / name).exists()
    ] == []


def test_every_explainer_is_in_the_docs_as_the_registry_says():
    from didact.explainers import EXPLAINERS
    from didact.explainers.presets import PRESETS

    page = (ROOT / "docs" / "explainers.md").read_text(encoding="utf-8")
    rows = [f"| `{name}` | {e.kind} | {e.needs} | {e.cost} | {e.paper} |" for name, e in EXPLAINERS.items()]
    assert [row for row in rows if row not in page] == []
    assert [name for name in PRESETS if f"`{name}`" not in page] == []


def test_every_strategy_and_plan_entry_is_in_the_docs():
    from didact.comparing.config import CONTROLS
    from didact.students import STRATEGIES

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    assert [name for name in (*STRATEGIES, *CONTROLS) if f"| `{name}` |" not in page] == []


def test_the_plan_in_the_docs_is_a_plan(tmp_path, monkeypatch):
    """As written, but for the file of scores, which is the reader's own."""
    import tomllib

    from didact.comparing.config import CompareConfig

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-scores.parquet").touch()
    plan = CompareConfig.of(tomllib.loads(shown[1]))
    assert plan.train_sizes == (250, 500)
    assert len(plan.students) == 3


@pytest.mark.slow
def test_the_first_example_runs(tmp_path):
    """As a user would run it: as written, in an empty folder, with no hub. Its table is worth a look."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^## A first example\n.*?^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert example is not None
    script = tmp_path / "example.py"
    script.write_text(example[1], encoding="utf-8")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert "overall [warm" in ran.stdout
    comparison = Comparison.load(tmp_path / "runs" / "first")
    assert not comparison.failed
    means = {row["explainer"]: row["mean"] for row in comparison.rows}
    assert len(means) == 9
    assert means["none"] < 0.99  # there is something left to teach
    assert means["gradient_norm"] > means["random"]


def test_every_metric_is_in_the_docs():
    from didact.metrics import METRICS

    text = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in text] == []
