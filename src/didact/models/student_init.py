"""Architecture and initial weights of students, stored so that any process can build a student from its seed."""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from didact.core.model import Model, Row, require_model
from didact.core.task import Task, task_named
from didact.core.teacher import Differentiable, Teacher
from didact.errors import OptionError, RecordError, UnknownNameError, UnsupportedError
from didact.files.checksummed import read_json, write_json
from didact.models import MODELS
from didact.models.base_weights import (
    base_weights,
    check_not_teacher,
    config_and_tokenizer_files,
    load_config_and_tokenizer,
    write_files,
)
from didact.models.build import is_native, native_model
from didact.models.frozen_words import LEARNED, TEACHER, teacher_reader
from didact.models.hub import base_folder, hub_errors, locate_base
from didact.models.native import build_native
from didact.models.tokenizer import PieceReader
from didact.registry import Spec, parse_spec, unknown_name_message

if TYPE_CHECKING:
    from didact.models.huggingface import HuggingFaceModel

RECORD, FOLDER = "start.json", "start"
VECTORS = "embeddings.safetensors"


@dataclass(frozen=True)
class StudentInit:
    """Everything that a worker process needs to build a student, as plain JSON and files. Never the teacher's weights.

    - `spec`: the requested student, such as `same` or `native(layers=1)`.
    - `origin`: where the initial weights come from, in words.
    - `facts`: with the seed, they decide the student. Part of keys.
    - `files`: configuration and tokenizer of a Hugging Face model, or embeddings of the teacher. Pretrained weights are
      not stored: they are loaded by name, and compared with the hash in `facts`.
    """

    spec: str
    origin: str
    facts: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def build(self, seed: int) -> Model:
        """The student with the initial weights of this seed, in training mode. torch's generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.facts["kind"] == "native":
                model: Model = build_native(self.facts, self._vectors())
            else:
                model = self._huggingface()
        model.name = self.spec
        return model.train()

    def _vectors(self) -> Tensor | None:
        """The frozen word embeddings of the teacher, if the student uses them."""
        return _tensors(self.files[VECTORS])["vectors"] if VECTORS in self.files else None

    def _huggingface(self) -> "HuggingFaceModel":
        """A Hugging Face student: random weights, and those of the base below the head."""
        from didact.models.huggingface import HuggingFaceModel
        from didact.models.pretrained import auto_class

        facts = self.facts
        task = task_named(facts["task"])
        config, tokenizer = load_config_and_tokenizer(
            tuple(sorted(self.files.items())), task, facts["trust_remote_code"]
        )
        network = auto_class(task).from_config(
            deepcopy(config), dtype=torch.float32, trust_remote_code=facts["trust_remote_code"]
        )
        if facts["base"] is not None:
            network.load_state_dict(self._base_state()[0], strict=False)  # the head keeps its random weights
        return HuggingFaceModel(
            network, tokenizer, task=task, classes=facts["classes"], max_length=facts["max_length"], truncate=True
        )

    def _base_state(self) -> tuple[Mapping[str, Tensor], str]:
        """The weights of the base below the head, and their hash. Raises a `RecordError` if they have changed."""
        facts = self.facts
        source, stamp = locate_base(facts["base"])
        files = tuple(sorted(self.files.items()))
        options = (facts["revision"], facts["trust_remote_code"], task_named(facts["task"]))
        body, weights_hash = base_weights(facts["base"], source, stamp, *options, files)
        if facts["weights"] not in (None, weights_hash):
            raise RecordError(
                f"Student {self.spec!r} starts from {facts['base']!r} with the weights {facts['weights']}, but they "
                f"are now {weights_hash}. Restore the base, or start a new run."
            )
        return body, weights_hash

    def save(self, folder: Path) -> None:
        """Write the record and its files into an existing folder."""
        hashes = {name: hashlib.sha256(self.files[name]).hexdigest() for name in sorted(self.files)}
        record = {"spec": self.spec, "origin": self.origin, "facts": self.facts, "files": hashes}
        write_files(folder / FOLDER, self.files)
        write_json(folder / RECORD, record, indent=1)

    @classmethod
    def load(cls, folder: Path) -> "StudentInit":
        """Read what `save` wrote. Raises a `RecordError` if a file is missing or damaged."""
        try:
            record = read_json(folder / RECORD, advice="Run the same comparison again.")
            files = {name: (folder / FOLDER / name).read_bytes() for name in record["files"]}
            hashes = record["files"] if isinstance(record["files"], dict) else {}  # a list in earlier versions
            for name, expected in hashes.items():
                if hashlib.sha256(files[name]).hexdigest() != expected:
                    raise ValueError(f"the checksum of {name} does not match")
            return cls(record["spec"], record["origin"], record["facts"], files)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{folder / RECORD} is missing or damaged ({error}). Start a new run.") from error


def student_init(
    spec: str,
    *,
    teacher: Teacher,
    task: Task,
    classes: Sequence[str] | None,
    rows: Sequence[Row],
    read_rows: Sequence[Row] | None = None,
    base: str | None = None,
    trust_remote_code: bool = False,
) -> StudentInit:
    """The architecture and initial weights of the students called `spec`.

    `spec` is one of:

    - `same`: the teacher's architecture. A native one has random weights. A Hugging Face one starts from the base in
      the teacher's record, else from `base`, else from random weights; its head is always new.
    - a native spec such as `native(layers=1)`. Its vocabulary comes from `rows`, unless its option `embeddings` names a
      base. `embeddings=base` is the teacher's base, else `base`; `embeddings=teacher` are the teacher's word embeddings
      of the tokens in `read_rows`, which are all rows that the students will read (default: `rows`).
    - a pretrained base: a hub name, a folder, or `minilm`.

    Students truncate rows at the teacher's maximum length, if they can read that much and the spec has no `length`.

    Raises an `OptionError` if the student would start from the teacher's own weights, and an `UnsupportedError` if
    the teacher has no architecture or embeddings to share.
    """
    if spec == "same":
        if teacher.library == "native":
            return _native_init(
                spec,
                {**require_model(teacher, "same").facts(), "task": task.name, "classes": classes, "truncate": True},
            )
        return _same_architecture(teacher, task, classes, base, trust_remote_code)
    if is_native(spec):
        parsed = _resolve_base(parse_spec(spec), teacher, base)
        reader = None
        if parsed.options.get("embeddings") == TEACHER:
            reader = _teacher_reader(parsed, teacher, rows if read_rows is None else read_rows)
        elif isinstance(name := parsed.options.get("embeddings"), str):
            check_not_teacher(name, teacher, trust_remote_code)
        with torch.random.fork_rng(devices=[]):
            model = native_model(
                parsed,
                task=task,
                classes=classes,
                rows=rows,
                source="The data",
                split="train",
                max_length=_length(parsed, teacher) if task.is_text else None,
                truncate=True,
                patch=8 if task.is_text else _patch(teacher, rows),
                reader=reader,
            )
        return _native_init(spec, model.facts(), None if reader is None else reader.vectors)
    _check_name(spec)
    check_not_teacher(spec, teacher, trust_remote_code)
    from didact.models.pretrained import head_config, load_tokenizer

    options = {"trust_remote_code": trust_remote_code}
    with hub_errors(spec):
        from transformers import AutoConfig

        source = base_folder(spec)
        config = AutoConfig.from_pretrained(source, **head_config(task, classes), **options)
        tokenizer = load_tokenizer(source, task, spec, **options)
    return _huggingface_init(spec, config, tokenizer, teacher, task, classes, spec, None, trust_remote_code)


# -- native students ---------------------------------------------------------------------------------------------------


def _native_init(spec: str, facts: Mapping[str, object], vectors: Tensor | None = None) -> StudentInit:
    json_facts = json.loads(json.dumps(facts))
    embeddings = json_facts["options"].get("embeddings", LEARNED)
    source = "the teacher" if embeddings == TEACHER else embeddings
    origin = "random" if embeddings == LEARNED else f"random, on frozen embeddings of {source}"
    files = {} if vectors is None else {VECTORS: save({"vectors": vectors})}
    code = MODELS.local_source_hashes(facts["architecture"])
    return StudentInit(spec, origin, {"kind": "native"} | json_facts | ({"code": code} if code else {}), files)


def _teacher_reader(spec: Spec, teacher: Teacher, rows: Sequence[Row]) -> PieceReader:
    if teacher.library != "huggingface" or not teacher.task.is_text:
        raise UnsupportedError(
            f"Student '{spec}' uses the teacher's word embeddings, and teacher {teacher.name!r} is not a Hugging "
            "Face model for texts. Leave embeddings=teacher out, or name a base model: embeddings=minilm."
        )
    return teacher_reader(teacher, rows)


@lru_cache(maxsize=4)
def _tensors(content: bytes) -> Mapping[str, Tensor]:
    """The tensors of a safetensors file. Cached: all students of a process share them."""
    return load(content)


def _resolve_base(spec: Spec, teacher: Teacher, base: str | None) -> Spec:
    """The spec with the name of the base in place of `embeddings=base`."""
    if spec.options.get("embeddings") != "base":
        return spec
    name = _recorded_base(teacher) or base
    if name is None:
        raise OptionError(
            f"Student '{spec}' uses the embeddings of the teacher's base, but the record of teacher {teacher.name!r} "
            "names no base. Name one: embeddings=minilm in the student, or base=…, --base."
        )
    return replace(spec, options={**spec.options, "embeddings": name})


def _recorded_base(teacher: Teacher) -> str | None:
    """The pretrained base that the teacher was trained from, or whose embeddings it uses."""
    if (frozen := getattr(teacher, "options", {}).get("embeddings", LEARNED)) != LEARNED:
        return str(frozen)
    base = getattr(teacher, "record", {}).get("base")
    return base if isinstance(base, str) and not is_native(base) else None


def _length(spec: Spec, teacher: Teacher) -> int | None:
    """The teacher's maximum length, at most that of the architecture. None if the spec has its own `length`."""
    parameters = inspect.signature(MODELS.load(spec.name)).parameters
    if "length" in spec.options or "length" not in parameters or teacher.max_length is None:
        return None
    return min(teacher.max_length, parameters["length"].default)


