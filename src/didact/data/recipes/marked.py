"""Data sets of texts with a class and words that people marked, one function for each."""

import re
from collections import Counter
from functools import partial
from typing import Final

from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.fields import FieldError
from didact.data.recipe import ALL_THREE, CONVERTED, REST, Cut, Hub, Recipe, Record

POLARITIES: Final = ("negative", "positive")
HATE: Final = ("hatespeech", "normal", "offensive")  # the order of the hub's numbers
_NEUTRAL: Final = 2  # of 0, very negative, to 4, very positive
_BRACKETS: Final = {"-LRB-": "(", "-RRB-": ")"}


def sst() -> Recipe:
    """Stanford Sentiment Treebank (Socher et al. 2013): sentences, the binary task.

    Neutral sentences are left out. The rationale consists of the words whose own label, as a phrase of one token, has
    the polarity of the sentence. It is a proxy: annotators labelled phrases, not reasons.
    """
    cut: Cut = {"train": {"train": 1500, "teach": REST}, "validation": "dev", "test": "test"}
    hub = Hub("stanfordnlp/sst", CONVERTED, ("ptb_tree",), ALL_THREE, ("ptb",))
    note = "Neutral sentences are left out. Rationale: words whose own label has the sentence's polarity."
    return Recipe("sst", CLASSIFICATION, _phrases, (cut,), POLARITIES, hub=hub, read_hub=_tree, notes=(note,))


def _phrases(record: Record) -> Row | None:
    text = fields.text(record, "text")
    label = fields.label(record, "label", POLARITIES)
    if label is None:
        return None
    words = fields.tokens(text)
    single = [(start, grade) for start, end, grade in record["phrases"] if end - start == 1]
    spans = tuple(words[index] for index, grade in single if grade != _NEUTRAL and (grade > _NEUTRAL) == bool(label))
    return Row(fields.row_id(record), (text,), label=label, rationale=spans)


def _tree(record: Record) -> Row | None:
    """A row from a tree of the hub: `(3 (2 It) (4 (2 's) (4 lovely)))`."""
    tree = fields.text(record, "ptb_tree")
    grade = re.match(r"\((\d) ", tree)
    leaves = re.findall(r"\((\d) ([^()\s]+)\)", tree)
    if grade is None or not leaves:
        raise FieldError("ptb_tree", f"holds {fields.short_repr(tree)}, which is not a tree")
    sentence_grade = int(grade[1])
    flat = {
        "text": " ".join(_BRACKETS.get(word, word) for _, word in leaves),
        "label": None if sentence_grade == _NEUTRAL else int(sentence_grade > _NEUTRAL),
        "phrases": [(index, index + 1, int(word_grade)) for index, (word_grade, _) in enumerate(leaves)],
    }
    return _phrases(flat)


def sst_rationales(*, keep_seen: bool = False) -> Recipe:
    """Words that people marked as the reason for their label (Jakobsen, Cabello and Søgaard 2023), on SST's sentences.

    Sentences of SST's training set are left out by default, because a teacher of sentiment may have seen them.
    """
    train_note = "Sentences of SST's training set are " + (
        "kept: a teacher may know them." if keep_seen else "left out."
    )
    majority = "Rationale: words marked by more than half of the annotators who chose the sentence's label."
    return Recipe(
        "sst_rationales",
        CLASSIFICATION,
        partial(_annotated, keep_seen=keep_seen),
        ({"test": "test"},),
        POLARITIES,
        not_on_hub="coastalcph/fair-rationales holds zip files behind a loading script, which datasets refuses.",
        notes=(train_note, majority),
    )


def _annotated(record: Record, *, keep_seen: bool) -> Row | None:
    if record.get("sst_split") == "train" and not keep_seen:
        return None
    text = fields.text(record, "text")
    label = fields.label(record, "label", POLARITIES)
    annotations = record.get("annotations")
    if label is None or not isinstance(annotations, list):
        raise FieldError("annotations" if label is not None else "label", "is missing")
    length = len(fields.tokens(text))
    agreeing = [
        fields.marks(annotation, "rationale", length=length)
        for annotation in annotations
        if annotation.get("label") == POLARITIES[label]
    ]
    spans = fields.marked_tokens(text, fields.majority(agreeing)) if agreeing else None
    return Row(fields.row_id(record), (text,), label=label, rationale=spans)


