"""Options that several commands share, and what they open."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from didact.cli.output import say_notes
from didact.config import ADVANCED, DATA, METHOD, MODEL, OUTPUT, PARTICIPANTS, STATISTICS, STUDY, TRAINING
from didact.errors import OptionError
from didact.explainers import EXPLAINERS, is_learned
from didact.limits import MOST_AT_ONCE, MOST_WORKERS, most_threads
from didact.registry import parse_spec, split_list

__all__ = ["PARTICIPANTS", "STATISTICS", "STUDY"]  # named here by the commands
MOST = most_threads()


def option(name: str, metavar: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """An option with a value, which the help shows as `--name METAVAR  text` in a panel."""
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=panel, **more)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    """An option without a value. `--soft/--hard` names what switches it on and off."""
    return typer.Option(name, help=text, rich_help_panel=panel)


MODEL_OPTION = option("--model", "MODEL", "Folder or hub name of the model.", MODEL)
DATA_OPTION = option("--data", "DATA", "A file, or a name from `didact data list`.", DATA)
TRUNCATE_OPTION = flag("--truncate", "Cut rows that are too long for the model.", MODEL)
TRUST_OPTION = flag("--trust-remote-code", "Run code that comes with a model.", MODEL)

Model = Annotated[str, MODEL_OPTION]
Task = Annotated[str | None, option("--task", "TASK", "pair for a model that reads two texts.", MODEL)]
Length = Annotated[int | None, option("--length", "N", "Maximum tokens the model reads.", MODEL)]
Truncate = Annotated[bool, TRUNCATE_OPTION]
Device = Annotated[str | None, option("--device", "DEVICE", "cpu, cuda, mps, or auto for all GPUs.", MODEL)]
TeacherDevice = Annotated[
    str | None, option("--device", "DEVICE", "cpu, cuda, mps, or auto (training uses one GPU).", MODEL)
]
Revision = Annotated[str | None, option("--revision", "NAME", "Revision of a model on the hub.", MODEL)]
TrustRemoteCode = Annotated[bool, TRUST_OPTION]

Data = Annotated[str, DATA_OPTION]
Columns = Annotated[
    list[str] | None,
    option("--columns", "ROLE=NAME", "text=comment,label=verdict (label=none: no labels).", DATA),
]
Classes = Annotated[str | None, option("--classes", "NAMES", "The data's class names in model order: bad,good.", DATA)]
Split = Annotated[str, option("--split", "SPLIT", "teach, explain, train, dev or test.", DATA)]
AnySplit = Annotated[
    str | None,
    option(
        "--split", "SPLIT", "teach, explain, train, dev, test or all (default: all rows of a file, else test).", DATA
    ),
]
FirstRows = Annotated[int | None, option("--rows", "N", "Use only the first N rows.", DATA, min=1)]
DataDir = Annotated[str | None, option("--data-dir", "FOLDER", "Folder with real data (default: $DIDACT_DATA).", DATA)]
DataSeed = Annotated[int, option("--data-seed", "N", "Seed of planted data.", DATA)]

Methods = Annotated[str, option("--methods", "NAMES", "Names from `didact methods`.", METHOD)]
Preset = Annotated[str | None, option("--preset", "NAME", "Settings of a paper: pruthi, smat, l2e or neely.", METHOD)]

Epochs = Annotated[int | None, option("--epochs", "N", "Maximum number of epochs.", TRAINING)]
StudentEpochs = Annotated[int | None, option("--epochs", "N", "Epochs of a student.", TRAINING)]
BatchSize = Annotated[int | None, option("--batch-size", "N", "Rows per training step.", TRAINING)]
Rate = Annotated[float | None, option("--rate", "RATE", "Learning rate.", TRAINING)]
StudentRate = Annotated[float | None, option("--rate", "RATE", "Learning rate of a student.", TRAINING)]
Base = Annotated[str | None, option("--base", "MODEL", "Pretrained model that students start from.", TRAINING)]
Seed = Annotated[int, option("--seed", "N", "Seed of rows, weights and order.", TRAINING)]

Overwrite = Annotated[bool, flag("--overwrite", "Replace the folder if didact made it.", OUTPUT)]
OverwriteFile = Annotated[bool, flag("--overwrite", "Replace files that exist.", OUTPUT)]
Json = Annotated[bool, flag("--json", "Print one JSON document on stdout.", OUTPUT)]

PassSize = Annotated[
    int | None,
    option("--batch-size", "N", "Perturbed rows per forward pass (default: 64).", ADVANCED, min=1, max=MOST_AT_ONCE),
]
DrawSeed = Annotated[int | None, option("--seed", "N", "Seed of random draws and planted data (default: 0).", ADVANCED)]
PlantedSeed = Annotated[int, option("--seed", "N", "Seed of planted data.", ADVANCED)]
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
Precision = Annotated[str | None, option("--precision", "NAME", "single (default), bfloat16 or float16.", ADVANCED)]
Threads = Annotated[
    int | None,
    option("--threads", "N", "CPU threads (another number changes the last digits).", ADVANCED, min=1, max=MOST),
]
TrainingThreads = Annotated[
    int | None, option("--threads", "N", "CPU threads (another number changes the weights).", ADVANCED, min=1, max=MOST)
]


def methods_of(text: str) -> list[str]:
    """The methods that are named; an unknown one is told before anything heavy is loaded."""
    asked = split_list(text)
    if not asked:
        raise OptionError("Name a method: lime. `didact methods` lists them.")
    for one in asked:
        if not is_learned(one):
            EXPLAINERS[parse_spec(one).name]
    return asked


def check_files(files: Sequence[Path], *, has_data: bool) -> bool:
    """Whether some are of another tool, which needs data. What is missing is told before anything heavy is loaded."""
    from didact.records.paths import kind_at, short

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


def parse_columns(values: Sequence[str] | None) -> dict[str, str | None]:
    """What `--columns` says, by role: `["text=comment,label=verdict"]`. `label=` and `label=none` mean no labels."""
    found: dict[str, str | None] = {}
    for part in (part.strip() for value in values or () for part in value.split(",")):
        role, sign, column = (piece.strip() for piece in part.partition("="))
        if not sign or not role:
            raise OptionError(f"--columns takes role=column, as in --columns text=comment,label=verdict, not {part!r}.")
        if role in found:
            raise OptionError(f"--columns names {role!r} twice: {found[role] or 'none'} and {column or 'none'}.")
        optional = role in _OPTIONAL_ROLES
        if not column and not optional:
            raise OptionError(f"--columns {role}= names no column. Only {', '.join(_OPTIONAL_ROLES)} can be left out.")
        found[role] = None if optional and column.lower() in ("", "none") else column
    return found


_OPTIONAL_ROLES = ("label", "id", "rationale", "alignments")


def parse_classes(text: str | None) -> list[str] | None:
    """What `--classes` says: names with commas, in quotes where a name holds a comma."""
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def loaded_data(
    name: str,
    *,
    columns: Sequence[str] | None,
    data_dir: str | None,
    seed: int,
    task: Any = None,
    uses_splits: bool = True,
) -> Any:
    """The data set, with notes on stderr about how it was read.

    `task` is that of the model, for data of the user's own. Where all rows of a file are used (`uses_splits` is false),
    notes about its splits are left out.
    """
    from didact.data import DATASETS
    from didact.data.load import load_data

    is_named = name.partition("(")[0].strip() in DATASETS
    wanted = parse_columns(columns) or None
    data = load_data(name, columns=wanted, task=None if is_named else task, data_dir=data_dir, seed=seed)
    silent = () if uses_splits or data.all_rows is None else data.cut_notes
    say_notes(note for note in data.notes if note not in silent)
    return data


def chosen_split(data: Any, split: str | None) -> str:
    """The split that is meant: by default all rows of a file without splits, and else test."""
    from didact.core.dataset import ALL

    return split or (ALL if data.all_rows is not None else "test")


def aligned(data: Any, teacher: Any, classes: str | None, *, required: bool) -> Any:
    """The data with labels as the teacher's classes; notes go to stderr. Labels that do not fit are told if needed."""
    from didact.core.classes import align_labels

    found = align_labels(data, teacher, classes=parse_classes(classes), required=required)
    say_notes(found.notes[len(data.notes) :])
    return found


def data_of(
    name: str,
    split: str | None,
    *,
    data_dir: str | None,
    seed: int,
    rows: int | None = None,
    columns: Sequence[str] | None = None,
    is_explained: bool = False,
) -> Any:
    """The data that files are about: all of them, or one split alone, or its first rows. They keep their classes.

    With `is_explained` the default is the split that `didact explain` takes, and not all of them.
    """
    from didact.core.dataset import Dataset

    loaded = loaded_data(name, columns=columns, data_dir=data_dir, seed=seed, uses_splits=split not in (None, "all"))
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


def teacher_of(model: str, *, threads: int | None, device: str | None, **loading: Any) -> Any:
    """The teacher where it was asked for, with as many threads."""
    import torch

    from didact.models.load import load_teacher

    if threads is not None:
        torch.set_num_threads(threads)
    return load_teacher(model, device=device, **loading)
