"""The pretrained weights that Hugging Face students start from: opened, compared and hashed. Never the teacher's."""

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
from didact.models.accelerate_hooks import whole_weights
from didact.models.hub import hub_errors, locate_base


def check_not_teacher(base: str, teacher: Teacher, trust_remote_code: bool) -> None:
    """An error if the base is the teacher. A live model trained on from there has its name, but other weights."""
    same = base == teacher.name or (Path(base).exists() and Path(base).resolve() == Path(teacher.name).resolve())
    if not same or teacher.library is None:
        return
    if teacher.library == "huggingface":
        opened: Any = teacher
        network = opened.model
        files = tuple(sorted(saved_files(network.config, opened.tokenizer).items()))
        body, _ = base_weights(base, *locate_base(base), None, trust_remote_code, teacher.task, files)
        own = ((name, tensor) for name, tensor in whole_weights(network) if name in body)
        if not all(torch.equal(tensor.cpu(), body[name].to(tensor.dtype)) for name, tensor in own):
            return
    raise OptionError(
        f"A student was to start from {base!r}, which is the teacher itself: it would know what it is to be taught. "
        "Name the base the teacher was trained from, or leave it out to start at random."
    )


@lru_cache(maxsize=4)
def opened_files(files: tuple[tuple[str, bytes], ...], task: Task, trust_remote_code: bool) -> tuple[Any, Any]:
    """The configuration and the tokenizer (or image processor) in the files."""
    from transformers import AutoConfig

    from didact.models.pretrained import tokenizer_of

    with tempfile.TemporaryDirectory() as folder, hub_errors(folder):
        write_files(Path(folder), dict(files))
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
        return config, tokenizer_of(folder, task, folder, trust_remote_code=trust_remote_code)


@lru_cache(maxsize=2)
def base_weights(
    base: str,
    source: str,
    stamp: tuple[int, ...],  # noqa: ARG001 - for the cache: a folder that changed is read again
    revision: str | None,
    trust_remote_code: bool,
    task: Task,
    files: tuple[tuple[str, bytes], ...],
) -> tuple[Mapping[str, Tensor], str]:
    """The pretrained weights below the head and their hash. Kept: a worker builds many students from them."""
    from transformers import AutoConfig

    from didact.models.pretrained import auto, quiet_transformers

    config, _ = opened_files(files, task, trust_remote_code)
    options: dict[str, object] = {"revision": revision, "trust_remote_code": trust_remote_code}
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), hub_errors(base), quiet_transformers():
        kind = AutoConfig.from_pretrained(source, **options).model_type
        if kind != config.model_type:
            raise OptionError(
                f"A student of type {config.model_type!r} cannot start from {base!r}, which is of type {kind!r}. Name "
                "the base the teacher was trained from, or leave it out to start at random."
            )
        network, loaded = auto(task).from_pretrained(
            source,
            config=deepcopy(config),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    head = f"{network.base_model_prefix}."
    mismatched = {one if isinstance(one, str) else one[0] for one in loaded["mismatched_keys"]}
    lacking = {*loaded["missing_keys"], *mismatched}
    # A pooler is often left out of what is published; all else would be a random hole in a pretrained model.
    holes = sorted(name for name in lacking if name.startswith(head) and "pool" not in name)
    if holes:
        raise OptionError(
            f"The weights of {base!r} do not fit the student's configuration: {', '.join(holes[:3])}. Name the base "
            "the teacher was trained from, or leave it out to start at random."
        )
    body = {name: one for name, one in network.state_dict().items() if name.startswith(head) and name not in lacking}
    return MappingProxyType(body), _hash(body)


def _hash(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def saved_files(config: Any, tokenizer: Any) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
