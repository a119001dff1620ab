"""Frozen word embeddings of a pretrained base: standardised, and projected to the width of the model that uses them."""

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
TEACHER = "teacher"  # the embeddings of the explained model, whose tokenizer its students then use


class FrozenWordEmbeddings(nn.Module):
    """Looks up tokens in the embedding table of a base, and projects them. Only the projection is trained.

    The table is not part of the state dict: all models of a process with the same base share one tensor, and a saved
    model records the name of the base and a hash of the table. `vectors` replaces the table of the base (for students
    that use the embeddings of their teacher).
    """

    table: Tensor

    def __init__(self, base: str, width: int, vectors: Float[Tensor, "token dim"] | None = None) -> None:
        super().__init__()
        table, self.hash = standardised_embeddings(base) if vectors is None else (vectors, _hash(vectors))
        self.base = base
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)
        self.project = nn.Linear(table.shape[1], width)

    def forward(self, tokens: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token dim"]:
        # Project each distinct token once: a step of a BiLSTM on reviews takes a quarter less time.
        pieces, inverse = tokens.unique(return_inverse=True)
        return F.embedding(inverse, self.project(self.table[pieces]))


def word_embeddings(reader: Reader, width: int, embeddings: str) -> nn.Module:
    """An embedding layer: learned (`embeddings="learned"`), or the frozen table of the base that `embeddings` names."""
    if embeddings == LEARNED:
        assert not isinstance(reader, PatchReader)
        return nn.Embedding(len(reader), width)
    if not isinstance(reader, PieceReader):
        units = "images" if isinstance(reader, PatchReader) else "words of its own vocabulary"
        raise OptionError(
            f"Option 'embeddings' names the base model {embeddings!r}, whose word embeddings belong to the tokens of "
            f"its tokenizer, but the model reads {units}. Leave the option out, or read with "
            f"base_reader({embeddings!r})."
        )
    if embeddings == TEACHER and reader.vectors is None:
        raise OptionError(
            "Option embeddings=teacher uses the word embeddings of the explained model, so only students of a "
            "comparison can have it. Name a base model instead: embeddings=minilm."
        )
    words = FrozenWordEmbeddings(embeddings, width, reader.vectors)
    if len(reader) > len(words.table):
        raise OptionError(
            f"The reader has {len(reader)} tokens, but the base model {embeddings!r} has embeddings of only "
            f"{len(words.table)}. Read with base_reader({embeddings!r})."
        )
    return words


def base_reader(base: str) -> PieceReader:
    """A reader that tokenizes as the base model does. `base` is `minilm`, a folder or a hub name."""
    return _reader(base, *locate_base(base))


def teacher_reader(teacher: Any, rows: Sequence[Row]) -> PieceReader:
    """A reader that tokenizes as the Hugging Face model `teacher`, with its embeddings of the tokens in `rows`.

    As in `standardised_embeddings`, dimensions are standardised over the whole vocabulary. Raises an `UnsupportedError`
    if the teacher has no embedding table.
    """
    try:
        weight = teacher.model.get_input_embeddings().weight
    except (AttributeError, NotImplementedError) as error:
        raise UnsupportedError(
            f"Students cannot use the word embeddings of teacher {teacher.name!r}: it has no embedding table. "
            "Name a base model (embeddings=minilm), or leave the option out."
        ) from error
    if weight.device.type == "meta":  # offloaded by accelerate until it is needed
        weight_name = next(name for name, tensor in teacher.model.named_parameters() if tensor is weight)
        weight = next(tensor for name, tensor in named_weights(teacher.model) if name == weight_name)
    reader = PieceReader.from_tokenizer(teacher.tokenizer).restricted(rows)
    assert reader.ids is not None
    with torch.inference_mode(False), torch.no_grad():
        vectors = _standardised(weight.detach().cpu())[list(reader.ids)].clone()
    return replace(reader, vectors=vectors)


def standardised_embeddings(base: str) -> tuple[Float[Tensor, "token dim"], str]:
    """The word embeddings of a base, standardised over the vocabulary in each dimension, and their hash.

    A constant dimension becomes 0. Cached per process, so that models share one tensor.
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
    """The standardised embedding table of a base and its hash, cached until the files change."""
    from transformers import AutoModel

    from didact.models.pretrained import quiet_transformers

    # The caller has seeded torch's generator: transformers' random numbers for missing weights must not advance it. The
    # table must also serve training if it is first loaded in inference mode.
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
    """Each dimension with mean 0 and standard deviation 1 over the vocabulary. A constant dimension becomes 0."""
    exact = weight.double()
    deviation = exact.std(0, correction=0)
    table = (exact - exact.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
    return table.float().contiguous()


def _hash(table: Float[Tensor, "token dim"]) -> str:
    return hashlib.sha256(table.numpy().tobytes()).hexdigest()[:16]
