"""The explanation of one row: its units and scores, the prediction, the label and the target. Needs no torch."""

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int, UInt8

from didact.errors import OptionError
from didact.results.task_kinds import task_kind
from didact.results.words import Units, check_level, join_words
from didact.viz.heat_map import HeatMap, RowView, Unit, number, printable, show
from didact.viz.page import fragment
from didact.viz.text_spans import completeness

if TYPE_CHECKING:
    import altair as alt

TEXT_SEPARATOR = " | "  # between the texts of a row when they are joined

# A span of the question and one of the passage, each (text number, start, end) in characters.
Alignment: TypeAlias = tuple[tuple[int, int, int], tuple[int, int, int]]


@dataclass(frozen=True, eq=False, repr=False)
class RowExplanation:
    """The explanation of one row, a view into its `Explanations`.

    `probability` belongs to the prediction (NaN if unknown); `label` is the gold label (None if unknown).
    """

    id: str
    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    segments: Int[np.ndarray, " unit"]
    word_index: Int[np.ndarray, " unit"]
    offsets: Int[np.ndarray, "unit side"]
    scores: Float[np.ndarray, " unit"]
    target: str
    prediction: str
    residual: float
    kind: str
    method: str
    task: str
    image: UInt8[np.ndarray, "height width channel"] | None = None
    alignments: tuple[Alignment, ...] | None = None
    probability: float = math.nan
    label: str | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        """A few lines: the text, the answer, the target and the strongest words."""
        heat_map = self.heat_map()
        lines = [] if self.is_image else [("text", _shorten(printable(self.text)))]
        lines += heat_map.answers()
        strongest = [
            f"{printable(word)} {number(score, self.kind)}".rstrip() for word, score in self.top(5) if word and score
        ]
        lines += [("strongest", ", ".join(strongest))] if strongest else []
        lines += [("note", heat_map.warning)] if heat_map.warning else []
        name = f"Row {self.id!r}" + (f" explained by {self.method}" if self.method else "")
        return "\n".join([name, *(f"  {name:<10}  {value}" for name, value in lines)])

    @property
    def is_image(self) -> bool:
        return task_kind(self.task).is_image

    @property
    def text(self) -> str:
        """The text of the row; several texts are joined with a bar."""
        return TEXT_SEPARATOR.join(self.texts)

    @property
    def is_right(self) -> bool | None:
        """Whether the prediction is the gold label; None if either is unknown."""
        return None if self.label is None or not self.prediction else self.label == self.prediction

    @property
    def completeness(self) -> float:
        """How nearly the scores add up to what they promise: 1 − residual, at least 0.

        NaN if the method does not promise completeness. docs/explainers.md defines the residual.
        """
        return completeness(self.residual)

    def words(self) -> "RowExplanation":
        """Join the pieces of each word, as `Explanations.words` does."""
        rows = np.zeros(len(self), dtype=np.int64)
        units = Units(rows, self.tokens, self.segments, self.word_index, self.offsets, self.scores)
        joined = join_words(units, [self.texts], kind=self.kind, is_image=self.is_image)
        return replace(self, **joined.columns())  # type: ignore[arg-type]

    def at_level(self, level: str) -> "RowExplanation":
        """The explanation by whole words (`word`) or by the units that the method scored (`token`)."""
        check_level(level)
        return self.words() if level == "word" else self

    def top(self, k: float, *, level: str = "word") -> list[tuple[str, float]]:
        """The `k` most important words with their scores, most important first. A fraction `k` is rounded up.

        Signed scores are ranked by absolute value; ties keep the order of the text. `level="token"` ranks the units
        that the method scored.
        """
        row = self.at_level(level)
        ranks = np.abs(row.scores) if row.kind == "signed" else row.scores
        best = np.argsort(-ranks, kind="stable")[: top_count(k, len(row))]
        return [(row.tokens[unit], float(row.scores[unit])) for unit in best]

    def show(self, *, level: str = "word") -> None:
        """Print the heat map to the terminal, by whole words or by pieces (`level="token"`)."""
        show([self.at_level(level).row_view()])

    def plot(self, k: int | None = 20, *, level: str = "word") -> "alt.Chart":
        """An Altair bar chart of the `k` strongest words (None: all) in the order of the text.

        A notebook displays it; `.save("row.svg")` writes svg, png, pdf or html.
        """
        from didact.viz.bars import bar_chart

        return bar_chart(self.at_level(level).heat_map(), title=f"{self.method} · {self.id}".strip(" ·"), k=k)

    def _repr_html_(self) -> str:
        return fragment([self.words().row_view()])

    def row_view(self) -> RowView:
        """The row as renderers draw it."""
        return RowView(self.id, [self.heat_map()])

    def heat_map(self, *, method: str = "") -> HeatMap:
        """The scores as renderers draw them. `method` is the label if several methods are shown together."""
        segment_names = task_kind(self.task).segments
        text_names = [segment_names[n] if n < len(segment_names) else f"text {n + 1}" for n in range(len(self.texts))]
        columns: Any = (self.tokens, self.scores.tolist(), self.segments.tolist(), map(tuple, self.offsets.tolist()))
        return HeatMap(
            kind=self.kind,
            units=[Unit(*unit) for unit in zip(*columns, strict=True)],
            texts=list(zip(text_names, self.texts, strict=True)),
            image=self.image,
            is_image=self.is_image,
            method=method,
            target=self.target,
            prediction=self.prediction,
            residual=self.residual,
            probability=self.probability,
            label=self.label or "",
            is_right=self.is_right,
        )


def top_count(k: float, units: int) -> int:
    """The number of top units: `k`, or that fraction of `units`, rounded up and at least 1.

    Raises OptionError unless `k` is an integer of at least 1 or a fraction above 0 and up to 1.
    """
    is_integer = isinstance(k, Integral) and not isinstance(k, bool)
    if isinstance(k, bool) or not (k >= 1 if is_integer else 0 < k <= 1):
        raise OptionError(f"k must be a number of units (1, 2, …) or a fraction above 0 and up to 1, got {k!r}.")
    # Round before taking the ceiling: in floating point 0.07 · 100 is slightly above 7, but means 7.
    return int(k) if is_integer else max(1, math.ceil(round(k * units, 9)))


def _shorten(text: str, max_length: int = 200) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"
