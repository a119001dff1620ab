"""The server of a study on this machine."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import uvicorn
from fastapi import FastAPI

from didact.errors import OptionError
from didact.study.app import create_app
from didact.study.config import ServeConfig
from didact.study.connections import BACKLOG, LogLimit, QueuedServer, TimedProtocol


def serve(config: ServeConfig, *, ready: Callable[[str], None]) -> None:
    """Answer requests until stopped. `ready` gets the address once it is bound."""
    app = create_app(config.folder, database=config.database, root=config.root, is_secure=config.https)
    with closing(_listener(config.host, config.port)) as listener, _limited_logs():
        host = f"[{config.host}]" if ":" in config.host else config.host
        ready(f"http://{host}:{listener.getsockname()[1]}")
        QueuedServer(server_config(app, proxy=config.proxy)).run(sockets=[listener])


def server_config(app: FastAPI, *, proxy: str | None = None) -> uvicorn.Config:
    """uvicorn's configuration: bounded connections, deadlines for clients, no access log, no WebSockets.

    `proxy` is the address of a trusted reverse proxy.
    """
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",  # WebSockets would bypass TimedProtocol and its deadlines
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,  # links contain codes
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        timeout_graceful_shutdown=10,
    )


@contextmanager
def _limited_logs() -> Iterator[None]:
    """Limit the log lines of uvicorn and asyncio, so that bad requests cannot fill the disk."""
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
    """A listening socket, bound first, so that an address in use is an error at once."""
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
