"""Format `inseq`: attributions saved by `out.save("x.json")` (Sarti et al. 2023), gzipped or not, as arrays or lists.

Each sequence has source and target tokens and matrices of (token, generated step). The text of a row is the source, or
the prompt of a decoder; a row of two texts is the source and the target. Scores are of one step, or the mean of all.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.row import Row
from didact.errors import DataError
from didact.files.unpack import gunzip
from didact.importers.files import document
from didact.importers.parsed import Fault, ImportOptions, ParsedFile, ParsedRow, float_array, required, short_repr


def read(
    source: Any, name: str, rows: Sequence[Row], options: ImportOptions, *, scores: str | None = None
) -> ParsedFile:
    """Read attributions of one step.

    `options.target` is the generated step (from 0; -1 is the last) or "mean". `scores` names one of `sequence_scores`
    to read instead of the attributions.
    """
    parsed = ParsedFile(name)
    content = document(source) if isinstance(source, Path) else source
    content, _ = _unwrap(content)
    try:
        sequences = required(content, "sequence_attributions")
    except Fault as fault:
        raise DataError(f"{name} is not a file of inseq: {fault}. Save with out.save(path).") from None
    if not isinstance(sequences, list):
        raise DataError(f"{name} is not a file of inseq: 'sequence_attributions' are {short_repr(sequences)}.")
    info = _unwrap(content.get("info"))[0]
    info = info if isinstance(info, dict) else {}
    parsed.method, parsed.teacher = (str(info.get(key) or "") for key in ("attribution_method", "model_name"))
    texts = max((len(row.texts) for row in rows), default=1)
    for number, sequence in enumerate(sequences, 1):
        with parsed.reading(f"sequence {number}"):
            parsed.rows.append(_row(f"sequence {number}", sequence, options.target, scores, texts))
    return parsed


def _row(where: str, sequence: Any, target: str | int | None, scores: str | None, texts: int) -> ParsedRow:
    fields, kind = _unwrap(sequence)
    if not isinstance(fields, dict):
        raise Fault(f"must have tokens and attributions, got {short_repr(fields)}")
    source, generated = _tokens(fields, "source"), _tokens(fields, "target")
    start = fields.get("attr_pos_start") or 0
    if not isinstance(start, int) or not 0 <= start <= len(generated):
        raise Fault(f"'attr_pos_start' is {short_repr(start)}, but there are {len(generated)} target tokens")
    over_source, over_target = _source_and_target(fields, scores)
    if over_source is None:  # a decoder: its target starts with the prompt
        tokens, matrix = generated[:start], _matrix(over_target, len(generated), kind)[:start]
    else:
        tokens, matrix = source, _matrix(over_source, len(source), kind)
    steps = generated[start : start + matrix.shape[1]]
    chosen = _chosen_steps(matrix.shape[1], target, steps)
    values, segments = matrix[:, chosen].mean(1), None
    if over_source is not None and over_target is not None and texts > 1:
        matrix = _matrix(over_target, len(generated), kind)
        if matrix.shape[1] != len(steps):
            raise Fault(f"has {len(steps)} steps for the source and {matrix.shape[1]} for the target")
        # Only the tokens before a step explain it; later tokens have no score.
        precedes = np.arange(len(generated))[:, None] < start + np.array(chosen)
        prefix = np.flatnonzero(precedes.any(1)).tolist()
        prefix_scores = np.where(precedes, matrix[:, chosen], 0).sum(1) / np.maximum(precedes.sum(1), 1)
        tokens = [*source, *(generated[number] for number in prefix)]
        segments = [0] * len(source) + [1] * len(prefix)
        values = np.concatenate([values, prefix_scores[prefix]])
    generated_text = "".join(generated[start:]).replace("▁", " ").replace("Ġ", " ").strip()
    target_name = steps[chosen[0]] if len(chosen) == 1 else "mean of all steps"
    return ParsedRow(where, None, tokens, values, segments, target=target_name, prediction=generated_text)


def _source_and_target(fields: Mapping[str, object], scores: str | None) -> tuple[Any, Any]:
    """The scores of source and target tokens; one of them may be None."""
    source, target = fields.get("source_attributions"), fields.get("target_attributions")
    if source is None and target is None:
        raise Fault("has neither 'source_attributions' nor 'target_attributions'")
    if scores is None:
        return source, target
    sequence_scores = _unwrap(fields.get("sequence_scores"))[0]
    named_scores = sequence_scores if isinstance(sequence_scores, dict) else {}
    if scores not in named_scores:
        raise Fault(f"has no sequence_scores {scores!r}, but {short_repr(list(named_scores))}")
    return (None, named_scores[scores]) if source is None else (named_scores[scores], None)


def _chosen_steps(count: int, target: str | int | None, steps: Sequence[str]) -> list[int]:
    """The generated steps that `target` selects."""
    if count != len(steps) or not count:
        raise Fault(f"has attributions for {count} steps, but generated {len(steps)} tokens")
    choices = f"{count} generated steps ({', '.join(map(repr, steps[:8]))}{', …' if count > 8 else ''})"
    if target is None and count > 1:
        raise Fault(f"has {choices}: choose one by target=0 to {count - 1}, or target='mean'")
    if target == "mean":
        return list(range(count))
    if isinstance(target, str) or not -count <= (target or 0) < count:
        raise Fault(f"has no step {target!r}, but {choices}")
    return [range(count)[target or 0]]


def _matrix(value: Any, tokens: int, kind: str) -> Float[np.ndarray, "token step"]:
    array = _array(value)
    if array.ndim == 3 and kind.startswith("Granular"):
        array = np.sqrt((array**2).sum(-1))  # the L2 norm of gradients, as inseq shows them
    if array.ndim != 2:
        raise Fault(
            f"has attributions of the shape {array.shape} instead of tokens × steps; save the result of "
            "out.aggregate(…)"
        )
    if len(array) != tokens:
        raise Fault(f"has {tokens} tokens and attributions for {len(array)}")
    return array


def _tokens(fields: Mapping[str, object], key: str) -> list[str]:
    tokens = []
    listed = required(fields, key)
    if not isinstance(listed, list):
        raise Fault(f"{key!r} must be a list of tokens, got {short_repr(listed)}")
    for item in listed:
        token = item if isinstance(item, str) else required(_unwrap(item)[0], "token")
        if not isinstance(token, str):
            raise Fault(f"{key!r} must contain only tokens, got {short_repr(token)}")
        tokens.append(token)
    return tokens


def _unwrap(value: Any) -> tuple[Any, str]:
    """The fields of an object that was saved with its class, and the name of the class. Never instantiates it."""
    if isinstance(value, dict) and "__instance_type__" in value:
        kind = value["__instance_type__"]
        return value.get("attributes") or {}, str(kind[-1]) if isinstance(kind, list) and kind else ""
    return value, ""


def _array(value: Any) -> Float[np.ndarray, "..."]:
    """An array from a list, from base64 with dtype and shape, or from safetensors in base64."""
    if isinstance(value, str):
        return _from_safetensors(value)
    if not isinstance(value, dict):
        return float_array(value, "attributions")
    content, shape, dtype = required(value, "__ndarray__"), value.get("shape"), str(value.get("dtype"))
    if not isinstance(content, str):
        return float_array(content, "attributions")
    if np.dtype(dtype if dtype in ("float16", "float32", "float64") else "O") == object:
        raise Fault(f"attributions must be floating-point numbers, got type {short_repr(dtype)}")
    try:
        head, _, body = content.partition(":")
        packed = base64.b64decode(body, validate=True)
        if head == "b64.gz":
            packed = gunzip(packed, "attributions")
        return np.frombuffer(packed, dtype).astype(np.float64).reshape(tuple(shape or ()))
    except DataError as error:
        raise Fault(str(error)) from None
    except (binascii.Error, ValueError, TypeError, EOFError, zlib.error, OSError) as error:
        raise Fault(f"attributions of the shape {shape} cannot be decoded ({error}); the file may be cut off") from None


def _from_safetensors(value: str) -> Float[np.ndarray, "..."]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        fields = load(base64.b64decode(value.removeprefix("b64:"), validate=True))
    except (binascii.Error, ValueError, SafetensorError) as error:
        raise Fault(f"attributions are text that cannot be decoded ({error})") from None
    if len(fields) != 1:
        raise Fault("attributions are quantised to 8 bits; save with scores_precision='float32'")
    return float_array(next(iter(fields.values())), "attributions")
