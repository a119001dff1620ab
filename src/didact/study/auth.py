"""Authentication: invite codes, signed cookies, form tokens against CSRF, and a limit on wrong codes."""

import base64
import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any, Final

from didact.errors import RecordError
from didact.files.atomic import write_bytes

FILE: Final = "secret.key"
COOKIE_LIFETIME: Final = 30 * 24 * 3600  # seconds for which a cookie is valid


class Keys:
    """Codes, cookies and tokens, all derived from the study's secret. The database holds only hashes of codes."""

    def __init__(self, secret: bytes) -> None:
        from itsdangerous import URLSafeTimedSerializer

        self._secret = secret
        self._signer = URLSafeTimedSerializer(secret, salt="didact study cookie")

    def code(self, number: int) -> str:
        """The invite code of person `number`: 130 bits in base32, lower case."""
        return self._derived(f"invite/{number}")

    @property
    def organiser(self) -> str:
        """The organiser's code."""
        return self._derived("organiser")

    def is_organiser(self, code: str) -> bool:
        return hmac.compare_digest(code.encode(), self.organiser.encode())

    def cookie_name(self, purpose: str) -> str:
        """The name of a cookie, different for each study, because all ports of a host share its cookies."""
        return f"didact_{purpose}_{self._derived(f'cookie/{purpose}')[:8]}"

    def cookie(self, cookie_owner: int | str) -> str:
        """A signed cookie for a person's number, or for the organiser."""
        return self._signer.dumps(cookie_owner)

    def cookie_owner(self, cookie: str | None) -> int | str | None:
        """The owner of a cookie: a person's number or "organiser". None if it is forged, changed or too old."""
        from itsdangerous import BadData

        try:
            payload: Any = self._signer.loads(cookie or "", max_age=COOKIE_LIFETIME)
        except BadData:
            return None
        return payload if isinstance(payload, int | str) and not isinstance(payload, bool) else None

    def form_token(self, cookie: str) -> str:
        """The secret token in every form of this cookie's owner, against cross-site request forgery."""
        return hmac.new(self._secret, b"form/" + cookie.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, token: str, cookie: str) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(cookie).encode())

    def _derived(self, purpose: str) -> str:
        digest = hmac.new(self._secret, purpose.encode(), hashlib.sha256).digest()
        return base64.b32encode(digest)[:26].decode().lower()


def code_hash(code: str) -> str:
    """The stored hash of a code. With 130 random bits, a salt or a slow hash would not make guessing harder."""
    return hashlib.sha256(code.encode()).hexdigest()


def new_keys(folder: Path) -> Keys:
    """Create the study's secret, in a file that only its owner can read."""
    path = folder / FILE
    secret = secrets.token_bytes(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    return Keys(secret)


def read_keys(folder: Path) -> Keys:
    path = folder / FILE
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"The study's secret cannot be read from {path} ({error.strerror}). Without it no invitation is valid; "
            "restore the file."
        ) from error
    if len(secret) != 32:
        raise RecordError(
            f"{path} is damaged: a secret has 32 bytes, but the file has {len(secret)}. Restore the file."
        )
    return Keys(secret)


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read."""
    write_bytes(path, content.encode())
    path.chmod(0o600)


class Limiter:
    """Counts wrong codes per address. An address is blocked after `max_failures` within `window` seconds."""

    ADDRESSES: Final = 10_000  # bounds memory; the least recently seen are dropped

    def __init__(self, *, max_failures: int = 10, window: float = 600.0) -> None:
        self.max_failures, self.window = max_failures, window
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def is_blocked(self, address: str) -> bool:
        return len(self._recent(_network(address))) >= self.max_failures

    def count(self, address: str) -> None:
        name = _network(address)
        times = self._recent(name)
        times.append(time.monotonic())
        self._wrong[name] = times
        self._wrong.move_to_end(name)
        while len(self._wrong) > self.ADDRESSES:
            self._wrong.popitem(last=False)

    def _recent(self, name: str) -> deque[float]:
        times = self._wrong.get(name, deque(maxlen=self.max_failures))
        while times and times[0] < time.monotonic() - self.window:
            times.popleft()
        return times


def _network(address: str) -> str:
    """The network of an address: for IPv6 its /64, all of which one household can use; else the address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))
