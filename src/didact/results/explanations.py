"""Scores of many rows by one method: columnar, ragged, sliceable, on disk as Parquet. No torch needed to read them."""

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
    """Scores of many rows by one method. Only scored units are kept.

    Units `bounds[i]` to `bounds[i + 1]` belong to row i. A unit of segment -1 stands in no text (a special token), one
    of word -1 belongs to no word. Offsets are (start, end) in the unit's text or, for images, (top, left, bottom,
    right) in pixels of the original image. `options` holds every option of the method, resolved. Targets and
    predictions are written for people. Residuals are NaN where the method promises no completeness. Images are
    shown, never saved. `alignments` are for each row of a reading task the spans of question and passage that refer to
    the same thing; None if the method aligns nothing. `probabilities` are those of the predictions (NaN where unknown),
    `labels` the gold labels by name (None where unknown); without them, all are unknown. `cautions` are the explainer's
    own warnings about these scores.
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
        """Bring the columns to their types and check them. What is derived from a checked set is not checked again."""
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
        """A copy with these columns instead, which must fit: unlike `dataclasses.replace` it checks nothing again."""
        copy = object.__new__(Explanations)
        copy.__dict__.update(self.__dict__, **columns)
        return copy

    @property
    def is_image(self) -> bool:
        """Whether rows are images, and units patches."""
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
        """The rows at `indices`, in that order; a mask of one truth value per row works too."""
        selection = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        if selection.dtype == bool:
            if selection.shape != (len(self),):
                raise ShapeError(f"A mask over {len(self)} rows has one value for each, not {len(selection)}.")
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
        """The rows of all parts, one after another. Images are kept only if every part has them.

        Where any part has alignments, the rows of the others have none. Cautions are kept once each.
        """
        if not sets:
            raise ShapeError("There is nothing to join: give at least one part.")
        first = sets[0]
        if len(sets) == 1:
            return first
        for name in METADATA:
            for other in sets[1:]:
                if getattr(other, name) != getattr(first, name):
                    raise ShapeError(
                        f"Explanations can be joined only where all say the same of themselves; {name} is "
                        f"{getattr(first, name)!r} here and {getattr(other, name)!r} there."
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
        """For each row its `k` words that matter most, or that fraction of its words, with their scores.

        `level="token"` ranks the units as the method scored them.
        """
        return [row.top(k, level="token") for row in self.at_level(level)]

    def at_level(self, level: str) -> "Explanations":
        """Whole words (`word`), or the units as the method scored them (`token`)."""
        check_level(level)
        return self.words() if level == "word" else self

    def words(self) -> "Explanations":
        """The same with the pieces of each word joined. Pieces that belong to no word stay as they are.

        Signed scores and distributions add up, magnitudes as the root of their summed squares; a word with any
        marked piece is marked.
        """
        units = Units(row_of_units(self.bounds), *(getattr(self, name) for name in UNIT_COLUMNS))
        words = join_words(units, self.texts, kind=self.kind, is_image=self.is_image)
        options = {**self.options, "level": "word"}
        counts = np.bincount(words.rows, minlength=len(self))
        return self.derive(options=options, bounds=bounds_of(counts), **words.columns())

    def summary(self, k: int = 20, *, least: int | None = None) -> WordSummary:
        """The `k` words of each explained class with the largest mean |score|, if they occur at least `least` times."""
        return summarise(self, k=k, least=least)

    def to_documents(self, *, level: str = "token") -> list[dict[str, object]]:
        """One plain dictionary per row, for JSON: what is unknown becomes None. Units are the method's own.

        Alignments, where there are any, are pairs of [start, end] in question and passage.
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
        """A data frame with one line per row; tokens and scores are lists of whole words (or `level="token"`)."""
        import pandas

        columns = list(_FRAME_COLUMNS) + ([] if self.alignments is None else ["alignments"])
        frame = pandas.DataFrame(self.to_documents(level=level), columns=columns)
        return frame.astype({"probability": float, "is_right": "boolean", "completeness": float})

    def save(self, path: Path | str) -> None:
        """Write a Parquet file, whole or not at all. The same content always gives the same bytes."""
        content = to_parquet(self)
        write_bytes(ensure_parent(Path(path)), content)

    @classmethod
    def load(cls, path: Path | str) -> "Explanations":
        """Read what `save` wrote: the same to the last bit, but for the images."""
        path = Path(path)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise OptionError(f"There is no file {path}. Explanations are written by maps.save(path).") from None
        except OSError as error:
            raise RecordError(f"Could not read {path}: {error.strerror or error}.") from error
        return cls.joined(list(read_shards(cls, content, path)))

    @classmethod
    def shards(cls, path: Path | str) -> "Iterator[Explanations]":
        """The parts of a file that `didact.explain_stream` wrote, one after another: never all of it in memory."""
        path = Path(path)
        if not path.is_file():
            raise OptionError(f"There is no file {path}. Explanations are written by maps.save(path).")
        return read_shards(cls, path, path)

    def show(self, rows: int = DEFAULT_ROWS, *, level: str = "word") -> None:
        """Print the heat maps of the first rows to the terminal: whole words, or pieces (`level="token"`)."""
        RowViews([self], level=level).show(rows)

    def _repr_html_(self) -> str:
        return RowViews([self]).to_fragment()

    def to_html(self, path: Path | str, title: str | None = None, *, level: str = "word") -> None:
        """Write one page that holds all it needs: rows, colours, pictures. Whole words, or pieces (`level="token"`)."""
        lead = f"{Spec(self.method, self.options)} · {self.task} · {len(self)} rows"
        RowViews([self], level=level).to_page(path, title or f"{self.method} explains {self.teacher}", lead=lead)


def _take(values: Any, indices: Any) -> Any:
    """The values at these places, as an array or a tuple; None where there are none."""
    if values is None or isinstance(values, np.ndarray):
        return None if values is None else values[indices]
    return tuple(values[index] for index in indices)


def _concatenate(columns: Sequence[Any]) -> Any:
    """One column after another."""
    return np.concatenate(columns) if isinstance(columns[0], np.ndarray) else tuple(chain.from_iterable(columns))


def _spans(pair: Alignment) -> list[list[int]]:
    return [[start, end] for _, start, end in pair]
