"""The browser of examples in a browser: what a reader can do, by pointer and by keys; and what a page never does."""

import re

import pytest

from didact.reports.build import page
from didact.reports.sections import examples
from didact.results.comparison import Comparison
from didact.results.task_kinds import TASK_KINDS
from reports.folders import HOSTILE, write_run
from reports.test_examples import content, hostile

pytestmark = pytest.mark.browser

TOLD = [
    {"is_right": False, "gold": "negative", "prediction": "positive", "sureness": 0.6, "agreement": 0.5},
    {"is_right": True, "gold": "positive", "prediction": "positive", "sureness": 0.9, "agreement": -0.2},
    {"is_right": True, "gold": "positive", "prediction": "positive", "sureness": 0.7, "agreement": 0.1},
]
WORDS = [("a good film",), ("a bad plot",), ("good plot, bad film",)]


def write_page(folder, **options):
    """The file of a page with this one section, and what its script reads."""
    return page_of(write_run(folder, **options))


def page_of(folder):
    run = Comparison.load(folder)
    section = examples.section(run)
    path = folder / "report.html"
    path.write_text(page(run, [section]), encoding="utf-8")
    return path, content(section) if section.script else None


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three rows whose facts are known."""
    return write_page(tmp_path_factory.mktemp("three"), texts=WORDS, told=TOLD)[0]


def row(opened):
    return opened.text("#examples-view h3")


def names(opened):
    return opened.page.locator("#examples-view .line:not(.plain) .who .name").all_inner_texts()


def options(opened):
    return opened.page.locator("#examples-row option").all_inner_texts()


# -- the script draws what Python draws -------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [*TASK_KINDS, "hostile", "long", "overlapping"])
def test_script_and_html_are_twins(task, tmp_path, browser, monkeypatch):
    """Element for element, for every row."""
    monkeypatch.setattr(examples, "_STATIC_ROWS", 100)
    monkeypatch.setattr(examples, "_STATIC_BYTES", 2_000_000)
    if task == "hostile":
        path, found = page_of(hostile(tmp_path))
    elif task == "long":
        path, found = write_page(tmp_path, texts=[("a 🙂 text " * 300,), ("é" * 10_000,)], methods=("lime",))
    elif task == "overlapping":
        path, found = write_page(tmp_path, texts=[("👍 ok",)] * 3, cut=lambda _: [(0, 1), (0, 1), (0, 4), (2, 4)])
    else:
        path, found = write_page(tmp_path, task=task, rows=4)
    opened = browser.open(path)
    html = re.search(r"<noscript>(.*?)</noscript>", path.read_text(encoding="utf-8"), re.DOTALL)[1]
    articles = re.findall(r"<article.*?</article>", html, re.DOTALL)
    assert len(articles) == len(found["rows"])
    for number, html in enumerate(articles):
        opened.page.select_option("#examples-row", str(number))
        same = """html => {
            const other = document.createElement("template");
            other.innerHTML = html;
            const own = document.querySelector("#examples-view").firstChild;
            return own.isEqualNode(other.content.firstChild) ? "" : own.outerHTML;
        }"""
        assert opened.page.evaluate(same, html) == "", html


# -- picking rows -----------------------------------------------------------------------------------------------------


def test_buttons_and_list_turn_the_rows(three, browser):
    opened = browser.open(three)
    assert row(opened) == "test-0"
    assert opened.text("#examples-count") == "row 1 of 3"
    assert "prediction positive" in opened.text("#examples-view .facts")
    assert "✗ wrong" in opened.text("#examples-view .facts")
    opened.page.click("#examples-next")
    assert row(opened) == "test-1"
    assert opened.page.input_value("#examples-row") == "1"
    opened.page.select_option("#examples-row", "2")
    assert row(opened) == "test-2"
    assert opened.text("#examples-count") == "row 3 of 3"
    opened.page.click("#examples-next", force=True)  # there is no further row, and the button says so
    assert row(opened) == "test-2"
    assert opened.page.get_attribute("#examples-next", "aria-disabled") == "true"
    opened.page.click("#examples-back")
    assert row(opened) == "test-1"


def test_keys_turn_the_rows(three, browser):
    opened = browser.open(three)
    opened.page.focus("#examples-view")
    found = []
    for key in ("j", "ArrowRight", "ArrowRight", "k", "ArrowLeft", "ArrowLeft"):
        opened.page.keyboard.press(key)
        found.append(row(opened))
    assert found == ["test-1", "test-2", "test-2", "test-1", "test-0", "test-0"]
    assert opened.page.inner_text("#examples-said") == "This is the first row."
    opened.page.keyboard.press("j")
    said = opened.page.inner_text("#examples-said")
    assert said.startswith("Row 2 of 3: test-1; prediction positive")


def test_keys_are_left_alone_elsewhere(three, browser):
    opened = browser.open(three)
    opened.page.focus("#examples-find")
    opened.page.keyboard.type("jk.,")
    assert opened.page.input_value("#examples-find") == "jk.,"
    opened.page.fill("#examples-find", "")
    opened.page.focus("#examples-view")
    opened.page.keyboard.press("Control+j")
    opened.page.evaluate("document.activeElement.blur()")
    opened.page.keyboard.press("j")  # the focus is outside
    assert row(opened) == "test-0"


def test_every_control_is_reached_by_the_tab_key(three, browser):
    opened = browser.open(three)
    opened.page.focus("#examples-find")
    found = ["examples-find"]
    for _ in range(8):
        opened.page.keyboard.press("Tab")
        found.append(opened.value("document.activeElement.id || document.activeElement.tagName"))
        outline = opened.value("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", found[-1]
    assert found == [
        "examples-find", "examples-filter", "examples-sort", "examples-back", "examples-next", "examples-row",
        "SUMMARY", "examples-controls", "examples-marks",
    ]  # fmt: skip
    opened.page.keyboard.press("Tab")
    assert opened.value("document.activeElement.id") == "examples-view"


# -- filters, order, search -------------------------------------------------------------------------------------------


def test_filters_and_order(three, browser):
    opened = browser.open(three)
    opened.page.select_option("#examples-filter", "wrong")
    assert [one.split(" · ")[0] for one in options(opened)] == ["test-0"]
    assert opened.text("#examples-count") == "row 1 of 1"
    opened.page.select_option("#examples-filter", "apart")
    assert row(opened) == "test-1"
    opened.page.select_option("#examples-filter", "all")
    assert row(opened) == "test-1"  # the row stays where it can
    opened.page.select_option("#examples-sort", "tau")
    assert [one.split(" · ")[0] for one in options(opened)] == ["test-1", "test-2", "test-0"]
    opened.page.select_option("#examples-sort", "sure")
    assert [one.split(" · ")[0] for one in options(opened)] == ["test-0", "test-2", "test-1"]
    assert opened.text("#examples-filter option:nth-child(2)") == "Model is wrong (1)"


def test_search_by_words_and_id(three, browser):
    opened = browser.open(three)
    opened.page.fill("#examples-find", "GOOD film")
    assert [one.split(" · ")[0] for one in options(opened)] == ["test-0", "test-2"]
    opened.page.fill("#examples-find", "test-1")
    assert row(opened) == "test-1"
    opened.page.fill("#examples-find", "<nothing>")
    assert opened.text("#examples-view") == "No row has “<nothing>” in it here. Try fewer words, or show all rows."
    assert opened.text("#examples-count") == "no row"
    opened.page.focus("#examples-view")
    opened.page.keyboard.press("j")
    opened.page.keyboard.press(".")
    opened.page.fill("#examples-find", "")
    assert opened.text("#examples-count").endswith("of 3")


def test_an_empty_filter_is_told_kindly(tmp_path, browser):
    path, _ = write_page(tmp_path, texts=WORDS, told=[{"is_right": True}] * 3)
    opened = browser.open(path)
    opened.page.select_option("#examples-filter", "wrong")
    assert "Show all rows to continue." in opened.text("#examples-view")


# -- methods ----------------------------------------------------------------------------------------------------------


def test_methods_and_controls_can_be_hidden(three, browser):
    opened = browser.open(three)
    assert names(opened) == ["attention_all", "gradient_norm", "lime(samples=100)", "random", "trivial", "human"]
    assert opened.page.locator("#examples-view .badge").count() == 3
    opened.page.uncheck("#examples-controls")
    assert names(opened) == ["attention_all", "gradient_norm", "lime(samples=100)"]
    opened.page.click("#examples summary")
    opened.page.uncheck("#examples-methods input[value='0']")
    assert names(opened) == ["gradient_norm", "lime(samples=100)"]
    opened.page.click("#examples-next")
    assert names(opened) == ["gradient_norm", "lime(samples=100)"]


def test_rationale_can_be_hidden(three, browser):
    opened = browser.open(three)
    line = "getComputedStyle(document.querySelector('#examples-view .mark')).textDecorationLine"
    assert opened.value(line) == "underline"
    opened.page.uncheck("#examples-marks")
    assert opened.value(line) == "none"


def test_pointing_at_a_unit_shows_its_score_in_every_method(three, browser):
    opened = browser.open(three)
    opened.page.locator("#examples-view .line:not(.plain) span:text-is('good')").first.hover()
    here = opened.page.locator("#examples-view .here")
    assert here.all_inner_texts() == ["good"] * 6
    titles = [one.get_attribute("title") for one in here.all()]
    assert opened.page.locator("#examples-view .score").all_inner_texts() == titles


def test_units_are_read_by_keys(three, browser):
    opened = browser.open(three)
    opened.page.focus("#examples-view")
    for _ in range(2):
        opened.page.keyboard.press(".")
    assert opened.page.inner_text("#examples-said").startswith("good: attention_all 0.")
    opened.page.keyboard.press(",")
    assert opened.page.inner_text("#examples-said").startswith("a: attention_all ")


def test_long_texts_scroll_together(tmp_path, browser):
    path, _ = write_page(tmp_path, texts=[("a good film " * 400,)])
    opened = browser.open(path)
    opened.page.evaluate("document.querySelectorAll('#examples-view .text')[2].scrollTop = 300")
    opened.wait_until("[...document.querySelectorAll('#examples-view .text')].every(t => t.scrollTop > 250)")


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_have_patches_over_them(tmp_path, browser):
    path, found = write_page(tmp_path, task="image")
    opened = browser.open(path)
    figures = opened.page.locator("#examples-view figure")
    assert figures.count() == 1 + len(found["methods"])
    sizes = opened.value(
        "[...document.querySelectorAll('#examples-view img')].map(i => [i.naturalHeight, i.naturalWidth])"
    )
    assert sizes == [[48, 32]] * figures.count()
    assert all(one.get_attribute("alt").startswith("The picture of row test-0") for one in figures.locator("img").all())
    boxes = [figures.nth(1).locator(name).bounding_box() for name in ("img", "svg")]
    assert boxes[0] == pytest.approx(boxes[1])
    figures.nth(1).locator("rect").nth(5).hover()
    assert opened.page.locator("#examples-view rect.here").count() == len(found["methods"])
    opened.page.focus("#examples-view")
    opened.page.keyboard.press("j")
    assert row(opened) == "test-1"


# -- what a page never does -------------------------------------------------------------------------------------------


def test_nothing_escapes_the_fixture(tmp_path, browser):
    """A page that does all that is forbidden: each of its deeds is told."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<img src='http://example.invalid/x.png'><img src='other.png'>"
        "<script>console.log('said'); alert('asked'); throw new Error('thrown')</script>"
    )
    opened = browser.open(path)
    assert "http://example.invalid/x.png" in opened.requests
    assert (tmp_path / "other.png").as_uri() in opened.requests
    assert "log: said" in opened.console
    assert opened.dialogs == ["asked"]
    assert opened.errors == ["thrown"]
    browser.opened.clear()
    opened.page.context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_content_never_runs(scripts, tmp_path, browser):
    """The fixture fails on any dialog, request, error or word on the console."""
    path, found = page_of(hostile(tmp_path))
    opened = browser.open(path, scripts=scripts)
    if scripts:
        for number in range(len(found["rows"])):
            opened.page.select_option("#examples-row", str(number))
            assert opened.text("#examples-view h3").startswith(f"{number}<img src=x onerror=alert(9)>")
        opened.page.fill("#examples-find", "<img src=x onerror=alert(3)>")
        opened.page.locator("#examples-view .line span").first.hover()
        opened.page.fill("#examples-find", "document")
    assert opened.page.title().startswith("didact: which explanation")
    assert opened.page.locator("#examples img, #examples svg, #examples .text script").count() == 0
    assert "<script>document.title" in opened.page.inner_text("#examples")


