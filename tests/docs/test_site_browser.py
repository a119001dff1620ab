"""The site in a browser, opened from a folder: search finds pages, code fits its column, nothing is fetched."""

import subprocess
import sys

import pytest
from pages import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OVERFLOWS = "[...document.querySelectorAll('pre > code')].filter(e => e.scrollWidth > e.clientWidth + 1).length"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=280)
    return folder


@pytest.fixture
def page(chromium, request):
    width = getattr(request, "param", 1280)
    context = chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.requests = []
    page.on("request", lambda one: page.requests.append(one.url))
    yield page
    context.close()


@pytest.mark.parametrize("page", [1280, 390], indirect=True)
@pytest.mark.parametrize("name", ["index.html", "guide/start.html"])
def test_search_works_from_a_folder(site, page, name):
    page.goto((site / name).as_uri())
    if page.viewport_size["width"] < 1000:
        page.locator("label[for=__search].md-header__button").first.click()
    box = page.locator("input.md-search__input")
    box.click()
    box.press_sequentially("lime")
    page.locator(".md-search-result__item").first.wait_for()
    assert "matching documents" in page.locator(".md-search-result__meta").inner_text()
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url(lambda url: "?h=" in url)
    assert [url for url in page.requests if url.startswith("http")] == []


@pytest.mark.parametrize("name", ["index.html", "guide/start.html", "guide/people.html", "explainers.html"])
def test_code_fits_its_column(site, page, name):
    page.goto((site / name).as_uri())
    assert page.evaluate(OVERFLOWS) == 0


def test_the_copy_button_covers_no_code(site, page):
    page.goto((site / "guide" / "start.html").as_uri())
    page.locator(".md-clipboard, .md-code__button").first.wait_for(state="attached")
    widths = page.evaluate(
        "[...document.querySelectorAll('pre')].map(pre => {"
        " const button = pre.querySelector('.md-clipboard, .md-code__nav'), code = pre.querySelector('code');"
        " if (!button || !code) return [0, 1];"
        " return [code.getBoundingClientRect().right - button.getBoundingClientRect().left,"
        " parseFloat(getComputedStyle(code).paddingRight)]; })"
    )
    assert widths
    assert all(covered <= padding for covered, padding in widths)
