"""Words that people marked as the reason for their label (Jakobsen, Cabello and Søgaard 2023), on sentences of SST.

Sentences of SST's training set are left out by default, because a teacher of sentiment may have seen them.
"""

from functools import partial

from didact.core.row import Row
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import Cut
from didact.data.fields import FieldError
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("negative", "positive")
CUT: Cut = {"test": "test"}


def read(record: Record, *, keep_seen: bool) -> Row | None:
    if record.get("sst_split") == "train" and not keep_seen:
        return None
    text = fields.text(record, "text")
    label = fields.label(record, "label", CLASSES)
    annotations = record.get("annotations")
    if label is None or not isinstance(annotations, list):
        raise FieldError("annotations" if label is not None else "label", "is missing")
    length = len(fields.tokens(text))
    agreeing = [
        fields.marks(annotation, "rationale", length=length)
        for annotation in annotations
        if annotation.get("label") == CLASSES[label]
    ]
    spans = fields.marked(text, fields.majority(agreeing)) if agreeing else None
    return Row(fields.row_id(record), (text,), label=label, rationale=spans)


def sst_rationales(*, keep_seen: bool = False) -> Recipe:
    seen = "Sentences of SST's training set are " + ("kept: a teacher may know them." if keep_seen else "left out.")
    return Recipe(
        name="sst_rationales",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=partial(read, keep_seen=keep_seen),
        cuts=(CUT,),
        not_on_hub="coastalcph/fair-rationales holds zip files behind a loading script, which datasets refuses.",
        notes=(seen, "Rationale: words marked by more than half of the annotators who chose the sentence's label."),
    )
