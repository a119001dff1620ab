"""Loads what commands need: models, data and files of explanations. Notes go to stderr."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from didact.cli.output import echo_notes
from didact.config import DataOptions, ModelOptions
from didact.errors import MissingExtraError, OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.registry import parse_spec
from didact.study.config import FolderOptions

if TYPE_CHECKING:
    from didact.study.database import AnswerStore
    from didact.study.design import Design


def check_methods(names: Sequence[str]) -> None:
    """Raise an error for an unknown method, before anything slow is loaded."""
    if not names:
        raise OptionError("Name at least one method, such as lime. `didact methods` lists them.")
    for name in names:
        if not is_learned(name):
            EXPLAINERS[parse_spec(name).name]


def check_files(files: Sequence[Path], *, has_data: bool) -> bool:
    """True if some files are of another tool.

    Raises an error for missing files, and for files of other tools without data, before anything slow is loaded.
    """
    from didact.files.paths import kind_at, shorten_path

    missing = [shorten_path(file) for file in files if kind_at(file) in ("nothing", "special")]
    if missing:
        raise OptionError(f"There is no file {', '.join(missing)}. Write explanations with: didact explain --out FILE.")
    from didact.explaining.read_explanations import is_foreign_file, missing_data_error

    foreign = [file for file in files if is_foreign_file(file)]
    if foreign and not has_data:
        raise missing_data_error(foreign)
    return bool(foreign)


def open_data(config: DataOptions, *, seed: int, task: Any = None, uses_splits: bool = True) -> Any:
    """Load the data set, and print notes about how it was read to stderr.

    `task` is that of the model, for the user's own data. With `uses_splits=False` all rows of a file are used, and
    notes about its splits are not printed.
    """
    from didact.data import DATASETS
    from didact.data.load import load_data

    is_named = config.data.partition("(")[0].strip() in DATASETS
    data = load_data(
        config.data,
        columns=config.columns or None,
        task=None if is_named else task,
        data_dir=config.data_dir,
        seed=seed,
    )
    hidden = () if uses_splits or data.all_rows is None else data.split_notes
    echo_notes(note for note in data.notes if note not in hidden)
    return data


def chosen_split(data: Any, split: str | None) -> str:
    """The name of the split. By default all rows of a file without splits, else test."""
    from didact.core.dataset import ALL

    return split or (ALL if data.all_rows is not None else "test")


def align_to_teacher(data: Any, teacher: Any, classes: Sequence[str], *, required: bool) -> Any:
    """Map labels to the teacher's classes and print notes to stderr.

    Raises an error for labels that match no class if `required`.
    """
    from didact.core.classes import align_labels

    aligned_data = align_labels(data, teacher, classes=classes or None, required=required)
    echo_notes(aligned_data.notes[len(data.notes) :])
    return aligned_data


def data_for_files(
    config: DataOptions, split: str | None, *, seed: int, rows: int | None = None, is_explained: bool = False
) -> Any:
    """Load the data that files explain: all splits, one split, or the first `rows` of a split.

    With `is_explained`, the default is the split that `didact explain` uses instead of all splits.
    """
    from didact.core.dataset import Dataset

    loaded = open_data(config, seed=seed, uses_splits=split not in (None, "all"))
    split = chosen_split(loaded, split) if is_explained else split
    if split is None:
        return loaded
    return Dataset(loaded.name, loaded.task, {split: loaded[split][:rows]}, loaded.classes, loaded.segments)


def check_device(device: str | None) -> None:
    """Raise an error for a missing device before anything is loaded. `auto` is resolved when the model is loaded."""
    from didact.models.accelerate_hooks import AUTO
    from didact.models.load import checked_device

    if device not in (None, AUTO):
        checked_device(device)


def open_teacher(config: ModelOptions) -> Any:
    """Set the number of threads and load the teacher on its device."""
    import torch

    from didact.models.load import load_teacher

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return load_teacher(config.model, **config.loading())


def open_study(config: FolderOptions) -> "tuple[Design, AnswerStore]":
    """Open the design and the answers of a study."""
    check_study_extra()
    from didact.study.database import open_answers
    from didact.study.design import read_design

    design = read_design(config.folder)
    return design, open_answers(config.folder, design, config.database)


def check_study_extra() -> None:
    """Raise an error if the packages of the extra `study` are not installed."""
    from importlib.util import find_spec

    missing = [
        name for name in ("fastapi", "itsdangerous", "jinja2", "sqlalchemy", "uvicorn") if find_spec(name) is None
    ]
    if missing:
        raise MissingExtraError(
            f"Studies need {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            'Install them with: pip install "didact[study]"'
        )