def _patch(teacher: Teacher, rows: Sequence[Row]) -> int:
    """The side of patches, in pixels of the raw image, that gives the grid of the teacher, by default 8."""
    image = rows[0].image if len(rows) else None
    if not isinstance(teacher, Differentiable) or image is None or image.ndim != 3:
        return 8
    height, width = image.shape[:2]
    batch = teacher.encode(rows[:1])
    grid_height, grid_width = (len(corners.unique()) for corners in batch.offsets[0, batch.units[0]].unbind(-1))
    is_tiled = height % grid_height == width % grid_width == 0 and height // grid_height == width // grid_width
    reads_whole_image = teacher.visible_area(height, width) == (0.0, 0.0, float(height), float(width))
    return height // grid_height if is_tiled and reads_whole_image else 8


# -- Hugging Face students ---------------------------------------------------------------------------------------------


def _same_architecture(
    teacher: Teacher, task: Task, classes: Sequence[str] | None, base: str | None, trust_remote_code: bool
) -> StudentInit:
    """The `StudentInit` of `same` for a Hugging Face teacher."""
    if teacher.library == "huggingface":
        from didact.models.pretrained import head_config

        adapter: Any = teacher
        config = deepcopy(adapter.model.config)
        config.update(dict(head_config(task, classes)))
        teacher_base = _recorded_base(teacher)
        revision = adapter.record.get("revision") if teacher_base is not None else None
        start = teacher_base if teacher_base is not None else base
        if start is not None:
            check_not_teacher(start, teacher, trust_remote_code)
        return _huggingface_init(
            "same", config, adapter.tokenizer, teacher, task, classes, start, revision, trust_remote_code
        )
    raise UnsupportedError(
        f"Student 'same' has the teacher's architecture, but teacher {teacher.name!r} is no model that can be built "
        "again. Choose a native student (native(layers=1, width=64), bilstm_attention(width=64), pool), one that "
        "uses the frozen embeddings of a base (pool(embeddings=minilm)), or a base model by name (minilm)."
    )