def test_hostile_pairs_and_pictures(tmp_path, browser):
    for task in ("pair", "image"):
        texts = [tuple(HOSTILE[:2])[: len(TASK_KINDS[task].segments)]] * 2
        folder = hostile(tmp_path / task, task=task, texts=texts, ids=["<b>", "</script>"])
        opened = browser.open(page_of(folder)[0])
        opened.page.click("#examples-next")
        assert row(opened) == "</script>"


# -- how it looks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "pair", "image", "hostile"])
def test_a_phone_needs_no_sideways_scrolling(task, tmp_path, browser):
    """With long words and long names, too."""
    if task == "hostile":
        path, _ = page_of(hostile(tmp_path, texts=[("x" * 3000,), ("<" * 500,)], ids=["i" * 300, "j"]))
    else:
        path, _ = write_page(tmp_path, task=task, methods=("a_method_with_a_rather_long_name(samples=100)", "lime"))
    opened = browser.open(path, width=360, height=740)
    opened.page.click("#examples summary")
    assert opened.overflow() <= 0
    inner = """[...document.querySelectorAll('#examples *')].filter(
        one => !one.closest('.unseen, option, svg') && one.getBoundingClientRect().right > 361
    ).length"""
    assert opened.value(inner) == 0


def test_light_and_dark(three, browser):
    """Both have their own steps of the scale, and text that can be read on each of them."""
    colours = """[...document.querySelectorAll('#examples-view .text span[title]')].map(e => {
        const style = getComputedStyle(e);
        return [e.className, style.backgroundColor, style.color];
    })"""
    light, dark = browser.open(three), browser.open(three, dark=True)
    assert light.value("getComputedStyle(document.body).backgroundColor") != dark.value(
        "getComputedStyle(document.body).backgroundColor"
    )
    seen = {}
    for opened in (light, dark):
        for look, back, ink in opened.value(colours):
            if look.split(" ")[0] not in ("", "mark"):
                assert back not in (ink, "rgba(0, 0, 0, 0)"), look
                seen.setdefault(look.split(" ")[0], set()).add(back)
    assert seen
    assert all(len(backs) == 2 for backs in seen.values())
    assert len(dark.page.screenshot()) > 5000


def test_the_row_on_the_page_is_printed(tmp_path, browser):
    path, _ = write_page(tmp_path, texts=[("short",), ("a good film " * 400,)])
    opened = browser.open(path)
    opened.page.click("#examples-next")
    opened.page.emulate_media(media="print")
    assert row(opened) == "test-1"
    assert not opened.page.is_visible("#examples-next")
    text = "(e => e.scrollHeight <= e.clientHeight + 1)(document.querySelector('#examples-view .text'))"
    assert opened.value(text)  # nothing is hidden in a part that scrolls
    assert opened.page.pdf()[:4] == b"%PDF"


def test_without_a_script_the_first_rows_are_there(tmp_path, browser):
    path, _ = write_page(tmp_path, rows=5)
    opened = browser.open(path, scripts=False)
    assert opened.page.locator("#examples article").count() == 3
    assert not opened.page.is_visible("#examples .browser")
    assert opened.overflow() <= 0


def test_with_a_script_nothing_is_there_twice(three, browser):
    opened = browser.open(three)
    assert opened.page.locator("#examples article").count() == 1
    assert opened.page.is_visible("#examples .browser")
