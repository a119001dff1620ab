"""What people try who should not: every attack gets its answer, and nothing is stored by it."""

import csv
import io
import json
import sqlite3
import threading
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from didact.errors import RecordError
from didact.study.answers import Answer
from didact.study.app import create_app
from didact.study.auth import Keys, Limiter, read_keys
from didact.study.database import open_answers
from didact.study.design import Design, Item, read_design
from didact.study.export import export_answers
from didact.study.security_middleware import MAX_REQUEST_BYTES
from study.people import METHODS, Someone, study_of

SQL = (
    "'; DROP TABLE answers; --",
    "' OR '1'='1",
    '" OR ""="',
    "1; DELETE FROM people",
    "1) UNION SELECT code FROM people--",
)
SCRIPT = "<script>alert('didact')</script>\"'><img src=x onerror=alert(1)> "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return study_of(tmp_path / "s")


def everything(folder: Path) -> dict[str, list[tuple]]:
    """All rows of all tables but the times at which pages were first seen."""
    with sqlite3.connect(folder / "answers.sqlite") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}"), key=str) for name in names if name != "sights"
        }


@pytest.mark.parametrize("forge", [
    lambda _: "",
    lambda _: "1",
    lambda cookie: cookie[:-2] + ("A" if cookie[-2] != "A" else "B") + cookie[-1],  # of the last, two bits mean nothing
    lambda cookie: "Mg" + cookie[cookie.index("."):],  # person 2 under the signature of person 1
    lambda _: Keys(b"x" * 32).cookie(1),  # another study's secret
    lambda _: "." * 5000,
])  # fmt: skip
def test_a_forged_cookie_is_nobodys(folder, forge):
    someone = Someone(folder).agree()
    fields, before = someone.fields(1), everything(folder)
    forged = forge(someone.client.cookies[someone.cookie])
    client = TestClient(someone.app, base_url="http://study.test", cookies={someone.cookie: forged})
    answer = client.post("/task/1", data=fields, headers={"accept": "application/json"})
    assert answer.status_code == 403
    assert client.get("/task/1").status_code == 403
    assert everything(folder) == before


def test_a_persons_cookie_does_not_open_the_organisers_page_nor_the_other_way(folder):
    someone = Someone(folder).agree()
    cookie = someone.client.cookies[someone.cookie]
    client = TestClient(someone.app, base_url="http://study.test", cookies={someone.app.state.study.organiser: cookie})
    assert client.get("/organiser").status_code == 403
    organiser = read_keys(folder).cookie("organiser")
    client = TestClient(someone.app, base_url="http://study.test", cookies={someone.cookie: organiser})
    assert client.get("/task/1").status_code == 403


def test_an_old_cookie_is_refused(folder, monkeypatch):
    someone = Someone(folder).agree()
    fields = someone.fields(1)
    monkeypatch.setattr("didact.study.auth.COOKIE_LIFETIME", -1)
    assert someone.send(1, fields).status_code == 403
    assert someone.stored() == []


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "a" * 10_000])
def test_a_wrong_token_is_refused_on_every_form(folder, token):
    someone = Someone(folder).agree()
    before = everything(folder)
    assert someone.send(1, {**someone.fields(1), "csrf": token}).status_code == 403
    assert someone.client.post("/consent", data={"csrf": token, "agree": "yes"}).status_code == 403
    someone.client.get(f"/o/{read_keys(folder).organiser}")
    assert someone.client.post("/organiser/close", data={"csrf": token}).status_code == 403
    assert everything(folder) == before


def test_another_persons_token_is_refused(folder):
    app = create_app(folder)
    someone, other = Someone(folder, 1, app=app).agree(), Someone(folder, 2, app=app).agree()
    stolen = other.fields(1)["csrf"]
    assert someone.send(1, {**someone.fields(1), "csrf": stolen}).status_code == 403


def test_a_form_from_another_site_lets_nobody_in(folder):
    someone = Someone(folder)
    for origin in ("https://evil.test", "http://[", "null", "study.test"):
        answer = someone.client.post("/enter", data={"code": someone.code}, headers={"origin": origin})
        assert answer.status_code == 403, origin
    assert someone.cookie not in someone.client.cookies
    assert someone.client.post(
        "/enter", data={"code": someone.code}, headers={"origin": "http://study.test"}
    ).is_success


