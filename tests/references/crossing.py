"""How explanations cross to another tokenizer, literally: row by row, every unit against every piece."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.core.batch import Batch
from didact.results.explanations import Explanations

# Less than this share of a row's mass may stay behind unnoticed: the rounding of sums.
_NOTICED = 1e-9


def crossed_mass(
    maps: Explanations, mass: Float[np.ndarray, " unit"], batch: Batch
) -> tuple[Float[np.ndarray, "row token"], Bool[np.ndarray, " row"]]:
    """Each unit's mass, shared among the pieces it overlaps by their characters; and the rows that lost some.

    Equal tokenizers give the identity. What lies beyond the student's reach is dropped, the rest not yet renormalised.
    """
    found = np.zeros(batch.mask.shape)
    lost = np.zeros(len(batch), dtype=bool)
    for row, units, pieces, overlap in _rows(maps, batch):
        sent = mass[units]
        if overlap is None:
            found[row, pieces] = sent
            continue
        total = overlap.sum(1, keepdims=True)
        found[row, pieces] = sent @ (overlap / np.where(total > 0, total, 1))
        lost[row] = sent[total[:, 0] == 0].sum() > _NOTICED * sent.sum()
    return found, lost


@dataclass(frozen=True)
class Crossing:
    """`crossed_mass` as a linear map: each entry sends a share of a row's unit to one of the student's positions.

    `lost` are the rows with units that no position covers.

    Units are counted within their row. The entries of row r are those from `bounds[r]` to `bounds[r + 1]`.
    """

    units: Int[np.ndarray, " entry"]
    pieces: Int[np.ndarray, " entry"]
    shares: Float[np.ndarray, " entry"]
    bounds: Int[np.ndarray, " row_and_one"]
    lost: Bool[np.ndarray, " row"]


def crossing(maps: Explanations, batch: Batch) -> Crossing:
    """Where the mass of every row's units goes."""
    units, pieces, shares, bounds = [], [], [], [0]
    lost = np.zeros(len(batch), dtype=bool)
    for row, _, own, overlap in _rows(maps, batch):
        if overlap is None:
            found, places, share = np.arange(len(own)), np.arange(len(own)), np.ones(len(own))
        else:
            found, places = np.nonzero(overlap)
            share = overlap[found, places] / overlap.sum(1)[found]
            lost[row] = not overlap.any(1).all()
        units.append(found)
        pieces.append(own[places])
        shares.append(share)
        bounds.append(bounds[-1] + len(found))
    joined = np.concatenate(units), np.concatenate(pieces), np.concatenate(shares)
    return Crossing(*joined, np.array(bounds, dtype=np.int64), lost)


def crossed_marks(
    maps: Explanations, marked: Bool[np.ndarray, " unit"], batch: Batch
) -> tuple[Bool[np.ndarray, "row token"], Bool[np.ndarray, " row"]]:
    """Every piece that a marked unit overlaps; and the rows with marks that no piece covers."""
    found = np.zeros(batch.mask.shape, dtype=bool)
    lost = np.zeros(len(batch), dtype=bool)
    for row, units, pieces, overlap in _rows(maps, batch):
        marks = marked[units]
        if overlap is None:
            found[row, pieces] = marks
            continue
        found[row, pieces] = overlap[marks].any(0)
        lost[row] = not overlap[marks].any(1).all()
    return found, lost


def _rows(
    maps: Explanations, batch: Batch
) -> Iterator[tuple[int, slice, Int[np.ndarray, " piece"], Float[np.ndarray, "unit piece"] | None]]:
    """For each row its units, its pieces, and how many characters they share; None where they are the same."""
    is_unit = batch.units.cpu().numpy()
    segments, offsets = batch.segments.cpu().numpy(), batch.offsets.cpu().numpy()
    for row in range(len(batch)):
        units = slice(int(maps.bounds[row]), int(maps.bounds[row + 1]))
        pieces = np.flatnonzero(is_unit[row])
        if maps.task == "image":
            yield row, units, pieces, None
            continue
        theirs = np.column_stack([maps.segments[units], maps.offsets[units]])
        ours = np.column_stack([segments[row, pieces], offsets[row, pieces]])
        yield row, units, pieces, None if np.array_equal(theirs, ours) else _overlap(theirs, ours)


def _overlap(theirs: Int[np.ndarray, "unit 3"], ours: Int[np.ndarray, "piece 3"]) -> Float[np.ndarray, "unit piece"]:
    """Shared characters of each unit and each piece of the same text."""
    start = np.maximum(theirs[:, None, 1], ours[None, :, 1])
    end = np.minimum(theirs[:, None, 2], ours[None, :, 2])
    same = theirs[:, None, 0] == ours[None, :, 0]
    return np.where(same, np.maximum(end - start, 0), 0).astype(np.float64)


def sent_mass(
    maps: Explanations, batch: Batch, *, signed: str = "absolute", temperature: float = 1.0
) -> Float[np.ndarray, "row token"]:
    """What a student is sent of explanations that are no marks: each row one in sum, crossed, and one in sum again."""
    mass = np.zeros(len(maps.scores))
    for start, end in zip(maps.bounds[:-1], maps.bounds[1:], strict=True):
        mass[start:end] = _share(_sizes(maps.scores[start:end], maps.kind, signed, temperature))
    arrived, _ = crossed_mass(maps, mass, batch)
    for row, units in zip(arrived, batch.units.numpy(), strict=True):
        row[units] = _share(row[units])
    return arrived


def _sizes(
    scores: Float[np.ndarray, " unit"], kind: str, signed: str, temperature: float
) -> Float[np.ndarray, " unit"]:
    if kind == "signed" and signed == "softmax":
        return np.exp(scores / temperature)
    if kind == "signed" and signed == "positive":
        scores = np.maximum(scores, 0.0)
    return np.asarray(np.abs(scores) ** (1 / temperature))


def _share(sizes: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
    return sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(sizes), 1 / max(1, len(sizes)))
