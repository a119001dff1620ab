"""The options of training a teacher."""

from pathlib import Path
from typing import Annotated

from didact.config import (
    ABOVE_ZERO,
    ADVANCED,
    MODEL,
    OUTPUT,
    TRAINING,
    DataOptions,
    ModelOptions,
    Number,
    Option,
    Seed,
    Switch,
    Threads,
    TrainingOptions,
    Word,
)


class TrainConfig(TrainingOptions, DataOptions, ModelOptions):
    """The options of `didact train`. They reach `train_teacher` by the same names."""

    model: Annotated[Word, Option(MODEL, "MODEL")] = "native"
    """native(layers=2), bilstm, minilm, a hub name or a folder."""
    task: Word | None = None
    """Not on the command line: the data say it."""
    device: Annotated[Word | None, Option(MODEL, "DEVICE")] = None
    """cpu, cuda or mps."""
    classes: tuple[str, ...] = ()
    """Not on the command line: a teacher takes those of its data."""
    learning_rate: Annotated[Annotated[float, ABOVE_ZERO] | None, Option(TRAINING, "RATE")] = None
    """Highest learning rate."""
    weight_decay: Annotated[
        Annotated[float, Number("of 0 or more", lambda number: number >= 0)] | None, Option(TRAINING, "DECAY")
    ] = None
    """Weight decay of the optimiser."""
    warmup: Annotated[
        Annotated[float, Number("from 0 to below 1", lambda number: 0 <= number < 1)] | None, Option(TRAINING, "SHARE")
    ] = None
    """Share of steps with a rising rate: 0.1."""
    clip: Annotated[Annotated[float, ABOVE_ZERO] | None, Option(TRAINING, "NORM")] = None
    """Maximum norm of the gradient."""
    patience: Annotated[int | None, Option(TRAINING, "N")] = None
    """Stop after N epochs without a better dev score."""
    seed: Annotated[Seed, Option(TRAINING, "N")] = 0
    """Seed of weights, order and planted data."""
    out: Annotated[Path | None, Option(OUTPUT, "FOLDER")] = None
    """Folder for the model (default: runs/teacher-DATA)."""
    overwrite: Annotated[Switch, Option(OUTPUT)] = False
    """Replace the folder if didact made it."""
    precision: Annotated[Word | None, Option(ADVANCED, "NAME")] = None
    """single (default), bfloat16, or float16 on cuda."""
    threads: Annotated[Threads | None, Option(ADVANCED, "N")] = None
    """CPU threads (another number changes the weights)."""
