"""HTML templates: a Jinja environment with autoescape for reports, heat maps, tables and studies.

All output of templates is escaped, with control characters replaced. `Markup` marks the few values that are already
HTML: drawings by didact, and styles and scripts from files of the package.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from didact.viz import GENERATOR

MAX_NAME_LENGTH: Final = 80  # characters; the full name is in the title attribute
_JOINERS: Final = "\n\t\u200c\u200d"  # not printable, but required by layouts, emoji and many scripts


@cache
def environment(package: str) -> Environment:
    """The Jinja environment for a package: its own templates, then the shared ones."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("didact.viz")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: replace_control_characters(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {"cut": cut, "soft": soft, "tight": tight}
    # Markup: a constant of didact.
    templates.globals |= {"attributes": attributes, "generator": Markup(GENERATOR)}
    return templates


def render(package: str, template: str, **values: Any) -> str:
    """Render a template of a package with these values."""
    return environment(package).get_template(template).render(**values)


@cache
def asset(package: str, name: str) -> Markup:
    """A style sheet or script for a page. Markup: a file of the package, without data."""
    return Markup((files(package) / "templates" / name).read_text(encoding="utf-8"))


def replace_control_characters(text: str) -> str:
    """Replace control characters, which HTML does not allow."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _JOINERS else _replacement(character) for character in text
    )


def _replacement(character: str) -> str:
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def attributes(**values: str) -> Markup:
    """The attributes of an element without empty ones. Markup: the values are escaped here."""
    return Markup(
        "".join(f' {name}="{escape(replace_control_characters(text))}"' for name, text in values.items() if text)
    )


def script_json(value: Any) -> Markup:
    """JSON for a script element; dataclasses become objects.

    Markup: characters that could end the element or a line are written as escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=vars)
    return Markup(re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text))


def cut(text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Truncate a long text, with an ellipsis at the end."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def soft(text: str) -> Markup:
    """Escape a text and add line break opportunities to long names. Markup: everything except `<wbr>` is escaped."""
    return Markup(re.sub(r"([_(/=,.])(?=[^\W\d])", r"\1<wbr>", str(escape(replace_control_characters(text)))))


def tight(html: Markup) -> Markup:
    """Remove line breaks between elements, which render as spaces. Markup: the input is Markup and nothing is added."""
    return Markup(re.sub(r">\s*\n\s*<", "><", str(html)))
