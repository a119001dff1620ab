"""Odd requests: redirects stay inside, numbers and forms are read strictly, a right code always lets its owner in."""

import html
import socket

import pytest
from fastapi.testclient import TestClient

from didact.errors import OptionError
from didact.study.app import create_app
from didact.study.auth import read_keys
from study.people import Someone, study_of
from study.test_study_connections import serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return study_of(tmp_path_factory.mktemp("study") / "s")


@pytest.mark.parametrize("root", ["", "/study"])
@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_redirects_are_paths_inside_the_root_whatever_the_host_says(tmp_path, root, slash):
    folder = study_of(tmp_path / "s")
    client = TestClient(create_app(folder, root=root, is_secure=True), base_url="https://evil.com", cookies={})
    keys = read_keys(folder)
    paths = [f"/i/{keys.code(1)}", "/task/1", "/task", "/thanks", "/instructions", "/break", f"/o/{keys.organiser}"]
    for path in paths:
        headers = {"host": "evil.com", "x-forwarded-host": "evil.com", "x-forwarded-proto": "http"}
        answer = client.get(f"{root}{path}{slash}", headers=headers, follow_redirects=False)
        assert answer.status_code == 303, path
        assert answer.headers["location"] in (f"{root}/", f"{root}/organiser"), path
    for path in ("/", "/organiser", "/health", "/static/study.css"):
        assert client.get(f"{root}{path}{'' if path == '/' else slash}", follow_redirects=False).status_code == 200


def test_the_root_without_its_slash_leads_to_the_page_that_has_the_cookie(folder):
    client = TestClient(create_app(folder, root="/study"), base_url="http://study.test")
    answer = client.get("/study", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, "/study/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "root", ["//evil.com", "study", "/a//b", "/a b", "/é", "/x?y", "/x\r\nlocation: y", "https://x"]
)
def test_a_root_that_is_no_plain_path_is_refused(folder, root):
    with pytest.raises(OptionError, match="root must be a plain path"):
        create_app(folder, root=root)


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape", "undefined", "punycode", "utf-7", "\\0"])
def test_a_form_in_a_strange_character_set_is_refused_without_an_error_inside(tmp_path, caplog, charset):
    someone = Someone(study_of(tmp_path / "s")).agree()
    field = b'--x\r\nContent-Disposition: form-data; name="code"\r\n\r\n\\ud800\r\n--x--\r\n'
    for path in ("/enter", "/task/1", "/consent"):
        headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
        assert someone.client.post(path, content=field, headers=headers).status_code == 400
        headers = {"content-type": f"application/x-www-form-urlencoded; charset={charset}"}
        assert someone.client.post(path, content=b"code=\\ud800&code2=%ff", headers=headers).status_code in (403, 422)
    assert someone.stored() == []
    assert caplog.records == []


@pytest.mark.parametrize(("is_secure", "origin", "status", "message"), [
    (False, "http://study.test", 303, ""), (True, "https://study.test", 303, ""),
    (False, "https://study.test", 403, "`didact study serve STUDY --proxy HOST --https`"),
    (True, "http://study.test", 403, "Open its address with https:// in front."),
    (False, "ftp://study.test", 403, "This form is not from this study."),
    (False, "https://evil.test", 403, "This form is not from this study."),
])  # fmt: skip
def test_a_form_from_the_same_host_by_another_scheme_lets_nobody_in(folder, is_secure, origin, status, message):
    client = TestClient(create_app(folder, is_secure=is_secure), base_url="http://study.test")
    answer = client.post(
        "/enter", data={"code": read_keys(folder).code(1)}, headers={"origin": origin}, follow_redirects=False
    )
    assert answer.status_code == status
    assert message in html.unescape(answer.text)


@pytest.mark.parametrize(("field", "value"), [
    *(("seconds", text) for text in ("1_0", "+1", " 1", "1e1", "inf", "٣", ".5", "1.", "0x1", "86401", "1\n")),
    *(("rank-a", text) for text in ("0_1", "+1", " 1", "01", "١", "1\n")),
])  # fmt: skip
def test_numbers_are_ascii_digits_and_nothing_else(tmp_path, field, value):
    someone = Someone(study_of(tmp_path / "s")).agree()
    assert someone.answer(1, **{field: value}).status_code == 422
    assert someone.stored() == []


@pytest.mark.parametrize("page", ["0_1", "+1", "%201", "01", "1.0", "%D9%A1", "1%0A", "9" * 5000])
def test_a_page_is_named_by_its_number_alone(tmp_path, page):
    someone = Someone(study_of(tmp_path / "s")).agree()
    fields = someone.fields(1)
    assert someone.client.get(f"/task/{page}", follow_redirects=False).status_code == 404
    assert someone.client.post(f"/task/{page}", data=fields).status_code == 404
    assert someone.stored() == []


def test_wrong_codes_never_keep_a_right_one_out(folder):
    """Behind a proxy that is not named by --proxy, everybody has one address."""
    client = Someone(folder).client
    statuses = [client.get(f"/i/{number:026d}").status_code for number in range(15)]
    assert statuses == [403] * 10 + [429] * 5
    assert client.get(f"/o/{0:026d}").status_code == 429
    assert client.post("/enter", data={"code": "x"}).status_code == 429
    keys = read_keys(folder)
    assert client.get(f"/i/{keys.code(1)}").status_code == 200
    assert client.post("/enter", data={"code": keys.code(2)}).status_code == 200
    assert client.get(f"/o/{keys.organiser}").status_code == 200


def test_a_request_of_two_lengths_is_refused_and_what_follows_is_not_read(folder):
    request = (
        b"POST /enter HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    with serving(create_app(folder)) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        received = b"".join(iter(lambda: client.recv(10_000), b""))
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
