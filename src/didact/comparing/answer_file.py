"""Stores the answers of a black-box teacher, so that a resumed run does not query it again for the same rows.

The file has one line per row, each with a checksum. It grows while rows are labelled, so a killed run loses at most
one batch. Rows whose line is truncated or damaged are queried again.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.seeds import seed_from
from didact.core.teacher import Teacher
from didact.errors import OptionError, RecordError
from didact.files.atomic import ensure_parent
from didact.files.checksummed import checksummed_json, parse_checksummed
from didact.files.store import key_of, unreadable_error

DEFAULT_RECHECK: Final = 8  # stored answers that a resumed run queries again
_TOLERANCE: Final = 1e-3  # absolute for probabilities, relative for values: an API may not repeat every digit
_RECHECK_SEED: Final = 0


class AnswerFile:
    """The stored answers of one teacher. With `writes=False` the file is read but never changed."""

    def __init__(self, folder: Path, teacher: Teacher, *, writes: bool = True) -> None:
        identity = {
            "teacher": teacher.name, "task": teacher.task.name,
            "classes": None if teacher.classes is None else list(teacher.classes),
            "output": getattr(teacher, "output", None),
        }  # fmt: skip
        self.path = folder / "classroom" / f"answers-{key_of(identity)}.jsonl"
        self.teacher, self.writes = teacher, writes

    def get(self, row: Row) -> Float[np.ndarray, " value"] | None:
        """The stored answer to a row, or None."""
        return self._values.get(row_key(row))

    def recheck(self, rows: Iterable[Row], count: int) -> None:
        """Query the teacher again for `count` of the stored answers to these rows.

        Raises:
            OptionError: the teacher now answers otherwise.
        """
        answered = {key: row for row in rows if (key := row_key(row)) in self._values} if count else {}
        if answered:
            rng = np.random.default_rng(seed_from(_RECHECK_SEED, "recheck"))
            self._check_unchanged([answered[key] for key in rng.permutation(sorted(answered))[:count]])

    def add(self, rows: Sequence[Row], outputs: Outputs) -> None:
        """Append the answers to these rows to the file."""
        lines = []
        for row, values in zip(rows, outputs.values, strict=True):
            key = row_key(row)
            self._values[key] = values
            lines.append(checksummed_json({"row": key, "values": values.tolist()}))
        if not self.writes:
            return
        try:
            descriptor = os.open(ensure_parent(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            with os.fdopen(descriptor, "ab") as file:
                file.write(("\n" + "".join(lines)).encode())  # the newline ends a line that was truncated
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RecordError(f"Could not write {self.path}: {error.strerror or error}.") from error

    @cached_property
    def _values(self) -> dict[str, Float[np.ndarray, " value"]]:
        stored = {}
        for line in self._lines():
            try:
                answer = parse_checksummed(line, self.path, advice="")
                if len(answer) == 2:
                    stored[str(answer["row"])] = np.array(answer["values"], dtype=np.float64)
            except (RecordError, KeyError, TypeError, ValueError):
                continue  # blank, truncated or damaged: the row is queried again
        return stored

    def _lines(self) -> Iterator[bytes]:
        """The lines of this file and of the files that other machines wrote to the same remote store."""
        for path in sorted(self.path.parent.glob(f"{self.path.stem}*.jsonl")):
            try:
                yield from path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unreadable_error(path, error) from error

    def _check_unchanged(self, rows: Sequence[Row]) -> None:
        """Raise OptionError if the teacher's answer to one of these rows differs from the stored one."""
        current = self.teacher.predict(rows)
        stored = Outputs(
            current.task,
            current.ids,
            np.stack([self._values[row_key(row)] for row in rows]),
            classes=current.classes,
        )
        before, now = stored.probabilities, current.probabilities
        scale = 1.0 if self.teacher.task.has_classes else np.maximum(np.abs(before), 1e-6)
        changed = np.flatnonzero((np.abs(before - now) > _TOLERANCE * scale).any(axis=1))
        if not len(changed):
            return
        index = int(changed[0])
        raise OptionError(
            f"The teacher {self.teacher.name!r} has changed since this run began: it gives other answers to "
            f"{len(changed)} of {len(rows)} rows that were checked again. The answer to row {rows[index].id!r} was "
            f"{_rounded_json(before[index])} and is now {_rounded_json(now[index])}. Write to another folder (out=, "
            "--out), or keep the stored answers with recheck=0 (--recheck 0)."
        )


def row_key(row: Row) -> str:
    """A hash of the row's content: rows with the same texts or image share one answer."""
    return hashlib.sha256(row.content).hexdigest()[:16]


def _rounded_json(values: Any) -> str:
    return json.dumps([round(float(value), 4) for value in values])
