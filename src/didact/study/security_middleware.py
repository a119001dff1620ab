"""Middleware for every page: a limit on the size of requests, and security headers for browsers."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

MAX_REQUEST_BYTES: Final = 64 * 1024  # an answer has a few hundred
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # links contain codes, so other sites must not receive them
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "x-robots-tag": "noindex",
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class TooLargeError(Exception):
    """The request is larger than any answer."""


class SecurityMiddleware:
    """ASGI middleware around the whole application, whose pages are below the path `root`."""

    def __init__(self, app: App, root: str = "") -> None:
        self.app, self.root = app, root

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"].rstrip("/")
        if self.root and scope["path"] == self.root:
            await _send(send, 308, {"location": f"{self.root}/"})
            return
        names = {name for name, _ in scope["headers"]}
        if b"transfer-encoding" in names and b"content-length" in names:
            # Servers disagree where such a request ends: what follows could pass as another person's request.
            await _send(send, 400, {"connection": "close"})
            return
        scope["path"] = f"{path}/" if path in ("", self.root) else path
        scope["root_path"] = self.root
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_REQUEST_BYTES:
                raise TooLargeError
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message.get("headers", [])}
                message["headers"] = [
                    *message.get("headers", []),
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        await self.app(scope, receive_limited, send_with_headers)


async def _send(send: Send, status: int, headers: Mapping[str, str]) -> None:
    """A response without a body."""
    all_headers = {"content-length": "0", **HEADERS, **headers}
    pairs = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": b""})


def is_too_large(headers: Any) -> bool:
    """True if the declared length of a request is invalid or too large. Its body is then never read."""
    content_length = headers.get("content-length", "0")
    return not content_length.isdecimal() or len(content_length) > 9 or int(content_length) > MAX_REQUEST_BYTES
