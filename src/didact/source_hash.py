"""Where a class or function is defined, and a hash of its source."""

import hashlib
import inspect
import secrets
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any


def target_of(thing: Any) -> str:
    """Where a class or function is defined, as entries write it; of an object, where its class is."""
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}:{kind.__qualname__}"


def hash_source(thing: Callable[..., Any]) -> str:
    """A hash of the source of a function, or of a class and its bases outside didact, torch and Python.

    What has no source on disk (typed at a prompt), or reads variables of a function around it, gets a random one: its
    results are not reused by other processes.
    """
    known = {"didact", "torch", *sys.stdlib_module_names} - {"__main__"}
    bases = inspect.getmro(thing)[1:] if isinstance(thing, type) else ()
    kinds = (inspect.unwrap(thing), *(kind for kind in bases if kind.__module__.partition(".")[0] not in known))
    if any(map(_reads_outer_variables, kinds)):
        return secrets.token_hex(8)
    try:
        sources = [inspect.getsource(kind) for kind in kinds]
    except (OSError, TypeError, IndexError, SyntaxError):
        return secrets.token_hex(8)
    return hashlib.sha256("\n".join([target_of(thing), *sources]).encode()).hexdigest()[:16]


def _reads_outer_variables(thing: Callable[..., Any]) -> bool:
    """Whether a function, or a method of a class, reads variables of a function in which it was defined."""
    members = [inspect.unwrap(member) for member in vars(thing).values() if callable(member)]
    functions = [member for member in (thing, *members) if isinstance(member, FunctionType)]
    return any(set(function.__code__.co_freevars) - {"__class__"} for function in functions)
