"""`Rules`, the interface of a planted task: its options, how inputs are drawn, and what decides their label."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float, UInt8

from didact.core.function import FunctionTeacher
from didact.core.row import Box, Label, Row, Span
from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.data.planted.random_stream import RandomStream as RandomStream
from didact.errors import OptionError

Texts: TypeAlias = tuple[str, ...]
Image: TypeAlias = UInt8[np.ndarray, "height width channel"]
Region: TypeAlias = Literal["rest", "rationale"]
Inputs = TypeVar("Inputs", Texts, Image)


@dataclass(frozen=True)
class Truth:
    """The label of an input and the units that decide it. The label is None if no units decide, as in an empty text.

    `weights`, if known, has the true score of each unit: a positive score speaks for the label.
    """

    label: Label | None
    rationale: tuple[Span, ...] | tuple[Box, ...]
    alignments: tuple[tuple[Span, Span], ...] | None = None
    weights: tuple[float, ...] | None = None


class Rules(ABC, Generic[Inputs]):
    """One planted task.

    `draw` draws the inputs of a row of a split. `read` is the labelling function: it depends only on the inputs and
    accepts any inputs. `redraw` changes one region.
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    classes: ClassVar[tuple[str, ...] | None] = None
    segments: ClassVar[tuple[str, ...]] = ()

    @property
    def step(self) -> float:
        """The smallest difference between two scores, for tasks whose label is a score."""
        raise NotImplementedError

    @abstractmethod
    def draw(self, rng: RandomStream, split: str) -> Inputs: ...

    @abstractmethod
    def read(self, inputs: Inputs) -> Truth: ...

    @abstractmethod
    def redraw(self, inputs: Inputs, region: Region, rng: RandomStream) -> Inputs:
        """The inputs with every unit of `region` redrawn from its category. Redrawing the rest preserves the label."""

    def row(self, name: str, inputs: Inputs) -> Row:
        """A labelled row with the id `name`."""
        truth = self.read(inputs)
        texts, image = (inputs, None) if isinstance(inputs, tuple) else ((), inputs)
        return Row(name, texts, image, truth.label, truth.rationale, truth.alignments, rationale_weights=truth.weights)

    def oracle(self) -> Teacher:
        """The labelling function as a teacher. Inputs without a label get equal class probabilities."""
        return FunctionTeacher(self._answers, self.classes, task=self.task, name=f"oracle of {self.name}")

    def _answers(self, inputs: Sequence[Any]) -> Float[np.ndarray, "row width"]:
        labels: list[Any] = [self.read(_as_tuple(item)).label for item in inputs]
        if self.classes is None:
            return np.array([[label] for label in labels], dtype=np.float64)
        width = len(self.classes)
        uniform, one_hot = np.full(width, 1 / width), np.eye(width)
        return np.array([uniform if label is None else one_hot[label] for label in labels])


def _as_tuple(item: Any) -> Any:
    """`FunctionTeacher` passes a single text without its tuple; rules expect the tuple."""
    return (item,) if isinstance(item, str) else item


def inputs_of(row: Row) -> Any:
    """The texts of a row, or its image."""
    return row.texts if row.image is None else row.image


def keep_rationale(row: Row) -> Any:
    """The inputs of a row with everything outside its rationale blanked: spaces in texts, black in images."""
    units = row.rationale or ()
    if row.image is not None:
        image = np.zeros_like(row.image)
        for top, left, bottom, right in units:  # type: ignore[misc]
            image[top:bottom, left:right] = row.image[top:bottom, left:right]
        return image
    characters = [[" "] * len(text) for text in row.texts]
    for segment, start, end in units:  # type: ignore[misc]
        characters[segment][start:end] = row.texts[segment][start:end]
    return tuple("".join(text_characters) for text_characters in characters)


def check_integers(low: int, high: int | None = None, **options: object) -> None:
    """Raise `OptionError` unless each option is an integer from `low` to `high`."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
            bound = f">= {low}" if high is None else f"from {low} to {high}"
            raise OptionError(f"Option {name!r} must be an integer {bound}, not {value!r}.")


def check_probabilities(**options: object) -> None:
    """Raise `OptionError` unless each option is a probability."""
    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise OptionError(f"Option {name!r} must be a probability from 0 to 1, not {value!r}.")
