"""Questions with explained answers (Lamm et al. 2021, QED): spans of question and passage that refer to the same thing.

The label is the list of answers in Natural Questions; those that QED's annotators chose come first. Each piece of an
answer in several pieces counts as an answer. Rows that one sentence explains have alignments and a rationale. There is
one alignment for each referential equality with a phrase in that sentence; a bridged reference without a phrase is
dropped. The rationale is both sides of all alignments and the answer. Other rows have neither.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from didact.core.row import Row
from didact.core.task import READING
from didact.data import fields
from didact.data.recipe import CONVERTED, REST, Cut, Hub, Recipe, Record

FULL_CUT: Cut = {"train": {"train": 2_500, "dev": 500, "teach": REST}, "validation": "test"}
VALIDATION_ONLY_CUT: Cut = {"validation": {"train": 0.30, "dev": 0.10, "test": 0.20, "teach": REST}}

_HUB_COLUMNS = ("example_id", "question", "paragraph_text", "original_nq_answers", "annotation")
_HUB_SPLITS = {"train": "train", "validation": "validation"}
_NOWHERE = [-1, -1]


def read(record: Record) -> Row | None:
    texts = (fields.text(record, "question"), fields.text(record, "passage"))
    original = [
        fields.span(answer_span, texts, "nq_answers", segment=1)
        for answer in record["nq_answers"]
        for answer_span in answer
    ]
    if not original:
        return None
    chosen = [
        fields.span(answer["passage"], texts, "answers", segment=1)
        for answer in record["answers"]
        if list(answer["passage"]) != _NOWHERE
    ]
    label = tuple(dict.fromkeys([answer_span for answer_span in chosen if answer_span in original] + original))
    if record["explanation_type"] != "single_sentence":
        return Row(fields.row_id(record), texts, label=label)
    alignments = tuple(
        (
            fields.span(equality["question"], texts, "referential_equalities", segment=0),
            fields.span(equality["sentence"], texts, "referential_equalities", segment=1),
        )
        for equality in record["referential_equalities"]
        if list(equality["question"]) != _NOWHERE and list(equality["sentence"]) != _NOWHERE
    )
    rationale = tuple(dict.fromkeys([span for pair in alignments for span in pair] + (chosen or list(label[:1]))))
    return Row(fields.row_id(record), texts, label=label, rationale=rationale, alignments=alignments)


def read_hub(record: Record) -> Row | None:
    """A row of the hub, which keeps the original nesting: spans are `{"start", "end", "string"}`."""
    annotation = record["annotation"]
    return read(
        {
            "id": record["example_id"],
            "question": record["question"],
            "passage": record["paragraph_text"],
            "nq_answers": [[_pair(span)] for span in _flat(record["original_nq_answers"])],
            "explanation_type": annotation["explanation_type"],
            "answers": [{"passage": _pair(answer["paragraph_reference"])} for answer in annotation["answer"]],
            "referential_equalities": [
                {"question": _pair(equality["question_reference"]), "sentence": _pair(equality["sentence_reference"])}
                for equality in annotation["referential_equalities"]
            ],
        }
    )


def _pair(span: Record) -> list[int]:
    return [span["start"], span["end"]] if span["start"] >= 0 else _NOWHERE


def _flat(spans: Iterable[Any]) -> Iterator[Record]:
    for item in spans:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


def qed() -> Recipe:
    return Recipe(
        name="qed",
        task=READING,
        segments=("question", "passage"),
        read=read,
        read_hub=read_hub,
        cuts=(FULL_CUT, VALIDATION_ONLY_CUT),
        grouped_by=1,
        hub=Hub("google-research-datasets/qed", CONVERTED, _HUB_COLUMNS, _HUB_SPLITS, ("qed",)),
        notes=("Only rows explained by a single sentence have a rationale and alignments.",),
    )
