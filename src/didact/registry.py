"""Registries: tables from names to import paths. A target is imported when its name is first used.

Each registry is one explicit table in the `__init__` of its package, so grep finds a name. To add an entry, add a line
there. Other packages add theirs through an entry point in the registry's group. The entry point names an `Entry`, a
class or a function; it is loaded on first use, and one that fails makes only its own name unavailable. The decorators
in `didact.decorators` add names for the current process.
"""

import ast
import difflib
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from didact.errors import OptionError, UnknownNameError, UnsupportedError
from didact.source_hash import hash_source, target_of

UNSTATED: Final = "not stated"


@dataclass(frozen=True)
class Entry:
    """An entry with its import path `"package.module:attribute"`. Packages subclass it to add metadata."""

    target: str

    def load(self) -> Any:
        """Import the target and return it."""
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


E = TypeVar("E", bound=Entry)


def entry_from(entry_type: type[E], target: str, obj: Any) -> E:
    """Build an entry for a class or function from its attributes.

    Each field of `entry_type` is read from the attribute of the same name. Missing texts become "not stated", a missing
    `about` or `summary` the first line of the docstring. Any other missing field without a default is an OptionError.
    """
    summary = (inspect.getdoc(obj) or UNSTATED).splitlines()[0].rstrip(".")
    metadata: dict[str, Any] = {}
    for entry_field in fields(entry_type):
        value = getattr(obj, entry_field.name, None)
        if (
            entry_field.name != "target"
            and value is not None
            and not callable(value)
            and not isinstance(value, property)
        ):
            metadata[entry_field.name] = value
        elif entry_field.name in ("about", "summary"):
            metadata[entry_field.name] = summary
        elif entry_field.name != "target" and entry_field.default is MISSING:
            if entry_field.type is not str:
                raise OptionError(
                    f"{target} has no attribute {entry_field.name!r}. Add it, or let the entry point name a "
                    f"{entry_type.__name__}."
                )
            metadata[entry_field.name] = UNSTATED
    return entry_type(target, **metadata)


@dataclass(frozen=True)
class LocalEntry(Generic[E]):
    """A name registered in this process. `code` is a hash of the source of `thing`."""

    entry: E
    thing: Callable[..., Any]
    code: str


