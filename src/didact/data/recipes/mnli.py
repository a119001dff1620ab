"""MultiNLI (Williams, Nangia and Bowman 2018). A local folder may hold the matched development set alone."""

from didact.core.row import Row
from didact.core.task import PAIR
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.hub import Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("entailment", "neutral", "contradiction")  # the order of the hub's numbers
# The labels of the official test set are not public, so the matched development set is our test.
WHOLE: Cut = {"train": {"train": 10_000, "dev": 2_000, "teach": REST}, "validation_matched": "test"}
WITHOUT_TRAIN: Cut = {"validation_matched": {"train": 0.25, "dev": 0.05, "test": 0.20, "teach": REST}}


def read(record: Record) -> Row | None:
    label = fields.label(record, "label", CLASSES)
    if label is None:
        return None
    texts = (fields.text(record, "premise"), fields.text(record, "hypothesis"))
    return Row(fields.row_id(record, "id" if "id" in record else "idx"), texts, label=label)


def mnli() -> Recipe:
    return Recipe(
        name="mnli",
        task=PAIR,
        classes=CLASSES,
        segments=("premise", "hypothesis"),
        read=read,
        cuts=(WHOLE, WITHOUT_TRAIN),
        together=0,
        hub=Hub(
            repo="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            configs=("mnli",),
            splits={"train": "train", "validation_matched": "validation_matched"},
            columns=("premise", "hypothesis", "label", "idx"),
        ),
    )
