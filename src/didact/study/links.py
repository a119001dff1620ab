"""Invitation links, one per person, and the flags that serve a study at their address."""

import csv
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from didact.errors import RecordError
from didact.study.auth import Keys
from didact.study.design import person_name
from didact.viz.formulas import csv_text

INVITES: Final = "invites.csv"
ORGANISER: Final = "organiser.txt"  # the organiser's link, at the address of the last `didact study serve`
PORT: Final = 8000


@dataclass(frozen=True)
class Links:
    """The base URL of printed links, and a warning if the links in invites.csv lead elsewhere ("" if not)."""

    base: str
    warning: str


class Invitation(NamedTuple):
    """A person's number and code."""

    number: int
    code: str

    def link(self, url: str) -> str:
        return f"{url.rstrip('/')}/i/{self.code}"


def invitations(keys: Keys, numbers: Iterable[int]) -> list[Invitation]:
    """The invitations of these people. Codes are derived from the study's secret, so they never change."""
    return [Invitation(number, keys.code(number)) for number in numbers]


def invitations_csv(invited: Sequence[Invitation], url: str) -> str:
    """The links as CSV, without cohorts, which whoever hands out the links should not know."""
    links = [(person_name(invitation.number), invitation.link(url)) for invitation in invited]
    return csv_text([("person", "link"), *links])


def serve_flags(url: str) -> list[str]:
    """The flags that make `didact study serve` answer at `url`."""
    parts = urlsplit(url)
    flags: list[str] = []
    if parts.scheme == "https":
        flags += ["--proxy", "127.0.0.1", "--https"]  # the server itself uses plain http
    else:
        if not is_loopback(parts.hostname or ""):
            flags += ["--host", "0.0.0.0"]
        port = parts.port or 80
        if port != PORT:
            flags += ["--port", str(port)]
    path = parts.path.rstrip("/")
    return [*flags, "--root", path] if path else flags


def invites_base_url(folder: Path) -> str:
    """The base URL of the links in invites.csv; "" if it has none."""
    path = folder / INVITES
    if not path.is_file():
        return ""
    try:
        first = next(csv.DictReader(path.read_text("utf-8").splitlines()), {})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordError(
            f"{path} cannot be read ({error}). Write it again: didact study invite {folder} --url ADDRESS"
        ) from error
    return (first.get("link") or "").rpartition("/i/")[0]


def links_for(folder: Path, address: str, *, is_proxied: bool) -> Links:
    """The base URL for links to a server at `address`, with a warning if invites.csv has another one.

    Behind a proxy or at 0.0.0.0, the server does not know the address that people use. The base is then that of
    invites.csv, unless only this machine can reach that one or its port differs.
    """
    written = invites_base_url(folder)
    command = f"didact study invite {folder} --url"
    if is_proxied:
        if written and not is_loopback(urlsplit(written).hostname or ""):
            return Links(written, "")
        return Links(address, f"The links do not lead through the proxy. Rewrite them: {command} https://…")
    server = urlsplit(address)
    if _is_wildcard(server.hostname or ""):
        printed = urlsplit(written)
        if (
            written
            and not is_loopback(printed.hostname or "")
            and (printed.port or 80, printed.path) == (server.port, server.path)
        ):
            return Links(written, "")
        example = f"http://ADDRESS:{server.port}{server.path}"
        return Links(
            example,
            f"The links in {folder / INVITES} lead to {written or 'nowhere'}. Rewrite them with the name or IP address "
            f"of this machine: {command} {example}",
        )
    if written == address:
        return Links(address, "")
    return Links(
        address,
        f"The links in {folder / INVITES} lead to {written or 'nowhere'}, not here. Rewrite them: {command} {address}",
    )


def is_root(root: str) -> bool:
    """True if `root` is "" or a plain path. With `//host`, redirects would lead to another host."""
    return re.fullmatch(r"(/[A-Za-z0-9._~-]+)*/?", root) is not None


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
