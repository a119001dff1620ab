"""Learned explainers on disk and on the Hugging Face hub: weights as safetensors, the rest as JSON."""

import hashlib
import inspect
import json
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from safetensors.torch import load, save
from torch import Tensor

from didact import __version__
from didact.core.explainer import Explainer
from didact.errors import OptionError, RecordError, TrainingError
from didact.explainers import CONFIG, EXPLAINERS, WEIGHTS
from didact.files.atomic import atomic_folder, write_text
from didact.files.checksummed import check_tensors, read_json, write_json, write_tensors
from didact.files.paths import check_readable, kind_at, shorten_path
from didact.files.store import canonical_json
from didact.option_types import check_option_types
from didact.registry import checked_options

_FORMAT: Final = 1


L = TypeVar("L", bound="LearnedExplainer")


_LEARN_AGAIN: Final = "Take another copy, or learn it again with `didact learn`."


class LearnedExplainer(Explainer):
    """An explainer with learned parameters, which can be saved to a folder or to the hub.

    `options` are those of its constructor; `shape` is what `load_learned` needs besides the weights.
    """

    learned: Mapping[str, Any]  # teacher, data and student that it was learned from, and metrics

    @property
    def options(self) -> dict[str, Any]:
        """The constructor options by name. Each is also an attribute."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it has weights."""

    @property
    @abstractmethod
    def shape(self) -> dict[str, object]: ...

    @abstractmethod
    def learned_weights(self) -> dict[str, Tensor]: ...

    @abstractmethod
    def load_learned(self, shape: Mapping[str, object], weights: Mapping[str, Tensor]) -> None:
        """Restore the values of `shape` and `learned_weights`. Raises `ValueError` if they do not fit."""

    @abstractmethod
    def description(self) -> str:
        """What it does, in Markdown, for its README."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Save it to a folder: model.safetensors, config.json and a README."""
        save_explainer(self, Path(folder), overwrite=overwrite)

    def push_to_hub(self, name: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload it to the Hugging Face hub as `name` (owner/name). Returns its URL."""
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "explainer"
            self.save_pretrained(folder)
            address = str(api.create_repo(name, private=private, exist_ok=True))
            api.upload_folder(repo_id=name, folder_path=str(folder), commit_message="An explainer learned with didact")
        return address

    @classmethod
    def from_pretrained(cls: type[L], source: str | Path, *, revision: str | None = None) -> L:
        """Load a learned explainer from its folder or from the hub."""
        explainer = load_explainer(source, revision=revision)
        if not isinstance(explainer, cls):
            raise OptionError(f"{source} holds a {type(explainer).__name__}, not a {cls.__name__}.")
        return explainer


def save_explainer(explainer: LearnedExplainer, folder: Path, *, overwrite: bool = False) -> None:
    """Write the explainer to a new folder, completely or not at all."""
    if not explainer.is_ready:
        raise OptionError(
            "This explainer has no learned weights to save. Learn them with didact.learn_smat or didact.learn_l2e."
        )
    broken = [name for name, weights in explainer.learned_weights().items() if not weights.isfinite().all()]
    if broken:
        raise TrainingError(f"Weights of the explainer are NaN or infinite ({broken[0]}), so it is not saved.")
    with atomic_folder(folder, overwrite=overwrite) as draft:
        write_tensors(draft / WEIGHTS, weight_bytes(explainer))
        write_json(draft / CONFIG, config_of(explainer), indent=2)
        write_text(draft / "README.md", _model_card(explainer))


def load_explainer(source: str | Path, *, revision: str | None = None) -> LearnedExplainer:
    """Load the explainer in a folder, or on the hub as owner/name."""
    folder = Path(source) if kind_at(source) == "folder" else _download(shorten_path(source), revision)
    check_readable(folder)
    try:
        config = read_json(folder / CONFIG, advice=_LEARN_AGAIN)
        check_tensors(folder / WEIGHTS, advice=_LEARN_AGAIN)
        state = load((folder / WEIGHTS).read_bytes())
    except FileNotFoundError as error:
        raise OptionError(
            f"{str(source)!r} holds no learned explainer ({Path(str(error.filename)).name} is missing). "
            "`didact learn` writes one."
        ) from None
    except RecordError:
        raise
    except Exception as error:  # safetensors and JSON raise many types for damaged files
        raise RecordError(f"The explainer in {str(source)!r} is damaged: {error}") from error
    return _build(config, state, str(source))


def weight_bytes(explainer: LearnedExplainer) -> bytes:
    """The learned weights as safetensors."""
    return bytes(
        save({name: tensor.detach().cpu().contiguous() for name, tensor in explainer.learned_weights().items()})
    )


def weights_fingerprint(explainer: LearnedExplainer) -> str:
    """A hash of the learned weights, part of the key of its explanations."""
    return hashlib.sha256(weight_bytes(explainer)).hexdigest()[:16]


def config_of(explainer: LearnedExplainer) -> dict[str, object]:
    return {
        "didact": __version__,
        "format": _FORMAT,
        "explainer": name_of(explainer),
        "options": explainer.options,
        **explainer.shape,
        "learned": json.loads(canonical_json(dict(explainer.learned))),
    }


def name_of(explainer: LearnedExplainer) -> str:
    """The name under which its class is registered."""
    name = EXPLAINERS.name_of(type(explainer))
    assert name is not None
    return name


def _build(config: Mapping[str, object], state: Mapping[str, Tensor], source: str) -> LearnedExplainer:
    if not isinstance(config, dict) or "explainer" not in config:
        raise OptionError(f"{source!r} holds no learned explainer, but a model or something else.")
    try:
        if config["format"] != _FORMAT:
            raise OptionError(
                f"The explainer in {source!r} has format {config['format']}, and this version reads format {_FORMAT}. "
                f"It was written by didact {config['didact']}: use that version, or learn it again."
            )
        family = EXPLAINERS.load(config["explainer"])
        if not (isinstance(family, type) and issubclass(family, LearnedExplainer)):
            raise OptionError(f"{config['explainer']!r} in {source!r} is not a learned explainer.")
        options = checked_options(config["options"], family, of=repr(config["explainer"]))
        check_option_types(options, family, of=repr(config["explainer"]))
        explainer: LearnedExplainer = family(**options)
        explainer.load_learned(config, state)
        explainer.learned = dict(config["learned"])
    except OptionError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        fault = str(error) if isinstance(error, ValueError) else repr(error)
        raise RecordError(f"The explainer in {source!r} is damaged: {fault}") from error
    return explainer


def _download(name: str, revision: str | None) -> Path:
    if "(" in name:
        raise OptionError(
            f"A learned explainer keeps the options it was learned with: pass its folder without options, not {name!r}."
        )
    if name.count("/") != 1 or name.startswith((".", "/")):
        raise OptionError(f"There is no folder {name!r}, and the hub has names like owner/name.")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # offline, private, unknown: the hub raises many types
        raise OptionError(f"There is no folder {name!r}, and loading it from the hub failed: {error}") from error


def _model_card(explainer: LearnedExplainer) -> str:
    """The README of the folder, which is the page on the hub."""
    learned = dict(explainer.learned)
    fields = ("teacher", "data", "student", "imitates", "train_rows")
    lines = "".join(f"- {name}: {learned[name]}\n" for name in fields if name in learned)
    return (
        f"---\nlibrary_name: didact\ntags: [explainability]\n---\n# {name_of(explainer)}, learned with didact\n\n"
        f"{lines}\n```python\nimport didact\nmaps = didact.explain(teacher, rows, 'this-folder')\n```\n\n"
        f"{explainer.description()}"
    )
