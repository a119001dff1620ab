"""The fingerprint of a data set: what it notices."""

import dataclasses

from didact.core.dataset import Dataset, Split
from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION

ROWS = [Row("a", ("one text",), label=0, rationale=(Span(0, 0, 3),)), Row("b", ("another",), label=1)]


def data(rows=ROWS, classes=("no", "yes"), **changes):
    return dataclasses.replace(
        Dataset("d", CLASSIFICATION, {"test": Split("test", rows)}, classes), **changes
    ).fingerprint


def changed(**changes):
    return [dataclasses.replace(ROWS[0], **changes), ROWS[1]]


def test_what_changes_it():
    prints = [
        data(),
        data(changed(texts=("one texT",))),
        data(changed(id="c")),
        data(changed(label=1)),
        data(changed(label=None)),
        data(changed(rationale=None)),
        data(changed(rationale=(Span(0, 0, 4),))),
        data(ROWS[::-1]),  # the order counts: it decides what split[:n] is
        data(ROWS[:1]),
        data(classes=("yes", "no")),
        data(splits={"dev": Split("dev", ROWS)}),
    ]
    assert len(set(prints)) == len(prints)


def test_what_does_not():
    assert data() == data(name="other") == data(notes=("read twice",)) == data(segments=("text",))
    assert data() == data([dataclasses.replace(row) for row in ROWS])
