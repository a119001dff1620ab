"""Connections of the study's server: how many it holds at once, and how long it waits for each client."""

import asyncio
import logging
import socket
import time
from collections import Counter
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG: Final = 16  # connections that one turn of the event loop accepts
_TURNS: Final = 4  # from accepting a connection to counting it, and from aborting one to closing it
_QUEUE: Final = 2048  # connections that the kernel holds until then
_MAX_CONNECTIONS: Final = 1000
_OTHER_FILES: Final = 100  # descriptors for the database, the files that are sent, and the process itself


def connection_limit() -> int:
    """Connections to hold at once: as many as the descriptor limit of this process allows, at most 1,000."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(16, min(_MAX_CONNECTIONS, files - _TURNS * BACKLOG - _OTHER_FILES))


class QueuedServer(uvicorn.Server):
    """uvicorn with a long queue. asyncio has one number for the queue and for what it accepts in one turn."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or []:
            listener.listen(_QUEUE)


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for the client and a limit on connections.

    uvicorn alone waits without end for the rest of a request, and for a client that does not read its response. Here a
    client has `timeout` seconds for each. A new connection above `limit` replaces the one that has waited longest for
    its client. If every other connection is being answered, the new one is closed.
    """

    limit: ClassVar[int] = connection_limit()
    timeout: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the next step is the client's: to send a request or the rest of one, or to read a response."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_timer()
        if len(self.connections) > self.limit:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _set_timer(self) -> None:
        """Start the deadline when the server begins to wait, and stop it when it does not wait any more."""
        if not self.is_waiting:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            # abort, not close: close waits until the client has read what was sent.
            self._timer = self.loop.call_later(self.timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_room(self) -> None:
        """Close connections until no more than `limit` are open."""
        peers = [peer for peer in self.connections if isinstance(peer, TimedProtocol)]
        is_open = [peer for peer in peers if not peer.transport.is_closing()]
        if len(is_open) <= self.limit:
            return
        waiting = [(peer._timer.when(), id(peer), peer) for peer in is_open if peer._timer is not None]
        oldest = min((entry for entry in waiting if entry[2] is not self), default=None)
        (self if oldest is None else oldest[2]).transport.abort()


class LogLimit(logging.Filter):
    """Passes at most `most` messages per minute, logger and level, so that bad requests do not hide errors.

    The first message of the next minute says how many were left out.
    """

    def __init__(self, most: int = 20) -> None:
        super().__init__()
        self.most, self._window_start = most, time.monotonic()
        self._counts: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._window_start >= 60.0:
            dropped = sum(max(0, count - self.most) for count in self._counts.values())
            if dropped:
                record.msg, record.args = f"({dropped} messages left out before) {record.getMessage()}", ()
            self._counts.clear()
            self._window_start = now
        key = (record.name, record.levelno)
        self._counts[key] += 1
        return self._counts[key] <= self.most
