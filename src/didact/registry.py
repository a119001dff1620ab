"""Names and what they stand for, as plain text: nothing behind a name is imported before it is asked for.

A registry is one explicit table in a room's `__init__`, so a name can be found with grep. To add one more, add a line
there; packages outside didact add theirs through an entry point of the registry's group.
"""

import ast
import difflib
import importlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, Final, Generic, TypeVar

from didact.errors import OptionError, UnknownNameError


@dataclass(frozen=True)
class Entry:
    """Where a name leads: `"package.module:attribute"`. Rooms subclass it with the facts they list."""

    target: str

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


E = TypeVar("E", bound=Entry)


class Registry(Mapping[str, E], Generic[E]):
    """A table of names. Unknown ones are answered with the nearest known ones.

    `aliases` are what others call the entries (`"ig"`, `"shap"`), with the names to suggest for each, best first.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, E],
        *,
        group: str | None = None,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.kind = kind
        self._own = dict(entries)
        self._group = group
        self._aliases = aliases or {}

    @cached_property
    def _entries(self) -> Mapping[str, E]:
        plugins = {} if self._group is None else {point.name: point.load() for point in entry_points(group=self._group)}
        return plugins | self._own  # our own names cannot be taken over

    def __getitem__(self, name: str) -> E:
        try:
            return self._entries[name]
        except KeyError:
            plain_name = name.lower().replace("-", "_").replace(" ", "_")
            meant = self._aliases.get(plain_name, (plain_name,) if plain_name in self._entries else ())
            raise UnknownNameError(unknown(self.kind, name, self._entries, meant=meant)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, name: str) -> Any:
        """The object behind `name`, imported on first use."""
        return self[name].load()


def unknown(
    kind: str,
    name: str,
    known: Mapping[str, object] | list[str] | tuple[str, ...],
    *,
    meant: tuple[str, ...] = (),
) -> str:
    """The sentence that answers a name nobody knows. It suggests what is `meant`, or else the nearest names."""
    near = list(meant) or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"There is no {kind} named {name!r}. {hint}Known: {', '.join(sorted(known))}."


@dataclass(frozen=True)
class Spec:
    """A name with options, as people write it: `lime(samples=200)`. Printed with the options sorted."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={_write(value)}" for key, value in sorted(self.options.items()))
        return f"{self.name}({inside})" if inside else self.name


_SPEC = re.compile(r"\s*(?P<name>[^\s(),=]+)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)


def parse_spec(text: str) -> Spec:
    """Read `name` or `name(option=value, …)`. Values are Python literals, true, false, none, or bare words."""
    match = _SPEC.fullmatch(text)
    if match is None:
        raise OptionError(f"Cannot read {text!r}. Write a name, or name(option=value, other=value).")
    options: dict[str, Any] = {}
    for part in split_list(match["inside"] or ""):
        key, sign, value = part.partition("=")
        if not sign or not key.strip().isidentifier() or not value.strip():
            raise OptionError(f"Cannot read {part!r} in {text!r}. Options are written option=value.")
        if key.strip() in options:
            raise OptionError(f"Option {key.strip()!r} is given twice in {text!r}.")
        options[key.strip()] = _read(value.strip())
    return Spec(match["name"], options)


def split_list(text: str, sign: str = ",") -> list[str]:
    """Split at commas (or another sign) outside brackets and quotes: `a,b(c=1,d=2)` has two parts."""
    parts, depth, quote, start = [], 0, "", 0
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth < 0:
                raise OptionError(f"There is a closing bracket too many in {text!r}.")
        elif letter == sign and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    if depth or quote:
        raise OptionError(f"A bracket or quote is left open in {text!r}.")
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def checked_options(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> dict[str, Any]:
    """`options`, if the class or function `allowed` takes each of them as a keyword-only argument."""
    known = [
        name
        for name, one in inspect.signature(allowed).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            raise OptionError(unknown(f"option of {of}", name, known))
    return dict(options)


def plain(value: Any) -> Any:
    """A number of numpy or torch as a number of Python."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


_KINDS: Final = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", type(None): "none"}


def check_types(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> None:
    """An error for a value of a kind that the option does not take."""
    hints = typing.get_type_hints(getattr(allowed, "__init__") if isinstance(allowed, type) else allowed)  # noqa: B009
    for name, value in options.items():
        hint = hints[name]
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        if not any(_is_a(value, kind) for kind in kinds):
            wanted = " or ".join(_KINDS.get(kind, "a list, as in [0.1, 0.5]") for kind in kinds)
            raise OptionError(f"Option {name!r} of {of} is {wanted}, not {value!r}.")
    if isinstance(options.get("batch_size"), int) and options["batch_size"] < 1:
        raise OptionError(f"Option 'batch_size' of {of} is at least 1, not {options['batch_size']}.")


def _is_a(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is not None:  # Sequence[float]
        return isinstance(value, list | tuple) and all(_is_a(one, typing.get_args(kind)[0]) for one in value)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _read(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _write(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value if _read(value) == value and not set(value) & set("(),=\"' ") else repr(value)
    return repr(value)
