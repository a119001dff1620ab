"""Detection of the format of a source from its content."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from didact.errors import DataError, OptionError
from didact.importers import FORMATS
from didact.importers.captum import is_record
from didact.importers.files import arrays, content_of

_PICKLED = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib")


def detect_format(source: Any) -> str:
    """The name of the format. Raises `OptionError` or `DataError`, with what to pass instead, if it is unknown."""
    if isinstance(source, Path):
        format_name = _format_of_path(source)
        name = str(source)
    else:
        format_name, name = _format_of_object(source), f"An object of type {type(source).__name__}"
    if format_name is None:
        raise OptionError(f"{name} has an unknown format. State it: format={_choices()}.")
    return format_name


def _format_of_path(path: Path) -> str | None:
    name = path.name.lower()
    if name.endswith(_PICKLED):
        raise DataError(
            f"{path} looks pickled, and didact never unpickles. If you trust it, load it yourself and pass the "
            "tensors, or save them: numpy.savez(path, scores=…, tokens=…)."
        )
    if path.is_dir():
        raise DataError(f"{path} is a folder. Name the file that holds the explanations.")
    if name.endswith((".parquet", ".arrow")):
        raise DataError(
            f"{path} was not written by didact, or is damaged. Tables of other tools cannot be read: write the rows as "
            'JSON lines, {"id": …, "tokens": […], "attributions": […]}.'
        )
    if name.endswith((".npz", ".npy")):
        fields = arrays(path)
        return "shap" if "values" in fields else "arrays" if "scores" in fields else None
    content = content_of(path)
    first = next((record for record in map(_parse_object, content.splitlines()) if record), None)
    if first is None and content.lstrip().startswith("["):
        document = _parse_json(content)
        first = document[0] if isinstance(document, list) and document and isinstance(document[0], dict) else None
    if first is not None and (format_name := _format_of_record(first)):
        return format_name
    # An indented or truncated document: look for keys of inseq.
    return "inseq" if '"sequence_attributions"' in content or '"__instance_type__"' in content else None


def _format_of_object(source: Any) -> str | None:
    if isinstance(source, Mapping):
        return "arrays" if "scores" in source else None
    if hasattr(source, "sequence_attributions"):
        raise OptionError("Attributions of inseq are read from a file. Save them first: out.save('x.json').")
    if hasattr(source, "values") and hasattr(source, "data") and hasattr(source, "base_values"):
        return "shap"
    if isinstance(source, tuple) and len(source) == 2:
        return "arrays"
    if is_record(source) or (isinstance(source, Sequence) and source and is_record(source[0])):
        return "captum"
    if isinstance(source, Sequence) and source and isinstance(source[0], dict):
        return _format_of_record(source[0])
    if is_scores_only(source):
        raise OptionError(
            f"Scores without tokens ({type(source).__name__}) cannot be placed in the texts. Pass (scores, tokens), "
            "with one list of tokens per row: read_explanations((scores, tokens), rows)."
        )
    return None


def is_scores_only(source: Any) -> bool:
    """Whether a source consists only of numbers: a tensor, an array, or lists of these or of numbers."""
    if hasattr(source, "ndim") and hasattr(source, "dtype"):
        return True
    if not isinstance(source, list) or not source:
        return False
    return isinstance(source[0], int | float) or is_scores_only(source[0])


def _format_of_record(record: Mapping[str, object]) -> str | None:
    if "annotation_id" in record or "rationales" in record:
        return "eraser"
    if "sequence_attributions" in record or "__instance_type__" in record:
        return "inseq"
    return "jsonl" if "attributions" in record else None


def _parse_object(line: str) -> dict[str, object] | None:
    value = _parse_json(line) if line.lstrip().startswith("{") else None
    return value if isinstance(value, dict) else None


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _choices() -> str:
    *others, last = map(repr, FORMATS)
    return f"{', '.join(others)} or {last}"
