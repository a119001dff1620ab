"""Explanations as Parquet files: one line per row, everything else in the header, and a checksum over both.

A file merged from shards (format 2) has one row group and one checksum per shard, so that neither writing nor reading
needs all shards in memory.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxtyping import Float

from didact.errors import DataError, DidactError, RecordError
from didact.files.checksummed import checksum_of
from didact.files.store import canonical_json
from didact.results.ragged import bounds_of
from didact.results.task_kinds import task_kind

if TYPE_CHECKING:
    from didact.results.explanations import Explanations

FORMAT: Final = 1
SHARDED: Final = 2
METADATA: Final = ("method", "kind", "options", "task", "classes", "teacher", "fingerprints")
_METADATA_KEY: Final = b"didact"
_SPAN_SIDES: Final = ("start", "end")
_BOX_SIDES: Final = ("top", "left", "bottom", "right")
# Texts repeat, so they are dictionary-encoded; scores hardly ever do.
_WRITER_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd", "write_statistics": False, "write_page_checksum": True,
    "use_dictionary": ["id", "texts.list.element", "tokens.list.element", "target", "prediction", "label"],
}  # fmt: skip
_READ_ERRORS = (DidactError, OSError, LookupError, ArithmeticError, TypeError, ValueError, AttributeError, MemoryError)


def to_parquet(explanations: "Explanations") -> bytes:
    """The content of a Parquet file. The same explanations always give the same bytes."""
    import pyarrow
    from pyarrow import parquet

    bounds = pyarrow.array(explanations.bounds, pyarrow.int32())

    def ragged(values: Any) -> Any:
        return pyarrow.ListArray.from_arrays(bounds, pyarrow.array(values))

    string = pyarrow.string()
    try:
        header = {"format": FORMAT, **_metadata(explanations), "checksum": _checksum(explanations)}
        header |= {"cautions": explanations.cautions} if explanations.cautions else {}
        columns = {
            "id": pyarrow.array(explanations.ids, string),
            "texts": pyarrow.array(explanations.texts, pyarrow.list_(string)),
            "tokens": ragged(pyarrow.array(explanations.tokens, string)),
            "segments": ragged(explanations.segments),
            "words": ragged(explanations.word_index),
            **{side: ragged(explanations.offsets[:, n]) for n, side in enumerate(_sides(explanations.task))},
            "scores": ragged(explanations.scores),
            "target": pyarrow.array(explanations.targets, string),
            "prediction": pyarrow.array(explanations.predictions, string),
            "residual": pyarrow.array(explanations.residuals, from_pandas=False),
            "probability": pyarrow.array(explanations.probabilities, from_pandas=False),
            "label": pyarrow.array(explanations.labels, string),
        }
        if explanations.alignments is not None:
            spans = [[[[start, end] for _, start, end in pair] for pair in pairs] for pairs in explanations.alignments]
            columns["alignments"] = pyarrow.array(spans, pyarrow.list_(pyarrow.list_(pyarrow.list_(pyarrow.int64()))))
    except UnicodeEncodeError as error:
        raise DataError(f"A text cannot be written because it contains an incomplete character ({error}).") from error
    table = pyarrow.table(columns).replace_schema_metadata({_METADATA_KEY: canonical_json(header).encode()})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **_WRITER_OPTIONS)
    return buffer.getvalue()


def merge_shards(shards: Sequence[Path], path: Path, *, data: str) -> None:
    """Merge files of one method into one file with a row group per shard. `data` is the fingerprint of all rows."""
    import pyarrow
    from pyarrow import parquet

    metadata: dict[str, Any] = {}
    checksums, cautions = [], []  # nothing else of the headers is kept, since there may be many shards
    for shard in shards:
        shard_header = json.loads(parquet.read_schema(shard).metadata[_METADATA_KEY])
        shard_metadata = {name: shard_header[name] for name in METADATA}
        metadata = metadata or shard_metadata
        if shard_metadata != metadata:
            raise RecordError(f"{shard} has another method, teacher or task than {shards[0]}.")
        checksums.append(shard_header["checksum"])
        cautions.append(shard_header.get("cautions", []))
    header: dict[str, Any] = {"format": SHARDED, **metadata, "checksums": checksums, "data": data}
    header |= {"cautions": cautions} if any(cautions) else {}  # one list per shard
    header["checksum"] = checksum_of(header)  # covers the header; each row group has its own checksum
    first = _with_all_columns(parquet.read_table(shards[0], memory_map=False))
    schema = first.schema.with_metadata({_METADATA_KEY: canonical_json(header).encode()})
    try:
        with parquet.ParquetWriter(path, schema, **_WRITER_OPTIONS) as writer:
            for shard in shards:
                table = _with_all_columns(parquet.read_table(shard, memory_map=False))
                writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=max(len(table), 1))
    except (pyarrow.ArrowException, OSError) as error:
        raise RecordError(f"Could not write {path}: {error}.") from error


def _with_all_columns(table: Any) -> Any:
    """Add columns that a table of an earlier version lacks, filled with unknown values, in the present order."""
    import pyarrow

    defaults = {"probability": (float("nan"), pyarrow.float64()), "label": (None, pyarrow.string())}
    for index, (name, (value, dtype)) in enumerate(defaults.items(), table.column_names.index("residual") + 1):
        if name not in table.column_names:
            table = table.add_column(index, name, pyarrow.array([value] * len(table), dtype, from_pandas=False))
    return table


def read_shards(cls: "type[Explanations]", source: bytes | Path, path: Path) -> "Iterator[Explanations]":
    """Iterate over the shards of a file or of its content. A file that was not merged is one shard.

    `cls` is the class of a shard. Raises RecordError, which names `path`, if the file cannot be read.
    """
    import pyarrow
    from pyarrow import parquet

    # A flipped bit can raise any of these, in Arrow or in the code that converts its tables.
    errors = (pyarrow.ArrowException, *_READ_ERRORS)
    advice = "It may be damaged or incomplete: compute the explanations again, or use another copy."
    try:
        buffer = pyarrow.BufferReader(source) if isinstance(source, bytes) else source
        file = parquet.ParquetFile(buffer, page_checksum_verification=True)
        metadata = file.schema_arrow.metadata or {}
    except errors as error:
        raise RecordError(f"{path} cannot be read as Parquet. {advice}") from error
    if _METADATA_KEY not in metadata:
        raise RecordError(f"{path} has a table but no explanations: load a file that explanations.save(path) wrote.")
    try:
        header = json.loads(metadata[_METADATA_KEY])
        is_sharded = _check_format(header, path) == SHARDED
        if is_sharded and header.pop("checksum", None) not in (None, checksum_of(header)):
            raise RecordError(f"The checksum of {path} does not match its header. {advice}")
        checksums = header["checksums"] if is_sharded else [header["checksum"]]
        if is_sharded and len(checksums) != file.num_row_groups:
            raise RecordError(f"{path} has {file.num_row_groups} of {len(checksums)} shards. {advice}")
        cautions = _cautions(header) or [[]] * len(checksums)
        for shard, (checksum, shard_cautions) in enumerate(zip(checksums, cautions, strict=True)):
            table = file.read_row_group(shard) if is_sharded else file.read()
            explanations = cls(**_columns(table, header), cautions=tuple(shard_cautions))
            if _checksum(explanations) != checksum:
                raise RecordError(f"The checksum of {path} does not match its content. {advice}")
            if is_sharded:
                explanations = explanations.derive(fingerprints={**explanations.fingerprints, "data": header["data"]})
            yield explanations
    except RecordError:
        raise
    except errors as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RecordError(f"{path} cannot be read ({reason}). {advice}") from error


def _check_format(header: Mapping[str, Any], path: Path) -> int:
    """The format of a file. Raises RecordError if it is newer than this didact supports."""
    version = int(header["format"])
    if version > SHARDED:
        raise RecordError(
            f"{path} was written by a newer didact (format {version}; this one reads up to {SHARDED}). Update didact."
        )
    return version


def read_residuals(path: Path) -> Float[np.ndarray, " row"]:
    """The residuals of a file, whose scores may not fit into memory."""
    from pyarrow import parquet

    return np.asarray(parquet.read_table(path, columns=["residual"])["residual"].to_numpy(), dtype=np.float64)


def _cautions(header: Mapping[str, Any]) -> list[list[str]]:
    """One list of cautions per shard; empty without cautions."""
    cautions: list[Any] = header.get("cautions", [])
    return cautions if header["format"] == SHARDED or not cautions else [cautions]


def read_cautions(path: Path) -> list[str]:
    """The distinct cautions of a file. Reads only the header."""
    return list(dict.fromkeys(caution for shard in _cautions(read_header(path)) for caution in shard))


def read_header(path: Path) -> dict[str, Any]:
    """The header of a file of explanations; empty if it is damaged."""
    from pyarrow import parquet

    try:
        header = json.loads(parquet.read_schema(path).metadata[_METADATA_KEY])
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}


def is_explanations_parquet(path: Path) -> bool:
    """Whether a file is named .parquet and `to_parquet` wrote it. Reads only the header."""
    return path.name.lower().endswith(".parquet") and is_explanations(path)


def is_explanations(path: Path) -> bool:
    """Whether `to_parquet` wrote this file, regardless of its name."""
    import pyarrow
    from pyarrow import parquet

    if not path.is_file():
        return False
    try:
        return _METADATA_KEY in (parquet.read_schema(path).metadata or {})
    except (pyarrow.ArrowException, OSError):
        return False


def _columns(table: Any, header: Mapping[str, Any]) -> dict[str, Any]:
    """The columns and header entries of a shard, under the field names of `Explanations`."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}

    def flat(name: str) -> np.ndarray:
        # Arrow's memory is read-only, and torch warns about that: copy it.
        return np.array(columns[name].flatten().to_numpy(zero_copy_only=False))

    def values(name: str) -> np.ndarray:
        return np.array(columns[name].to_numpy(zero_copy_only=False))

    return {
        **{name: header[name] for name in METADATA},
        "classes": None if header["classes"] is None else tuple(header["classes"]),
        "ids": tuple(columns["id"].to_pylist()),
        "texts": tuple(map(tuple, columns["texts"].to_pylist())),
        "bounds": bounds_of(columns["scores"].value_lengths().to_numpy(zero_copy_only=False)),
        "tokens": tuple(columns["tokens"].flatten().to_pylist()),
        "segments": flat("segments"),
        "word_index": flat("words"),
        "offsets": np.stack([flat(side) for side in _sides(header["task"])], axis=1),
        "scores": flat("scores"),
        "targets": tuple(columns["target"].to_pylist()),
        "predictions": tuple(columns["prediction"].to_pylist()),
        "residuals": values("residual"),
        "alignments": _alignments(columns["alignments"].to_pylist()) if "alignments" in columns else None,
        # Files of earlier versions lack these two columns: all values are unknown.
        "probabilities": values("probability") if "probability" in columns else np.zeros(0),
        "labels": tuple(columns["label"].to_pylist()) if "label" in columns else (),
    }


