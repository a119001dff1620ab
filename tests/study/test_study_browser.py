"""People at real browsers: by mouse, by keyboard alone, by touch and without scripts; several at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from didact.study.app import create_app
from didact.study.auth import read_keys
from didact.study.database import open_answers
from didact.study.design import read_design
from didact.study.schedule import steps_of
from didact.study.serve import _listener, server_config
from study.people import study_of

pytestmark = pytest.mark.browser
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \u202eright to left \U0001f600 "


@contextmanager
def served(folder: Path) -> Iterator[str]:
    listener = _listener("127.0.0.1", 0)
    server = uvicorn.Server(server_config(create_app(folder)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


class Person:
    """Somebody at a browser of their own. Whatever the page does that it must not is kept in `faults`."""

    def __init__(self, chromium: Any, folder: Path, url: str, number: int = 1, **options: Any) -> None:
        self.folder, self.url, self.number = folder, url, number
        self.context = chromium.new_context(**({"viewport": {"width": 1100, "height": 800}} | options))
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.faults: list[str] = []
        self.page.on("console", lambda one: self.faults.append(one.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda one: None if one.url.startswith(url) else self.faults.append(one.url))

    def _dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload":
            self.faults.append(dialog.message)
        dialog.accept()

    def begin(self) -> "Person":
        self.page.goto(f"{self.url}/i/{read_keys(self.folder).code(self.number)}")
        self.page.get_by_role("checkbox").check()
        self.page.locator("button[type=submit]").click()
        self.page.get_by_role("link", name="Start").click()
        self.page.wait_for_url("**/task/1")
        return self

    def tab_to(self, selector: str) -> None:
        """By the Tab key alone, as far as it takes."""
        for _ in range(80):
            if self.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"no way by Tab to {selector}")

    def drag(self, code: str, to: str) -> None:
        """One card by its handle onto the place of another."""
        start = self.page.locator(f'[data-code="{code}"] .handle').bounding_box()
        end = self.page.locator(f'[data-code="{to}"]').bounding_box()
        mouse = self.page.mouse
        mouse.move(start["x"] + 10, start["y"] + 10)
        mouse.down()
        mouse.move(start["x"] + 10, start["y"], steps=3)
        mouse.move(end["x"] + 15, end["y"] + 5, steps=12)
        self.page.wait_for_timeout(120)
        mouse.up()

    def save(self, number: int) -> None:
        self.page.locator("button[type=submit]").click()
        self.page.wait_for_url(lambda url: not url.endswith(f"/task/{number}"))

    def stored(self) -> list[Any]:
        found = open_answers(self.folder, read_design(self.folder)).read()
        return sorted((one for one in found if one.person == f"p{self.number:02d}"), key=lambda one: one.step)


def places(answer: Any) -> list[int]:
    return [answer.ranks[method] for method in answer.shown]


def by_mouse(person: Person, number: int) -> list[int]:
    """The last card to the top by dragging, then the other two made equal: c, a = b."""
    person.drag("c", "a")
    person.page.locator('[data-code="b"] .tie').click()
    person.save(number)
    return [2, 2, 1]


def by_buttons(person: Person, number: int) -> list[int]:
    """The first card one down: b, a, c."""
    person.page.get_by_role("button", name="Move A down").click()
    person.save(number)
    return [2, 1, 3]


def by_keyboard(person: Person, number: int) -> list[int]:
    """The first card one down, and equal to the one before it: b = a, c. No mouse at all."""
    person.tab_to('[data-code="a"] .handle')
    person.page.keyboard.press("ArrowDown")
    assert "A is now second" in person.page.locator("#said").inner_text()
    person.page.keyboard.press("=")
    assert "A is now first, equal to B" in person.page.locator("#said").inner_text()
    person.tab_to("button[type=submit]")
    person.page.keyboard.press("Enter")
    person.page.wait_for_url(lambda url: not url.endswith(f"/task/{number}"))
    return [1, 1, 3]


@pytest.mark.parametrize("task", ["classification", "image"])
def test_a_ranking_by_mouse_buttons_and_keyboard_three_people_at_once(tmp_path, chromium, task):
    folder = study_of(tmp_path / "s", task=task, items=3, annotators=3, text=HOSTILE, pause=2)
    with served(folder) as url:
        people = [Person(chromium, folder, url, number).begin() for number in (1, 2, 3)]
        for number in (1, 2, 3):  # turn by turn: all are in the middle of it together
            for person, way in zip(people, (by_mouse, by_buttons, by_keyboard), strict=True):
                if person.page.url.endswith("/break"):
                    person.page.get_by_role("link").filter(has_text="Continue").click()
                person.page.wait_for_url(f"**/task/{number}")
                expected = way(person, number)
                assert places(person.stored()[-1]) == expected
        for person in people:
            person.page.wait_for_url("**/thanks")
            assert len(person.stored()) == 3
            assert all(one.is_touched for one in person.stored())
            assert person.faults == []


def test_a_simulation_by_mouse_and_by_keyboard(tmp_path, chromium):
    folder = study_of(tmp_path / "s", "simulation", items=6, annotators=1, text=HOSTILE)
    with served(folder) as url:
        mouse, keys = Person(chromium, folder, url, 1).begin(), Person(chromium, folder, url, 2).begin()
        for number in range(1, 7):
            is_learning = steps_of(read_design(folder), 1)[number - 1].phase == "learning"
            mouse.page.get_by_label("good").check()
            mouse.page.locator("button[type=submit]").click()
            keys.page.keyboard.press("1")
            keys.page.keyboard.press("Enter")
            for person in (mouse, keys):
                if is_learning:
                    person.page.locator(".feedback").wait_for()
                    assert person.page.locator(".feedback .map").count() == (person is keys)  # the other is the control
                    assert person.page.evaluate("document.activeElement.id") == "feedback"
                    person.tab_to("a.button")
                    person.page.keyboard.press("Enter")
                person.page.wait_for_url(f"**/task/{number + 1}" if number < 6 else "**/thanks")
        assert [one.choice for one in mouse.stored()] == ["good"] * 6
        assert [one.choice for one in keys.stored()] == ["bad"] * 6
        assert mouse.faults == keys.faults == []


def test_a_rating_by_mouse_and_by_keyboard(tmp_path, chromium):
    folder = study_of(tmp_path / "s", "rating", items=3, annotators=2, task="pair", points=7)
    with served(folder) as url:
        mouse, keys = Person(chromium, folder, url, 1).begin(), Person(chromium, folder, url, 2).begin()
        for number in range(1, 4):
            mouse.page.get_by_label("6").check()
            mouse.save(number)
            keys.page.keyboard.press("7")
            keys.page.keyboard.press("Enter")
            keys.page.wait_for_url(lambda url, number=number: not url.endswith(f"/task/{number}"))
        assert [one.rating for one in mouse.stored()] == [6] * 3
        assert [one.rating for one in keys.stored()] == [7] * 3
        assert mouse.faults == keys.faults == []


def test_without_scripts_everything_can_be_answered(tmp_path, chromium):
    folder = study_of(tmp_path / "s", items=2)
    with served(folder) as url:
        person = Person(chromium, folder, url, java_script_enabled=False).begin()
        for number in (1, 2):
            for code, rank in (("a", "3"), ("b", "1"), ("c", "1")):
                person.page.locator(f"[name=rank-{code}]").select_option(rank)
            person.page.locator("button[type=submit]").click()
            person.page.wait_for_url(f"**/task/{number + 1}" if number < 2 else "**/thanks")
        assert [places(one) for one in person.stored()] == [[3, 1, 1]] * 2


def test_reload_back_and_a_double_click_lose_nothing_and_count_once(tmp_path, chromium):
    folder = study_of(tmp_path / "s", items=3)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        page = person.page
        page.get_by_role("button", name="Move A down").click()
        page.reload()
        assert page.locator('[data-code="a"] .place').inner_text() == "2nd"  # the draft is back
        page.locator("button[type=submit]").dblclick()
        page.wait_for_url("**/task/2")
        assert [places(one) for one in person.stored()] == [[2, 1, 3]]
        page.go_back()
        page.get_by_text("Saved.").wait_for()
        assert page.locator("button[type=submit]").count() == 0
        page.get_by_role("link", name="Continue").click()
        page.wait_for_url("**/task/2")
        assert person.faults == []


def test_an_order_that_nobody_touched_is_asked_about_and_marked(tmp_path, chromium):
    folder = study_of(tmp_path / "s", items=2)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        person.page.locator("button[type=submit]").click()
        person.page.get_by_text("Is this already the order you mean?").wait_for()
        assert person.stored() == []
        person.save(1)
        assert [(places(one), one.is_touched) for one in person.stored()] == [([1, 2, 3], False)]


def test_an_answer_survives_a_lost_connection(tmp_path, chromium):
    folder = study_of(tmp_path / "s", "rating", items=3)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        person.page.get_by_label("4").check()
        person.context.set_offline(True)
        person.page.locator("button[type=submit]").click()
        person.page.get_by_text("Not saved yet").wait_for()
        assert person.stored() == []
        person.context.set_offline(False)
        person.page.wait_for_url("**/task/2")
        assert [one.rating for one in person.stored()] == [4]


def test_an_answer_that_somebody_else_took_is_sent_again(tmp_path, chromium):
    """Networks of hotels answer everything with a page of their own, and call it a success."""
    folder = study_of(tmp_path / "s", "rating", items=3)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        caught = []

        def catch_the_first(route: Any) -> None:
            if route.request.method == "POST" and not caught:
                caught.append(True)
                route.fulfill(status=200, content_type="text/html", body="<h1>Welcome to our hotel</h1>")
            else:
                route.continue_()

        person.page.route("**/task/1", catch_the_first)
        person.page.get_by_label("4").check()
        person.page.locator("button[type=submit]").click()
        person.page.wait_for_url("**/task/2")
        assert [one.rating for one in person.stored()] == [4]


def test_an_answer_whose_acknowledgement_is_lost_counts_once(tmp_path, chromium):
    folder = study_of(tmp_path / "s", "rating", items=3)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        lost = []

        def lose_the_first(route: Any) -> None:
            if route.request.method == "POST" and not lost:
                lost.append(route.fetch().status)  # it arrives and is stored; nobody hears of it
                route.abort()
            else:
                route.continue_()

        person.page.route("**/task/1", lose_the_first)
        person.page.get_by_label("2").check()
        person.page.locator("button[type=submit]").click()
        person.page.wait_for_url("**/task/2")
        assert lost == [200]
        assert [one.rating for one in person.stored()] == [2]


@pytest.mark.parametrize("kind", ["ranking", "simulation", "rating"])
@pytest.mark.parametrize("task", ["classification", "image"])
def test_no_page_is_wider_than_a_phone(tmp_path, chromium, kind, task):
    folder = study_of(tmp_path / "s", kind, task=task, items=3, text=f"{HOSTILE}{'long' * 100} {'word ' * 300}")
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with served(folder) as url:
        person = Person(chromium, folder, url, 2, **phone).begin()
        organiser = f"/o/{read_keys(folder).organiser}"
        for path in ("/task/1", "/instructions", "/", "/break", organiser):
            person.page.goto(url + path)
            wide = person.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, path
            small = person.page.evaluate(
                "[...document.querySelectorAll('main button, main a.button')].filter(one => one.offsetParent && "
                "one.getBoundingClientRect().height < 36).map(one => one.outerHTML)"
            )
            assert small == [], path
        assert person.faults == []


def test_a_card_is_dragged_by_touch(tmp_path, chromium):
    folder = study_of(tmp_path / "s", items=2)
    phone = {"viewport": {"width": 360, "height": 900}, "has_touch": True, "is_mobile": True}
    with served(folder) as url:
        person = Person(chromium, folder, url, **phone).begin()
        touch = person.context.new_cdp_session(person.page)
        start = person.page.locator('[data-code="a"] .handle').bounding_box()
        end = person.page.locator('[data-code="b"]').bounding_box()
        x, y = start["x"] + 10, start["y"] + 10
        stop = end["y"] + 20
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for step in range(1, 11):
            point = {"x": x, "y": y + (stop - y) * step / 10}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
            person.page.wait_for_timeout(20)
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        person.page.wait_for_timeout(100)
        person.save(1)
        assert places(person.stored()[0])[:2] == [2, 1]
        assert person.faults == []


def test_a_reader_of_screens_finds_names_for_everything(tmp_path, chromium):
    folder = study_of(tmp_path / "s", items=2)
    with served(folder) as url:
        person = Person(chromium, folder, url).begin()
        page = person.page
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.locator("html[lang=en]").count() == 1
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, a, input:not([type=hidden]), select')].filter(one => "
            "one.offsetParent && !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length))"
            ".map(one => one.outerHTML)"
        )
        assert unnamed == []
        assert (
            "Strongest parts:" in page.locator('[data-code="a"] .map').inner_text()
            or page.locator('[data-code="a"] .unseen').count()
        )
        assert page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").count() == 0