def _huggingface_init(
    spec: str,
    config: Any,
    tokenizer: Any,
    teacher: Teacher,
    task: Task,
    classes: Sequence[str] | None,
    base: str | None,
    revision: str | None,
    trust_remote_code: bool,
) -> StudentInit:
    """The record of a Hugging Face student. Builds it once, for its hash and to find errors early."""
    origin = "random" if base is None else f"pretrained: {base}"
    facts: dict[str, object] = {
        "kind": "huggingface",
        "base": base,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "task": task.name,
        "classes": None if classes is None else list(classes),
        "max_length": None,
        "weights": None,
    }
    init = StudentInit(spec, origin, facts, config_and_tokenizer_files(config, tokenizer))
    if task.is_text:
        limit = init.build(0).max_length
        init = replace(init, facts=facts | {"max_length": min(teacher.max_length or limit, limit)})
    # A hash of the description, not of the weights: the random head may differ between machines.
    description = json.dumps(init.build(0).facts(), sort_keys=True, default=str).encode()
    hashes = {
        "model": hashlib.sha256(description).hexdigest()[:16],
        "weights": None if base is None else init._base_state()[1],
    }
    return replace(init, facts={**init.facts, **hashes})


def _check_name(spec: str) -> None:
    if "(" not in spec or Path(spec).exists():
        return
    name = parse_spec(spec).name
    if name in ("same", "minilm"):
        raise OptionError(f"Student {name!r} has no options. Only native students have: {', '.join(MODELS)}.")
    raise UnknownNameError(unknown_name_message("student", name, ["same", *MODELS, "minilm"]))
