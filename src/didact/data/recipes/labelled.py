"""Data sets of one or two texts with a class and no rationales, one function for each."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from didact.core.row import Row
from didact.core.task import CLASSIFICATION, PAIR
from didact.data import fields
from didact.data.recipe import ALL_THREE, CONVERTED, REST, TRAIN_AND_TEST, Cut, Hub, Recipe, Record

GLUE: Final = ("nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c")
INFERENCE: Final = ("entailment", "neutral", "contradiction")  # the order of the hub's numbers
PREMISE: Final = ("premise", "hypothesis")
QUESTIONS: Final = ("question1", "question2")
FULL_CUT: Cut = {"train": {"train": 10_000, "teach": REST}, "validation": "dev", "test": "test"}
VALIDATION_ONLY_CUT: Cut = {"validation": {"train": 0.30, "dev": 0.10, "teach": REST}, "test": "test"}


def read(record: Record, columns: Sequence[str], classes: Sequence[str]) -> Row | None:
    """A row with the texts of these columns. None (left out) for a pair without a label."""
    label = fields.label(record, "label", classes)
    if label is None and len(columns) == 2:
        return None
    texts = tuple(fields.text(record, column) for column in columns)
    return Row(fields.row_id(record, "id" if "id" in record else "idx"), texts, label=label)


def _recipe(name: str, columns: tuple[str, ...], classes: tuple[str, ...], cuts: tuple[Cut, ...], hub: Hub) -> Recipe:
    task = PAIR if len(columns) == 2 else CLASSIFICATION
    return Recipe(name, task, partial(read, columns=columns, classes=classes), cuts, classes, columns, hub)


def ag_news() -> Recipe:
    """AG's news topics (Zhang, Zhao and LeCun 2015): four topics. There is no official validation set."""
    cut: Cut = {"train": {"train": 0.10, "dev": 0.05, "teach": REST}, "test": "test"}
    hub = Hub("fancyzhx/ag_news", "eb185aade064a813bc0b7f42de02595523103ca4", ("text", "label"), TRAIN_AND_TEST)
    topics = ("World", "Sports", "Business", "Sci/Tech")  # the order of the hub's numbers
    return _recipe("ag_news", ("text",), topics, (cut,), hub)


def cola() -> Recipe:
    """Corpus of Linguistic Acceptability (Warstadt, Singh and Bowman 2019).

    As in L2E, test is the out-of-domain development set: the labels of the official test set are not public. GLUE has
    no out-of-domain rows, so on the hub GLUE's validation set (in domain) is test, and dev is cut from train.
    """
    classes = ("unacceptable", "acceptable")
    official: Cut = {"train": {"train": 2_000, "teach": REST}, "validation": "dev", "validation_ood": "test"}
    glue: Cut = {"train": {"train": 2_000, "dev": 500, "teach": REST}, "glue_validation": "test"}
    splits = {"train": "train", "glue_validation": "validation"}
    hub = Hub(*GLUE, ("sentence", "label", "idx"), splits, ("cola",))
    read_hub = partial(read, columns=("sentence",), classes=classes)
    return replace(_recipe("cola", ("text",), classes, (official, glue), hub), read_hub=read_hub)


_BREAKS: Final = re.compile(r"\s*(?:<br\s*/?>\s*)+")


def _review(record: Record) -> Row | None:
    row = read(record, ("text",), ("negative", "positive"))
    return row and replace(row, texts=(_BREAKS.sub(" ", row.texts[0]),))


def imdb() -> Recipe:
    """Large Movie Review Dataset (Maas et al. 2011): reviews, positive or negative."""
    # As in Pruthi et al. and SMaT, students use the official test half and the teacher the training half.
    cut: Cut = {"train": "teach", "test": {"train": 0.35, "dev": 0.10, "test": REST}}
    revision = "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
    hub = Hub("stanfordnlp/imdb", revision, ("text", "label"), TRAIN_AND_TEST, ("plain_text",))
    recipe = _recipe("imdb", ("text",), ("negative", "positive"), (cut,), hub)
    return replace(recipe, read=_review, notes=("<br /> marks became spaces.",))


def mnli() -> Recipe:
    """MultiNLI (Williams, Nangia and Bowman 2018). A local folder may hold only the matched development set."""
    # The labels of the official test set are not public, so the matched development set is our test.
    with_train: Cut = {"train": {"train": 10_000, "dev": 2_000, "teach": REST}, "validation_matched": "test"}
    without_train: Cut = {"validation_matched": {"train": 0.25, "dev": 0.05, "test": 0.20, "teach": REST}}
    splits = {"train": "train", "validation_matched": "validation_matched"}
    hub = Hub(*GLUE, (*PREMISE, "label", "idx"), splits, ("mnli",))
    return replace(_recipe("mnli", PREMISE, INFERENCE, (with_train, without_train), hub), grouped_by=0)


def esnli() -> Recipe:
    """SNLI (Bowman et al. 2015) as in e-SNLI (Camburu et al. 2018). Neither source has the word highlights."""
    hub = Hub("esnli/esnli", CONVERTED, (*PREMISE, "label"), ALL_THREE, ("plain_text",))
    return replace(_recipe("esnli", PREMISE, INFERENCE, (FULL_CUT, VALIDATION_ONLY_CUT), hub), grouped_by=0)


def quora() -> Recipe:
    """Quora question pairs (Iyer, Dandekar and Csernai 2017): duplicates or not.

    A local folder has the usual development and test sets of 10,000; the hub has GLUE's splits. Their test labels
    are not public, so GLUE's validation set is our test.
    """
    classes = ("different", "duplicate")
    glue: Cut = {"train": {"train": 10_000, "dev": 5_000, "teach": REST}, "glue_validation": "test"}
    splits = {"train": "train", "glue_validation": "validation"}
    hub = Hub(*GLUE, (*QUESTIONS, "label", "idx"), splits, ("qqp",))

    def read_hub(record: Record) -> Row | None:
        """GLUE has a few pairs with an empty question. They are left out."""
        return read(record, QUESTIONS, classes) if all(record[column].strip() for column in QUESTIONS) else None

    return replace(_recipe("quora", QUESTIONS, classes, (FULL_CUT, glue, VALIDATION_ONLY_CUT), hub), read_hub=read_hub)
