"""Large Movie Review Dataset (Maas et al. 2011): reviews, positive or negative. Nobody marked rationales."""

import re

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.hub import Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("negative", "positive")

# As in Pruthi et al. and SMaT the students live in the official test half; the teacher has the training half.
CUT: Cut = {"train": "teach", "test": {"train": 0.35, "dev": 0.10, "test": REST}}

_BREAKS = re.compile(r"\s*(?:<br\s*/?>\s*)+")


def read(record: Record) -> Row:
    text = _BREAKS.sub(" ", fields.text(record, "text"))
    return Row(fields.row_id(record), (text,), label=fields.label(record, "label", CLASSES))


def imdb() -> Recipe:
    return Recipe(
        name="imdb",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        cuts=(CUT,),
        hub=Hub(
            repo="stanfordnlp/imdb",
            revision="e6281661ce1c48d982bc483cf8a173c1bbeb5d31",
            configs=("plain_text",),
            splits={"train": "train", "test": "test"},
            columns=("text", "label"),
        ),
        notes=("<br /> marks became spaces.",),
    )
