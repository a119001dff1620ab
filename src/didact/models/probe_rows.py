"""Two short rows of different lengths, to check and measure Hugging Face models with."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from didact.core.batch import Batch
from didact.core.row import Row
from didact.errors import DidactError, ShapeError, UnsupportedError

if TYPE_CHECKING:
    from didact.models.huggingface import HuggingFaceModel

# Pairs of texts of different lengths. The shorter pairs are for models that read only a few tokens.
_TEXTS: Final = (("a film", "the plot is not very good"), ("a b", "a b c d"), ("a", "b c"))


def probe_batch(model: "HuggingFaceModel") -> Batch:
    """A batch of two texts of different lengths, or of two images of noise. Raises the error of the last attempt."""
    if not model.task.is_text:
        pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
        return model.encode([Row(f"image-{index}", image=image) for index, image in enumerate(pixels)]).to(model.device)
    fault: DidactError | None = None
    ragged: Batch | None = None
    for texts in (*_TEXTS, _from_vocabulary(model.tokenizer)):
        text_count = model.task.fewest_texts
        try:
            batch = model.encode([Row(f"row-{index}", (text,) * text_count) for index, text in enumerate(texts)])
        except (UnsupportedError, ShapeError) as error:  # too long, or only unknown words
            fault = error
            continue
        if len(set(batch.lengths.tolist())) == 1:
            continue
        ragged = batch.to(model.device)
        # Given token ids, transformers treats a padding token inside the text as padding: prefer a text without.
        if getattr(model.model.config, "pad_token_id", None) not in batch.tokens[batch.mask].tolist():
            return ragged
    if ragged is None:
        raise fault or UnsupportedError(f"The tokenizer of {model.name!r} makes all short texts equally long.")
    return ragged


def _from_vocabulary(tokenizer: Any) -> tuple[str, str]:
    """A text of one and a text of three words of the vocabulary."""
    special = set(tokenizer.all_special_tokens)
    words = [token for token in sorted(tokenizer.get_vocab()) if token.isalpha() and token not in special][:3]
    return " ".join(words[:1]), " ".join(words)
