"""Where a class or function is defined, and a hash of its source."""

import hashlib
import inspect
import secrets
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any


def target_of(obj: Any) -> str:
    """Where a class or function is defined, as entries write it; of an object, where its class is."""
    definition = obj if hasattr(obj, "__qualname__") else type(obj)
    return f"{definition.__module__}:{definition.__qualname__}"


def hash_source(obj: Callable[..., Any]) -> str:
    """A hash of the source of a function, or of a class and its bases outside didact, torch and Python.

    What has no source on disk (typed at a prompt), or reads variables of a function around it, gets a random one: its
    results are not reused by other processes.
    """
    skipped_packages = {"didact", "torch", *sys.stdlib_module_names} - {"__main__"}
    bases = inspect.getmro(obj)[1:] if isinstance(obj, type) else ()
    definitions = (
        inspect.unwrap(obj),
        *(definition for definition in bases if definition.__module__.partition(".")[0] not in skipped_packages),
    )
    if any(map(_reads_outer_variables, definitions)):
        return secrets.token_hex(8)
    try:
        sources = [inspect.getsource(definition) for definition in definitions]
    except (OSError, TypeError, IndexError, SyntaxError):
        return secrets.token_hex(8)
    return hashlib.sha256("\n".join([target_of(obj), *sources]).encode()).hexdigest()[:16]


def _reads_outer_variables(obj: Callable[..., Any]) -> bool:
    """Whether a function, or a method of a class, reads variables of a function in which it was defined."""
    members = [inspect.unwrap(member) for member in vars(obj).values() if callable(member)]
    functions = [member for member in (obj, *members) if isinstance(member, FunctionType)]
    return any(set(function.__code__.co_freevars) - {"__class__"} for function in functions)
