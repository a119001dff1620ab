"""Learned explainers on disk and on the hub: weights as safetensors, all else as JSON."""

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
    """An explainer with parameters that were learned: it can be kept in a folder and on the hub.

    `options` are those it is made with, `shape` tells what else its weights need to be `put_back`.
    """

    learned: Mapping[str, Any]  # what it was learned from, and how that went

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, each kept as an attribute."""
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
        """Take what `shape` and `weights_kept` gave; a ValueError tells what does not fit."""

    @abstractmethod
    def description(self) -> str:
        """What it does, in Markdown, for its README."""

    def save_pretrained(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Keep it in a folder: model.safetensors, config.json and a README for people."""
        save_explainer(self, Path(folder), overwrite=overwrite)

    def push_to_hub(self, name: str, *, private: bool = True, token: str | None = None) -> str:
        """Upload it to the Hugging Face hub as `name` (owner/name); gives its address."""
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
        """A learned explainer from its folder, or from the hub."""
        explainer = load_explainer(source, revision=revision)
        if not isinstance(explainer, cls):
            raise OptionError(f"{source} holds a {type(explainer).__name__}, not a {cls.__name__}.")
        return explainer


def save_explainer(explainer: LearnedExplainer, folder: Path, *, overwrite: bool = False) -> None:
    """Write the explainer into a new folder, whole or not at all."""
    if not explainer.is_ready:
        raise OptionError(
            "This explainer has learned nothing yet: it has no weights to keep. See didact.learn_smat and learn_l2e."
        )
    broken = [name for name, weights in explainer.learned_weights().items() if not weights.isfinite().all()]
    if broken:
        raise TrainingError(f"Weights of the explainer are NaN or infinite ({broken[0]}), so it is not saved.")
    with atomic_folder(folder, overwrite=overwrite) as draft:
        write_tensors(draft / WEIGHTS, weight_bytes(explainer))
        write_json(draft / CONFIG, config_of(explainer), indent=2)
        write_text(draft / "README.md", _model_card(explainer))


def load_explainer(source: str | Path, *, revision: str | None = None) -> LearnedExplainer:
    """The explainer in a folder, or on the hub as owner/name."""
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
    except Exception as error:  # whatever safetensors or JSON say of damaged bytes
        raise RecordError(f"The explainer in {str(source)!r} is damaged: {error}") from error
    return _build(config, state, str(source))


def weight_bytes(explainer: LearnedExplainer) -> bytes:
    """What was learned, as safetensors."""
    return bytes(
        save({name: tensor.detach().cpu().contiguous() for name, tensor in explainer.learned_weights().items()})
    )


def weights_fingerprint(explainer: LearnedExplainer) -> str:
    """A hash of what was learned: part of the name under which its explanations are kept."""
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
    """The name its family is registered under."""
    name = EXPLAINERS.name_of(type(explainer))
    assert name is not None
    return name


def _build(config: Mapping[str, object], state: Mapping[str, Tensor], source: str) -> LearnedExplainer:
    if not isinstance(config, dict) or "explainer" not in config:
        raise OptionError(f"{source!r} holds a model or something else, and no learned explainer.")
    try:
        if config["format"] != _FORMAT:
            raise OptionError(
                f"The explainer in {source!r} is kept in format {config['format']}; this didact reads {_FORMAT}. "
                f"It was written by didact {config['didact']}: use that version, or learn it anew."
            )
        family = EXPLAINERS.load(config["explainer"])
        if not (isinstance(family, type) and issubclass(family, LearnedExplainer)):
            raise OptionError(f"{config['explainer']!r} in {source!r} is no explainer that can be learned.")
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
            f"A learned explainer has the options it was learned with: name its folder alone, not {name!r}."
        )
    if name.count("/") != 1 or name.startswith((".", "/")):
        raise OptionError(f"There is no folder {name!r}, and the hub has names like owner/name.")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # the hub's errors have many kinds: offline, private, unknown
        raise OptionError(f"There is no folder {name!r}, and the hub could not give it: {error}") from error


def _model_card(explainer: LearnedExplainer) -> str:
    """What people find on the hub, or in the folder."""
    learned = dict(explainer.learned)
    fields = ("teacher", "data", "student", "imitates", "train_rows")
    lines = "".join(f"- {name}: {learned[name]}\n" for name in fields if name in learned)
    return (
        f"---\nlibrary_name: didact\ntags: [explainability]\n---\n# {name_of(explainer)}, learned with didact\n\n"
        f"{lines}\n```python\nimport didact\nmaps = didact.explain(teacher, rows, 'this-folder')\n```\n\n"
        f"{explainer.description()}"
    )
