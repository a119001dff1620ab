"""Links, anchors and pictures of README and docs lead somewhere; nothing outside is asked for."""

import re

import pytest
from pages import DOCS, PAGES, ROOT, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = page if not target else (page.parent / target).resolve()
        if not file.exists() or (anchor and (file.suffix != ".md" or anchor not in anchors(file))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_keep_what_is_theirs(page):
    """No picture or script from elsewhere, and no path of a machine."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"!\[[^\]]*\]\(https?:[^)]*\)|<(?:script|img|iframe|link)\b", text) == []
    assert re.findall(r"(?<![\w.])/(?:work|home|tmp|Users|root)/", text) == []


def test_every_picture_is_shown():
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page) if "images/" in link}
    kept = {path for path in (DOCS / "images").iterdir() if not path.name.startswith("report")}
    assert [path.name for path in kept - shown] == []


def test_every_page_is_reached():
    """From the index, by links and the site's menu."""
    menu = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    seen = {(DOCS / name).resolve() for name in menu}
    seen |= {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    assert [name_of(page) for page in PAGES[1:] if page.resolve() not in seen] == []


def test_every_module_and_recipe_that_papers_names_is_there():
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_0-9]+/)*)([a-z_0-9]+\.py)\b", text)
    assert len(named) > 40
    places = [ROOT / "src" / "didact", ROOT / "recipes", ROOT]
    assert [f + n for f, n in named if not any((place / f / n).is_file() for place in places)] == []
