"""From a name to an untrained model that fits a data set."""

import torch

from didact.core.dataset import Dataset
from didact.core.model import Model
from didact.core.task import IMAGE
from didact.errors import OptionError, RequestError
from didact.models import MODELS
from didact.models.native import NativeModel
from didact.models.tokenizer import PatchReader, WordTokenizer
from didact.registry import checked_options, parse_spec


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
    """An untrained model for the data: native by spec, or a pretrained base with a new head.

    A base is a hub name, a folder, or `minilm`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if is_native(spec):
            return _native(spec, data, max_length=max_length, truncate=truncate)
        # Imported here: transformers takes seconds to import, and native models do without it.
        from didact.models.pretrained import new_head

        return new_head(
            spec,
            data,
            max_length=max_length,
            truncate=truncate,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )


def is_native(spec: str) -> bool:
    return spec in MODELS or ("(" in spec and parse_spec(spec).name in MODELS)


def _native(spec: str, data: Dataset, *, max_length: int | None, truncate: bool) -> NativeModel:
    parsed = parse_spec(spec)
    kind: type[NativeModel] = MODELS.load(parsed.name)
    options = dict(parsed.options)
    patch = options.pop("patch", 8) if data.task is IMAGE else 8
    options = checked_options(options, kind, of=f"model {parsed.name!r}")
    if max_length is not None:
        options["length"] = max_length
    rows = data["teach"]
    if not len(rows):
        raise RequestError(f"{data.name} has no rows in 'teach', so there is nothing to build a model from.")
    reader: PatchReader | WordTokenizer
    if data.task is IMAGE:
        if rows[0].image is None or rows[0].image.ndim != 3:
            raise OptionError(f"Row {rows[0].id!r} of {data.name} has no image of height × width × channel.")
        height, width, channels = rows[0].image.shape
        reader = PatchReader(height, width, channels, patch)
    else:
        reader = WordTokenizer.from_rows(rows)
    try:
        model = kind(data.task, data.classes, reader, **options)
    except TypeError as error:
        raise OptionError(f"An option of {spec!r} has the wrong type: {error}") from error
    model.name, model.truncate = spec, truncate
    return model
