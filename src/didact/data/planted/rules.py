"""What a planted task has to say of itself: its options, how inputs are drawn, and what decides their label."""

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
    """The label of one input and the units that decide it. No label where nothing decides, as in an emptied text."""

    label: Label | None
    rationale: tuple[Span, ...] | tuple[Box, ...]
    alignments: tuple[tuple[Span, Span], ...] | None = None


class Rules(ABC, Generic[Inputs]):
    """One planted task. `read` is the labelling function; it sees the inputs alone, and any input."""

    name: ClassVar[str]
    task: ClassVar[Task]
    classes: ClassVar[tuple[str, ...] | None] = None
    segments: ClassVar[tuple[str, ...]] = ()

    @property
    def step(self) -> float:
        """The smallest difference between two scores, where the label is a score."""
        raise NotImplementedError

    @abstractmethod
    def draw(self, rng: RandomStream, split: str) -> Inputs: ...

    @abstractmethod
    def read(self, inputs: Inputs) -> Truth: ...

    @abstractmethod
    def redraw(self, inputs: Inputs, region: Region, rng: RandomStream) -> Inputs:
        """The inputs with every unit of `part` drawn anew from its category. A new rest leaves the label as it was."""

    def row(self, name: str, inputs: Inputs) -> Row:
        truth = self.read(inputs)
        texts, image = (inputs, None) if isinstance(inputs, tuple) else ((), inputs)
        return Row(name, texts, image, truth.label, truth.rationale, truth.alignments)

    def oracle(self) -> Teacher:
        """The labelling function as a teacher. Where nothing decides, all classes are equally likely."""
        return FunctionTeacher(self._answers, self.classes, task=self.task, name=f"oracle of {self.name}")

    def _answers(self, inputs: Sequence[Any]) -> Float[np.ndarray, "row width"]:
        labels: list[Any] = [self.read(_as_tuple(item)).label for item in inputs]
        if self.classes is None:
            return np.array([[label] for label in labels], dtype=np.float64)
        width = len(self.classes)
        uniform, one_hot = np.full(width, 1 / width), np.eye(width)
        return np.array([uniform if label is None else one_hot[label] for label in labels])


def _as_tuple(item: Any) -> Any:
    """A lone text reaches a function without its tuple."""
    return (item,) if isinstance(item, str) else item


def inputs_of(row: Row) -> Any:
    return row.texts if row.image is None else row.image


def keep_rationale(row: Row) -> Any:
    """The row's inputs with all outside its rationale gone: spaces instead of signs, black instead of pixels."""
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
    """Each option is a whole number from `low` to `high`."""
    for name, value in options.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
            bound = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise OptionError(f"Option {name!r} must be a whole number {bound}, not {value!r}.")


def check_probabilities(**options: object) -> None:
    """Each option is a probability."""
    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise OptionError(f"Option {name!r} must be a probability from 0 to 1, not {value!r}.")
