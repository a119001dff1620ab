"""Names and what they stand for, as plain text: nothing behind a name is imported before it is asked for.

A registry is one explicit table in a room's `__init__`, so a name can be found with grep. To add one more, add a line
there; packages outside didact add theirs through an entry point of the registry's group. An entry point names an
`Entry`, or just a class or function. It is loaded when its name is asked for; one that fails breaks its own name only.
"""

import ast
import difflib
import importlib
import inspect
import logging
import re
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, Final, Generic, TypeVar

from didact.errors import OptionError, UnknownNameError, UnsupportedError
from didact.limits import MOST_AT_ONCE, shown

log = logging.getLogger(__name__)

UNSTATED: Final = "not stated"


@dataclass(frozen=True)
class Entry:
    """Where a name leads: `"package.module:attribute"`. Rooms subclass it with the facts they list."""

    target: str

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


E = TypeVar("E", bound=Entry)


def entry_from(kind: type[E], target: str, thing: Any) -> E:
    """The entry of a class or function that states no entry: facts are its attributes of the same names.

    Facts that are plain text may be missing; a missing summary is the first line of the docstring.
    """
    summary = (inspect.getdoc(thing) or UNSTATED).splitlines()[0].rstrip(".")
    facts: dict[str, Any] = {}
    for fact in fields(kind):
        value = getattr(thing, fact.name, None)
        if fact.name != "target" and value is not None and not callable(value) and not isinstance(value, property):
            facts[fact.name] = value
        elif fact.name in ("about", "summary"):
            facts[fact.name] = summary
        elif fact.name != "target" and fact.default is MISSING:
            if fact.type is not str:
                raise OptionError(
                    f"{target} has no attribute {fact.name!r}. Add it, or let the entry point name a {kind.__name__}."
                )
            facts[fact.name] = UNSTATED
    return kind(target, **facts)


class Registry(Mapping[str, E], Generic[E]):
    """A table of names. Unknown ones are answered with the nearest known ones.

    `aliases` are what others call the entries (`"ig"`, `"shap"`), with the names to suggest for each, best first.
    Names of other packages are known before they are loaded. Going through the entries loads them all, and leaves those
    out that cannot be loaded (`broken`).
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
        self._plugins: dict[str, E] = {}
        self._named: dict[str, Any] = {}  # classes and functions that entry points name directly
        self._broken: dict[str, str] = {}

    @cached_property
    def _points(self) -> Mapping[str, Any]:
        """Entry points by name, not loaded. Our own names cannot be taken over."""
        points = () if self._group is None else entry_points(group=self._group)
        return {point.name: point for point in points if point.name not in self._own}

    @property
    def names(self) -> list[str]:
        """All names, also of packages that are not loaded yet or cannot be."""
        return [*self._own, *self._points]

    @property
    def broken(self) -> Mapping[str, str]:
        """The names of other packages that cannot be loaded, with the reason."""
        list(self)
        return dict(self._broken)

    def __getitem__(self, name: str) -> E:
        if name in self._own:
            return self._own[name]
        if name in self._points:
            return self._plugin(name)
        plain_name = name.lower().replace("-", "_").replace(" ", "_")
        meant = self._aliases.get(plain_name, (plain_name,) if plain_name in self else ())
        raise UnknownNameError(unknown(self.kind, name, self.names, meant=meant))

    def _plugin(self, name: str) -> E:
        """The entry of another package, loaded on first use."""
        if name not in self._plugins and name not in self._broken:
            try:
                self._plugins[name] = self._loaded(name)
            except Exception as error:  # whatever the package raises when it is imported
                self._broken[name] = f"{type(error).__name__}: {error}"
        if name in self._broken:
            target = getattr(self._points[name], "value", name)
            raise UnsupportedError(
                f"The {self.kind} {name!r} comes from another package ({target}), which cannot be loaded: "
                f"{self._broken[name].rstrip('.')}. Install what it needs, or repair or remove that package."
            )
        return self._plugins[name]

    def _loaded(self, name: str) -> E:
        point = self._points[name]
        thing = point.load()
        kind = type(next(iter(self._own.values())))
        if isinstance(thing, kind):
            return thing
        if not callable(thing):
            raise OptionError(f"It names {thing!r}, which is neither a class or function nor a {kind.__name__}.")
        self._named[name] = thing
        where = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', name)}"
        return entry_from(kind, where, thing)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._points

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for name in self._points:
            try:
                self._plugin(name)
            except UnsupportedError:
                continue
            yield name

    def __len__(self) -> int:
        return len(list(iter(self)))

    def name_of(self, kind: type) -> str | None:
        """The name whose entry leads to this class."""
        where = f"{kind.__module__}:{kind.__name__}"
        return next((name for name, entry in self.items() if entry.target == where), None)

    def load(self, name: str) -> Any:
        """The object behind `name`, imported on first use."""
        entry = self[name]
        return self._named[name] if name in self._named else entry.load()


_LONGEST: Final = 200  # characters of an unknown name that an error repeats


def unknown(
    kind: str,
    name: str,
    known: Mapping[str, object] | list[str] | tuple[str, ...],
    *,
    meant: tuple[str, ...] = (),
) -> str:
    """The sentence that answers a name nobody knows. It suggests what is `meant`, or else the nearest names."""
    near = list(meant) or difflib.get_close_matches(str(name)[:_LONGEST], known, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    name = name if len(str(name)) <= _LONGEST else f"{str(name)[:_LONGEST]}…"
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
    match = _SPEC.fullmatch(text) if isinstance(text, str) else None
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


def checked_options(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> dict[str, object]:
    """`options`, if the class or function `allowed` takes each of them as a keyword-only argument."""
    parameters = inspect.signature(allowed).parameters
    known = [name for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise OptionError(unknown(f"option of {of}", name, known))
    return dict(options)


def plain(value: Any) -> Any:
    """A number of numpy or torch as a number of Python."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


