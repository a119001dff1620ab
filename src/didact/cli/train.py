"""`didact train`: trains a model on a data set."""

import time
from pathlib import Path
from typing import Final

from didact.cli import inputs
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, print_json, print_metrics
from didact.learning.config import TrainConfig

EXAMPLES: Final = (
    "didact train --data planted/sentiment --out my-model",
    "didact train --data reviews.csv --columns text=comment,label=verdict \\\n    --model minilm --epochs 3",
)


@configured(TrainConfig)
def train(config: TrainConfig, as_json: Json = False) -> None:
    """Train a model of your own on a data set.

    Trains on the split teach, chooses the best epoch on dev, evaluates on test, and saves the model in a folder.
    """
    start = time.monotonic()
    import torch

    from didact.learning.train import train_teacher

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    data = inputs.open_data(config, seed=config.seed)
    folder = config.out or Path("runs") / f"teacher-{data.name.replace('/', '-')}"
    training = config.pick("epochs", "batch_size", "learning_rate", "weight_decay", "warmup", "clip", "patience")
    loading = config.pick("max_length", "truncate", "device", "precision", "revision", "trust_remote_code")
    teacher = train_teacher(data, config.model, out=folder, **config.pick("overwrite", "seed"), **training, **loading)
    seconds = round(time.monotonic() - start, 1)
    metrics = teacher.record["metrics"]
    if as_json:
        print_json({"out": str(folder), "metrics": metrics, "seconds": seconds})
        return
    print_metrics(metrics)
    echo_stderr(f"Saved in {folder} after {seconds:.0f} s. Load it with didact.load_teacher({str(folder)!r}).")
