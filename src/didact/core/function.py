"""Any Python function as a teacher."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.classes import check_class_names
from didact.core.outputs import Outputs
from didact.core.row import Box, Row, Span, fingerprint_of
from didact.core.rows import Rows, as_rows
from didact.core.task import CLASSIFICATION, TASKS, Task, task_named
from didact.core.teacher import described
from didact.core.words import squares_of, words_of
from didact.errors import OptionError, ShapeError, UnsupportedError


class FunctionTeacher:
    """A black box: texts (or pairs, or images) in, one array row per input out.

    Its units are words, or squares of an image's pixels, `patch` wide (an eighth of its height by default). A removed
    word becomes `absent`, a removed square the image's mean colour. What it returns is checked on every batch.
    """

    def __init__(
        self,
        predict: Callable[[list[Any]], Any],
        classes: Sequence[str] | np.ndarray | None = None,
        *,
        output: str = "probability",
        task: str | Task = CLASSIFICATION,
        absent: str = "",
        patch: int | None = None,
        name: str | None = None,
    ) -> None:
        if not callable(predict):
            raise OptionError(f"A teacher is made of a function from a list of texts to numbers, not of {predict!r}.")
        if not isinstance(task, str | Task):
            raise OptionError(f"Option 'task' is the name of a task, not {task!r}.")
        if not isinstance(absent, str):
            raise OptionError(f"Option 'absent' is the text in the place of a removed word, not {absent!r}.")
        check_class_names(classes)
        self.task = task if isinstance(task, Task) else task_named(task)
        self.name = name or str(getattr(predict, "__name__", type(predict).__name__))
        if output not in ("probability", "logit", "value"):
            raise OptionError(f"Option 'output' is 'probability', 'logit' or 'value', not {output!r}.")
        self.function = predict
        self.output = output
        self.absent = absent
        if patch is not None and (not isinstance(patch, int) or patch < 1):
            raise OptionError(f"Option 'patch' is the width of a square in pixels, at least 1, not {patch}.")
        self.patch = patch
        if self.task.name == "reading":
            raise UnsupportedError(
                "A function cannot be the teacher of a reading task: there is no agreed form for the spans it would "
                f"return. Choose one of {', '.join(name for name in TASKS if name != 'reading')}, or a model."
            )
        if self.task.has_classes and output == "value":
            raise OptionError(f"Task {self.task} has classes: output must be 'probability' or 'logit', not 'value'.")
        if not self.task.has_classes:
            self.output = "value"
        if classes is None and self.task.has_classes:
            raise OptionError(f"Task {self.task} has classes: name them in the order of the columns, classes=[…].")
        if classes is not None and not self.task.has_classes:
            raise OptionError(f"Task {self.task} has no classes: leave classes out, or choose another task.")
        self.classes = None if classes is None else tuple(map(str, classes))
        self._stored: Callable[[Row], Float[np.ndarray, " width"] | None] | None = None

    def with_stored(self, stored: Callable[[Row], Float[np.ndarray, " width"] | None]) -> "FunctionTeacher":
        """The same teacher, which answers the rows that `stored` knows without calling the function."""
        found = copy(self)
        found._stored = stored
        return found

    def __repr__(self) -> str:
        return described(self, "function", {"returns": self.output})

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:
        """Answer rows, or texts, pairs of texts (as tuples) or images."""
        rows = as_rows(rows)
        width = len(self.classes) if self.classes is not None else 1
        parts = [self._ask(rows[start : start + batch_size], width) for start in range(0, len(rows), batch_size)]
        values = np.concatenate(parts) if parts else np.zeros((0, width))
        return Outputs(self.task, tuple(row.id for row in rows), values, classes=self.classes)

    def units(self, row: Row) -> list[Span] | list[Box]:
        """What can be removed from a row: its words, or squares of its image, row by row."""
        return words_of(row.texts) if row.image is None else squares_of(row, patch=self.patch)

    def without(self, row: Row, removed: Sequence[Span] | Sequence[Box]) -> Row:
        """The row with these units replaced by what stands for nothing."""
        if row.image is not None:
            image = row.image.copy()
            mean = row.image.mean(axis=(0, 1)).round().astype(image.dtype)
            for box in removed:
                assert isinstance(box, Box)
                image[box.top : box.bottom, box.left : box.right] = mean
            return Row(row.id, image=image)
        texts = list(row.texts)
        for span in sorted(span for span in removed if isinstance(span, Span))[::-1]:
            text = texts[span.segment]
            texts[span.segment] = text[: span.start] + self.absent + text[span.end :]
        return Row(row.id, tuple(texts))

    def fingerprint(self, rows: Sequence[Row], said: Outputs | None = None) -> str:
        """A hash of what the function answers on the rows in use: its code cannot be hashed, its behaviour can.

        `said` is what it answered to these rows, in their order, if it was asked already.
        """
        values = (self.predict(rows) if said is None else said).values
        facts = repr((self.task.name, self.classes, self.output, self.absent, self.patch, fingerprint_of(rows)))
        return hashlib.sha256(facts.encode() + np.round(values, 6).tobytes()).hexdigest()[:16]

    def _ask(self, rows: Sequence[Row], width: int) -> Float[np.ndarray, "row width"]:
        if self._stored is None:
            return self._call(rows, width)
        known = [self._stored(row) for row in rows]
        missing = [row for row, values in zip(rows, known, strict=True) if values is None]
        asked = iter(self._call(missing, width)) if missing else iter(())
        return np.stack([next(asked) if values is None else values for values in known])

    def _call(self, rows: Sequence[Row], width: int) -> Float[np.ndarray, "row width"]:
        answer = self.function([_input(row) for row in rows])
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ShapeError(f"Function {self.name!r} must return numbers in an array: {error}") from error
        if values.ndim == 1 and width == 1:
            values = values[:, None]
        if values.shape != (len(rows), width):
            raise ShapeError(
                f"Function {self.name!r} was asked about {len(rows)} inputs and must return an array of shape "
                f"{(len(rows), width)}, one column per {'class' if self.classes else 'value'}; "
                f"it returned {values.shape}."
            )
        if not np.isfinite(values).all():
            row = rows[int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])]
            raise ShapeError(f"Function {self.name!r} returned a value that is not finite for row {row.id!r}.")
        if self.output != "probability":
            return values
        if (values < -1e-6).any() or (abs(values.sum(axis=1) - 1) > 1e-3).any():
            raise ShapeError(
                f"Function {self.name!r} was declared to return probabilities, but a row is negative or does not sum "
                "to 1. Return probabilities, or say output='logit'."
            )
        return np.log(values.clip(1e-12))


teacher_from_function = FunctionTeacher  # the name users know it by


def _input(row: Row) -> Any:
    if row.image is not None:
        return row.image
    return row.texts[0] if len(row.texts) == 1 else row.texts
