"""Links for people, one each: who is invited, where the links lead, and the flags that serve a study there."""

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
    """The address that printed links begin with, and what is wrong with those in invites.csv ("" if nothing is)."""

    base: str
    warning: str


class Invitation(NamedTuple):
    """A person's number and code."""

    number: int
    code: str

    def link(self, url: str) -> str:
        return f"{url.rstrip('/')}/i/{self.code}"


def invitations(keys: Keys, numbers: Iterable[int]) -> list[Invitation]:
    """Codes are derived from the study's secret: the same number always has the same one."""
    return [Invitation(number, keys.code(number)) for number in numbers]


def invitations_csv(invited: Sequence[Invitation], url: str) -> str:
    """A sheet of links. Cohorts are left out: who hands out the links should not know them."""
    links = [(person_name(invitation.number), invitation.link(url)) for invitation in invited]
    return csv_text([("person", "link"), *links])


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


def invites_base_url(folder: Path) -> str:
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
