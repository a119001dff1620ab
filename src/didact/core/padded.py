"""Stored explanations as padded tensors: on their own units, or on the positions of a batch of any tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from didact.core.batch import Batch
from didact.core.explanation import Explanation, Kind
from didact.errors import ShapeError
from didact.results.explanations import Explanations
from didact.results.ragged import bounds_of, row_of_units

# A lost share of a row's mass up to this is rounding, and not reported.
_NEGLIGIBLE = 1e-9


def padded(
    explanations: Explanations, batch: Batch, *, normalise: Callable[[Explanation], Tensor] | None = None
) -> Explanation:
    """The scores at the positions of a batch of the same rows, on the CPU.

    The score of a unit is divided among the positions that overlap it, in proportion to shared characters, so that sums
    do not change. Binary marks mark every overlapping position. `normalise` turns the scores of the units into a
    distribution first. `lost` of the result is true for rows some of whose mass has no position in the batch.
    """
    source, position_map, kind = padded_units(explanations), PositionMap.of(explanations, batch), explanations.kind
    unit_scores = source.scores
    if normalise is not None:
        unit_scores, kind = normalise(source), "distribution"
    scores = position_map.apply(unit_scores, batch.mask.shape[1])
    if kind == "binary":
        scores = (scores > 0).double()
    lost = position_map.lost(unit_scores.abs())
    return Explanation(scores, batch.mask.cpu(), batch.units.cpu(), cast(Kind, kind), lost=lost)


def padded_units(explanations: Explanations) -> Explanation:
    """The scores of the units, padded on the right."""
    units = row_mask(explanations.bounds)
    scores = pad_ragged(explanations.scores, explanations.bounds)
    return Explanation(scores, units, units, cast(Kind, explanations.kind))


@dataclass(frozen=True)
class PositionMap:
    """A linear map from the units of explanations to the positions of a batch that preserves the mass of each row.

    It is sparse: entry `i` of a row moves the fraction `shares[i]` of unit `units[i]` to position `positions[i]`. A row
    has `counts` entries; the rest is padding with share 0. `uncovered` units overlap no position: their mass is lost.
    """

    units: Int[Tensor, "row entry"]
    positions: Int[Tensor, "row entry"]
    shares: Float[Tensor, "row entry"]
    counts: Int[Tensor, " row"]
    uncovered: Bool[Tensor, "row unit"]

    @classmethod
    def of(cls, explanations: Explanations, batch: Batch) -> "PositionMap":
        """The map for explanations of the rows of the batch, in order; the identity for rows with equal units."""
        bounds, rows = explanations.bounds, row_of_units(explanations.bounds)
        unit, position, characters = _shared_characters(explanations, batch)
        total = np.bincount(unit, characters, minlength=len(rows))
        entries = bounds_of(np.bincount(rows[unit], minlength=len(bounds) - 1))
        return cls(
            pad_ragged(unit - bounds[rows[unit]], entries),
            pad_ragged(position, entries),
            pad_ragged(characters / total[unit], entries),
            torch.from_numpy(np.diff(entries)),
            pad_ragged(total == 0, bounds),
        )

    def apply(self, scores: Float[Tensor, "row unit"], length: int) -> Float[Tensor, "row token"]:
        """The scores at `length` positions, which must include all positions of the map."""
        contributions = scores.gather(1, self.units) * self.shares
        return contributions.new_zeros(len(scores), length).scatter_add(1, self.positions, contributions)

    def lost(self, mass: Float[Tensor, "row unit"]) -> Bool[Tensor, " row"]:
        """Whether each row loses mass."""
        return (mass * self.uncovered).sum(-1) > _NEGLIGIBLE * mass.sum(-1)

    def select(self, rows: Int[Tensor, " chosen"]) -> "PositionMap":
        """The map of these rows, cut to the largest number of entries."""
        counts, index = self.counts[rows], rows.to(self.units.device)
        width = int(counts.max())
        selected = {name: getattr(self, name)[index, :width] for name in ("units", "positions", "shares")}
        return replace(self, **selected, counts=counts, uncovered=self.uncovered[index])

    def to(self, device: torch.device, dtype: torch.dtype) -> "PositionMap":
        """The map on a device, with shares of this dtype; `counts` stay on the CPU."""
        moved = {name: getattr(self, name).to(device) for name in ("units", "positions", "uncovered")}
        return replace(self, **moved, shares=self.shares.to(device, dtype))


def row_mask(bounds: Int[np.ndarray, " bound"]) -> Bool[Tensor, "row unit"]:
    """The mask of ragged rows after padding on the right."""
    counts = np.diff(bounds)
    return torch.from_numpy(np.arange(counts.max(initial=0)) < counts[:, None])


def pad_ragged(
    values: Shaped[np.ndarray, "value *rest"], bounds: Int[np.ndarray, " bound"]
) -> Shaped[Tensor, "row column *rest"]:
    """Ragged values padded on the right with 0."""
    mask, ragged = row_mask(bounds), torch.from_numpy(values)
    table = ragged.new_zeros(*mask.shape, *ragged.shape[1:])
    table[mask] = ragged
    return table


def _shared_characters(
    explanations: Explanations, batch: Batch
) -> tuple[Int[np.ndarray, " entry"], Int[np.ndarray, " entry"], Float[np.ndarray, " entry"]]:
    """All pairs of a unit and a position that share characters, sorted, and the number of shared characters.

    In rows whose units equal those of the batch, each unit is paired with its own position only, because the byte
    pieces of one character overlap.
    """
    is_unit = batch.units.cpu()
    rows, (position_rows, position) = row_of_units(explanations.bounds), np.nonzero(is_unit.numpy())
    counts = np.bincount(position_rows, minlength=len(batch))
    if explanations.task == "image":
        _check_grid(explanations, counts)
        return np.arange(len(rows)), position, np.ones(len(rows))
    unit_spans = np.column_stack([explanations.segments, explanations.offsets])
    position_spans = np.column_stack([batch.segments.cpu()[is_unit].numpy(), batch.offsets.cpu()[is_unit].numpy()])
    has_same_units = counts == np.diff(explanations.bounds)
    differs = (unit_spans[has_same_units[rows]] != position_spans[has_same_units[position_rows]]).any(1)
    has_same_units[rows[has_same_units[rows]][differs]] = False
    unit, piece = np.flatnonzero(has_same_units[rows]), np.flatnonzero(has_same_units[position_rows])
    other_units, other_pieces = np.flatnonzero(~has_same_units[rows]), np.flatnonzero(~has_same_units[position_rows])
    overlapping_units, overlapping_pieces, characters = _overlaps(
        rows[other_units], unit_spans[other_units], position_rows[other_pieces], position_spans[other_pieces]
    )
    characters = np.concatenate([np.ones(len(unit)), characters])
    unit, piece = (
        np.concatenate([unit, other_units[overlapping_units]]),
        np.concatenate([piece, other_pieces[overlapping_pieces]]),
    )
    order = np.lexsort((piece, unit))
    return unit[order], position[piece[order]], characters[order]


def _overlaps(
    unit_rows: Int[np.ndarray, " unit"],
    unit_spans: Int[np.ndarray, "unit 3"],
    piece_rows: Int[np.ndarray, " piece"],
    piece_spans: Int[np.ndarray, "piece 3"],
) -> tuple[Int[np.ndarray, " entry"], Int[np.ndarray, " entry"], Float[np.ndarray, " entry"]]:
    """All pairs of a unit and a piece that share characters of one text, and the number of shared characters.

    All texts of all rows are placed on one axis, and pieces are sorted by start. The candidates for a unit are then
    adjacent: from the first piece where the running maximum of ends exceeds the unit's start to the last piece that
    starts before the unit's end.
    """
    texts = 2 + max(unit_spans[:, 0].max(initial=-1), piece_spans[:, 0].max(initial=-1))
    length = 1 + max(unit_spans[:, 2].max(initial=0), piece_spans[:, 2].max(initial=0))
    unit_starts, unit_ends = unit_spans[:, 1:].T + (unit_rows * texts + unit_spans[:, 0] + 1) * length
    piece_starts, piece_ends = piece_spans[:, 1:].T + (piece_rows * texts + piece_spans[:, 0] + 1) * length
    order = np.argsort(piece_starts, kind="stable")
    first = np.searchsorted(np.maximum.accumulate(piece_ends[order]), unit_starts, side="right")
    candidates = np.maximum(np.searchsorted(piece_starts[order], unit_ends) - first, 0)
    bounds = bounds_of(candidates)
    unit = row_of_units(bounds)
    piece = order[np.arange(bounds[-1]) - bounds[unit] + first[unit]]
    characters = np.minimum(unit_ends[unit], piece_ends[piece]) - np.maximum(unit_starts[unit], piece_starts[piece])
    is_shared = characters > 0
    return unit[is_shared], piece[is_shared], characters[is_shared].astype(np.float64)


def _check_grid(explanations: Explanations, patches: Int[np.ndarray, " row"]) -> None:
    units = np.diff(explanations.bounds)
    if (units != patches).any():
        row = int(np.flatnonzero(units != patches)[0])
        raise ShapeError(
            f"The explanation of image {explanations.ids[row]!r} has {units[row]} patches, and the student sees "
            f"{patches[row]}. Choose a student with the teacher's grid, such as native(patch=8) or 'same'."
        )
