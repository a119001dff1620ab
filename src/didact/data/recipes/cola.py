"""Corpus of Linguistic Acceptability (Warstadt, Singh and Bowman 2019).

As in L2E, test is the out-of-domain development set: the labels of the official test set are not public. GLUE has no
out-of-domain part, so from the hub GLUE's validation set (in domain) is test, and dev is cut out of train.
"""

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.hub import Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("unacceptable", "acceptable")
CUT: Cut = {"train": {"train": 2_000, "teach": REST}, "validation": "dev", "validation_ood": "test"}
GLUE: Cut = {"train": {"train": 2_000, "dev": 500, "teach": REST}, "glue_validation": "test"}


def read(record: Record) -> Row:
    return Row(fields.row_id(record), (fields.text(record, "text"),), label=fields.label(record, "label", CLASSES))


def read_hub(record: Record) -> Row:
    return read({"id": record["idx"], "text": record["sentence"], "label": record["label"]})


def cola() -> Recipe:
    return Recipe(
        name="cola",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        read_hub=read_hub,
        cuts=(CUT, GLUE),
        hub=Hub(
            repo="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            configs=("cola",),
            splits={"train": "train", "glue_validation": "validation"},
            columns=("sentence", "label", "idx"),
        ),
    )
