"""The perturbation engine of explainers and metrics: a teacher's answers to rows without some of their units.

The replacement of a removed unit is decided here, once for both. Units are removed from the tokens or embeddings of a
model; text is never decoded and tokenised again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from didact.core.batch import Batch
from didact.core.batching import length_buckets
from didact.core.model import Model, inference_copy, require_model
from didact.core.needs import require
from didact.core.teacher import Differentiable, Teacher
from didact.errors import OptionError, UnsupportedError

REPLACE: Final = ("mask", "delete", "pad", "zero")
DEFAULT: Final = "mask"
_FALLBACKS: Final = ("mask", "unk", "pad")  # replacement tokens, best first

Masks = Bool[np.ndarray, "_ position"]
Read = Callable[[Tensor, Int[Tensor, " mask"]], Shaped[Tensor, "mask *value"]]


def check_replace(replace: str) -> None:
    if replace not in REPLACE:
        raise OptionError(f"Option 'replace' must be one of {', '.join(map(repr, REPLACE))}, got {replace!r}.")


class MaskedForward:
    """A teacher's outputs for the rows of a batch with only some of their units present.

    `replace` is what happens to the other units: `mask` replaces them by the mask token (or, if the model has none, by
    the unknown token, the padding token or zeros, in this order), `pad` by the padding token, `zero` by zero
    embeddings (always used for image patches), and `delete` removes them, so that the rest moves up. A function gets
    whole texts in which its `absent` replaces the words. Special tokens and padding stay, and so do positions, except
    with `delete`. `description` names the replacement in words.

    At most `batch_size` perturbed rows pass through a model at once, sorted by length. Equal masks of a row are
    computed once per call. `passes` counts the perturbed rows that the teacher answered.
    """

    def __init__(self, teacher: Teacher, batch: Batch, *, replace: str = DEFAULT, batch_size: int = 64) -> None:
        check_replace(replace)
        require(teacher, "changed rows", "Perturbation")
        self.teacher, self.batch, self.batch_size = teacher, batch, batch_size
        self.replace, self.description, self._token = _resolve_replacement(teacher, batch, replace)
        self.units: Bool[np.ndarray, "row position"] = batch.units.cpu().numpy()
        self.passes = 0

    def __call__(
        self, masks: Sequence[Masks], *, rows: Sequence[int] | None = None, read: Read = lambda logits, _: logits
    ) -> list[Float[np.ndarray, "_ *value"]]:
        """For each row, one result per mask: by default the teacher's logits with only the marked units present.

        A mask has one entry per position of the batch; entries outside the units are ignored. `rows` are the indices
        in the batch of the rows that `masks` belong to (default: all). `read(logits, rows)` reduces the logits of
        perturbed rows, given their indices in the batch, to what is returned, for example the value of a target.
        """
        if not masks:
            return []
        row_indices = np.arange(len(self.batch)) if rows is None else np.asarray(rows)
        present, inverse = zip(
            *(distinct(mask | ~self.units[row]) for row, mask in zip(row_indices, masks, strict=True)), strict=True
        )
        counts = [len(mask) for mask in present]
        row_of_mask = np.repeat(row_indices, counts)
        self.passes += len(row_of_mask)
        run = self._run_model if isinstance(self.teacher, Differentiable) else self._run_predictor
        values = run(row_of_mask, np.concatenate(present), read)
        return [
            row_values[order]
            for row_values, order in zip(np.split(values, np.cumsum(counts)[:-1]), inverse, strict=True)
        ]

    def _run_model(self, row_of_mask: Int[np.ndarray, " mask"], present: Masks, read: Read) -> np.ndarray:
        model, batch = require_model(self.teacher, "perturbation"), self.batch
        rows, is_present = torch.from_numpy(row_of_mask).to(batch.device), torch.from_numpy(present).to(batch.device)
        lengths = batch.lengths[rows]
        if self.replace == "delete":
            lengths = (is_present & batch.mask[rows]).sum(-1)
        values: np.ndarray | None = None
        with inference_copy(model) as model:
            for bucket in length_buckets(lengths, self.batch_size):
                bucket_rows = rows[bucket]
                inputs_batch = batch.select(bucket_rows).to(model.device)
                inputs, inputs_batch = self.inputs(
                    model, inputs_batch, is_present[bucket, : inputs_batch.tokens.shape[1]].to(inputs_batch.device)
                )
                bucket_values = read(model.run(inputs, inputs_batch).logits, bucket_rows).cpu().double().numpy()
                values = np.zeros((len(row_of_mask), *bucket_values.shape[1:])) if values is None else values
                values[bucket] = bucket_values
        assert values is not None
        return values

    def inputs(
        self, model: Model, batch: Batch, is_present: Bool[Tensor, "batch token"]
    ) -> tuple[Float[Tensor, "batch left dim"], Batch]:
        """The embeddings of perturbed rows, and their batch. Gradients reach the model."""
        if self.replace == "delete":
            batch = _keep_positions(batch, is_present)
            return model.embed(batch), batch
        embeddings = model.embed(batch)
        if self._token is None:
            return embeddings.masked_fill(~is_present[..., None], 0.0), batch
        replaced = model.embed(changed(batch, tokens=torch.where(batch.units, self._token, batch.tokens)))
        return torch.where(is_present[..., None], embeddings, replaced), batch

    def _run_predictor(self, row_of_mask: Int[np.ndarray, " mask"], present: Masks, read: Read) -> np.ndarray:
        teacher, rows = self.teacher, self.batch.rows
        assert rows is not None
        perturbed_rows = []
        for row, mask in zip(row_of_mask.tolist(), present, strict=True):
            units = teacher.units(rows[row])
            removed = [units[index] for index in np.flatnonzero(~mask[: len(units)])]
            perturbed_rows.append(teacher.without(rows[row], removed))
        logits = torch.from_numpy(teacher.predict(perturbed_rows, batch_size=self.batch_size).values)
        return read(logits, torch.from_numpy(row_of_mask)).numpy()


def distinct(masks: Masks) -> tuple[Masks, Int[np.ndarray, " mask"]]:
    """The distinct masks, and for each mask the index of its equal among them."""
    packed = np.packbits(masks, axis=1)
    if not packed.shape[1]:
        return masks[:1], np.zeros(len(masks), dtype=np.int64)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return masks[first], inverse.reshape(-1)


def on_all_positions(group_masks: Bool[np.ndarray, "mask group"], groups: Int[np.ndarray, " position"]) -> Masks:
    """Masks over groups as masks over positions. Positions without a group are always present.

    These are the positions with group -1 or with the number of groups.
    """
    present = np.ones((len(group_masks), group_masks.shape[1] + 1), dtype=bool)
    present[:, :-1] = group_masks
    return present[:, groups]


def _resolve_replacement(teacher: Teacher, batch: Batch, replace: str) -> tuple[str, str, int | None]:
    """The replacement in use, its description, and the id of the replacement token (None: zeros)."""
    if not isinstance(teacher, Differentiable):
        if batch.pixels is not None:
            return "absent", "the mean colour of the image", None
        return "absent", f"replaced by {teacher.absent!r}" if teacher.absent else "deleted from the text", None
    if batch.pixels is not None or replace == "zero":
        return "zero", "embedding 0", None
    if replace == "delete":
        return "delete", "deleted", None
    model = require_model(teacher, "perturbation")
    for name in _FALLBACKS if replace == "mask" else ("pad",):
        try:
            token = model.special_token_id(name)
        except UnsupportedError:
            continue
        description = f"replaced by {model.token_name(token)}"
        return replace, description if name == replace else f"{description}, since there is no mask token", token
    if replace == "mask":
        return "zero", "embedding 0, since there is no mask token", None
    raise UnsupportedError(
        f"Model {teacher.name!r} has no padding token that could replace removed units. "
        "Choose replace=delete or replace=zero."
    )


def _keep_positions(batch: Batch, keep: Bool[Tensor, "batch token"]) -> Batch:
    """The batch without the positions outside `keep`; the others move up.

    If nothing remains of a row, which happens in models without special tokens, one token with id 0 stays: padding in
    nearly all vocabularies.
    """
    remaining = keep & batch.mask
    is_empty = ~remaining.any(-1, keepdim=True)
    remaining[:, :1] |= is_empty
    order = (~remaining).long().argsort(dim=-1, stable=True)[:, : int(remaining.sum(-1).max())]
    return changed(
        batch,
        tokens=batch.tokens.masked_fill(is_empty, 0).gather(1, order),
        mask=remaining.gather(1, order),
        units=batch.units.gather(1, order),
        segments=batch.segments.gather(1, order),
        words=batch.words.gather(1, order),
        offsets=batch.offsets.gather(1, order[..., None].expand(-1, -1, 2)),
        types=None if batch.types is None else batch.types.gather(1, order),
        rationale=None,
        rows=None,
    )
