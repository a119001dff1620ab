"""Data sets: texts, pairs of texts and images with labels and rationales, as rows in splits. No torch in this package.

`DATASETS` lists every name: planted data, generated here with known rationales (`planted/`), and real data sets, one
recipe each (`recipes/`), read from a folder or the Hugging Face hub. A file of your own needs no name.

- `load` has `didact.load_data`; `stream` reads data that do not fit in memory; `sources` turns a path, a DataFrame or a
  `datasets` object into tables; `recipe` describes a real data set.
- Tables and rows: `files` (one reader per format), `table`, `columns` (the role of each column), `fields` (the value of
  one field), `labels`, `ids`, `rows` (checked rows; reports all faults at once).
- Rows of a data set: `cut` (splits), `subset` (the rows of one student), `edits` and `word_swap` (rows that are one
  edit away from a row).

To add a data set: write one function that returns a recipe, add one line here and one row to docs/data.md.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class DataEntry(Entry):
    """What `didact data list` shows for a name without loading the data."""

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
        "planted/graded": _planted("graded", "classification", "cues of three weights; a full true ranking"),
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
