"""Style and script of the page, as files of the package."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The content of a file of `page/`."""
    return (files("didact.reports") / "page" / name).read_text(encoding="utf-8")
