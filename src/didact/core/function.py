"""`FunctionTeacher`: any Python function as a teacher."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from jaxtyping import Float

from didact.core.classes import check_class_names
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.rows import Rows, as_rows
from didact.core.task import CLASSIFICATION, TASKS, Task, task_named
from didact.core.teacher import Teacher, describe_teacher
from didact.errors import OptionError, ShapeError, UnsupportedError


class FunctionTeacher(Teacher):
    """A black-box teacher made from a function of a list of texts (pairs, images) to an array with one row per input.

    Units are words, or squares of an image. didact checks what the function returns on every batch.

    Args:
        predict: The function.
        classes: Class names in the order of the columns. Required for tasks with classes.
        output: probability, logit or value.
        task: classification, pair, regression or image.
        absent: The text in the place of a removed word.
        patch: Width of a square in pixels (default: an eighth of the height). A removed square takes the image's mean
            colour.
        name: The name (default: that of the function).

    Examples:
        ```python
        import numpy as np


        def predict(texts):
            positive = np.array([0.9 if "good" in text else 0.1 for text in texts])
            return np.stack([1 - positive, positive], axis=1)


        teacher = didact.teacher_from_function(predict, ["negative", "positive"])
        didact.explain(teacher, ["a good film"], "occlusion").show()
        ```
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
            raise OptionError(f"A teacher needs a function from a list of texts to numbers, got {predict!r}.")
        if not isinstance(task, str | Task):
            raise OptionError(f"Option 'task' must be the name of a task, got {task!r}.")
        if not isinstance(absent, str):
            raise OptionError(f"Option 'absent' must be the text that replaces a removed word, got {absent!r}.")
        check_class_names(classes)
        self.task = task if isinstance(task, Task) else task_named(task)
        self.name = name or str(getattr(predict, "__name__", type(predict).__name__))
        if output not in ("probability", "logit", "value"):
            raise OptionError(f"Option 'output' must be 'probability', 'logit' or 'value', got {output!r}.")
        self.function = predict
        self.output = output
        self.absent = absent
        if patch is not None and (not isinstance(patch, int) or patch < 1):
            raise OptionError(f"Option 'patch' must be the width of a square in pixels, an integer >= 1, got {patch}.")
        self.patch = patch
        if self.task.is_per_token:
            supported = ", ".join(task.name for task in TASKS.values() if not task.is_per_token)
            raise UnsupportedError(
                f"A function cannot be the teacher of a {self.task} task, because it cannot return spans. "
                f"Choose one of {supported}, or a model."
            )
        if self.task.has_classes and output == "value":
            raise OptionError(f"Task {self.task} has classes, so output must be 'probability' or 'logit', got 'value'.")
        if not self.task.has_classes:
            self.output = "value"
        self.default_scale = "probability" if self.output == "probability" else "logit"
        if classes is None and self.task.has_classes:
            raise OptionError(f"Task {self.task} needs class names in the order of the columns: classes=[…].")
        if classes is not None and not self.task.has_classes:
            raise OptionError(f"Task {self.task} has no classes. Remove classes=, or choose another task.")
        self.classes = None if classes is None else tuple(map(str, classes))
        self._stored: Callable[[Row], Float[np.ndarray, " width"] | None] | None = None

    def with_stored_answers(self, stored: Callable[[Row], Float[np.ndarray, " width"] | None]) -> "FunctionTeacher":
        """A copy of this teacher that takes answers from `stored` and calls the function only where it returns None."""
        teacher = copy(self)
        teacher._stored = stored
        return teacher

    def __repr__(self) -> str:
        return describe_teacher(self, "function", {"returns": self.output})

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:
        """Answer rows, texts, pairs of texts (as tuples) or images."""
        rows = as_rows(rows)
        width = self.task.width(self.classes)
        batches = [
            self._answer_rows(rows[start : start + batch_size], width) for start in range(0, len(rows), batch_size)
        ]
        values = np.concatenate(batches) if batches else np.zeros((0, width))
        return Outputs(self.task, tuple(row.id for row in rows), values, classes=self.classes)

    def fingerprint(self, rows: Sequence[Row], outputs: Outputs | None = None) -> str:
        """A hash of the function's answers to these rows, because its code cannot be hashed.

        Pass `outputs` if the answers to these rows, in this order, are known already.
        """
        values = (self.predict(rows) if outputs is None else outputs).values
        identity = repr((self.task.name, self.classes, self.output, self.absent, self.patch, fingerprint_of(rows)))
        return hashlib.sha256(identity.encode() + np.round(values, 6).tobytes()).hexdigest()[:16]

    def _answer_rows(self, rows: Sequence[Row], width: int) -> Float[np.ndarray, "row width"]:
        if self._stored is None:
            return self._call_function(rows, width)
        stored = [self._stored(row) for row in rows]
        missing = [row for row, values in zip(rows, stored, strict=True) if values is None]
        answers = iter(self._call_function(missing, width)) if missing else iter(())
        return np.stack([next(answers) if values is None else values for values in stored])

    def _answers(self, rows: Sequence[Row]) -> Any:
        return self.function([_input(row) for row in rows])

    def _call_function(self, rows: Sequence[Row], width: int) -> Float[np.ndarray, "row width"]:
        answer = self._answers(rows)
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ShapeError(f"Function {self.name!r} must return an array of numbers: {error}") from error
        if values.ndim == 1 and width == 1:
            values = values[:, None]
        if values.shape != (len(rows), width):
            raise ShapeError(
                f"Function {self.name!r} got {len(rows)} inputs and must return an array of shape "
                f"{(len(rows), width)}, one column per {'class' if self.classes else 'value'}; "
                f"it returned shape {values.shape}."
            )
        if not np.isfinite(values).all():
            row = rows[int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])]
            raise ShapeError(f"Function {self.name!r} returned a value that is not finite for row {row.id!r}.")
        if self.output != "probability":
            return values
        try:
            return self.task.logits_of(values)
        except ValueError as fault:
            raise ShapeError(
                f"Function {self.name!r} was declared to return probabilities, but a row {fault}. "
                "Return probabilities, or pass output='logit'."
            ) from None


teacher_from_function = FunctionTeacher  # the public name


def _input(row: Row) -> Any:
    if row.image is not None:
        return row.image
    return row.texts[0] if len(row.texts) == 1 else row.texts
