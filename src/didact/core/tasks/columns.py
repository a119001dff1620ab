"""The usual names of columns, from which the task and inputs of a table are guessed."""

from typing import Final

TEXTS: Final = ("text", "sentence", "review", "content", "document", "tweet", "post", "comment", "body")
PAIRS: Final = (
    ("first", "second"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence_a", "sentence_b"),
)
PASSAGES: Final = ("passage", "context", "paragraph")
TRANSLATIONS: Final = (("source", "target"), ("src", "mt"), ("source", "translation"), ("original", "translation"))
IMAGES: Final = ("image", "images", "img")
ANSWERS: Final = ("answers", "answer", "answer_spans")
SCORES: Final = ("score", "scores", "z_mean", "da_z_mean", "quality", "rating", "hter")
LABELS: Final = (
    *("label", "labels", "class", "category", "sentiment"),
    *("stars", "gold_label", "target", "fine_label", "y"),
)
