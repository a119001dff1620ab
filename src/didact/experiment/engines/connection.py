"""Ray in this process: imported, connected, not interrupted in the middle of a call, and nothing left changed."""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from didact.errors import MissingExtraError, OptionError, UnsupportedError

REACH: Final = 5.0  # seconds that an address may take to answer
_SETTINGS: Final = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # the first thing that both sides of HTTP/2, and so gRPC, say


def imported() -> Any:
    """The package, or an error that says how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first error is raised; others in flight say no more
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of what it will do one day
    try:
        with undisturbed():
            import ray
            import ray.exceptions
    except ImportError:
        raise MissingExtraError('The engine ray needs its package: pip install "didact[ray]"') from None
    return ray


@contextlib.contextmanager
def connected(ray: Any, address: str | None, cpus: int) -> Iterator[None]:
    """A connection that is closed at the end. One that this process has already is used, and left."""
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", here):
            raise OptionError(f"This process is connected to Ray at {here}, not at {address}. Call ray.shutdown first.")
        yield
        return
    if address is not None:
        _reach(address)
    with _as_it_was(ray):
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            try:
                with undisturbed():
                    if address is None:
                        plain = {"worker_niceness": 0}  # as processes of `local`; Ray's own are polite to all others
                        ray.init(address="local", num_cpus=cpus, include_dashboard=False, _system_config=plain, **quiet)
                    else:
                        ray.init(address=address, **quiet)
            except (OSError, RuntimeError, ValueError) as error:
                if address is None:
                    raise UnsupportedError(f"Ray could not start a cluster on this machine: {error}") from error
                raise _unreached(address, error) from error
            yield
        finally:
            with undisturbed():
                ray.shutdown()


def _reach(address: str) -> None:
    """An error if no server of Ray's kind answers at HOST:PORT; Ray itself waits for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise OptionError(f"The address of a Ray cluster is auto or HOST:PORT, not {address!r}.")
    try:
        with socket.create_connection((host, int(port)), timeout=REACH) as line:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            line.settimeout(REACH)
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS)
            answer = line.recv(9)
    except OSError as error:
        raise _unreached(address, error) from error
    if len(answer) < 4 or answer[3] != _SETTINGS[3]:
        raise _unreached(address, "what answers there is no Ray head")


def _unreached(address: str, why: object) -> UnsupportedError:
    return UnsupportedError(
        f"No Ray cluster could be reached at {address!r}: {str(why).rstrip('.')}. Start one with `ray start --head`, "
        "run this on a machine of it, and give --address auto or what `ray start` said; without an address a cluster "
        "is started here."
    )


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C is kept until a call into Ray is over; a second one acts at once.

    Ray is not made to be interrupted anywhere: what is raised there may be lost in a destructor, or leave it half-way.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not is_main or not callable(handler):  # other threads are not interrupted; who ignores Ctrl-C goes on to
        yield
        return
    came: list[tuple[int, Any]] = []

    def keep(number: int, frame: Any) -> None:
        came.append((number, frame))
        if len(came) > 1:
            handler(number, frame)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


@contextlib.contextmanager
def _as_it_was(ray: Any) -> Iterator[None]:
    """Undo what Ray changes in this process: how SIGTERM is handled. Keep it from printing to standard output."""
    worker: Any = getattr(ray._private, "worker", None)
    printed = getattr(worker, "print_to_stdstream", None)  # Ray has no switch for news about nodes and workers
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    if printed is not None:
        worker.print_to_stdstream = _logged
    try:
        yield
    finally:
        if printed is not None:
            worker.print_to_stdstream = printed
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _logged(data: Mapping[str, Any], **_: object) -> None:
    logging.getLogger("didact").debug("ray: %s", " ".join(map(str, data.get("lines", ()))))
