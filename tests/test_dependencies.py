"""Every package that the source imports is declared: as a dependency, or in an extra that users can install."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = {"PIL": "pillow", "vl_convert": "vl-convert-python", "starlette": "fastapi", "fsspec": "s3fs"}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras if name != "dev" for line in extras[name])]
    declared = {re.split(r"[<>=!\[ ]", line)[0] for line in lines}
    found = {name for path in (ROOT / "src").rglob("*.py") for name in imported(path)}
    packages = {
        (NAMES | DISTRIBUTIONS).get(name, name).replace("_", "-")
        for name in found - set(sys.stdlib_module_names) - {"didact"}
    }
    assert sorted(packages - declared) == []


def test_every_dependency_is_used():
    """What only tests import is in the extra `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[<>=!\[ ]", line)[0] for line in project["dependencies"]}
    found = {name for path in (ROOT / "src").rglob("*.py") for name in imported(path)}
    packages = {(NAMES | DISTRIBUTIONS).get(name, name).replace("_", "-") for name in found}
    assert sorted(declared - packages) == []


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    pins = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    names = {re.split(r"[<>=!\[ ]", line)[0].lower().replace("_", "-") for line in lines}
    assert sorted(names - pins) == []