_KINDS: Final = {
    int: "a whole number", float: "a number", str: "a word", bool: "true or false", type(None): "none", None: "none",
}  # fmt: skip
_LISTS: Final = (list, tuple, set, frozenset, abc.Sequence, abc.Collection, abc.Iterable, abc.Set)
_MAPPINGS: Final = (dict, abc.Mapping, abc.MutableMapping)


def renamed_option(options: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """The options with the new name of one that was renamed, and a warning where the old name is in use."""
    if options.get(old) is None:
        return {name: value for name, value in options.items() if name != old}
    if options.get(new) is not None:
        raise OptionError(f"Option {old!r} is now called {new!r}, and both were given. Leave {old!r} out.")
    _warn_of_new_name(old, new)
    return {name: value for name, value in options.items() if name not in (old, new)} | {new: options[old]}


@cache
def _warn_of_new_name(old: str, new: str) -> None:
    """Once per process: a plan's methods are built several times."""
    log.warning("Option %r is now called %r; the old name will be refused one day.", old, new)


def check_types(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> None:
    """An error for a value of a kind that the option does not take.

    Kinds are those of the annotations. An option without one takes what is like its default: true or false, a number,
    a word; and anything if the default is of another kind.
    """
    kinds = _annotations(allowed)
    for name, value in options.items():
        kind = kinds.get(name, Any)
        if not _is_a(value, kind):
            raise OptionError(f"Option {name!r} of {of} is {_described(kind)}, not {value!r}.")
    if isinstance(options.get("batch_size"), int) and not 1 <= options["batch_size"] <= MOST_AT_ONCE:
        got = shown(options["batch_size"])
        raise OptionError(f"Option 'batch_size' of {of} must be an integer from 1 to {MOST_AT_ONCE:,}, got {got}.")


def _annotations(allowed: Callable[..., Any]) -> dict[str, object]:
    """The kind of each option, from its annotation or else its default."""
    try:
        hints = typing.get_type_hints(getattr(allowed, "__init__") if isinstance(allowed, type) else allowed)  # noqa: B009
    except Exception:  # annotations that name what only a type checker imports
        hints = {}
    for name, parameter in inspect.signature(allowed).parameters.items():
        if name not in hints:
            kind = type(parameter.default)
            hints[name] = float if kind is int else kind if kind in (bool, float, str) else Any
    return hints


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated kind. A kind that cannot be checked takes everything."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _is_a(value, inside[0])
    if origin in (types.UnionType, typing.Union):
        return any(_is_a(value, one) for one in inside)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    if (origin or kind) in _MAPPINGS:
        keys, values = inside or (Any, Any)
        return isinstance(value, abc.Mapping) and all(_is_a(k, keys) and _is_a(v, values) for k, v in value.items())
    if (origin or kind) in _LISTS:
        if not isinstance(value, list | tuple):
            return False
        if origin is tuple and inside[-1:] != (...,):
            return len(value) == len(inside) and all(map(_is_a, value, inside))
        return all(_is_a(one, inside[0]) for one in value) if inside else True
    if kind is None:
        return value is None
    if kind in (Any, object) or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if issubclass(kind, PurePath):
        return isinstance(value, str | PurePath)
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _described(kind: Any) -> str:
    """An annotated kind in words."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _described(inside[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_described, inside)))
    if origin is typing.Literal:
        return " or ".join(map(repr, inside))
    if (origin or kind) in _MAPPINGS:
        return "a mapping, as in {'a': 0.5}"
    if origin is tuple and inside[-1:] != (...,):
        return f"a list of {len(inside)}"
    if (origin or kind) in _LISTS:
        return "a list, as in [0.1, 0.5]"
    return _KINDS.get(kind) or f"a {getattr(kind, '__name__', kind)}"


def _read(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two of deep nesting
        return text


def _write(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value if _read(value) == value and not set(value) & set("(),=\"' ") else repr(value)
    return repr(value)