def _alignments(rows: Any) -> Any:
    """Restore the text numbers, which are not stored: each pair is (question, passage)."""
    return tuple(tuple(((0, *question), (1, *passage)) for question, passage in pairs) for pairs in rows)


def _metadata(explanations: "Explanations") -> dict[str, Any]:
    return {name: getattr(explanations, name) for name in METADATA}


def _checksum(explanations: "Explanations") -> str:
    """A hash of everything that is stored."""
    contents: list[Any] = [
        _metadata(explanations),
        explanations.ids,
        explanations.texts,
        explanations.tokens,
        explanations.targets,
        explanations.predictions,
    ]
    # Added only if present, so that the checksums of older files stay valid.
    contents += [] if explanations.alignments is None else [explanations.alignments]
    contents += [explanations.labels] if any(label is not None for label in explanations.labels) else []
    contents += [{"cautions": explanations.cautions}] if explanations.cautions else []
    digest = hashlib.sha256(canonical_json(contents).encode())
    for column in (
        explanations.bounds,
        explanations.segments,
        explanations.word_index,
        explanations.offsets,
        explanations.scores,
        explanations.residuals,
    ):
        digest.update(np.ascontiguousarray(column).tobytes())
    if not np.isnan(explanations.probabilities).all():
        digest.update(np.ascontiguousarray(explanations.probabilities).tobytes())
    return digest.hexdigest()


def _sides(task: str) -> tuple[str, ...]:
    return _BOX_SIDES if task_kind(task).is_image else _SPAN_SIDES
