"""HTML by templates: one environment with autoescape for reports, heat maps, tables and studies.

Whatever a template writes is escaped, and control characters are replaced. `Markup` marks the few values that are HTML
already: drawings that didact made, and style and script from files of the package.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from didact.viz import GENERATOR

MAX_NAME_LENGTH: Final = 80  # characters of a name; the rest is in its title
_JOINERS: Final = "\n\t\u200c\u200d"  # not printable by themselves, and needed to lay out texts, emoji and many scripts


@cache
def environment(package: str) -> Environment:
    """The templates of a package, and below them those that all packages share."""
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
    # Markup: the line is a constant of ours.
    templates.globals |= {"attributes": attributes, "generator": Markup(GENERATOR)}
    return templates


def render(package: str, template: str, **values: Any) -> str:
    """What a template of a package makes of the values."""
    return environment(package).get_template(template).render(**values)


@cache
def asset(package: str, name: str) -> Markup:
    """Style or script for a page. Markup: it is a file of our package, and holds nothing of the data."""
    return Markup((files(package) / "templates" / name).read_text(encoding="utf-8"))


def replace_control_characters(text: str) -> str:
    """The text with control characters, which HTML has no place for, replaced."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _JOINERS else _replacement(character) for character in text
    )


def _replacement(character: str) -> str:
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"


def attributes(**values: str) -> Markup:
    """Attributes of an element; empty ones are left out. Markup: their texts are escaped here."""
    return Markup(
        "".join(f' {name}="{escape(replace_control_characters(text))}"' for name, text in values.items() if text)
    )


def script_json(value: Any) -> Markup:
    """JSON for a script element; dataclasses are objects.

    Markup: signs that could end the element, or a line of it, are written as escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=vars)
    return Markup(re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text))


def cut(text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """The text, its end cut off visibly where it is long."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def soft(text: str) -> Markup:
    """Escaped, with places where a long name may be broken. Markup: all but `<wbr>` has been escaped."""
    return Markup(re.sub(r"([_(/=,.])(?=[^\W\d])", r"\1<wbr>", str(escape(replace_control_characters(text)))))


def tight(html: Markup) -> Markup:
    """Without line breaks between elements, which would be read as spaces. Markup: it was, and nothing is added."""
    return Markup(re.sub(r">\s*\n\s*<", "><", str(html)))
