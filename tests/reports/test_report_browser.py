"""The whole page in a browser: nothing is fetched, nothing of the data runs, and it is read on any screen."""

import pytest

from didact.reports.build import report
from didact.reports.verdict import verdict_of
from didact.results.comparison import Comparison
from reports.folders import HOSTILE, change, write_run

pytestmark = pytest.mark.browser
IDS = [
    "trust", "methods", "ranking", "curves", "metrics", "agreement", "examples", "words", "learned", "cost",
    "provenance",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(
        tmp_path_factory.mktemp("run"), students=("same/attention", "bilstm/multitask"), sizes=(125, 250), learned=True,
        failed=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Every name and every text is hostile; one row has ten thousand characters."""
    script, image, style, control, right, emoji = HOSTILE
    texts = [(one,) for one in HOSTILE] + [((script + control + emoji) * 60,)]
    folder = write_run(
        tmp_path_factory.mktemp("hostile"), methods=HOSTILE[:4], controls=("random",), students=(script,),
        teacher=image, texts=texts, ids=[*HOSTILE, "long"], notes=HOSTILE, skipped={style: image},
        classes=(script, style), about={"data": control, "plan": "".join(HOSTILE), "starts": {right: emoji}},
    )  # fmt: skip
    failed = {"key": script, "explainer": script, "student": image, "error": style, "size": 1, "seed": 0}
    change(folder / "comparison.json", failed=[failed])
    assert len(texts[-1][0]) > 10_000
    return folder


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)])
def test_it_opens_quietly_and_fits(folder, browser, width, dark):
    found = browser.open(report(folder), width=width, dark=dark)
    assert found.value("[...document.querySelectorAll('main > section')].map(one => one.id)") == IDS
    assert found.text("h1") == verdict_of(Comparison.load(folder)).title
    assert found.overflow() <= 0
    for name in IDS:
        found.page.click(f"nav a[href='#{name}']")
        assert found.value(f"document.getElementById('{name}').getBoundingClientRect().top") < 800


def test_text_is_read_by_day_and_by_night(folder, browser):
    """Ink on its own ground, WCAG's contrast of 4.5, for every visible piece of text that is not drawn."""
    script = """() => {
      const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255).map(
        v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
      const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c) && c !== 'transparent') return c; } return 'rgb(255, 255, 255)'; };
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), bad = [];
      while (walker.nextNode()) { const e = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || e.closest('svg, script, style, noscript') || !e.offsetParent) continue;
        if (e.closest('[disabled], [aria-disabled=true]')) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) bad.push(walker.currentNode.data.trim().slice(0, 40)); }
      return bad; }"""
    for dark in (False, True):
        assert browser.open(report(folder), dark=dark).value(script) == []


def test_nothing_of_the_data_runs(hostile, browser):
    found = browser.open(report(hostile))
    before = found.page.title()
    for _ in range(6):
        found.page.click("#examples-next")
    assert found.page.title() == before
    assert found.value("document.querySelectorAll('main script:not([type]), main iframe, main object').length") == 0
    attributes = "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes]).map(one => one.name)"
    assert not [name for name in found.value(attributes) if name.startswith("on")]
    assert found.overflow() <= 0
    assert browser.open(report(hostile), width=360).overflow() <= 0


def test_it_is_whole_without_script_and_on_paper(folder, browser):
    assert "Where these numbers come from" in browser.open(report(folder), scripts=False).text("main")
    printed = browser.open(report(folder), media="print")
    assert not printed.page.locator("nav").is_visible()


def test_a_wide_table_says_that_it_scrolls_and_keeps_its_headings(folder, browser):
    """On a phone the headings of groups stay in sight however far the table is scrolled."""
    found = browser.open(report(folder), width=390)
    table = found.page.locator("#metrics .scroll")
    assert table.evaluate("one => one.scrollWidth > one.clientWidth")
    assert found.page.locator("#metrics .hint").is_visible()
    for left in (0, 200):
        table.evaluate(f"one => {{ one.scrollLeft = {left}; }}")
        for box in table.locator(".stay").all():
            place = box.bounding_box()
            assert place["x"] >= 0
            assert place["x"] + place["width"] <= 390
    assert not browser.open(report(folder), width=1200).page.locator("#cost .hint").is_visible()
