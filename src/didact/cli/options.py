"""Options that several commands share, and what they open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from didact.cli.output import say_notes
from didact.config import DataOptions, Group, ModelOptions
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.limits import MOST_WORKERS
from didact.registry import parse_spec

# The groups under the names that commands give them.
MODEL, DATA, METHOD, STUDY, PARTICIPANTS, TRAINING, STATISTICS, OUTPUT, ADVANCED = Group


def option(name: str, metavar: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value, which the help shows as `--name METAVAR  text` in a panel."""
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=panel, **more)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    """An option without a value. `--control/--no-control` names what switches it on and off."""
    return typer.Option(name, help=text, rich_help_panel=panel)


DATA_OPTION = option("--data", "DATA", "A file, or a name from `didact data list`.", DATA)

Task = Annotated[str | None, option("--task", "TASK", "pair for a model that reads two texts.", MODEL)]
MaxLength = Annotated[int | None, option("--max-length", "N", "Maximum tokens the model reads.", MODEL)]
Truncate = Annotated[bool, flag("--truncate", "Cut rows that are too long for the model.", MODEL)]
TeacherDevice = Annotated[
    str | None, option("--device", "DEVICE", "cpu, cuda, mps, or auto (training uses one GPU).", MODEL)
]
Revision = Annotated[str | None, option("--revision", "NAME", "Revision of a model on the hub.", MODEL)]
TrustRemoteCode = Annotated[bool, flag("--trust-remote-code", "Run code that comes with a model.", MODEL)]

Columns = Annotated[
    list[str] | None,
    option("--columns", "ROLE=NAME", "text=comment,label=verdict (label=none: no labels).", DATA),
]
AnySplit = Annotated[
    str | None,
    option(
        "--split", "SPLIT", "teach, explain, train, dev, test or all (default: all rows of a file, else test).", DATA
    ),
]
DataDir = Annotated[str | None, option("--data-dir", "FOLDER", "Folder with real data (default: $DIDACT_DATA).", DATA)]


OverwriteFile = Annotated[bool, flag("--overwrite", "Replace files that exist.", OUTPUT)]
Json = Annotated[bool, flag("--json", "Print one JSON document on stdout.", OUTPUT)]

Workers = Annotated[
    int | None,
    option(
        "--workers",
        "N",
        "Worker processes (default: one per core; 0 runs in this process).",
        ADVANCED,
        min=0,
        max=MOST_WORKERS,
    ),
]


def check_methods(names: Sequence[str]) -> None:
    """An error for an unknown method, before anything heavy is loaded."""
    if not names:
        raise OptionError("Name a method: lime. `didact methods` lists them.")
    for name in names:
        if not is_learned(name):
            EXPLAINERS[parse_spec(name).name]


def check_files(files: Sequence[Path], *, has_data: bool) -> bool:
    """Whether some are of another tool, which needs data. What is missing is told before anything heavy is loaded."""
    from didact.files.paths import kind_at, short

    missing = [short(one) for one in files if kind_at(one) in ("nothing", "special")]
    if missing:
        raise OptionError(
            f"There is no file {', '.join(missing)}. Explanations are written by didact explain --out FILE."
        )
    from didact.experiment.bring import is_foreign, without_data

    foreign = [one for one in files if is_foreign(one)]
    if foreign and not has_data:
        raise without_data(foreign)
    return bool(foreign)


def loaded_data(config: DataOptions, *, seed: int, task: Any = None, uses_splits: bool = True) -> Any:
    """The data set, with notes on stderr about how it was read.

    `task` is that of the model, for data of the user's own. Where all rows of a file are used (`uses_splits` is false),
    notes about its splits are left out.
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
    silent = () if uses_splits or data.all_rows is None else data.cut_notes
    say_notes(note for note in data.notes if note not in silent)
    return data


def chosen_split(data: Any, split: str | None) -> str:
    """The split that is meant: by default all rows of a file without splits, and else test."""
    from didact.core.dataset import ALL

    return split or (ALL if data.all_rows is not None else "test")


def aligned(data: Any, teacher: Any, classes: Sequence[str], *, required: bool) -> Any:
    """The data with labels as the teacher's classes; notes go to stderr. Labels that do not fit are told if needed."""
    from didact.core.classes import align_labels

    aligned_data = align_labels(data, teacher, classes=classes or None, required=required)
    say_notes(aligned_data.notes[len(data.notes) :])
    return aligned_data


def data_of(
    config: DataOptions, split: str | None, *, seed: int, rows: int | None = None, is_explained: bool = False
) -> Any:
    """The data that files are about: all of them, or one split alone, or its first rows. They keep their classes.

    With `is_explained` the default is the split that `didact explain` takes, and not all of them.
    """
    from didact.core.dataset import Dataset

    loaded = loaded_data(config, seed=seed, uses_splits=split not in (None, "all"))
    split = chosen_split(loaded, split) if is_explained else split
    if split is None:
        return loaded
    return Dataset(loaded.name, loaded.task, {split: loaded[split][:rows]}, loaded.classes, loaded.segments)


def check_device(device: str | None) -> None:
    """An error if the device is not there, before anything is loaded. What `auto` finds is known when it is used."""
    from didact.models.load import checked_device
    from didact.models.spread import AUTO

    if device not in (None, AUTO):
        checked_device(device)


def teacher_of(config: ModelOptions) -> Any:
    """The teacher where it was asked for, with as many threads."""
    import torch

    from didact.models.load import load_teacher

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return load_teacher(config.model, **config.loading())
