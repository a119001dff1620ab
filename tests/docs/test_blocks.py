"""Every example of README and docs is run as it is written, on a small scale; what is not run is counted here."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from pages import DOCS, PAGES, ROOT, SMALL, blocks, name_of, small
from running import run_command, run_page

# Blocks that are not run, and why: they need the network, or never end.
SKIPPED = [
    ("README.md", "it installs packages"),
    ("README.md", "a model is fetched from the hub"),
    ("docs/smat.md", "it needs the hub"),
    ("docs/guide/people.md", "it serves to the network"),
    ("docs/guide/start.md", "it installs packages"),
    ("docs/guide/start.md", "it installs packages"),
    ("docs/guide/notebook.md", "it installs packages"),
    ("docs/index.md", "it installs packages"),
    ("docs/guide/explain.md", "a model is fetched from the hub"),
    ("docs/scale.md", "a cluster would have to be there"),
    ("docs/scale.md", "the bucket is not there"),
    ("docs/scale.md", "the plan is not there"),
    ("docs/devices.md", "no such model is there"),
]
GUIDE = DOCS / "guide"
EXTENDING = DOCS / "extending.md"
RUN = [page for page in PAGES if any(block.language == "python" for block in blocks(page)) or page.parent == GUIDE]
LANGUAGES = {"python", "sh", "toml", "json", "text"}


# Pages whose examples train students, which takes more than a few seconds even in small. Those of the guide are run by
# test_follow_guide.py.
TRAINING = ("start.md", "judge.md", "learn.md", "plan.md", "report.md", "choose.md", "people.md", "production.md")


@pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page.name == "README.md"))
        for page in RUN
        if page.parent != GUIDE or page.name not in TRAINING
    ],
    ids=name_of,
)
def test_the_examples_of_a_page_run(page, world):
    """One after another, in one namespace; the commands of README and of the guide as well."""
    run_page(page, has_commands=page.parent == GUIDE or page.name == "README.md")
    assert Path.cwd() == world


def test_what_is_not_run_is_known():
    found = [(name_of(page), block.skipped) for page in PAGES for block in blocks(page) if block.skipped]
    assert sorted(found) == sorted(SKIPPED)


def test_blocks_say_what_they_are():
    """So that none is passed over because its language is spelled in another way."""
    unknown = [block.where for page in PAGES for block in blocks(page) if block.language not in LANGUAGES]
    assert unknown == []
    runs = {name_of(page) for page in PAGES if any(block.language == "python" for block in blocks(page))}
    assert len(runs) > 12
    assert runs <= {name_of(page) for page in RUN}


def test_every_change_of_size_is_needed():
    text = "\n".join(block.text for page in PAGES for block in blocks(page))
    assert [pattern for pattern, _ in SMALL if re.search(pattern, text) is None] == []


@pytest.mark.parametrize(
    "block", [one for page in PAGES for one in blocks(page) if one.language == "json"], ids=lambda one: one.where
)
def test_json_is_json(block):
    json.loads(block.text)


@pytest.mark.parametrize(
    "block", [one for page in PAGES for one in blocks(page) if one.language == "toml"], ids=lambda one: one.where
)
def test_a_toml_block_is_a_plan_or_a_project(block, tmp_path, monkeypatch):
    """A plan as it is written, but for files of scores, which are the reader's own."""
    from didact.comparing.config import CompareConfig

    said = tomllib.loads(block.text)
    if "project" in said:
        groups = said["project"]["entry-points"]
        assert set(groups) <= entry_point_groups()
        return
    monkeypatch.chdir(tmp_path)
    for name in said["explainers"]:
        if name.endswith(".parquet"):
            Path(name).touch()
    assert CompareConfig.of(said).explainers


def entry_point_groups():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "didact").rglob("*.py"))
    return set(re.findall(r'group="([\w.]+)"', text))


def forget_plugins(*registries):
    """Look for entry points again."""
    for registry in registries:
        registry.__dict__.pop("_entry_points", None)
        for known in (registry._plugins, registry._named_objects, registry._broken):
            known.clear()


