"""Word embeddings that a model takes from a pretrained base: frozen, standardised, projected to its own width."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.errors import OptionError, UnsupportedError
from didact.models.accelerate_hooks import named_weights
from didact.models.fast_tokenizer import check_fast_tokenizer
from didact.models.hub import hub_errors, locate_base
from didact.models.tokenizer import PatchReader, PieceReader, Reader

LEARNED = "learned"
TEACHER = "teacher"  # the embeddings of the model that is explained; its students read with its tokenizer


class FrozenWordEmbeddings(nn.Module):
    """Looks a base's pieces up in its own table and projects them; only the projection is trained.

    The table is no part of the state: every model of a process that names the base shares one tensor, and a kept
    model names the base and the table's hash. `vectors` is the table of a reader that brings its own.
    """

    table: Tensor

    def __init__(self, base: str, width: int, vectors: Float[Tensor, "token dim"] | None = None) -> None:
        super().__init__()
        table, self.hash = standardised_embeddings(base) if vectors is None else (vectors, _hash(vectors))
        self.base = base
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)
        self.project = nn.Linear(table.shape[1], width)

    def forward(self, tokens: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token dim"]:
        # Each piece once, however often it stands there: a quarter off a BiLSTM's step on reviews.
        pieces, inverse = tokens.unique(return_inverse=True)
        return F.embedding(inverse, self.project(self.table[pieces]))


def word_embeddings(reader: Reader, width: int, embeddings: str) -> nn.Module:
    """From tokens to vectors: a table of the model's own, or the frozen one of the base that `embeddings` names."""
    if embeddings == LEARNED:
        assert not isinstance(reader, PatchReader)
        return nn.Embedding(len(reader), width)
    if not isinstance(reader, PieceReader):
        units = "images" if isinstance(reader, PatchReader) else "words of its own vocabulary"
        raise OptionError(
            f"Option 'embeddings' names the base model {embeddings!r}, whose word embeddings belong to the pieces of "
            f"its tokenizer, but the model reads {units}. Leave the option out, or read with "
            f"base_reader({embeddings!r})."
        )
    if embeddings == TEACHER and reader.vectors is None:
        raise OptionError(
            "Option embeddings=teacher takes the word embeddings of the model that is explained, so it is for students "
            "of a comparison. Name a base model instead: embeddings=minilm."
        )
    words = FrozenWordEmbeddings(embeddings, width, reader.vectors)
    if len(reader) > len(words.table):
        raise OptionError(
            f"The reader knows {len(reader)} pieces, but the base model {embeddings!r} has embeddings of "
            f"{len(words.table)}. Read with base_reader({embeddings!r})."
        )
    return words


def base_reader(base: str) -> PieceReader:
    """How the base model called `base` (`minilm`, a folder, a hub name) cuts texts."""
    return _reader(base, *locate_base(base))


def teacher_reader(teacher: Any, rows: Sequence[Row]) -> PieceReader:
    """Reads as the Hugging Face model `teacher` does, with its word embeddings of the pieces that occur in `rows`.

    Dimensions are standardised over the teacher's whole vocabulary, as `standard_table` does for a base.
    """
    try:
        weight = teacher.model.get_input_embeddings().weight
    except (AttributeError, NotImplementedError) as error:
        raise UnsupportedError(
            f"Students cannot read with the word embeddings of teacher {teacher.name!r}: it has no table of them. "
            "Name a base model (embeddings=minilm), or leave the option out."
        ) from error
    if weight.device.type == "meta":  # kept elsewhere until it is needed
        weight_name = next(name for name, tensor in teacher.model.named_parameters() if tensor is weight)
        weight = next(tensor for name, tensor in named_weights(teacher.model) if name == weight_name)
    reader = PieceReader.from_tokenizer(teacher.tokenizer).restricted(rows)
    assert reader.ids is not None
    with torch.inference_mode(False), torch.no_grad():
        vectors = _standardised(weight.detach().cpu())[list(reader.ids)].clone()
    return replace(reader, vectors=vectors)


def standardised_embeddings(base: str) -> tuple[Float[Tensor, "token dim"], str]:
    """A base's word embeddings, each dimension with mean 0 and deviation 1 over the vocabulary, and their hash.

    A dimension that never changes becomes 0. Kept for the process, so that many models share one tensor.
    """
    return _table(base, *locate_base(base))


@lru_cache(maxsize=4)
def _reader(base: str, source: str, stamp: tuple[int, ...]) -> PieceReader:  # noqa: ARG001 - stamp is for the cache
    # Imported here: transformers takes seconds to import, and most native models do without it.
    from didact.models.pretrained import load_tokenizer

    with hub_errors(base):
        tokenizer = load_tokenizer(source, CLASSIFICATION, base)
    check_fast_tokenizer(tokenizer, base, "Choose a base with a fast tokenizer.")
    return PieceReader.from_tokenizer(tokenizer)


@lru_cache(maxsize=4)
def _table(base: str, source: str, stamp: tuple[int, ...]) -> tuple[Tensor, str]:  # noqa: ARG001 - as above
    from transformers import AutoModel

    from didact.models.pretrained import quiet_transformers

    # Whoever builds a model here has set a seed: what transformers draws for missing weights must not move it on, and
    # the table must serve training even if it is first asked for while predicting.
    with (
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.no_grad(),
        hub_errors(base),
        quiet_transformers(),
    ):
        weight = AutoModel.from_pretrained(source, dtype=torch.float32).get_input_embeddings().weight
        table = _standardised(weight.detach())
    return table, _hash(table)


def _standardised(weight: Float[Tensor, "token dim"]) -> Float[Tensor, "token dim"]:
    """Each dimension with mean 0 and deviation 1 over the vocabulary; one that never changes becomes 0."""
    exact = weight.double()
    deviation = exact.std(0, correction=0)
    table = (exact - exact.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
    return table.float().contiguous()


def _hash(table: Float[Tensor, "token dim"]) -> str:
    return hashlib.sha256(table.numpy().tobytes()).hexdigest()[:16]
