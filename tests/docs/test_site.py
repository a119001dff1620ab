"""The site: the reference holds all that is public, and nothing is fetched from elsewhere to read it."""

import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT

import didact


def test_the_reference_holds_all_that_is_public():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    listed = {
        name: where for where, name in re.findall(r"^::: (\S+)\n +options:\n +heading: didact\.(\w+)$", text, re.M)
    }
    public = {name: where.replace(":", ".") for name, where in didact._PUBLIC.items()}
    assert {name: listed.get(name) for name in public} == public


def test_what_the_reference_names_exists():
    for path in (DOCS / "reference").glob("*.md"):
        for where in re.findall(r"^::: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = where.rpartition(".")
            __import__(module)
            assert getattr(sys.modules[module], name).__doc__, where


@pytest.mark.slow
def test_the_site_is_built_and_fetches_nothing(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=280)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(https?:[^\">]+)", text)
        fetched += re.findall(r"<link\b(?![^>]*canonical)[^>]*\bhref=\"?(https?:[^\">]+)", text)
        assert fetched == [], page.name
    for sheet in tmp_path.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?https?:", sheet.read_text(encoding="utf-8")) == [], sheet.name
    assert not list(tmp_path.rglob("*.py"))
    example = (tmp_path / "guide" / "notebook.html").read_text(encoding="utf-8")
    assert example.count('class="notebook-output"') == 9
    reference = (tmp_path / "reference" / "explain.html").read_text(encoding="utf-8")
    assert "Explain rows, texts, pairs of texts or images with one method." in reference