def test_a_page_of_another_person_cannot_be_answered(folder):
    """People have steps and no items: a number is always one's own step, whatever it is of somebody else's."""
    app = create_app(folder)
    someone, other = Someone(folder, 1, app=app).agree(), Someone(folder, 2, app=app).agree()
    assert other.answer(1).status_code == 200
    assert someone.client.get("/task/1").status_code == 200  # one's own, not answered by the other's answer
    fields = someone.fields(1)
    assert someone.send(1, {**fields, "person": "2"}).status_code == 422
    assert someone.send(1, {**fields, "item": "r3"}).status_code == 422
    assert {one.person for one in someone.stored()} == {"p02"}


@pytest.mark.parametrize("path", [
    "/image/../secret.key", "/image/..%2fsecret.key", "/image/%2e%2e%2fsecret.key", "/image/..%5csecret.key",
    "/image//etc/passwd", "/image/%2Fetc%2Fpasswd", "/image/images%2f..%2fstudy.json",
    "/image/%00", "/image/secret.key",
    "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/pages/base.html", "/static/base.html",
    "/i/../organiser", "/organiser/answers.csv/../../../secret.key", "/organiser/answers.parquet",
])  # fmt: skip
def test_no_path_leads_out(tmp_path, path):
    folder = study_of(tmp_path / "s", task="image")
    someone = Someone(folder).agree()
    answer = someone.client.get(path)
    assert answer.status_code in (403, 404)
    assert (folder / "secret.key").read_bytes() not in answer.content
    assert b"root:" not in answer.content


def test_pictures_are_for_people_of_the_study(tmp_path):
    folder = study_of(tmp_path / "s", task="image")
    name = next((folder / "images").iterdir()).name
    someone = Someone(folder).agree()
    assert someone.client.get(f"/image/{name}").headers["content-type"] == "image/png"
    assert TestClient(someone.app, base_url="http://study.test").get(f"/image/{name}").status_code == 403


@pytest.mark.parametrize("kind", ["ranking", "simulation", "rating"])
def test_script_in_data_is_text(tmp_path, kind):
    folder = study_of(
        tmp_path / "s", kind, text=SCRIPT, title=SCRIPT, question=SCRIPT, consent=[SCRIPT], contact=SCRIPT
    )
    someone = Someone(folder, 2).arrive()
    pages = [someone.client.get("/").text]
    someone.agree()
    pages += [someone.client.get(path).text for path in ("/", "/instructions", "/task/1")]
    someone.answer(1)
    pages += [someone.client.get(path).text for path in ("/task/1", "/break", f"/o/{read_keys(folder).organiser}")]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "onerror=alert(1)>" not in page.replace("onerror=alert(1)&gt;", "")
    assert any("&lt;script&gt;alert" in page for page in pages)


@pytest.mark.parametrize("text", SQL)
def test_sql_in_every_field_is_refused_or_text(folder, text):
    someone = Someone(folder).agree()
    before = everything(folder)
    for field in ("csrf", "seconds", "rank-a", "rank-b", "rank-c", text):
        assert someone.answer(1, **{field: text}).status_code in (403, 422), field
    assert everything(folder) == before
    assert someone.answer(1, touched=text).status_code == 200  # anything but 1 means no
    assert someone.stored()[0].is_touched is False


@pytest.mark.parametrize("text", SQL)
def test_sql_in_codes_and_paths_is_refused(folder, text):
    client = Someone(folder).client
    before = everything(folder)
    assert client.post("/enter", data={"code": text}).status_code == 403
    assert client.get(f"/i/{text}").status_code in (403, 404)
    assert client.get(f"/o/{text}").status_code in (403, 404)
    assert client.get(f"/task/{text}").status_code in (403, 404)
    assert everything(folder) == before


def test_a_rating_of_thousands_of_digits_is_refused(tmp_path):
    someone = Someone(study_of(tmp_path / "s", "rating")).agree()
    assert someone.answer(1, rating="1" * 5000, json=False).status_code == 422
    assert someone.stored() == []


def test_a_body_that_is_too_large_is_refused_unread(folder):
    someone = Someone(folder).agree()
    fields = someone.fields(1)
    assert someone.send(1, {**fields, "rank-a": "1" * (MAX_REQUEST_BYTES + 1)}).status_code == 413
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}

    def endless():  # no length told: counted as it comes
        for _ in range(100):
            yield b"a=" + b"x" * 10_000 + b"&"

    assert someone.client.post("/task/1", content=endless(), headers=headers).status_code == 413
    assert someone.stored() == []
    assert someone.send(1, fields).status_code == 200


