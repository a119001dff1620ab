"""Explanations of many rows by one method, in ragged columns. Stored as Parquet; reading them needs no torch."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, overload

import numpy as np
from jaxtyping import Float, Int, UInt8

from didact.errors import OptionError, RecordError, ShapeError
from didact.files.atomic import ensure_parent, write_bytes
from didact.registry import Spec
from didact.results.documents import number
from didact.results.explanations_checks import check_explanations, plain_alignment, plain_options
from didact.results.explanations_parquet import METADATA, read_shards, to_parquet
from didact.results.ragged import bounds_of, row_of_units
from didact.results.row_explanation import Alignment, RowExplanation
from didact.results.task_kinds import task_kind
from didact.results.views import DEFAULT_ROWS, RowViews
from didact.results.word_summary import WordSummary, summarise
from didact.results.words import UNIT_COLUMNS, Units, check_level, join_words

_ROW_COLUMNS: Final = ("ids", "texts", "targets", "predictions", "residuals", "probabilities", "labels")
_FRAME_COLUMNS: Final = (
    "id", "text", "tokens", "scores", "target", "prediction", "probability", "label", "is_right", "completeness",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Explanations(Sequence[RowExplanation]):
    """Scores of many rows by one method. Only scored units are stored.

    Row i has the units from `bounds[i]` to `bounds[i + 1]`. A unit with segment -1 is in no text (a special token); one
    with word index -1 belongs to no word. Offsets are (start, end) in the text of the unit or, for images, (top, left,
    bottom, right) in pixels of the original image. `options` has every option of the method, with defaults filled in.
    Targets and predictions are texts for display. Residuals are NaN if the method does not promise completeness. Images
    are displayed but never saved. `alignments` has, for each row of a reading task, the spans of question and passage
    that refer to the same thing; None if the method aligns nothing. `probabilities` belong to the predictions (NaN if
    unknown); `labels` are the names of the gold labels (None if unknown). Both default to unknown. `cautions` are the
    warnings that the explainer attached to these scores.
    """

    method: str
    kind: str
    options: Mapping[str, Any]
    task: str
    classes: tuple[str, ...] | None
    teacher: str
    fingerprints: Mapping[str, str]
    ids: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]
    bounds: Int[np.ndarray, " bound"]
    tokens: tuple[str, ...]
    segments: Int[np.ndarray, " unit"]
    word_index: Int[np.ndarray, " unit"]
    offsets: Int[np.ndarray, "unit side"]
    scores: Float[np.ndarray, " unit"]
    targets: tuple[str, ...]
    predictions: tuple[str, ...]
    residuals: Float[np.ndarray, " row"]
    images: tuple[UInt8[np.ndarray, "_ _ _"], ...] | None = None
    alignments: tuple[tuple[Alignment, ...], ...] | None = None
    probabilities: Float[np.ndarray, " known"] = field(default_factory=lambda: np.zeros(0))
    labels: tuple[str | None, ...] = ()
    cautions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Convert the columns to their types and validate them. `derive` does not validate its result again."""
        columns: dict[str, object] = {
            name: np.asarray(getattr(self, name), dtype=dtype)
            for dtype, names in (
                (np.int64, ("bounds", "segments", "word_index", "offsets")),
                (np.float64, ("scores", "residuals", "probabilities")),
            )
            for name in names
        }
        if not len(self.probabilities):
            columns["probabilities"] = np.full(len(self.ids), np.nan)
        if self.alignments is not None:
            columns["alignments"] = tuple(tuple(map(plain_alignment, pairs)) for pairs in self.alignments)
        columns["labels"] = tuple(self.labels) or (None,) * len(self.ids)
        columns |= {"options": plain_options(self.method, self.options), "fingerprints": dict(self.fingerprints)}
        self.__dict__.update(columns)
        check_explanations(self)

    def derive(self, **columns: object) -> "Explanations":
        """A copy with these columns replaced. Unlike `dataclasses.replace`, this does not validate them."""
        copy = object.__new__(Explanations)
        copy.__dict__.update(self.__dict__, **columns)
        return copy

    @property
    def is_image(self) -> bool:
        """Whether the rows are images and the units patches."""
        return task_kind(self.task).is_image

    def __repr__(self) -> str:
        return f"Explanations({self.method!r}, {len(self)} rows, kind={self.kind!r})"

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> RowExplanation: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanations": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        row = range(len(self))[operator.index(index)]
        units = slice(int(self.bounds[row]), int(self.bounds[row + 1]))
        return RowExplanation(
            id=self.ids[row],
            texts=self.texts[row],
            **{name: getattr(self, name)[units] for name in UNIT_COLUMNS},
            target=self.targets[row],
            prediction=self.predictions[row],
            residual=float(self.residuals[row]),
            kind=self.kind,
            method=self.method,
            task=self.task,
            image=None if self.images is None else self.images[row],
            alignments=None if self.alignments is None else self.alignments[row],
            probability=float(self.probabilities[row]),
            label=self.labels[row],
        )

    def select(self, indices: Iterable[int] | np.ndarray) -> "Explanations":
        """The rows at `indices`, in that order. A boolean mask with one value per row works, too."""
        selection = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        if selection.dtype == bool:
            if selection.shape != (len(self),):
                raise ShapeError(f"A mask for {len(self)} rows needs one value per row, got {len(selection)}.")
            selection = np.flatnonzero(selection)
        rows = [range(len(self))[operator.index(row)] for row in selection.tolist()]
        starts, ends = self.bounds[:-1][rows], self.bounds[1:][rows]
        bounds = bounds_of(ends - starts)
        units = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], ends - starts)
        row_columns = {name: _take(getattr(self, name), rows) for name in (*_ROW_COLUMNS, "images", "alignments")}
        unit_columns = {name: _take(getattr(self, name), units) for name in UNIT_COLUMNS}
        return self.derive(bounds=bounds, **row_columns, **unit_columns)

    @classmethod
    def joined(cls, sets: Sequence["Explanations"]) -> "Explanations":
        """Concatenate the rows of several sets that agree in method, kind, options, task, classes and teacher.

        Images are kept only if every set has them. If any set has alignments, rows of the others get empty ones. Each
        caution is kept once. Raises ShapeError if the sets differ or `sets` is empty.
        """
        if not sets:
            raise ShapeError("There is nothing to join: pass at least one set of explanations.")
        first = sets[0]
        if len(sets) == 1:
            return first
        for name in METADATA:
            for other in sets[1:]:
                if getattr(other, name) != getattr(first, name):
                    raise ShapeError(
                        f"Only explanations by the same method can be joined, but these differ in {name}: "
                        f"{getattr(first, name)!r} and {getattr(other, name)!r}."
                    )
        columns = {
            name: _concatenate([getattr(explanations, name) for explanations in sets])
            for name in (*_ROW_COLUMNS, *UNIT_COLUMNS)
        }
        images = [explanations.images for explanations in sets if explanations.images is not None]
        alignments = None
        if any(explanations.alignments is not None for explanations in sets):
            alignments = tuple(chain(*(explanations.alignments or ((),) * len(explanations) for explanations in sets)))
        return first.derive(
            **columns,
            bounds=bounds_of(np.concatenate([np.diff(explanations.bounds) for explanations in sets])),
            images=tuple(chain(*images)) if len(images) == len(sets) else None,
            alignments=alignments,
            cautions=tuple(dict.fromkeys(chain.from_iterable(explanations.cautions for explanations in sets))),
        )

    def top(self, k: float, *, level: str = "word") -> list[list[tuple[str, float]]]:
        """The `k` most important words of each row (or that fraction of its words), with their scores.

        `level="token"` ranks the units that the method scored.
        """
        return [row.top(k, level="token") for row in self.at_level(level)]

    def at_level(self, level: str) -> "Explanations":
        """The explanations by whole words (`word`) or by the units that the method scored (`token`)."""
        check_level(level)
        return self.words() if level == "word" else self

    def words(self) -> "Explanations":
        """Join the pieces of each word. Pieces that belong to no word are unchanged.

        Signed scores and distributions are summed; magnitudes are combined as the root of the sum of squares; a word is
        marked if any of its pieces is.
        """
        units = Units(row_of_units(self.bounds), *(getattr(self, name) for name in UNIT_COLUMNS))
        words = join_words(units, self.texts, kind=self.kind, is_image=self.is_image)
        options = {**self.options, "level": "word"}
        counts = np.bincount(words.rows, minlength=len(self))
        return self.derive(options=options, bounds=bounds_of(counts), **words.columns())

    def summary(self, k: int = 20, *, least: int | None = None) -> WordSummary:
        """The `k` words with the largest mean |score| of each explained class, among words that occur `least` times."""
        return summarise(self, k=k, least=least)

    def to_documents(self, *, level: str = "token") -> list[dict[str, object]]:
        """One dictionary of JSON data per row, with None for unknown values. By default, units are the method's own.

        Alignments, if any, are pairs of [start, end] in question and passage.
        """
        return [
            {
                "id": row.id,
                "text": row.text,
                "tokens": list(row.tokens),
                "scores": row.scores.tolist(),
                "target": row.target,
                "prediction": row.prediction,
                "probability": number(row.probability),
                "label": row.label,
                "is_right": row.is_right,
                "completeness": number(row.completeness),
                "residual": number(row.residual),
                **({} if row.alignments is None else {"alignments": [_spans(pair) for pair in row.alignments]}),
            }
            for row in self.at_level(level)
        ]

    def to_pandas(self, *, level: str = "word") -> Any:
        """A data frame with one line per row; tokens and scores are lists, of whole words unless `level="token"`."""
        import pandas

        columns = list(_FRAME_COLUMNS) + ([] if self.alignments is None else ["alignments"])
        frame = pandas.DataFrame(self.to_documents(level=level), columns=columns)
        return frame.astype({"probability": float, "is_right": "boolean", "completeness": float})

    def save(self, path: Path | str) -> None:
        """Write a Parquet file atomically. The same content always gives the same bytes."""
        content = to_parquet(self)
        write_bytes(ensure_parent(Path(path)), content)

    @classmethod
    def load(cls, path: Path | str) -> "Explanations":
        """Read a file that `save` wrote. Everything except images is restored exactly.

        Raises OptionError if there is no such file and RecordError if it is damaged.
        """
        path = Path(path)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise OptionError(f"There is no file {path}. Write one with explanations.save(path).") from None
        except OSError as error:
            raise RecordError(f"Could not read {path}: {error.strerror or error}.") from error
        return cls.joined(list(read_shards(cls, content, path)))

    @classmethod
    def shards(cls, path: Path | str) -> "Iterator[Explanations]":
        """Iterate over the shards of a file that `didact.explain_stream` wrote, with one shard in memory at a time."""
        path = Path(path)
        if not path.is_file():
            raise OptionError(f"There is no file {path}. Write one with explanations.save(path).")
        return read_shards(cls, path, path)

    def show(self, rows: int = DEFAULT_ROWS, *, level: str = "word") -> None:
        """Print the heat maps of the first rows to the terminal, by whole words or by pieces (`level="token"`)."""
        RowViews([self], level=level).show(rows)

    def _repr_html_(self) -> str:
        return RowViews([self]).to_fragment()

    def to_html(self, path: Path | str, title: str | None = None, *, level: str = "word") -> None:
        """Write one self-contained HTML page with heat maps, by whole words or by pieces (`level="token"`)."""
        lead = f"{Spec(self.method, self.options)} · {self.task} · {len(self)} rows"
        RowViews([self], level=level).to_page(path, title or f"{self.method} explains {self.teacher}", lead=lead)


def _take(values: Any, indices: Any) -> Any:
    """The values at these indices, as an array or a tuple. None stays None."""
    if values is None or isinstance(values, np.ndarray):
        return None if values is None else values[indices]
    return tuple(values[index] for index in indices)


def _concatenate(columns: Sequence[Any]) -> Any:
    """Concatenate arrays or tuples."""
    return np.concatenate(columns) if isinstance(columns[0], np.ndarray) else tuple(chain.from_iterable(columns))


def _spans(pair: Alignment) -> list[list[int]]:
    return [[start, end] for _, start, end in pair]