def movie_rationales() -> Recipe:
    """Movie reviews with marked evidence: the ERASER version (DeYoung et al. 2020) of the Zaidan corpus (2007).

    In train and validation one annotator marked evidence and could stop early (9 % and 7 % of tokens). Test was marked
    again, comprehensively (31 %). Plausibility on test is therefore not comparable with plausibility on dev.
    """
    cut: Cut = {"train": {"train": 600, "teach": REST}, "validation": "dev", "test": "test"}
    hub = Hub("eraser-benchmark/movie_rationales", CONVERTED, ("review", "label", "evidences"), ALL_THREE)
    note = "Train and validation are marked sparsely, test comprehensively."
    return Recipe(
        "movie_rationales", CLASSIFICATION, _evidence, (cut,), POLARITIES, hub=hub, read_hub=_quoted, notes=(note,)
    )


def _evidence(record: Record) -> Row:
    text = fields.text(record, "text")
    words = fields.tokens(text)
    spans = []
    for pair in record.get("rationales") or []:
        start, end = pair
        if not 0 <= start < end <= len(words):
            raise FieldError("rationales", f"holds the tokens {start} to {end} of a text of {len(words)}")
        spans.append(Span(0, words[start].start, words[end - 1].end))
    return Row(fields.row_id(record), (text,), label=fields.label(record, "label", POLARITIES), rationale=tuple(spans))


def _quoted(record: Record) -> Row:
    """The hub has the evidence as texts. They are found by their tokens; texts that are not found are left out."""
    words = fields.text(record, "review").split()
    ranges = []
    for evidence in record["evidences"]:
        tokens = evidence.split()
        starts = range(len(words) - len(tokens) + 1) if tokens else ()
        start = next((index for index in starts if words[index : index + len(tokens)] == tokens), None)
        if start is not None:
            ranges.append((start, start + len(tokens)))
    return _evidence({"text": " ".join(words), "label": record["label"], "rationales": sorted(set(ranges))})


def hatexplain() -> Recipe:
    """Hate speech with marked words (Mathew et al. 2021, HateXplain): hatespeech, normal or offensive.

    The text is the tokens joined by spaces. The rationale consists of the words that more than half of the lists mark.
    Posts without lists (normal ones) have no rationale. Lists of another length than the tokens are ignored.
    """
    cut: Cut = {"train": {"train": 0.25, "teach": REST}, "validation": "dev", "test": "test"}
    columns = ("id", "annotators", "rationales", "post_tokens")
    hub = Hub("Hate-speech-CNERG/hatexplain", CONVERTED, columns, ALL_THREE, ("plain_text",))
    note = "Rationale: words marked by more than half of the annotators who marked any."
    return Recipe("hatexplain", CLASSIFICATION, _post, (cut,), HATE, hub=hub, read_hub=_voted, notes=(note,))


def _post(record: Record) -> Row:
    tokens = record.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise FieldError("tokens", f"must be a list of texts, got {fields.short_repr(tokens)}")
    text = fields.checked_text(" ".join(tokens), "tokens")
    ends = [len(" ".join(tokens[: index + 1])) for index in range(len(tokens))]
    lists = [
        list(map(bool, marks))
        for marks in record.get("rationales") or []
        if len(marks) == len(tokens) and fields.are_marks(marks)
    ]
    spans = None
    if lists:
        token_marks = zip(tokens, ends, fields.majority(lists), strict=True)
        spans = tuple(Span(0, end - len(token), end) for token, end, mark in token_marks if mark and token)
    return Row(fields.row_id(record), (text,), label=fields.label(record, "label", HATE), rationale=spans)


def _voted(record: Record) -> Row | None:
    """The hub has one label per annotator. Posts on which all annotators disagree are left out."""
    label, votes = Counter(record["annotators"]["label"]).most_common(1)[0]
    if votes < 2:
        return None
    return _post(
        {"id": record["id"], "tokens": record["post_tokens"], "label": label, "rationales": record["rationales"]}
    )