class Registry(Mapping[str, E], Generic[E]):
    """A mapping from names to entries. An unknown name raises UnknownNameError with the closest matches.

    `aliases` maps what other libraries call an entry (`"ig"`, `"shap"`) to the names to suggest, best first. `reserved`
    are names that have another meaning wherever names of this registry are written. Names from other packages are
    listed before they are loaded. Iteration loads all of them and skips those that cannot be loaded (see `broken`).
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, E],
        *,
        group: str | None = None,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        self.kind = kind
        self.local: dict[str, LocalEntry[E]] = {}  # names registered in this process
        self._reserved = reserved
        self._builtin = dict(entries)
        self._group = group
        self._aliases = aliases or {}
        self._plugins: dict[str, E] = {}
        self._named_objects: dict[str, Any] = {}  # classes and functions that entry points name directly
        self._broken: dict[str, str] = {}

    @cached_property
    def _entry_points(self) -> Mapping[str, Any]:
        """Entry points by name, not yet loaded. An entry point cannot replace a built-in name."""
        discovered = () if self._group is None else entry_points(group=self._group)
        return {point.name: point for point in discovered if point.name not in self._builtin}

    @property
    def names(self) -> list[str]:
        """All names, including those of packages that are not loaded yet or cannot be loaded."""
        return [*self._builtin, *self._entry_points, *self.local]

    @property
    def broken(self) -> Mapping[str, str]:
        """Names of other packages that cannot be loaded, each with the reason. Loads all packages."""
        list(self)
        return dict(self._broken)

    def __getitem__(self, name: str) -> E:
        if name in self._builtin:
            return self._builtin[name]
        if name in self._entry_points:
            return self._plugin(name)
        if name in self.local:
            return self.local[name].entry
        normalised = name.lower().replace("-", "_").replace(" ", "_")
        suggestions = self._aliases.get(normalised, (normalised,) if normalised in self else ())
        raise UnknownNameError(unknown_name_message(self.kind, name, self.names, suggestions=suggestions))

    def _plugin(self, name: str) -> E:
        """The entry of another package, loaded on first use. Raises UnsupportedError if loading fails."""
        if name not in self._plugins and name not in self._broken:
            try:
                self._plugins[name] = self._load_plugin(name)
            except Exception as error:  # whatever the package raises when it is imported
                self._broken[name] = f"{type(error).__name__}: {error}"
        if name in self._broken:
            target = getattr(self._entry_points[name], "value", name)
            raise UnsupportedError(
                f"The {self.kind} {name!r} comes from another package ({target}), which cannot be loaded: "
                f"{self._broken[name].rstrip('.')}. Install what it needs, or repair or remove that package."
            )
        return self._plugins[name]

    def _load_plugin(self, name: str) -> E:
        entry_point = self._entry_points[name]
        obj = entry_point.load()
        entry_type = self._entry_type
        if isinstance(obj, entry_type):
            return obj
        if not callable(obj):
            raise OptionError(f"It names {obj!r}, which is neither a class or function nor a {entry_type.__name__}.")
        self._named_objects[name] = obj
        return entry_from(entry_type, target_of(obj), obj)

    @property
    def _entry_type(self) -> type[E]:
        return type(next(iter(self._builtin.values())))

    def register(self, name: str, obj: Any, metadata: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Register a class or function under this name in this process and set its metadata as attributes.

        Registering a new definition of the same class or function replaces the old one, so that a notebook cell can be
        run again. Raises OptionError if the name is taken or invalid, or if the entry has no such metadata.
        """
        if not callable(obj):
            raise OptionError(f"Only a class or a function can be registered as {self.kind} {name!r}, not {obj!r}.")
        if not isinstance(name, str) or not name.isidentifier():
            raise OptionError(f"A name consists of letters, digits and _, unlike {self.kind} {name!r}.")
        field_names = [entry_field.name for entry_field in fields(self._entry_type) if entry_field.name != "target"]
        undefined = [key for key in metadata if key not in field_names]
        if undefined:
            raise OptionError(unknown_name_message(f"attribute of {self.kind} {name!r}", undefined[0], field_names))
        target, entry_point = target_of(obj), self._entry_points.get(name)
        if entry_point is None or getattr(entry_point, "value", "") != target:
            self._check_free(name, target)
        for key, value in metadata.items():
            setattr(obj, key, value)
        if entry_point is None:  # otherwise the entry point of its package leads here, in other processes too
            self.local[name] = LocalEntry(entry_from(self._entry_type, target, obj), obj, hash_source(obj))

    def _check_free(self, name: str, target: str) -> None:
        """Raise OptionError if the name is already taken."""
        owner = None
        if name in self._builtin or name in self._reserved:
            owner = "part of didact"
        elif name in self._entry_points:
            owner = "from another package"
        elif name in self.local and self.local[name].entry.target != target:
            owner = self.local[name].entry.target
        if owner is not None:
            raise OptionError(f"The {self.kind} {name!r} already exists, {owner}. Choose another name for yours.")

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._entry_points or name in self.local

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        for name in self._entry_points:
            try:
                self._plugin(name)
            except UnsupportedError:
                continue
            yield name
        yield from self.local

    def __len__(self) -> int:
        return len(list(iter(self)))

    def name_of(self, obj: Any) -> str | None:
        """The name of this class or function, or None if it is not registered."""
        target = target_of(obj)
        return next((name for name, entry in self.items() if entry.target == target), None)

    def load(self, name: str) -> Any:
        """The class or function called `name`, imported on first use."""
        entry = self[name]
        if name in self.local:
            return self.local[name].thing
        return self._named_objects[name] if name in self._named_objects else entry.load()

    def build(self, name: str, options: Mapping[str, Any]) -> Any:
        """Call the class with these options, or bind the options to the function.

        A function that takes only keyword arguments is a factory: it is called, like a class.
        """
        obj = self.load(name)
        parameters = () if isinstance(obj, type) else inspect.signature(obj).parameters.values()
        if not any(parameter.kind is not inspect.Parameter.KEYWORD_ONLY for parameter in parameters):
            return obj(**options)
        return functools.update_wrapper(functools.partial(obj, **options), obj)

    def local_source_hashes(self, *values: object) -> dict[str, str]:
        """Source hashes of the names registered in this process that `values` mention, as in `imitate="mine(k=2)"`."""
        mentioned = {word for value in values for word in re.findall(r"\w+", str(value))}
        return {name: local.code for name, local in self.local.items() if name in mentioned}


