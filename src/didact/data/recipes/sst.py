"""Stanford Sentiment Treebank (Socher et al. 2013): sentences, the binary task.

Neutral sentences are left out. The rationale is the words whose own label, as a phrase of one token, has the polarity
of the sentence: people labelled phrases, not reasons, so it is a stand-in for a rationale.
"""

import re

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.fields import FieldError
from didact.data.hub import CONVERTED, Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("negative", "positive")
CUT: Cut = {"train": {"train": 1500, "teach": REST}, "validation": "dev", "test": "test"}

_NEUTRAL = 2  # of 0, very negative, to 4, very positive
_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


def read(record: Record) -> Row | None:
    text = fields.text(record, "text")
    label = fields.label(record, "label", CLASSES)
    if label is None:
        return None
    words = fields.tokens(text)
    single = [(start, grade) for start, end, grade in record["phrases"] if end - start == 1]
    spans = tuple(words[place] for place, grade in single if grade != _NEUTRAL and (grade > _NEUTRAL) == bool(label))
    return Row(fields.row_id(record), (text,), label=label, rationale=spans)


def read_hub(record: Record) -> Row | None:
    """The hub has the trees: `(3 (2 It) (4 (2 's) (4 lovely)))`."""
    tree = fields.text(record, "ptb_tree")
    grade = re.match(r"\((\d) ", tree)
    leaves = re.findall(r"\((\d) ([^()\s]+)\)", tree)
    if grade is None or not leaves:
        raise FieldError("ptb_tree", f"holds {fields.shown(tree)}, which is no tree")
    whole = int(grade[1])
    flat = {
        "text": " ".join(_BRACKETS.get(word, word) for _, word in leaves),
        "label": None if whole == _NEUTRAL else int(whole > _NEUTRAL),
        "phrases": [(place, place + 1, int(one)) for place, (one, _) in enumerate(leaves)],
    }
    return read(flat)


def sst() -> Recipe:
    return Recipe(
        name="sst",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        read_hub=read_hub,
        cuts=(CUT,),
        hub=Hub(
            repo="stanfordnlp/sst",
            revision=CONVERTED,
            configs=("ptb",),
            splits={"train": "train", "validation": "validation", "test": "test"},
            columns=("ptb_tree",),
        ),
        notes=("Neutral sentences are left out. Rationale: words whose own label has the sentence's polarity.",),
    )
