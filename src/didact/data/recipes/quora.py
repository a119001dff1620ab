"""Quora question pairs (Iyer, Dandekar and Csernai 2017): duplicates or not.

A local folder has the usual development and test sets of 10,000; the hub has GLUE's split, whose test labels are not
public, so that GLUE's validation set is our test.
"""

from didact.core.row import Row
from didact.core.task import PAIR
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.hub import Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("different", "duplicate")
WHOLE: Cut = {"train": {"train": 10_000, "teach": REST}, "validation": "dev", "test": "test"}
WITHOUT_TRAIN: Cut = {"validation": {"train": 0.30, "dev": 0.10, "teach": REST}, "test": "test"}
GLUE: Cut = {"train": {"train": 10_000, "dev": 5_000, "teach": REST}, "glue_validation": "test"}


def read(record: Record) -> Row | None:
    label = fields.label(record, "label", CLASSES)
    if label is None:
        return None
    texts = (fields.text(record, "question1"), fields.text(record, "question2"))
    return Row(fields.row_id(record, "id" if "id" in record else "idx"), texts, label=label)


def read_hub(record: Record) -> Row | None:
    """GLUE has a few pairs with an empty question; they are left out."""
    return read(record) if record["question1"].strip() and record["question2"].strip() else None


def quora() -> Recipe:
    return Recipe(
        name="quora",
        task=PAIR,
        classes=CLASSES,
        segments=("question1", "question2"),
        read=read,
        read_hub=read_hub,
        cuts=(WHOLE, GLUE, WITHOUT_TRAIN),
        hub=Hub(
            repo="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            configs=("qqp",),
            splits={"train": "train", "glue_validation": "validation"},
            columns=("question1", "question2", "label", "idx"),
        ),
    )
