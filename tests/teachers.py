"""Hand-sized teachers of every task, in float64: Hugging Face ones, native ones, and functions."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import nn

import tiny
from didact.core.function import FunctionTeacher
from didact.core.model import Model
from didact.core.row import Row, Span
from didact.core.target import Target
from didact.core.task import PAIR, TASKS
from didact.explainers.build import build_explainer
from didact.models import MODELS
from didact.models.huggingface import HuggingFaceModel
from didact.models.tokenizer import PatchReader, WordTokenizer

HUGGING_FACE = {
    "classification": ("bert", "ForSequenceClassification", {}),
    "pair": ("bert", "ForSequenceClassification", {}),
    "regression": ("electra", "ForSequenceClassification", {"labels": 1}),
    "reading": ("bert", "ForQuestionAnswering", {"labels": 2}),
    "image": ("vit", "ForImageClassification", {}),
}
KINDS = {"hf": tuple(HUGGING_FACE), **{name: entry.tasks for name, entry in MODELS.items()}}


def examples(task: str) -> list[Row]:
    """Three ragged rows of a task with rationales."""
    if task == "image":
        return tiny.images()
    found = tiny.rows(1 if task == "classification" else 2)
    marked = [replace(row, rationale=(Span(0, 0, 5),)) for row in found]
    return marked if task != "pair" else [replace(row, label=0) for row in marked]


@lru_cache
def teacher(kind: str, task: str, dtype: torch.dtype = torch.float64) -> Model:
    """A small random model in evaluation mode."""
    if kind == "hf":
        architecture, head, options = HUGGING_FACE[task]
        model, tokenizer = tiny.huggingface(architecture, head, **options)
        return HuggingFaceModel(model.to(dtype), tokenizer, task=PAIR if task == "pair" else None)
    torch.manual_seed(0)
    reader = PatchReader(32, 32) if task == "image" else WordTokenizer.from_rows(examples(task)[1:])
    options = {"width": 16, **({"heads": 4} if kind == "native" else {})}
    classes = ("a", "b", "c") if TASKS[task].has_classes else None
    built = MODELS.load(kind)(TASKS[task], classes, reader, **options).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return built.to(dtype)


def black_box(task: str = "classification", **options: object) -> FunctionTeacher:
    """A function of the words alone: counts letters."""

    def predict(inputs: list) -> np.ndarray:
        values = np.array([_count(one) for one in inputs])
        if task == "regression":
            return values[:, None]
        chance = 1 / (1 + np.exp(-values))
        return np.stack([1 - chance, chance], 1)

    return FunctionTeacher(predict, None if task == "regression" else ["few", "many"], task=task, **options)


def _count(one: object) -> float:
    if isinstance(one, np.ndarray):
        return float(one[:16].mean() / 255 - 0.4)
    texts = [one] if isinstance(one, str) else list(one)
    return sum(0.3 * text.count("o") - 0.2 * text.count("a") * (1 + index) for index, text in enumerate(texts))


class Forward(nn.Module):
    """A model as captum wants it: embeddings in, the explained number out."""

    def __init__(self, model, batch, target, at="word"):
        super().__init__()
        self.model, self.batch, self.target, self.at = model, batch, target, at

    def forward(self, embeddings):
        times = len(embeddings) // len(self.batch)
        order = torch.arange(len(self.batch)).repeat(times)  # captum tiles whole batches
        return self.target.select(order).of(self.model.run(embeddings, self.batch.select(order), at=self.at).logits)


def setting(kind, task="classification", at="word", dtype=torch.float64, **options):
    model = teacher(kind, task, dtype)
    batch = model.encode(examples(task))
    with torch.no_grad():
        target = Target.predicted(model.task, model(batch).logits, **options)
    return model, batch, target, Forward(model, batch, target, at)


def scores(name, model, batch, target, **options):
    return build_explainer(name, **options).explainer(model, batch, target)
