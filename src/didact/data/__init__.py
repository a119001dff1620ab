"""Texts, pairs and images with labels and rationales, as rows in splits. No torch in this room.

`DATASETS` lists every name: planted data, made here with the truth known (`planted/`), and real sets, one recipe each
(`recipes/`), read from a folder or the Hugging Face hub. Files of your own need no name: see `files.py`.
To add a set: one module with a recipe, one line here, one row in docs/data.md.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class DataEntry(Entry):
    """What `didact data list` tells of a name without loading anything."""

    task: str
    sources: tuple[str, ...]
    rationales: bool
    about: str


_EMBEDDED = ("embedded",)


def _real(
    name: str, task: str, rationales: bool, about: str, sources: tuple[str, ...] = ("folder", "hub")
) -> DataEntry:
    return DataEntry(f"didact.data.recipes.{name}:{name}", task, sources, rationales, about)


DATASETS: Registry[DataEntry] = Registry(
    "data set",
    {
        "planted/sentiment": DataEntry(
            "didact.data.planted.sentiment:sentiment", "classification", _EMBEDDED, True, "cues, negators, intensifiers"
        ),
        "planted/inference": DataEntry(
            "didact.data.planted.inference:inference", "pair", _EMBEDDED, True, "attributes of two texts agree or clash"
        ),
        "planted/quality": DataEntry(
            "didact.data.planted.quality:quality", "regression", _EMBEDDED, True, "translations with planted errors"
        ),
        "planted/reading": DataEntry(
            "didact.data.planted.reading:reading", "reading", _EMBEDDED, True, "facts, with referential equalities"
        ),
        "planted/shapes": DataEntry(
            "didact.data.planted.shapes:shapes", "image", _EMBEDDED, True, "one shape decides, in a noisy picture"
        ),
        "imdb": _real("imdb", "classification", False, "movie reviews"),
        "sst": _real("sst", "classification", True, "sentences of reviews; words of the sentence's polarity"),
        "sst_rationales": _real(
            "sst_rationales", "classification", True, "sentences of reviews; marked by six people", sources=("folder",)
        ),
        "movie_rationales": _real("movie_rationales", "classification", True, "long movie reviews; marked evidence"),
        "esnli": _real("esnli", "pair", False, "premise and hypothesis"),
        "mnli": _real("mnli", "pair", False, "premise and hypothesis, many genres"),
        "quora": _real("quora", "pair", False, "questions, duplicates or not"),
        "cola": _real("cola", "classification", False, "sentences, acceptable or not"),
        "ag_news": _real("ag_news", "classification", False, "news, four topics"),
        "mlqe_pe": _real("mlqe_pe", "regression", True, "quality of translations; wrong words (folder only)"),
        "qed": _real("qed", "reading", True, "questions and passages; referential equalities"),
        "cifar100": _real("cifar100", "image", False, "small images, 100 classes"),
        "hatexplain": _real("hatexplain", "classification", True, "posts, hateful or not; words marked by annotators"),
    },
    group="didact.data",
)
