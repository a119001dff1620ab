"""Movie reviews with marked evidence: the ERASER form (DeYoung et al. 2020) of the Zaidan corpus (2007).

Train and validation were marked by one person who could stop early (9 % and 7 % of tokens), test was marked again to be
comprehensive (31 %), so plausibility on test and on dev are not comparable.
"""

from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION
from didact.data import fields
from didact.data.cut import REST, Cut
from didact.data.fields import FieldError
from didact.data.hub import CONVERTED, Hub
from didact.data.recipe import Recipe
from didact.data.table import Record

CLASSES = ("negative", "positive")
CUT: Cut = {"train": {"train": 600, "teach": REST}, "validation": "dev", "test": "test"}


def read(record: Record) -> Row:
    text = fields.text(record, "text")
    words = fields.tokens(text)
    spans = []
    for pair in record.get("rationales") or []:
        start, end = pair
        if not 0 <= start < end <= len(words):
            raise FieldError("rationales", f"holds the tokens {start} to {end} of a text of {len(words)}")
        spans.append(Span(0, words[start].start, words[end - 1].end))
    return Row(fields.row_id(record), (text,), label=fields.label(record, "label", CLASSES), rationale=tuple(spans))


def read_hub(record: Record) -> Row:
    """The hub has the evidence as texts: each is looked up by its tokens; one that is not found is left out."""
    words = fields.text(record, "review").split()
    found = []
    for evidence in record["evidences"]:
        wanted = evidence.split()
        places = range(len(words) - len(wanted) + 1) if wanted else ()
        start = next((place for place in places if words[place : place + len(wanted)] == wanted), None)
        if start is not None:
            found.append((start, start + len(wanted)))
    return read({"text": " ".join(words), "label": record["label"], "rationales": sorted(set(found))})


def movie_rationales() -> Recipe:
    return Recipe(
        name="movie_rationales",
        task=CLASSIFICATION,
        classes=CLASSES,
        read=read,
        read_hub=read_hub,
        cuts=(CUT,),
        hub=Hub(
            repo="eraser-benchmark/movie_rationales",
            revision=CONVERTED,
            configs=("default",),
            splits={"train": "train", "validation": "validation", "test": "test"},
            columns=("review", "label", "evidences"),
        ),
        notes=("Train and validation are marked sparsely, test comprehensively.",),
    )