@pytest.mark.parametrize("fields", [
    {f"f{number}": "x" for number in range(100)},
    [("rank-a", "1"), ("rank-a", "2"), ("rank-b", "2"), ("rank-c", "3")],
])  # fmt: skip
def test_too_many_or_doubled_fields_are_refused(folder, fields):
    someone = Someone(folder).agree()
    token = someone.fields(1)["csrf"]
    pairs = [*(fields.items() if isinstance(fields, dict) else fields), ("csrf", token)]
    body = "&".join(f"{name}={value}" for name, value in pairs)
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    assert someone.client.post("/task/1", content=body, headers=headers).status_code in (400, 422)
    assert someone.stored() == []


@pytest.mark.parametrize(("kind", "content"), [
    ("application/json", b'{"rank-a": 1}'),
    ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
    ("multipart/form-data", b"nothing"),
    ("application/x-www-form-urlencoded", b"\xff\xfe=%zz&&&=="),
])  # fmt: skip
def test_what_is_no_form_is_refused(folder, kind, content):
    someone = Someone(folder).agree()
    answer = someone.client.post(
        "/task/1", content=content, headers={"content-type": kind, "accept": "application/json"}
    )
    assert answer.status_code in (400, 403)
    assert "Traceback" not in answer.text
    assert someone.stored() == []


def test_a_file_instead_of_an_answer_is_refused(folder):
    someone = Someone(folder).agree()
    fields = someone.fields(1)
    answer = someone.client.post(
        "/task/1", data=fields, files={"rank-d": ("x.txt", b"x")}, headers={"accept": "application/json"}
    )
    assert answer.status_code == 400
    assert someone.stored() == []


@pytest.mark.slow
def test_a_thousand_wrong_codes_let_nobody_in_and_keep_nobody_out(folder):
    app = create_app(folder)
    inside = Someone(folder, 2, app=app).agree()
    thief = Someone(folder, 1, app=app)
    statuses = [thief.client.get(f"/i/{number:026d}").status_code for number in range(1000)]
    assert statuses[:10] == [403] * 10
    assert set(statuses[10:]) == {429}
    assert thief.cookie not in thief.client.cookies
    assert inside.answer(1).status_code == 200
    assert thief.client.get(f"/i/{thief.code}").status_code == 200  # the owner, from the same address


def test_the_limit_counts_one_household_together_and_no_two():
    limiter = Limiter(max_failures=1)
    limiter.count("2001:db8::1")
    assert limiter.is_blocked("2001:db8::2")
    assert not limiter.is_blocked("2001:db8:0:1::1")
    limiter.count("::ffff:10.0.0.1")  # what a server that listens on :: calls 10.0.0.1
    assert limiter.is_blocked("::ffff:10.0.0.1")
    assert not limiter.is_blocked("::ffff:10.0.0.2")


