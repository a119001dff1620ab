"""Where a study is served and where its links lead: the flags of `didact study serve`, and links that do not match."""

import csv
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from didact.errors import RecordError
from didact.study.invitations import INVITES

PORT: Final = 8000


@dataclass(frozen=True)
class Links:
    """The address that printed links begin with, and what is wrong with those in invites.csv ("" if nothing is)."""

    base: str
    warning: str


def serve_flags(url: str) -> list[str]:
    """The flags that make `didact study serve` answer at `url`."""
    parts = urlsplit(url)
    flags: list[str] = []
    if parts.scheme == "https":
        flags += ["--proxy", "127.0.0.1", "--https"]  # the server itself speaks plain http
    else:
        if not is_loopback(parts.hostname or ""):
            flags += ["--host", "0.0.0.0"]
        port = parts.port or 80
        if port != PORT:
            flags += ["--port", str(port)]
    path = parts.path.rstrip("/")
    return [*flags, "--root", path] if path else flags


def written_base(folder: Path) -> str:
    """The address that the links in invites.csv begin with; "" if the file holds none."""
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
    """Links that lead to a server at `address`, compared with those that invites.csv holds.

    Behind a proxy, and on every network (0.0.0.0), the server does not know the address that people use. It then takes
    that of invites.csv, unless that is of this machine alone or has another port.
    """
    written = written_base(folder)
    rewrite = f"didact study invite {folder} --url"
    if is_proxied:
        if written and not is_loopback(urlsplit(written).hostname or ""):
            return Links(written, "")
        return Links(address, f"The links do not lead through the proxy. Rewrite them: {rewrite} https://…")
    own = urlsplit(address)
    if _is_wildcard(own.hostname or ""):
        known = urlsplit(written)
        if written and not is_loopback(known.hostname or "") and (known.port or 80, known.path) == (own.port, own.path):
            return Links(written, "")
        example = f"http://ADDRESS:{own.port}{own.path}"
        return Links(
            example,
            f"The links in {folder / INVITES} lead to {written or 'nowhere'}. Rewrite them with the name or IP address "
            f"of this machine: {rewrite} {example}",
        )
    if written == address:
        return Links(address, "")
    return Links(
        address,
        f"The links in {folder / INVITES} lead to {written or 'nowhere'}, not here. Rewrite them: {rewrite} {address}",
    )


def is_root(root: str) -> bool:
    """Whether pages can be served below `root`: "" or a plain path. `//host` would send redirects to another host."""
    return re.fullmatch(r"(/[A-Za-z0-9._~-]+)*/?", root) is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
