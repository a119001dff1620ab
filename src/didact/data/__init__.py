"""Texts, pairs and images with labels and rationales, as rows in splits. No torch in this package.

`DATASETS` lists every name: planted data, made here with the truth known (`planted/`), and real sets, one recipe each
(`recipes/`), read from a folder or the Hugging Face hub. Files of your own need no name.

- `load` is `didact.load_data`, `stream` reads without holding a set in memory, `sources` turns a path, a frame or a
  `datasets` object into tables, `recipe` is a real set.
- Files: `files` (tables of every format), `table`, `columns` (which column is what), `fields` (the values of a cell),
  `labels`, `ids`, `rows` (checked rows, all faults at once).
- Rows of a set: `cut` (splits), `subset` (the rows of one student).

To add a set: one function that gives a recipe, one line here, one row in docs/data.md.
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


def _planted(name: str, task: str, about: str) -> DataEntry:
    return DataEntry(f"didact.data.planted.{name}:{name}", task, ("embedded",), True, about)


def _real(where: str, task: str, rationales: bool, about: str, *sources: str) -> DataEntry:
    return DataEntry(f"didact.data.recipes.{where}", task, sources or ("folder", "hub"), rationales, about)


DATASETS: Registry[DataEntry] = Registry(
    "data set",
    {
        "planted/sentiment": _planted("sentiment", "classification", "cues, negators, intensifiers"),
        "planted/inference": _planted("inference", "pair", "attributes of two texts agree or clash"),
        "planted/quality": _planted("quality", "regression", "translations with planted errors"),
        "planted/reading": _planted("reading", "reading", "facts, with referential equalities"),
        "planted/shapes": _planted("shapes", "image", "one shape decides, in a noisy picture"),
        "imdb": _real("labelled:imdb", "classification", False, "movie reviews"),
        "sst": _real("marked:sst", "classification", True, "sentences of reviews; words of the sentence's polarity"),
        "sst_rationales": _real(
            "marked:sst_rationales", "classification", True, "sentences of reviews; marked by six people", "folder"
        ),
        "movie_rationales": _real(
            "marked:movie_rationales", "classification", True, "long movie reviews; marked evidence"
        ),
        "esnli": _real("labelled:esnli", "pair", False, "premise and hypothesis"),
        "mnli": _real("labelled:mnli", "pair", False, "premise and hypothesis, many genres"),
        "quora": _real("labelled:quora", "pair", False, "questions, duplicates or not"),
        "cola": _real("labelled:cola", "classification", False, "sentences, acceptable or not"),
        "ag_news": _real("labelled:ag_news", "classification", False, "news, four topics"),
        "mlqe_pe": _real("mlqe_pe:mlqe_pe", "regression", True, "quality of translations; wrong words (folder only)"),
        "qed": _real("qed:qed", "reading", True, "questions and passages; referential equalities"),
        "cifar100": _real("cifar100:cifar100", "image", False, "small images, 100 classes"),
        "hatexplain": _real(
            "marked:hatexplain", "classification", True, "posts, hateful or not; words marked by annotators"
        ),
    },
    group="didact.data",
)
