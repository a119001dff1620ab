"""Background rows: reference samples drawn from the data, with which SHAP methods compare a row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from didact.core.model import Batch, Model, Row
from didact.core.seeds import numpy_generator
from didact.errors import OptionError, UnsupportedError

_CHUNK = 256


class Background:
    """`size` background rows for each row: its units replaced by tokens drawn by frequency; for images, other images.

    Special tokens stay, so that a drawn text has the form of the row. The background of a row depends on its id, the
    seed and the data, never on the other rows of its batch.
    """

    def __init__(self, *, size: int = 16, seed: int = 0) -> None:
        if size < 1:
            raise OptionError(f"Option 'background' must be at least 1 (rows to compare with), got {size}.")
        self.size, self.seed = size, seed
        self._tokens: Int[np.ndarray, " token"] | None = None
        self._cumulative_shares: Float[np.ndarray, " token"] | None = None  # cumulative over tokens
        self._images: tuple[tuple[str, ...], Float[Tensor, "image channel height width"]] | None = None

    def prepare(self, model: Model, rows: Sequence[Row]) -> None:
        """Count the tokens of these rows, or choose images among them."""
        if len(rows) < 2:
            raise UnsupportedError(
                "This method compares each row with background rows, and a single row could only be compared with "
                "itself. Pass background rows (background_rows=…, --background DATA), or choose integrated_gradients "
                "or deeplift."
            )
        if not model.task.is_text:
            order = numpy_generator(self.seed, "background images").permutation(len(rows))[: self.size + 1]
            chosen = model.encode([rows[index] for index in order])
            assert chosen.pixels is not None
            self._images = (chosen.ids, chosen.pixels)
            return
        counts: Counter[int] = Counter()
        for start in range(0, len(rows), _CHUNK):
            batch = model.encode(rows[start : start + _CHUNK])
            counts.update(batch.tokens[batch.units].tolist())
        self._tokens = np.array(sorted(counts), dtype=np.int64)
        shares = np.array([counts[token] for token in sorted(counts)], dtype=np.float64).cumsum()
        self._cumulative_shares = shares / shares[-1]

    def of(self, batch: Batch, draws: Int[Tensor, " batch"]) -> Batch:
        """The batch with each row replaced by its background row of this number."""
        if batch.pixels is not None:
            return replace(batch, pixels=self._other_images(batch, draws))
        if self._tokens is None or self._cumulative_shares is None:
            raise UnsupportedError(
                "This method compares each row with background rows: call prepare(teacher, rows) first."
            )
        units = batch.units.cpu().numpy()
        tokens = batch.tokens.cpu().numpy().copy()
        texts: dict[str, Int[np.ndarray, "draw unit"]] = {}
        for row, number in enumerate(draws.tolist()):
            name = batch.ids[row]
            if name not in texts:
                chances = numpy_generator(self.seed, "background", name).random((self.size, int(units[row].sum())))
                texts[name] = self._tokens[np.searchsorted(self._cumulative_shares, chances)]
            tokens[row, units[row]] = texts[name][number]
        return replace(batch, tokens=torch.from_numpy(tokens).to(batch.device))

    def _other_images(self, batch: Batch, draws: Int[Tensor, " batch"]) -> Float[Tensor, "batch channel height width"]:
        if self._images is None:
            raise UnsupportedError(
                "This method compares each image with other images: call prepare(teacher, rows) first."
            )
        ids, pixels = self._images
        images = []
        for row, number in zip(batch.ids, draws.tolist(), strict=True):
            others = [index for index, name in enumerate(ids) if name != row]
            images.append(pixels[others[number % len(others)]])
        return torch.stack(images).to(batch.device)
