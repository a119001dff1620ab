"""Untrained models for a data set, from a name."""

from collections.abc import Sequence

import torch

from didact.core.dataset import Dataset
from didact.core.model import Model, Row
from didact.core.task import Task
from didact.errors import OptionError, RequestError
from didact.models import MODELS
from didact.models.frozen_words import LEARNED, TEACHER, base_reader
from didact.models.native import NativeModel
from didact.models.tokenizer import PatchReader, Reader, TextReader, WordTokenizer
from didact.registry import Spec, checked_options, parse_spec


def build_model(
    spec: str,
    data: Dataset,
    *,
    seed: int = 0,
    max_length: int | None = None,
    truncate: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """An untrained model for the data: a native one, or a pretrained base with a new head.

    `spec` is a native spec such as `native(layers=2)`, or a base: a hub name, a folder, or `minilm`. The seed decides
    the random weights; torch's generator is left as it was. A pretrained base is checked (`models.selfcheck`).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if is_native(spec):
            return native_model(
                spec,
                task=data.task,
                classes=data.classes,
                rows=data["teach"],
                source=data.name,
                split="teach",
                max_length=max_length,
                truncate=truncate,
            )
        # Imported here: transformers takes seconds to import, and native models do without it.
        from didact.models.pretrained import new_head
        from didact.models.selfcheck import check_model

        model = new_head(
            spec,
            data,
            max_length=max_length,
            truncate=truncate,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )
        check_model(model)  # before hours of training
        return model


def is_native(spec: str) -> bool:
    """True if `spec` names a native architecture, with or without options."""
    return spec in MODELS or ("(" in spec and parse_spec(spec).name in MODELS)


def native_model(
    spec: str | Spec,
    *,
    task: Task,
    classes: Sequence[str] | None,
    rows: Sequence[Row],
    source: str,
    split: str,
    max_length: int | None = None,
    truncate: bool = False,
    patch: int = 8,
    reader: TextReader | None = None,
) -> NativeModel:
    """An untrained native model that reads these rows. Draws its weights from torch's generator.

    - `source` and `split` name the rows in error messages.
    - `patch`: side of the square patches of images, in pixels.
    - `reader`: how texts become tokens. By default words of the rows, or the tokens of the base that the option
      `embeddings` names.
    """
    parsed = parse_spec(spec) if isinstance(spec, str) else spec
    model_class: type[NativeModel] = MODELS.load(parsed.name)
    options = dict(parsed.options)
    patch = patch if task.is_text else options.pop("patch", patch)
    options = checked_options(options, model_class, of=f"model {parsed.name!r}")
    if max_length is not None:
        options["length"] = max_length
    if not len(rows):
        raise RequestError(f"{source} has no rows in {split!r}, so there is nothing to build a model from.")
    if not task.is_text:
        row_reader: Reader = _patch_reader(rows[0], patch, source)
    else:
        row_reader = reader or _text_reader(rows, options.get("embeddings", LEARNED))
    try:
        model = model_class(task, classes, row_reader, **options)
    except TypeError as error:
        raise OptionError(f"An option of {str(spec)!r} has the wrong type: {error}") from error
    model.name, model.truncate = str(spec), truncate
    return model


def _text_reader(rows: Sequence[Row], embeddings: object) -> TextReader:
    # Any other value is left to the model, whose error says what the option accepts.
    if not isinstance(embeddings, str) or embeddings in (LEARNED, TEACHER, "base", ""):
        return WordTokenizer.from_rows(rows)
    return base_reader(embeddings)


def _patch_reader(row: Row, patch: int, source: str) -> PatchReader:
    if row.image is None or row.image.ndim != 3:
        raise OptionError(f"Row {row.id!r} of {source} has no image of height × width × channel.")
    height, width, channels = row.image.shape
    return PatchReader(height, width, channels, patch)
