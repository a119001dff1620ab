"""Attributions saved by inseq (Sarti et al. 2023): `out.save("x.json")`, packed or not, compact arrays or plain lists.

Each sequence holds source and target tokens and matrices of (token, generated step). A row's text is the source, or the
prompt of a decoder; a row of two texts is the source and the target. One step is taken, or the mean of all.
"""

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.errors import DataError
from didact.records.foreign.files import document
from didact.records.foreign.given import Asked, Fault, Foreign, Given, Texts, plain_array, present, shown


def read(source: Any, name: str, rows: Sequence[Texts], asked: Asked, *, scores: str | None = None) -> Foreign:
    """`asked.target` is the generated step (from 0, or -1 for the last) or "mean"; `scores` names `sequence_scores`."""
    foreign = Foreign(name)
    content = document(source) if isinstance(source, Path) else source
    content, _ = _opened(content)
    try:
        sequences = present(content, "sequence_attributions")
    except Fault as fault:
        raise DataError(f"{name} is not what inseq saves: {fault}. Save with out.save(path).") from None
    about = _opened(content.get("info") or {})[0]
    foreign.method, foreign.teacher = about.get("attribution_method"), str(about.get("model_name") or "")
    texts = max((len(row.texts) for row in rows), default=1)
    for number, sequence in enumerate(sequences, 1):
        try:
            foreign.rows.append(_row(f"sequence {number}", sequence, asked.target, scores, texts))
        except Fault as fault:
            foreign.fault(f"sequence {number}", fault)
    return foreign


def _row(where: str, sequence: Any, target: str | int | None, scores: str | None, texts: int) -> Given:
    fields, kind = _opened(sequence)
    source, generated = _tokens(fields, "source"), _tokens(fields, "target")
    start = fields.get("attr_pos_start") or 0
    if not isinstance(start, int) or not 0 <= start <= len(generated):
        raise Fault(f"'attr_pos_start' is {shown(start)}, and there are {len(generated)} target tokens")
    steps = generated[start:]
    over_source, over_target = _sides(fields, scores)
    segments = None
    if over_source is None:  # a decoder: the prompt is the beginning of its target
        tokens = generated[:start]
        values = _step(_matrix(over_target, len(generated), kind)[:start], target, steps)
    else:
        tokens = source
        values = _step(_matrix(over_source, len(source), kind), target, steps)
    if over_source is not None and over_target is not None and texts > 1:
        # A step is explained by what came before it; there is no score for the tokens after.
        matrix = _matrix(over_target, len(generated), kind)
        later = np.arange(len(generated))[:, None] >= start + np.arange(matrix.shape[1])
        mine = _step(np.where(later, np.nan, matrix), target, steps)
        before = np.flatnonzero(~np.isnan(mine)).tolist()
        tokens = [*source, *(generated[number] for number in before)]
        segments = [0] * len(source) + [1] * len(before)
        values = np.concatenate([values, mine[before]])
    said = "".join(steps).replace("▁", " ").replace("Ġ", " ").strip()
    return Given(where, None, tokens, values, segments, target=_told(target, steps), prediction=said)


def _sides(fields: Mapping[str, Any], scores: str | None) -> tuple[Any, Any]:
    """The scores of source and target tokens; one of them may be None."""
    source, target = fields.get("source_attributions"), fields.get("target_attributions")
    if source is None and target is None:
        raise Fault("has neither 'source_attributions' nor 'target_attributions'")
    if scores is None:
        return source, target
    named = _opened(fields.get("sequence_scores") or {})[0]
    if scores not in named:
        raise Fault(f"has no sequence_scores {scores!r}; it has {', '.join(map(repr, named)) or 'none'}")
    return (None, named[scores]) if source is None else (named[scores], None)


def _told(target: str | int | None, steps: Sequence[str]) -> str:
    if isinstance(target, str) and target == "mean":
        return "mean of all steps"
    return steps[int(target or 0)] if steps else ""


def _step(
    matrix: Float[np.ndarray, "token step"], target: str | int | None, steps: Sequence[str]
) -> Float[np.ndarray, " token"]:
    count = matrix.shape[1]
    choices = f"{count} generated steps ({', '.join(map(repr, steps[:count][:8]))}{', …' if count > 8 else ''})"
    if target is None and count != 1:
        raise Fault(f"has {choices}: choose one by target=0 to {count - 1}, or target='mean'")
    if target == "mean":
        told = ~np.isnan(matrix)
        sums, counts = np.where(told, matrix, 0).sum(1), told.sum(1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    if isinstance(target, str) or not -count <= (target or 0) < count:
        raise Fault(f"has no step {target!r}, but {choices}")
    return matrix[:, target or 0]


def _matrix(value: Any, tokens: int, kind: str) -> Float[np.ndarray, "token step"]:
    array = _array(value)
    if array.ndim == 3 and kind.startswith("Granular"):
        array = np.sqrt((array**2).sum(-1))  # what inseq itself shows of gradients: their length
    if array.ndim != 2:
        raise Fault(
            f"has attributions of the shape {array.shape}, where tokens × steps belong; save what is left after "
            "out.aggregate(…)"
        )
    if len(array) != tokens:
        raise Fault(f"has {tokens} tokens and attributions for {len(array)}")
    return array


def _tokens(fields: Mapping[str, Any], key: str) -> list[str]:
    found = []
    for one in present(fields, key):
        token = one if isinstance(one, str) else present(_opened(one)[0], "token")
        if not isinstance(token, str):
            raise Fault(f"{key!r} holds {shown(token)}, where a token belongs")
        found.append(token)
    return found


def _opened(value: Any) -> tuple[Any, str]:
    """The fields of an object that was saved with its class, and the class; nothing is built from that."""
    if isinstance(value, dict) and "__instance_type__" in value:
        kind = value["__instance_type__"]
        return value.get("attributes") or {}, str(kind[-1]) if isinstance(kind, list) and kind else ""
    return value, ""


def _array(value: Any) -> Float[np.ndarray, "..."]:
    """An array as a list, with its type and shape, as base64, or as safetensors inside base64."""
    if isinstance(value, str):
        return _safe(value)
    if not isinstance(value, dict):
        return plain_array(value, "attributions")
    content, shape, dtype = present(value, "__ndarray__"), value.get("shape"), str(value.get("dtype"))
    if not isinstance(content, str):
        return plain_array(content, "attributions")
    if np.dtype(dtype if dtype in ("float16", "float32", "float64") else "O") == object:
        raise Fault(f"attributions are of type {shown(dtype)}, where floating-point numbers belong")
    try:
        head, _, body = content.partition(":")
        packed = base64.b64decode(body, validate=True)
        return (
            np.frombuffer(gzip.decompress(packed) if head == "b64.gz" else packed, dtype)
            .astype(np.float64)
            .reshape(tuple(shape or ()))
        )
    except (binascii.Error, ValueError, TypeError, EOFError, zlib.error, OSError) as error:
        raise Fault(
            f"attributions of the shape {shape} cannot be unpacked ({error}); the file may be cut off"
        ) from None


def _safe(value: str) -> Float[np.ndarray, "..."]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        held = load(base64.b64decode(value.removeprefix("b64:"), validate=True))
    except (binascii.Error, ValueError, SafetensorError) as error:
        raise Fault(f"attributions are text that cannot be unpacked ({error})") from None
    if len(held) != 1:
        raise Fault("attributions are squeezed into 8 bits; save with scores_precision='float32'")
    return plain_array(next(iter(held.values())), "attributions")
