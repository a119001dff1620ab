"""Scores of many rows by one method: columnar, ragged, sliceable, on disk as Parquet. No torch needed to read them."""

import json
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from jaxtyping import Float, Int, UInt8

from didact.errors import DataError, OptionError, RecordError, ShapeError
from didact.files.atomic import with_folder, write_bytes, write_text
from didact.registry import Spec, unknown
from didact.render.page import fragment
from didact.render.page import page as document
from didact.results.explanations_parquet import ABOUT, from_parquet, shards_of, to_parquet
from didact.results.row_explanation import TEXTS, Alignment, RowExplanation
from didact.results.views import SHOWN, Sections, more_than, side_by_side
from didact.results.word_summary import WordSummary, summarise
from didact.results.words import Units, check_level, join_words

KINDS = ("signed", "magnitude", "distribution", "binary")
_FRAME = (
    "id", "text", "tokens", "scores", "target", "prediction", "probability", "label", "is_right", "completeness",
)  # fmt: skip

T = TypeVar("T")


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
        for name, choices in (("kind", KINDS), ("task", tuple(TEXTS))):
            if getattr(self, name) not in choices:
                raise OptionError(unknown(name, getattr(self, name), choices))
        try:
            # As they will be read back, and safe from later changes to the caller's own.
            options = json.loads(json.dumps(dict(self.options), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise OptionError(f"Options of {self.method!r} cannot be written as JSON ({error}).") from error
        self._set(options=options, fingerprints=dict(self.fingerprints))
        for name in ("bounds", "segments", "word_index", "offsets"):
            self._set(**{name: np.asarray(getattr(self, name), dtype=np.int64)})
        if not len(self.probabilities):
            self._set(probabilities=np.full(len(self.ids), np.nan))
        self._set(labels=tuple(self.labels) or (None,) * len(self.ids))
        for name in ("scores", "residuals", "probabilities"):
            self._set(**{name: np.asarray(getattr(self, name), dtype=np.float64)})
        if self.alignments is not None:
            self._set(alignments=tuple(tuple(map(_plain, pairs)) for pairs in self.alignments))
        self._check_shapes()
        self._check_places()
        self._check_alignments()
        self._check_scores()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_shapes(self) -> None:
        rows, units, sides = len(self.ids), len(self.tokens), 4 if self.task == "image" else 2
        wanted: dict[str, tuple[int, ...]] = {
            "texts": (rows,),
            "targets": (rows,),
            "predictions": (rows,),
            "residuals": (rows,),
            "probabilities": (rows,),
            "labels": (rows,),
            "bounds": (rows + 1,),
            "segments": (units,),
            "word_index": (units,),
            "offsets": (units, sides),
            "scores": (units,),
        }
        for name, shape in wanted.items():
            value = getattr(self, name)
            found = value.shape if isinstance(value, np.ndarray) else (len(value),)
            if found != shape:
                raise ShapeError(f"{rows} rows of {units} units need {name} of shape {shape}, not {found}.")
        if self.bounds[0] != 0 or self.bounds[-1] != units or (np.diff(self.bounds) < 0).any():
            raise ShapeError(f"Bounds must rise from 0 to the {units} units, not {_few(self.bounds)}.")
        if self.images is not None and len(self.images) != rows:
            raise ShapeError(f"{rows} rows need {rows} images, not {len(self.images)}.")
        for image in self.images or ():
            if image.ndim != 3 or image.dtype != np.uint8:
                raise ShapeError(f"An image is height x width x channel of uint8, not {image.dtype} {image.shape}.")

    def _check_places(self) -> None:
        """Every unit lies inside its text, or is a patch with its corners in order."""
        rows, inside = self._rows(), self.segments >= 0
        half = self.offsets.shape[1] // 2
        first, last = self.offsets[:, :half], self.offsets[:, half:]
        wrong = (self.segments < -1) | (self.word_index < -1)
        wrong |= inside & ((first < 0) | (last < first)).any(1)
        if self.task != "image":
            lengths = np.full((len(self) + 1, max(map(len, self.texts), default=0) + 1), -1)
            for row, texts in enumerate(self.texts):
                lengths[row, : len(texts)] = [len(text) for text in texts]
            limits = lengths[rows, np.clip(self.segments, -1, lengths.shape[1] - 1)]
            wrong |= inside & (last[:, 0] > limits)
        if wrong.any():
            unit = int(np.flatnonzero(wrong)[0])
            raise ShapeError(
                f"Unit {self.tokens[unit]!r} of row {self.ids[rows[unit]]!r} lies outside its text or image: "
                f"segment {self.segments[unit]}, word {self.word_index[unit]}, offsets {_few(self.offsets[unit])}."
            )

    def _check_alignments(self) -> None:
        """One set of pairs per row, each a span of the question with one of the passage, inside their texts."""
        if self.alignments is None:
            return
        if self.task != "reading":
            raise ShapeError(f"Only questions and passages (task reading) have aligned spans, not task {self.task!r}.")
        if len(self.alignments) != len(self):
            raise ShapeError(f"{len(self)} rows need alignments for {len(self)}, not {len(self.alignments)}.")
        for name, texts, pairs in zip(self.ids, self.texts, self.alignments, strict=True):
            for pair in pairs:
                for number, (segment, start, end) in enumerate(pair):
                    if segment != number or not 0 <= start <= end <= len(texts[number]):
                        raise ShapeError(
                            f"An alignment of row {name!r} lies outside its texts: {pair}. The first span is of the "
                            "question (0, start, end), the second of the passage (1, start, end), in characters."
                        )

    def _check_scores(self) -> None:
        wrong = ~np.isfinite(self.scores)
        if self.kind != "signed":
            wrong |= self.scores < 0
        if wrong.any():
            rows = self._rows()[wrong]
            units = zip(rows, np.flatnonzero(wrong), strict=True)
            wanted = "finite" if self.kind == "signed" else "finite and not negative"
            raise DataError(
                f"Scores of kind {self.kind!r} must be {wanted}; method {self.method!r} gave others.",
                [f"row {self.ids[row]!r}, unit {self.tokens[unit]!r}: {self.scores[unit]}" for row, unit in units],
            )

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
            tokens=self.tokens[units],
            segments=self.segments[units],
            word_index=self.word_index[units],
            offsets=self.offsets[units],
            scores=self.scores[units],
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
        wanted = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        if wanted.dtype == bool:
            if wanted.shape != (len(self),):
                raise ShapeError(f"A mask over {len(self)} rows has one value for each, not {len(wanted)}.")
            wanted = np.flatnonzero(wanted)
        chosen = [range(len(self))[operator.index(row)] for row in wanted.tolist()]
        starts, ends = self.bounds[:-1][chosen], self.bounds[1:][chosen]
        bounds = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        units = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], ends - starts)
        return replace(
            self,
            ids=_picked(self.ids, chosen),
            texts=_picked(self.texts, chosen),
            bounds=bounds,
            tokens=_picked(self.tokens, units.tolist()),
            segments=self.segments[units],
            word_index=self.word_index[units],
            offsets=self.offsets[units],
            scores=self.scores[units],
            targets=_picked(self.targets, chosen),
            predictions=_picked(self.predictions, chosen),
            residuals=self.residuals[chosen],
            images=None if self.images is None else _picked(self.images, chosen),
            alignments=None if self.alignments is None else _picked(self.alignments, chosen),
            probabilities=self.probabilities[chosen],
            labels=_picked(self.labels, chosen),
        )

    @classmethod
    def joined(cls, parts: Sequence["Explanations"]) -> "Explanations":
        """The rows of all parts, one after another. Images are kept only if every part has them.

        Where any part has alignments, the rows of the others have none. Cautions are kept once each.
        """
        if not parts:
            raise ShapeError("There is nothing to join: give at least one part.")
        first = parts[0]
        for name in ABOUT:
            for other in parts[1:]:
                if getattr(other, name) != getattr(first, name):
                    raise ShapeError(
                        f"Explanations can be joined only where all say the same of themselves; {name} is "
                        f"{getattr(first, name)!r} here and {getattr(other, name)!r} there."
                    )
        counts = np.concatenate([np.diff(part.bounds) for part in parts])
        columns: dict[str, Any] = {"bounds": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)}
        for name in ("segments", "word_index", "offsets", "scores", "residuals", "probabilities"):
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        for name in ("ids", "texts", "tokens", "targets", "predictions", "labels"):
            columns[name] = tuple(chain.from_iterable(getattr(part, name) for part in parts))
        images = [part.images for part in parts if part.images is not None]
        columns["images"] = tuple(chain(*images)) if len(images) == len(parts) else None
        if any(part.alignments is not None for part in parts):
            columns["alignments"] = tuple(chain(*(part.alignments or ((),) * len(part) for part in parts)))
        columns["cautions"] = tuple(dict.fromkeys(chain.from_iterable(part.cautions for part in parts)))
        return replace(first, **columns)

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
        units = Units(self._rows(), self.tokens, self.segments, self.word_index, self.offsets, self.scores)
        joined = join_words(units, self.texts, kind=self.kind, is_image=self.task == "image")
        return replace(
            self,
            options={**self.options, "level": "word"},
            bounds=np.concatenate([[0], np.cumsum(np.bincount(joined.rows, minlength=len(self)))]).astype(np.int64),
            tokens=joined.tokens,
            segments=joined.segments,
            word_index=joined.word_index,
            offsets=joined.offsets,
            scores=joined.scores,
        )

    def summary(self, k: int = 20, *, least: int | None = None) -> WordSummary:
        """The `k` words of each explained class with the largest mean |score|, if they occur at least `least` times."""
        return summarise(self, k=k, least=least)

    def to_documents(self, *, level: str = "token") -> list[dict[str, Any]]:
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
                "probability": _known(row.probability),
                "label": row.label,
                "is_right": row.is_right,
                "completeness": _known(row.completeness),
                "residual": _known(row.residual),
                **({} if row.alignments is None else {"alignments": [_ends(pair) for pair in row.alignments]}),
            }
            for row in self.at_level(level)
        ]

    def to_pandas(self, *, level: str = "word") -> Any:
        """A data frame with one line per row; tokens and scores are lists of whole words (or `level="token"`)."""
        import pandas

        columns = list(_FRAME) + ([] if self.alignments is None else ["alignments"])
        frame = pandas.DataFrame(self.to_documents(level=level), columns=columns)
        return frame.astype({"probability": float, "is_right": "boolean", "completeness": float})

    def save(self, path: Path | str) -> None:
        """Write a Parquet file, whole or not at all. The same content always gives the same bytes."""
        content = to_parquet(self)
        write_bytes(with_folder(Path(path)), content)

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
        return from_parquet(content, path)

    @classmethod
    def shards(cls, path: Path | str) -> "Iterator[Explanations]":
        """The parts of a file that `didact.explain_stream` wrote, one after another: never all of it in memory."""
        path = Path(path)
        if not path.is_file():
            raise OptionError(f"There is no file {path}. Explanations are written by maps.save(path).")
        return shards_of(path)

    def _rows(self) -> Int[np.ndarray, " unit"]:
        """The number of the row that each unit belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    def show(self, rows: int = SHOWN, *, level: str = "word") -> None:
        """Print the heat maps of the first rows to the terminal: whole words, or pieces (`level="token"`)."""
        side_by_side([self], rows=rows, level=level)

    def _repr_html_(self) -> str:
        return fragment(Sections([self])[:SHOWN], more=more_than(len(self), SHOWN))

    def to_html(self, path: Path | str, title: str | None = None, *, level: str = "word") -> None:
        """Write one page that holds all it needs: rows, colours, pictures. Whole words, or pieces (`level="token"`)."""
        lead = f"{Spec(self.method, self.options)} · {self.task} · {len(self)} rows"
        sections = Sections([self], level=level)
        content = document(title or f"{self.method} explains {self.teacher}", sections, lead=lead)
        write_text(with_folder(Path(path)), content)


def _picked(values: Sequence[T], positions: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[position] for position in positions)


def _plain(pair: Alignment) -> Alignment:
    """Plain numbers, whatever kind of tuple or number they came as."""
    (first, start, end), (second, begin, finish) = pair
    return (int(first), int(start), int(end)), (int(second), int(begin), int(finish))


def _ends(pair: Alignment) -> list[list[int]]:
    return [[start, end] for _, start, end in pair]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _few(values: np.ndarray) -> str:
    return np.array2string(values, threshold=8, separator=", ")
