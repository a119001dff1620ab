"""AG's news topics (Zhang, Zhao and LeCun 2015): four topics. There is no official validation set."""

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.hub import Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("World", "Sports", "Business", "Sci/Tech")  # the order of the hub's numbers
CUT: Cut = {"train": {"train": 0.10, "dev": 0.05, "teach": REST}, "test": "test"}


def read(record: Record) -> Row:
    return Row(fields.row_id(record), (fields.text(record, "text"),), label=fields.label(record, "label", CLASSES))


def ag_news() -> Recipe:
    return Recipe(
        name="ag_news",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        cuts=(CUT,),
        hub=Hub(
            repo="fancyzhx/ag_news",
            revision="eb185aade064a813bc0b7f42de02595523103ca4",
            configs=("default",),
            splits={"train": "train", "test": "test"},
            columns=("text", "label"),
        ),
    )
