"""Pretrained weights of Hugging Face students: loading, hashing, and the check that they are not the teacher's."""

import hashlib
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from didact.core.task import Task
from didact.core.teacher import Teacher
from didact.errors import OptionError
from didact.models.accelerate_hooks import named_weights
from didact.models.hub import hub_errors, locate_base


def check_not_teacher(base: str, teacher: Teacher, trust_remote_code: bool) -> None:
    """Raise an `OptionError` if the base is the teacher: same name or folder, and the same weights below the head.

    A live model that was fine-tuned from the base still has its name, but other weights.
    """
    is_named_alike = base == teacher.name or (
        Path(base).exists() and Path(base).resolve() == Path(teacher.name).resolve()
    )
    if not is_named_alike or teacher.library is None:
        return
    if teacher.library == "huggingface":
        adapter: Any = teacher
        network = adapter.model
        files = tuple(sorted(config_and_tokenizer_files(network.config, adapter.tokenizer).items()))
        body, _ = base_weights(base, *locate_base(base), None, trust_remote_code, teacher.task, files)
        teacher_weights = ((name, tensor) for name, tensor in named_weights(network) if name in body)
        if not all(torch.equal(tensor.cpu(), body[name].to(tensor.dtype)) for name, tensor in teacher_weights):
            return
    raise OptionError(
        f"A student cannot start from {base!r}, which is the teacher itself: it would already know "
        "what it is to learn. Name the base that the teacher was trained from, or leave it out for random weights."
    )


@lru_cache(maxsize=4)
def load_config_and_tokenizer(
    files: tuple[tuple[str, bytes], ...], task: Task, trust_remote_code: bool
) -> tuple[Any, Any]:
    """The configuration and the tokenizer (or image processor) in these files (name, content)."""
    from transformers import AutoConfig

    from didact.models.pretrained import load_tokenizer

    with tempfile.TemporaryDirectory() as folder, hub_errors(folder):
        write_files(Path(folder), dict(files))
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
        return config, load_tokenizer(folder, task, folder, trust_remote_code=trust_remote_code)


@lru_cache(maxsize=2)
def base_weights(
    base: str,
    source: str,
    stamp: tuple[int, ...],  # noqa: ARG001 - part of the cache key: a changed folder is read again
    revision: str | None,
    trust_remote_code: bool,
    task: Task,
    files: tuple[tuple[str, bytes], ...],
) -> tuple[Mapping[str, Tensor], str]:
    """The pretrained weights below the head, and their hash. Cached: a worker builds many students from them.

    `files` are the student's configuration and tokenizer. Raises an `OptionError` if the weights do not fit them.
    """
    from transformers import AutoConfig

    from didact.models.pretrained import auto_class, quiet_transformers

    config, _ = load_config_and_tokenizer(files, task, trust_remote_code)
    options: dict[str, object] = {"revision": revision, "trust_remote_code": trust_remote_code}
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), hub_errors(base), quiet_transformers():
        model_type = AutoConfig.from_pretrained(source, **options).model_type
        if model_type != config.model_type:
            raise OptionError(
                f"A student of type {config.model_type!r} cannot start from {base!r}, which is of type {model_type!r}. "
                "Name the base that the teacher was trained from, or leave it out for random weights."
            )
        network, loading_info = auto_class(task).from_pretrained(
            source,
            config=deepcopy(config),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    prefix = f"{network.base_model_prefix}."
    mismatched = {key if isinstance(key, str) else key[0] for key in loading_info["mismatched_keys"]}
    missing = {*loading_info["missing_keys"], *mismatched}
    # Published weights often lack a pooler. Any other missing weight would stay random in a pretrained model.
    missing_in_body = sorted(name for name in missing if name.startswith(prefix) and "pool" not in name)
    if missing_in_body:
        raise OptionError(
            f"The weights of {base!r} do not fit the student's configuration: {', '.join(missing_in_body[:3])}. Name "
            "the base that the teacher was trained from, or leave it out for random weights."
        )
    body = {
        name: tensor for name, tensor in network.state_dict().items() if name.startswith(prefix) and name not in missing
    }
    return MappingProxyType(body), _hash(body)


def _hash(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def config_and_tokenizer_files(config: Any, tokenizer: Any) -> dict[str, bytes]:
    """The files that `save_pretrained` writes, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, by relative path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
