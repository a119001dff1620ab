"""The options of `didact train`."""

from pathlib import Path
from typing import Annotated

from didact.config import DataOptions, Group, ModelOptions, Option, TrainingOptions
from didact.field_types import Name, NotNegative, Positive, Seed, Share, Switch, Threads


class TrainConfig(TrainingOptions, DataOptions, ModelOptions):
    """The options of `didact train`, with the names of the arguments of `train_teacher`."""

    model: Annotated[Name, Option(Group.MODEL, "MODEL")] = "native"
    """Hub name, folder, native (default), bilstm or minilm."""
    task: Name | None = None
    """Not on the command line: the data say it."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu (default), cuda or mps."""
    classes: tuple[str, ...] = ()
    """Not on the command line: a teacher takes those of its data."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Highest learning rate."""
    weight_decay: Annotated[NotNegative | None, Option(Group.TRAINING, "DECAY")] = None
    """Weight decay of the optimiser."""
    warmup: Annotated[Share | None, Option(Group.TRAINING, "SHARE")] = None
    """Share of steps with a rising rate, as in 0.1."""
    clip: Annotated[Positive | None, Option(Group.TRAINING, "NORM")] = None
    """Maximum norm of the gradient (clipping)."""
    patience: Annotated[int | None, Option(Group.TRAINING, "N")] = None
    """Stop after N epochs without a better dev score."""
    seed: Annotated[Seed, Option(Group.TRAINING, "N")] = 0
    """Seed of weights, order and planted data."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder for the model (default: runs/teacher-DATA)."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace the folder if didact made it."""
    precision: Annotated[Name | None, Option(Group.ADVANCED, "NAME")] = None
    """single (default), bfloat16, or float16 on cuda."""
    threads: Annotated[Threads | None, Option(Group.ADVANCED, "N")] = None
    """CPU threads (another number changes the weights)."""
