"""The guide can be followed from an empty folder: every command and example runs, page by page as in the menu."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from pages import DOCS, ROOT, blocks, commands
from running import run_page

pytestmark = pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed

PATH = r"(?:[\w-]+/)*[\w-]+\.(?:parquet|jsonl|csv|toml|html)|runs(?:/[\w-]+)+"
MADE_BY_DEMO = ("runs/demo", "runs/demo/teacher", "runs/demo/report.html")
OUTPUT_FLAGS = ("--out", "--html", "--figures")
# What stands before a path that Python writes.
WRITES = re.compile(r"(?:\bout=|\bopen\(|\.to_html\(|\.save\(|\breport\(\w+, )$")


def guide():
    """The pages of the guide in the order of the menu."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [DOCS / name for name in re.findall(r"guide/[\w-]+\.md", menu)]


def paths_of(block):
    """Every path that a block names, and whether it is written there."""
    if block.language == "sh":
        for line in commands(block):
            words = shlex.split(line, comments=True)
            if words[:2] == ["didact", "demo"]:
                yield from ((path, True) for path in MADE_BY_DEMO)
            for before, word in pairwise(words):
                if re.fullmatch(PATH, word):
                    yield word, before in OUTPUT_FLAGS
    elif block.language == "python":
        for match in re.finditer(rf'"({PATH})"', block.text):
            start = block.text[: match.start()].rpartition("\n")[2]
            is_written = WRITES.search(start) is not None
            if start.endswith("open("):
                is_written = '"w"' in block.text[match.end() :].partition("\n")[0]
            yield match[1], is_written
    elif block.language == "toml" and (file := re.match(r"# (\S+\.toml)\n", block.text)):
        yield file[1], True
        yield from ((name, False) for name in re.findall(rf'"({PATH})"', block.text))


def missing_paths(pages):
    """Paths that a block reads before any block has written them."""
    made, missing = set(), []
    for page in pages:
        for block in blocks(page):
            for path, is_written in paths_of(block):
                if is_written:
                    made.add(path)
                elif path not in made:
                    missing.append(f"{block.where}: {path}")
    return missing


def test_every_page_of_the_guide_is_in_the_menu():
    assert sorted(guide()) == sorted((DOCS / "guide").glob("*.md"))


def test_what_a_page_reads_was_made_before():
    assert missing_paths(guide()) == []


def test_a_path_that_nothing_makes_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("pages.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\ndidact explain --model runs/teacher --data reviews.csv --out a.parquet\ndidact metrics a.parquet\n```\n"
        '```python\nopen("b.csv", "w")\nopen("b.csv")\nopen("c.csv")\nmaps.save("d.parquet")\nload("d.parquet")\n```\n'
    )
    assert missing_paths([page]) == ["page.md:1: runs/teacher", "page.md:1: reviews.csv", "page.md:5: c.csv"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_guide_is_followed_from_an_empty_folder(small_scale, hub_model):
    """Empty but for what stands in for the hub."""
    assert list(small_scale.iterdir()) == [hub_model]
    for page in guide():
        run_page(page, has_commands=True)
    assert Path.cwd() == small_scale
