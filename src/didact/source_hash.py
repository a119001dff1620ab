"""Import path and source hash of a class or function."""

import hashlib
import inspect
import secrets
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any


def target_of(obj: Any) -> str:
    """The import path `"module:qualname"` of a class or function; for any other object, that of its class."""
    definition = obj if hasattr(obj, "__qualname__") else type(obj)
    return f"{definition.__module__}:{definition.__qualname__}"


def hash_source(obj: Callable[..., Any]) -> str:
    """Hash the source of a function, or of a class and its bases outside didact, torch and the standard library.

    The hash is random if there is no source on disk (code typed at a prompt) or if the code reads variables of an
    enclosing function. Other processes then do not reuse its results.
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
    """Whether a function, or a method of a class, reads variables of an enclosing function."""
    members = [inspect.unwrap(member) for member in vars(obj).values() if callable(member)]
    functions = [member for member in (obj, *members) if isinstance(member, FunctionType)]
    return any(set(function.__code__.co_freevars) - {"__class__"} for function in functions)
