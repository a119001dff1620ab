"""Check whether new explanations may replace those in an existing file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from didact.errors import OptionError
from didact.files.store import canonical_json
from didact.results.explanations_parquet import is_explanations, read_header


def check_same_origin(
    path: Path,
    *,
    teacher: str,
    method: str,
    options: Mapping[str, object],
    fingerprints: Mapping[str, str],
    is_reproducible: bool,
    advice: str = "",
) -> None:
    """Raise OptionError if the file has explanations for another model, method or data.

    Compares only the fingerprints that are passed. `is_known` is false for a method passed as an object, whose name and
    options do not prove that it is the same. `advice` ends the message. Files without explanations are ignored.
    """
    if not is_explanations(path):
        return
    stored = read_header(path)
    differences = _method_differences(stored, method, json.loads(canonical_json(options)))
    if not differences and not is_reproducible:
        differences = [f"method {method!r} was passed as an object and may have changed"]
    stored_fingerprints = {"data": stored.get("data"), **stored.get("fingerprints", {})}
    if "teacher" in fingerprints and fingerprints["teacher"] != stored_fingerprints.get("teacher"):
        stored_teacher = stored.get("teacher")
        same_name = f"both are called {teacher!r}, but differ in weights or settings"
        differences.insert(
            0, f"model ({same_name if stored_teacher == teacher else f'{stored_teacher!r} there, {teacher!r} here'})"
        )
    if "data" in fingerprints and fingerprints["data"] != stored_fingerprints["data"]:
        differences.append("data (other rows)")
    if differences:
        raise OptionError(
            f"{path} contains other explanations. What differs: {'; '.join(differences)}. Name another file, or "
            f"allow it to be replaced (overwrite=True, --overwrite).{advice}"
        )


def _method_differences(stored: Mapping[str, Any], method: str, options: Mapping[str, Any]) -> list[str]:
    if stored.get("method") != method:
        return [f"method ({stored.get('method')!r} there, {method!r} here)"]
    stored_options: Mapping[str, Any] = stored.get("options", {})
    names = [name for name in sorted({*stored_options, *options}) if stored_options.get(name) != options.get(name)]
    return [f"option {name} ({stored_options.get(name)!r} there, {options.get(name)!r} here)" for name in names]
