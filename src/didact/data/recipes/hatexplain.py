"""Hate speech with marked words (Mathew et al. 2021, HateXplain): hatespeech, normal or offensive.

The text is the tokens joined by a space. The rationale is the words that more than half of the lists mark; posts
without lists (normal ones) have none. A list that does not fit the tokens does not count.
"""

from collections import Counter

from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.fields import FieldError
from didact.data.hub import CONVERTED, Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("hatespeech", "normal", "offensive")  # the order of the hub's numbers
CUT: Cut = {"train": {"train": 0.25, "teach": REST}, "validation": "dev", "test": "test"}


def read(record: Record) -> Row:
    tokens = record.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise FieldError("tokens", f"holds {fields.shown(tokens)}, where a list of texts belongs")
    text = fields.checked_text(" ".join(tokens), "tokens")
    ends = [len(" ".join(tokens[: place + 1])) for place in range(len(tokens))]
    lists = [
        list(map(bool, marks))
        for marks in record.get("rationales") or []
        if len(marks) == len(tokens) and fields.are_marks(marks)
    ]
    spans = None
    if lists:
        marked = fields.majority(lists)
        spans = tuple(
            Span(0, end - len(token), end)
            for token, end, mark in zip(tokens, ends, marked, strict=True)
            if mark and token
        )
    return Row(fields.row_id(record), (text,), label=fields.label(record, "label", CLASSES), rationale=spans)


def read_hub(record: Record) -> Row | None:
    """The hub has a label per annotator; a post on which all of them disagree is left out."""
    label, votes = Counter(record["annotators"]["label"]).most_common(1)[0]
    if votes < 2:
        return None
    return read(
        {"id": record["id"], "tokens": record["post_tokens"], "label": label, "rationales": record["rationales"]}
    )


def hatexplain() -> Recipe:
    return Recipe(
        name="hatexplain",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        read_hub=read_hub,
        cuts=(CUT,),
        hub=Hub(
            repo="Hate-speech-CNERG/hatexplain",
            revision=CONVERTED,
            configs=("plain_text",),
            splits={"train": "train", "validation": "validation", "test": "test"},
            columns=("id", "annotators", "rationales", "post_tokens"),
        ),
        notes=("Rationale: words marked by more than half of the annotators who marked any.",),
    )
