"""What a model should answer, as tensors, and the loss each task owns."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from didact.core.batch import Batch
from didact.core.outputs import Outputs
from didact.core.task import Task
from didact.core.words import touches


def goals(batch: Batch, outputs: Outputs, *, soft: bool = False) -> Shaped[Tensor, "batch *goal"]:
    """The answers to learn: class indices, scores, or the first and last token of the answer span.

    With `soft`, the chances of all classes instead of the likeliest one. A span that lies outside what the model can
    read (cut off) becomes -100, which the loss leaves out.
    """
    task = outputs.task
    if task.has_classes:
        return torch.from_numpy(outputs.probabilities if soft else outputs.labels)
    if task.name != "reading":
        return torch.from_numpy(outputs.values[:, 0])
    found = torch.full((len(outputs), 2), -100, dtype=torch.long)
    segments, offsets = batch.segments.cpu().numpy(), batch.offsets.cpu().numpy()
    for index, span in enumerate(outputs.spans):
        inside = np.flatnonzero(touches([span], segments[index], offsets[index]))
        if len(inside):
            found[index] = torch.tensor([inside[0], inside[-1]])
    return found


def task_loss(
    task: Task, logits: Float[Tensor, "batch *output"], goal: Shaped[Tensor, "batch *goal"]
) -> Float[Tensor, " batch"]:
    """One loss per row: cross-entropy (on a label or on chances), squared error, or the mean of start's and end's."""
    if task.has_classes:
        # Chances come in double precision; labels must stay whole numbers.
        wanted = goal.to(logits.dtype) if goal.is_floating_point() else goal
        return F.cross_entropy(logits, wanted, reduction="none")
    if task.name == "reading":
        both = [F.cross_entropy(logits[:, side], goal[:, side], reduction="none", ignore_index=-100) for side in (0, 1)]
        return torch.stack(both).mean(0)
    return (logits[:, 0] - goal.to(logits.dtype)) ** 2