def test_the_limit_ends_and_is_per_address_and_bounded(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("didact.study.auth.time.monotonic", lambda: now[0])
    limiter = Limiter(max_failures=3, window=60)
    for _ in range(3):
        limiter.count("10.0.0.1")
    assert limiter.is_blocked("10.0.0.1")
    assert not limiter.is_blocked("10.0.0.2")
    now[0] = 61.0
    assert not limiter.is_blocked("10.0.0.1")
    for _ in range(3):
        limiter.count("2001:db8::1")
    assert limiter.is_blocked("2001:db8::ffff")  # one household
    assert not limiter.is_blocked("2001:db8:1::1")
    for number in range(Limiter.ADDRESSES + 10):
        limiter.count(f"name{number}")
    assert len(limiter._wrong) == Limiter.ADDRESSES


def test_an_error_inside_shows_nothing_of_the_inside(folder, monkeypatch):
    someone = Someone(folder).agree()

    def broken(*_: object) -> None:
        raise RuntimeError("secret place /home/owner")

    monkeypatch.setattr(someone.app.state.study.answers, "done", broken)
    for headers in ({"accept": "text/html"}, {"accept": "application/json"}):
        answer = someone.client.get("/task/1", headers=headers)
        assert answer.status_code == 500
        assert "secret place" not in answer.text
        assert "Traceback" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_every_answer_carries_the_headers(folder):
    someone = Someone(folder).agree()
    for path in ("/", "/task/1", "/static/study.css", "/nowhere", "/task/99", "/health"):
        headers = someone.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert someone.client.get("/task/1").headers["cache-control"] == "no-store"


def test_cookies_are_hidden_from_scripts_and_other_sites(folder):
    for is_secure in (False, True):
        client = TestClient(create_app(folder, is_secure=is_secure), base_url="https://study.test")
        told = client.get(f"/i/{read_keys(folder).code(1)}", follow_redirects=False).headers["set-cookie"].lower()
        assert "httponly" in told
        assert "samesite=lax" in told
        assert ("secure" in told.split("; ")) is is_secure


def test_no_code_and_no_page_of_the_framework_is_there(folder):
    client = Someone(folder).client
    for path in ("/docs", "/openapi.json", "/redoc", "/.env", "/answers.sqlite", "/secret.key"):
        assert client.get(path).status_code == 404


def test_twenty_sends_at_once_are_one_answer(folder):
    someone = Someone(folder).agree()
    fields, found = someone.fields(1), []

    def send() -> None:
        client = TestClient(someone.app, base_url="http://study.test", cookies=dict(someone.client.cookies))
        found.append(client.post("/task/1", data=fields, headers={"accept": "application/json"}).status_code)

    threads = [threading.Thread(target=send) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == [200] + [409] * 19
    assert len(someone.stored()) == 1


def test_an_erased_person_is_gone_from_the_file(folder):
    someone = Someone(folder).agree()
    someone.answer(1)
    answers = open_answers(folder, read_design(folder))
    assert answers.erase(1) == 1
    assert someone.stored() == []
    assert someone.client.get("/task/1").status_code == 403  # the cookie opens nothing
    assert Someone(folder).client.get(f"/i/{someone.code}").status_code == 403
    held = b"".join(path.read_bytes() for path in folder.glob("answers.sqlite*"))
    assert b'"ranks"' not in held


@pytest.mark.parametrize("send", [
    lambda someone, fields: someone.send(1, fields),
    lambda someone, _: someone.client.get("/task/1"),
    lambda someone, fields: someone.client.post("/consent", data={"csrf": fields["csrf"], "agree": "yes"}),
])  # fmt: skip
def test_nothing_is_stored_of_a_person_who_is_erased_while_a_request_is_on_its_way(folder, monkeypatch, send):
    someone = Someone(folder).agree()
    fields, answers = someone.fields(1), someone.app.state.study.answers
    person = answers.person(1)
    answers.erase(1)
    before = everything(folder)
    monkeypatch.setattr(answers, "person", lambda _: person)  # as it was read before the erasure
    assert send(someone, fields).status_code in (200, 403)
    assert everything(folder) == before
    with sqlite3.connect(folder / "answers.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM sights").fetchone() == (0,)


def test_erasing_says_when_the_log_of_changes_cannot_be_folded_in(folder, monkeypatch):
    monkeypatch.setattr("didact.study.tables._WAIT", 0.1)
    someone = Someone(folder).agree()
    someone.answer(1)
    reader = sqlite3.connect(folder / "answers.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM answers").fetchone()
    answers = open_answers(folder, read_design(folder))
    with pytest.raises(RecordError, match="1 answers of p01 are removed, but .* erase the person again"):
        answers.erase(1)
    reader.close()
    assert answers.erase(1) == 0
    assert not any(b'"ranks"' in path.read_bytes() for path in folder.glob("answers.sqlite*"))


@pytest.mark.parametrize(("text", "written"), [
    ("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("+1+cmd|x", "'+1+cmd|x"), ("@SUM(1)", "'@SUM(1)"), ("-2+3", "'-2+3"),
    ("-0.42", "-0.42"), ("good", "good"),
])  # fmt: skip
def test_a_sheet_finds_no_formula_in_an_export_and_numbers_as_they_are(text, written):
    items = (Item("r1", text),)
    design = Design("rating", "t", "q", "regression", (), ("m",), items, 1)
    answer = Answer("p01", "", 1, "rating", "r1", ("m",), rating=3)
    lines = csv.DictReader(io.StringIO(export_answers(design, [answer], "csv").decode()))
    assert [line["prediction"] for line in lines] == [written]
    assert json.loads(export_answers(design, [answer], "json"))[0]["prediction"] == text


def test_methods_are_nowhere_in_what_a_browser_loads(folder):
    someone = Someone(folder).agree()
    for number in range(1, 7):
        page = someone.client.get(f"/task/{number}").text
        assert not any(name in page for name in METHODS)
        answer = someone.answer(number)
        assert not any(name in json.dumps(answer.json()) for name in METHODS)
