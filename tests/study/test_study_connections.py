"""Slow and silent clients: the server holds a bounded number of connections, and waits for none of them without end."""

import http.client
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from didact.study.app import create_app
from didact.study.connections import LogLimit, QueuedServer, TimedProtocol, connection_limit
from didact.study.serve import _listener, server_config
from processes import waited
from study.people import study_of

HALF_HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
HALF_BODY = (
    b"POST /enter HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 100\r\n\r\ncode="
)
WHOLE = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def serving(app: FastAPI) -> Iterator[tuple[int, uvicorn.Server]]:
    listener = _listener("127.0.0.1", 0)
    server = QueuedServer(server_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study_of(tmp_path_factory.mktemp("study") / "s")


@pytest.fixture
def app(folder: Path) -> FastAPI:
    return create_app(folder)


@contextmanager
def connected(port: int, sent: bytes, count: int = 1) -> Iterator[list[socket.socket]]:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
    try:
        for client in clients:
            client.sendall(sent)
        yield clients
    finally:
        for client in clients:
            client.close()


def health(port: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().read()
    finally:
        connection.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(100_000) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY, WHOLE + HALF_HEAD], ids=["silent", "head", "body", "next"])
def test_an_unfinished_request_ends_after_the_timeout(app, monkeypatch, caplog, sent):
    monkeypatch.setattr(TimedProtocol, "timeout", 0.5)
    with serving(app) as (port, server), connected(port, sent, 5) as clients:
        assert waited(lambda: not any(map(is_open, clients)), 5)
        assert waited(lambda: not server.server_state.connections and not server.server_state.tasks, 5)
        assert health(port) == b"ok"
    assert caplog.records == []  # no page of log for a client that went away


def test_bytes_that_drip_do_not_extend_the_timeout(app, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "timeout", 0.5)
    with serving(app) as (port, _), connected(port, HALF_HEAD) as (client,):
        began = time.monotonic()
        while is_open(client) and time.monotonic() - began < 5:
            try:
                client.send(b"x")
            except OSError:
                break
            time.sleep(0.02)
        assert time.monotonic() - began < 3


def test_a_client_that_does_not_read_is_closed(app, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "timeout", 0.5)
    page = b"GET /static/study.css HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(app) as (port, server), connected(port, page * 2000):
        assert waited(lambda: server.server_state.connections, 5)
        assert waited(lambda: not server.server_state.connections, 10)


def test_every_request_of_a_connection_has_its_own_timeout(app, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "timeout", 0.6)
    with serving(app) as (port, _), connected(port, b"") as (client,):
        for _ in range(4):  # 1.2 seconds in all
            client.sendall(WHOLE[:10])
            time.sleep(0.3)
            client.sendall(WHOLE[10:])
            response = http.client.HTTPResponse(client)
            response.begin()
            assert response.read() == b"ok"
            response.close()


def test_a_new_connection_replaces_the_one_that_waits_longest(app, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "limit", 5)
    with serving(app) as (port, server), connected(port, HALF_HEAD, 30) as clients:
        assert waited(lambda: sum(map(is_open, clients)) == 5, 5)
        assert all(map(is_open, clients[-5:]))
        assert health(port) == b"ok"
        assert waited(lambda: len(server.server_state.connections) <= 5, 5)


def test_a_connection_that_is_being_answered_is_not_replaced(app, monkeypatch):
    monkeypatch.setattr(TimedProtocol, "limit", 1)
    held = threading.Event()

    @app.get("/busy")
    def busy() -> str:
        held.wait(10)
        return "done"

    with serving(app) as (port, server), connected(port, b"GET /busy HTTP/1.1\r\nHost: x\r\n\r\n") as (client,):
        assert waited(lambda: server.server_state.tasks, 5)
        assert not _answers(port)
        held.set()
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.read() == b'"done"'
        response.close()


def test_the_limit_leaves_descriptors_for_the_database(monkeypatch):
    resource = pytest.importorskip("resource")
    for files, most in ((256, 92), (1024, 860), (100_000, 1000), (resource.RLIM_INFINITY, 1000), (64, 16)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connection_limit() == most


def test_a_log_is_bounded_and_says_what_is_left_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("didact.study.connections.time.monotonic", lambda: now[0])
    limit = LogLimit(most=3)

    def passed(level: int = logging.WARNING) -> logging.LogRecord | None:
        record = logging.LogRecord("asyncio", level, "", 0, "accept failed: %s", ("too many files",), None)
        return record if limit.filter(record) else None

    assert sum(passed() is not None for _ in range(1000)) == 3
    assert passed(logging.ERROR) is not None  # warnings do not hide errors
    now[0] = 61.0
    record = passed()
    assert record is not None
    assert record.getMessage() == "(997 messages left out before) accept failed: too many files"
    assert passed() is not None


def test_a_burst_of_connections_waits_in_the_queue(app):
    with serving(app) as (port, _):
        assert waited(lambda: _answers(port), 10)
        began = time.monotonic()
        with connected(port, HALF_HEAD, 500):
            assert time.monotonic() - began < 3  # a full queue makes the client try again after a second


@pytest.mark.slow
def test_300_half_requests_at_256_descriptors_stop_neither_the_server_nor_fill_its_log(folder, tmp_path):
    """Before: /health timed out until the clients left, and the log grew by 25,000 lines per second."""
    serve = f"ulimit -n 256; exec {sys.executable} -m didact.cli.main study serve {folder} --port 0"
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(["bash", "-c", serve], stderr=log)
    try:
        assert waited(lambda: "The study is at" in (tmp_path / "log").read_text(), 60)
        address = re.search(r"http://127\.0\.0\.1:(\d+)", (tmp_path / "log").read_text())
        assert address is not None
        port = int(address[1])
        assert waited(lambda: _answers(port), 20)
        with connected(port, HALF_HEAD, 300) as clients:
            for _ in range(3):
                began = time.monotonic()
                assert health(port) == b"ok"
                assert time.monotonic() - began < 3
            assert waited(lambda: not any(map(is_open, clients)), TimedProtocol.timeout + 10)
        assert len((tmp_path / "log").read_text().splitlines()) < 20
    finally:
        server.terminate()
        server.wait(20)


def _answers(port: int) -> bool:
    try:
        return health(port) == b"ok"
    except OSError:
        return False
