"""Learned explainers on disk and on the hub: weights as safetensors, all else as JSON."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load, save

from didact import __version__
from didact.errors import OptionError, RecordError
from didact.explainers import CONFIG, EXPLAINERS, WEIGHTS
from didact.explainers.mix import Mix
from didact.records.atomic import new_folder, write_text
from didact.records.store import canonical
from didact.registry import check_types, checked_options

_FORMAT: Final = 1


def save_explainer(explainer: Mix, folder: Path, *, overwrite: bool = False) -> None:
    """Write the explainer into a new folder, whole or not at all."""
    if not explainer.names:
        raise OptionError("This explainer has learned nothing yet: it has no weights to keep. See didact.learn_smat.")
    with new_folder(folder, overwrite=overwrite) as draft:
        (draft / WEIGHTS).write_bytes(weights_of(explainer))
        write_text(draft / CONFIG, json.dumps(config_of(explainer), indent=2, ensure_ascii=False) + "\n")
        write_text(draft / "README.md", _card(explainer))


def load_explainer(source: str | Path, *, revision: str | None = None) -> Mix:
    """The explainer in a folder, or on the hub as owner/name."""
    folder = Path(source) if Path(source).is_dir() else _downloaded(str(source), revision)
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        state = load((folder / WEIGHTS).read_bytes())
    except FileNotFoundError as error:
        raise OptionError(
            f"{str(source)!r} holds no learned explainer ({Path(str(error.filename)).name} is missing). "
            "`didact learn smat` writes one."
        ) from None
    except Exception as error:  # whatever safetensors or JSON say of damaged bytes
        raise RecordError(f"The explainer in {str(source)!r} is damaged: {error}") from error
    return _built(config, state, str(source))


def weights_of(explainer: Mix) -> bytes:
    """What was learned, as safetensors."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in explainer.state_dict().items()}
    return bytes(save({name: state[name] for name in _LEARNED}))


def fingerprint_of_weights(explainer: Mix) -> str:
    """A hash of what was learned: part of the name under which its explanations are kept."""
    return hashlib.sha256(weights_of(explainer)).hexdigest()[:16]


def config_of(explainer: Mix) -> dict[str, Any]:
    return {
        "didact": __version__,
        "format": _FORMAT,
        "explainer": name_of(explainer),
        "options": explainer.options,
        "names": list(explainer.names),
        "learned": json.loads(canonical(dict(explainer.learned))),
    }


def name_of(explainer: Mix) -> str:
    """The name its family is registered under."""
    where = f"{type(explainer).__module__}:{type(explainer).__name__}"
    return next(name for name, entry in EXPLAINERS.items() if entry.target == where)


def push_explainer(explainer: Mix, name: str, *, private: bool = True, token: str | None = None) -> str:
    """Upload the folder that `save_explainer` writes."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise OptionError("Uploading needs huggingface-hub: pip install 'didact[hub]'.") from None
    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "explainer"
        save_explainer(explainer, folder)
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=str(folder), commit_message="An explainer learned with didact")
    return address


_LEARNED: Final = ("coefficients", "log_temperature")


def _built(config: Mapping[str, Any], state: Mapping[str, torch.Tensor], source: str) -> Mix:
    if not isinstance(config, dict) or "explainer" not in config:
        raise OptionError(f"{source!r} holds a model or something else, and no learned explainer.")
    try:
        if config["format"] != _FORMAT:
            raise OptionError(
                f"The explainer in {source!r} is kept in format {config['format']}; this didact reads {_FORMAT}. "
                f"It was written by didact {config['didact']}: use that version, or learn it anew."
            )
        kind = EXPLAINERS.load(config["explainer"])
        if not (isinstance(kind, type) and issubclass(kind, Mix)):
            raise OptionError(f"{config['explainer']!r} in {source!r} is no explainer that can be learned.")
        options = checked_options(config["options"], kind, of=repr(config["explainer"]))
        check_types(options, kind, of=repr(config["explainer"]))
        found: Mix = kind(**options)
        found.restore(config["names"], state["coefficients"], state["log_temperature"])
        found.learned = dict(config["learned"])
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"The explainer in {source!r} is damaged: {error!r}") from error
    if found.coefficients.shape != (len(found.names),) or not found.coefficients.isfinite().all():
        raise RecordError(
            f"The explainer in {source!r} is damaged: {tuple(found.coefficients.shape)} weights for "
            f"{len(found.names)} parts, all of which must be numbers."
        )
    return found


def _downloaded(name: str, revision: str | None) -> Path:
    if "(" in name:
        raise OptionError(
            f"A learned explainer has the options it was learned with: name its folder alone, not {name!r}."
        )
    if name.count("/") != 1 or name.startswith((".", "/")):
        raise OptionError(f"There is no folder {name!r}, and the hub has names like owner/name.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise OptionError(
            f"There is no folder {name!r}; to look for it on the hub: pip install 'didact[hub]'."
        ) from None
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # the hub's errors have many kinds: offline, private, unknown
        raise OptionError(f"There is no folder {name!r}, and the hub could not give it: {error}") from error


def _card(explainer: Mix) -> str:
    """What people find on the hub, or in the folder."""
    learned = dict(explainer.learned)
    said = "".join(
        f"- {name}: {learned[name]}\n" for name in ("teacher", "data", "student", "train_rows") if name in learned
    )
    weights = sorted(zip(explainer.weights.detach().tolist(), explainer.names, strict=True), reverse=True)
    rows = "".join(f"| {name} | {weight:.4f} |\n" for weight, name in weights if weight != 0)
    return (
        f"---\nlibrary_name: didact\ntags: [explainability]\n---\n# {name_of(explainer)}, learned with didact\n\n"
        f"Weighs {len(explainer.names)} parts so that students who see its explanations learn to predict the model.\n\n"
        f"{said}\n```python\nimport didact\nmaps = didact.explain(teacher, rows, 'this-folder')\n```\n\n"
        f"| part | weight |\n|---|---|\n{rows}"
    )