_MAX_NAME_LENGTH: Final = 200  # characters of an unknown name that a message repeats


def unknown_name_message(
    kind: str,
    name: str,
    names: Mapping[str, object] | list[str] | tuple[str, ...],
    *,
    suggestions: tuple[str, ...] = (),
) -> str:
    """The message for an unknown name. It suggests `suggestions`, or else the closest matches among `names`."""
    candidates = list(suggestions) or difflib.get_close_matches(str(name)[:_MAX_NAME_LENGTH], names, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(map(repr, candidates))}? " if candidates else ""
    name = name if len(str(name)) <= _MAX_NAME_LENGTH else f"{str(name)[:_MAX_NAME_LENGTH]}…"
    return f"There is no {kind} named {name!r}. {hint}Known: {', '.join(sorted(names)) or 'none'}."


@dataclass(frozen=True)
class Spec:
    """A name with options, as in `lime(samples=200)`. `str` sorts the options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = ", ".join(f"{key}={_format_value(value)}" for key, value in sorted(self.options.items()))
        return f"{self.name}({arguments})" if arguments else self.name


_SPEC = re.compile(r"\s*(?P<name>[^\s(),=]+)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)


def parse_spec(text: str) -> Spec:
    """Parse `name` or `name(option=value, …)`. Values are Python literals, true, false, none or unquoted words."""
    match = _SPEC.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise OptionError(f"Cannot read {text!r}. Write a name, or name(option=value, other=value).")
    options: dict[str, Any] = {}
    for item in split_list(match["inside"] or ""):
        key, equals, value = item.partition("=")
        if not equals or not key.strip().isidentifier() or not value.strip():
            raise OptionError(f"Cannot read {item!r} in {text!r}. Options are written option=value.")
        if key.strip() in options:
            raise OptionError(f"Option {key.strip()!r} is given twice in {text!r}.")
        options[key.strip()] = _parse_value(value.strip())
    return Spec(match["name"], options)


def split_list(text: str, separator: str = ",") -> list[str]:
    """Split at each comma (or `separator`) outside brackets and quotes: `a,b(c=1,d=2)` has two items."""
    items, depth, quote, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                raise OptionError(f"There is a closing bracket too many in {text!r}.")
        elif character == separator and depth == 0:
            items.append(text[start:position])
            start = position + 1
    if depth or quote:
        raise OptionError(f"A bracket or quote is left open in {text!r}.")
    return [item.strip() for item in [*items, text[start:]] if item.strip()]


def checked_options(options: Mapping[str, Any], allowed: Callable[..., Any], *, of: str) -> dict[str, object]:
    """Return `options` if the class or function `allowed` takes each as a keyword-only argument.

    Otherwise raises OptionError. `of` names the owner of the options in the message.
    """
    parameters = inspect.signature(allowed).parameters
    option_names = [name for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in option_names:
            raise OptionError(unknown_name_message(f"option of {of}", name, option_names))
    return dict(options)


def python_number(value: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python number; return anything else unchanged."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("none", "null"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two for deep nesting
        return text


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value if _parse_value(value) == value and not set(value) & set("(),=\"' ") else repr(value)
    return repr(value)
