"""The study as a server on this machine."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from didact.errors import OptionError
from didact.study.app import create_app
from didact.study.connections import BACKLOG, LogLimit, QueuedServer, TimedProtocol


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    database: str | None = None,
    root: str = "",
    proxy: str | None = None,
    is_secure: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Answer requests until stopped. `proxy` is the address of a server in front whose word about clients is taken."""
    app = create_app(folder, database=database, root=root, is_secure=is_secure)
    listener = _listener(host, port)
    config = server_config(app, proxy=proxy)
    if ready is not None:
        ready(f"http://{_shown(host)}:{listener.getsockname()[1]}")
    try:
        with _limited_logs():
            QueuedServer(config).run(sockets=[listener])
    finally:
        listener.close()


def server_config(app: FastAPI, *, proxy: str | None = None) -> uvicorn.Config:
    """How uvicorn serves `app`: bounded connections, deadlines for clients, no access log, no WebSockets."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",  # a WebSocket would leave the protocol, and its deadlines
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,  # links hold codes
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        timeout_graceful_shutdown=10,
    )


@contextmanager
def _limited_logs() -> Iterator[None]:
    """Bad requests and failed accepts are logged, but cannot fill the disk."""
    limit = LogLimit()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addFilter(limit)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(limit)


def _listener(host: str, port: int) -> socket.socket:
    """Bound before anything is promised: an address in use is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise OptionError(
            f"The study cannot be served at {host}, port {port}: {error.strerror or error}. Choose another with --port."
        ) from error
    listener.listen(BACKLOG)
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
