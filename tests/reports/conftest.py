"""A headless browser that opens pages of reports and tells all that they try to do."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Opened:
    """A page, and all it did that a report must not do: requests, words on the console, errors, dialogs."""

    page: Any
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [*self.requests, *self.console, *self.errors, *self.dialogs]

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def wait_until(self, condition: str, *, seconds: float = 10) -> None:
        """Waits until a condition in JavaScript is true.

        Playwright's `wait_for_function` evaluates text inside the page, which the page's Content-Security-Policy
        refuses unless the first look already succeeds.
        """
        deadline = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"not true after {seconds} s: {condition}"
            self.page.wait_for_timeout(20)

    def text(self, selector: str) -> str:
        return " ".join(self.page.locator(selector).inner_text().split())

    def overflow(self) -> int:
        """The pixels by which the page is wider than the window."""
        return self.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@dataclass
class Browser:
    """Opens local files. What any page did wrong fails the test that opened it."""

    chromium: Any
    opened: list[Opened] = field(default_factory=list)

    def open(
        self,
        path: Path,
        *,
        width: int = 1100,
        height: int = 800,
        dark: bool = False,
        scripts: bool = True,
        media: str = "screen",
        forced: bool = False,
    ) -> Opened:
        """`dark` and `forced` (a system's own contrasting colours) are what the reader prefers."""
        context = self.chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            forced_colors="active" if forced else "none",
            java_script_enabled=scripts,
            reduced_motion="reduce",
            offline=True,
        )
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.emulate_media(media=media)
        own = path.resolve().as_uri()
        found = Opened(page)
        page.on("request", lambda one: None if _is_own(one.url, own) else found.requests.append(one.url))
        page.on("console", lambda one: found.console.append(f"{one.type}: {one.text}"))
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("dialog", lambda dialog: (found.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("popup", lambda other: found.requests.append(f"popup {other.url}"))
        page.goto(own)
        self.opened.append(found)
        return found


def _is_own(url: str, own: str) -> bool:
    return url.split("#")[0] == own or url.startswith("data:")


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """Opens pages; a request, a word on the console, an error or a dialog of any of them fails the test."""
    found = Browser(chromium)
    yield found
    faults = [fault for one in found.opened for fault in one.faults]
    for one in found.opened:
        one.page.context.close()
    assert not faults, f"the page did what it must not: {faults}"