class TestExtending:
    def test_groups_named_are_those_there_are(self):
        page = EXTENDING.read_text(encoding="utf-8")
        assert [group for group in entry_point_groups() if f"`{group}`" not in page] == []

    @pytest.mark.usefixtures("world")
    def test_what_is_written_by_hand_is_our_own(self):
        """The example explainer gives the scores of `gradient_input` at the words, the class those that it says."""
        import numpy as np

        import didact

        names = {}
        for block in blocks(EXTENDING):
            if block.language == "python":
                exec(small(block.text), names)
        ours = didact.explain(names["teacher"], names["rows"], "gradient_input", at="word")
        np.testing.assert_allclose(names["maps"].scores, ours.scores, rtol=1e-4, atol=1e-6)
        assert names["maps"].method == "by_hand"
        assert names["rare"].options["power"] == 2.0
        assert {"by_hand", "Rarity", "random"} == set(names["frame"]["method"])
        lines = names["frame"].set_index(["metric", "method"])
        assert 0 < lines.loc[("spread(share=0.5)", "by_hand"), "value"] < 1
        assert {row.student for row in names["comparison"].rows} == {"gru(width=16)/pull"}
        assert not names["comparison"].failed
        assert names["mine"].has_rationales
        assert set(names["reports"]()) == {"teach", "explain", "train", "dev", "test"}

    def test_ten_lines(self):
        """What is promised: an explainer, a metric and a data set, each in ten lines of code at most."""
        import ast

        wanted = {"by_hand", "spread", "reports"}
        for block in blocks(EXTENDING):
            if block.language != "python":
                continue
            for node in ast.parse(block.text).body:
                if isinstance(node, ast.FunctionDef) and node.name in wanted:
                    assert node.end_lineno - node.lineno + 1 <= 10, node.name
                    wanted.discard(node.name)
        assert wanted == set()

    def test_lines_are_those_of_the_table(self):
        """Lines with a name, as the page counts them."""
        import ast

        things = {"by_hand": "explainer", "spread": "metric", "Pull": "strategy", "Gru": "student"}
        page = EXTENDING.read_text(encoding="utf-8")
        table = {row[0]: int(row[1]) for row in re.findall(r"^\| (\w+) \| \d+ \| (\d+) \|", page, re.MULTILINE)}
        counts = {}
        for block in blocks(EXTENDING):
            nodes = ast.walk(ast.parse(block.text)) if block.language == "python" else ()
            for node in nodes:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in things:
                    if ast.get_docstring(node):
                        del node.body[0]
                    counts[things[node.name]] = len(ast.unparse(node).replace("\n\n", "\n").strip().splitlines())
        assert counts == table

    def test_a_package_brings_names(self, world, monkeypatch):
        """As written: the module, its entries, and the entry points of its project file."""
        from didact.data import DATASETS
        from didact.explainers import EXPLAINERS

        code = [block.text for block in blocks(EXTENDING) if block.language == "python"]
        source = "\n".join(code)
        module = re.search(r"from didact.core.explainer.*?(?=\n\n\nrare = )", source, re.DOTALL)[0]
        rows = re.search(r"from didact.core.dataset.*?(?=\n\n\nprint\()", source, re.DOTALL)[0]
        entries = next(text for text in code if text.startswith("# my_package.py"))
        head = "import torch\nfrom didact.core.explanation import Explanation\n"
        Path("my_package.py").write_text(f"{head}{module}\n\n\n{rows}\n\n\n{entries}", encoding="utf-8")
        project = next(tomllib.loads(one.text) for one in blocks(EXTENDING) if one.language == "toml")
        info = Path("my_package-1.dist-info")
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n", encoding="utf-8")
        points = "".join(
            f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in own.items())
            for group, own in project["project"]["entry-points"].items()
        )
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
        monkeypatch.syspath_prepend(str(world))
        forget_plugins(EXPLAINERS, DATASETS)
        try:
            page = EXTENDING.read_text(encoding="utf-8")
            shown = [one for one in re.findall(r"`(didact [^`]+)`", page) if "my_r" in one]
            assert len(shown) == 3
            for line in shown:
                run_command(line.replace("…", "a good film"))
        finally:
            forget_plugins(EXPLAINERS, DATASETS)


WIDTH = 92  # characters of code that the site's column shows at 1280 pixels without scrolling


def test_code_is_no_wider_than_the_column():
    pages = [page for page in PAGES if page.parent == GUIDE or page.name in ("index.md", "explainers.md")]
    wide = [
        f"{name_of(page)}:{block.line + number}"
        for page in pages
        for block in blocks(page)
        for number, line in enumerate(block.text.splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert wide == []


def test_the_wheel_check_finds_its_example():
    """`.ci/wheel` runs the first Python block under this heading, so both have to be there."""
    section = re.split(r"^## A first example$", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE)[1]
    example = re.search(r"^```python\n(.+?)^```$", section.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert example is not None
    assert "import" in example[1]
    assert (ROOT / ".ci" / "wheel").stat().st_mode & 0o111
