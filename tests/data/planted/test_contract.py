"""What every generator promises of every row: the rationale decides, and nothing else does."""

import numpy as np
import pytest

from didact.core.human import HumanTeacher
from didact.core.row import Row
from didact.core.teacher import Teacher
from didact.core.words import marked_words, words_of
from didact.data.planted.rules import keep_rationale
from didact.errors import OptionError

SMALL = {"teach": 30, "explain": 20, "train": 20, "dev": 20, "test": 40}


def test_the_rationale_alone_gives_the_label_of_every_row(data):
    assert [row.id for row in rows_of(data) if row.label is None or data.label_from(row) != row.label] == []


def test_nothing_but_the_rationale_is_read(data):
    """What `label_from` reads: the units in their places, and all else gone."""
    for row in data["test"]:
        alone = keep_rationale(row)
        if row.image is not None:
            ((top, left, bottom, right),) = row.rationale
            assert np.array_equal(alone[top:bottom, left:right], row.image[top:bottom, left:right])
            assert alone.sum() == alone[top:bottom, left:right].sum()
            continue
        assert [len(text) for text in alone] == [len(text) for text in row.texts]
        flags = marked_words(row.rationale, row.texts)
        kept = [word for word, flag in zip(words_of(row.texts), flags, strict=True) if flag]
        assert words_of(alone) == kept
        assert all(alone[word.segment][word.start : word.end] == row.text_of(word) for word in kept)


def test_without_its_rationale_no_row_keeps_its_label_for_sure(data):
    """An emptied rationale must not give the label: `label_from` may not peek."""
    bare = [Row(row.id, row.texts, row.image, row.label, ()) for row in data["test"]]
    kept = [data.label_from(row) == row.label for row in bare]
    assert np.mean(kept) < 0.45  # a faultless translation has an empty rationale, and keeps its 1.0
    assert data.task.name == "regression" or not any(kept)


def test_the_oracle_answers_with_the_labels(data):
    oracle = data.oracle()
    assert isinstance(oracle, Teacher)
    given, gold = oracle.predict(data["test"]), HumanTeacher(data.task, data.classes).predict(data["test"])
    assert given.ids == gold.ids
    assert given.answers == gold.answers
    if data.task.has_classes:
        np.testing.assert_array_equal(given.labels, gold.labels)
    else:
        np.testing.assert_array_equal(given.values, gold.values)


def test_rationales_are_whole_units(data):
    for row in rows_of(data):
        assert list(row.rationale) == sorted(set(row.rationale))
        if row.image is not None:
            ((top, left, bottom, right),) = row.rationale
            assert (bottom - top, right - left, top % 8, left % 8) == (8, 8, 0, 0)
            continue
        edges = words_of(row.texts)
        starts, ends = {(word.segment, word.start) for word in edges}, {(word.segment, word.end) for word in edges}
        assert all((span.segment, span.start) in starts and (span.segment, span.end) in ends for span in row.rationale)


def test_texts_are_lower_case_words_with_single_spaces(data):
    for row in rows_of(data):
        for segment, text in enumerate(row.texts):
            assert text == text.lower() == " ".join(text.split())
            assert len(text.split()) == sum(word.segment == segment for word in words_of(row.texts))


def test_a_new_rest_keeps_the_rationale_and_the_label(data):
    changed = []
    for row in data["test"]:
        other = data.redraw(row, "rest", seed=1)
        assert other.id == row.id
        assert answer(other) == answer(row)
        assert inside(other, other) == inside(row, row)
        changed.append(outside(other, other) != outside(row, row))
    assert np.mean(changed) > 0.99


def test_a_new_rationale_keeps_the_rest_and_is_read_again(data):
    changed, moved = [], []
    for row in data["test"]:
        other = data.redraw(row, "rationale", seed=1)
        assert outside(other, row) == outside(row, row)
        assert data.label_from(other) == other.label is not None
        moved.append(inside(other, row) != inside(row, row))
        changed.append(answer(other) != answer(row))
    assert np.mean(moved) > 0.75  # a faultless translation has nothing to move
    assert 0.4 < np.mean(changed) < 0.95  # of 120 rows; with two classes a new label differs in half of them


def test_the_oracle_follows_a_new_rationale(data):
    redrawn = [data.redraw(row, "rationale", seed=1) for row in data["test"]]
    given, gold = data.oracle().predict(redrawn), HumanTeacher(data.task, data.classes).predict(redrawn)
    if data.task.has_classes:
        np.testing.assert_array_equal(given.labels, gold.labels)
    else:
        np.testing.assert_array_equal(given.values, gold.values)


def test_each_unit_of_a_part_is_drawn_anew(data):
    for part, units in (("rest", outside), ("rationale", inside)):
        for row in data["test"][:4]:
            draws = [units(data.redraw(row, part, seed=seed), row) for seed in range(25)]
            moves = [len(set(variants)) > 1 for variants in zip(*draws, strict=True)]
            # A question and the facts have words that are but their frame, as `what does`.
            assert any(moves) if data.task.name == "reading" else all(moves)


def test_redraws_depend_on_seed_and_row_alone(data):
    first, second = data["test"][:2]
    for part in ("rest", "rationale"):
        again = [data.redraw(first, part, seed=seed).content for seed in (0, 0, 1, 2, 3)]
        assert again[0] == again[1]
        assert data.label_from(first) == 1.0 or len(set(again)) > 1
        assert data.redraw(first, part).content != data.redraw(second, part).content


def test_the_same_seed_gives_the_same_rows(generator):
    first, again, other = generator(**SMALL), generator(**SMALL), generator(seed=1, **SMALL)
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
    assert not {row.content for row in rows_of(first)} & {row.content for row in rows_of(other)}


def test_a_split_does_not_depend_on_the_size_of_others(generator):
    small, large = generator(**SMALL), generator(**SMALL | {"teach": 100, "train": 50, "dev": 0})
    for name in ("explain", "test"):
        assert small[name].fingerprint == large[name].fingerprint
    assert large["teach"][:30].fingerprint == small["teach"].fingerprint
    assert len(large["dev"]) == 0


def test_options_are_checked(generator):
    with pytest.raises(OptionError, match="'dev' must be an integer >= 0, not -1"):
        generator(dev=-1)


def rows_of(data):
    return [row for split in data.values() for row in split]


def answer(row):
    return row.text_of(row.label[0]) if isinstance(row.label, tuple) else row.label


def inside(row, marks):
    """The units of `row` at the places that the rationale of `marks` holds: words by number, or a patch."""
    return _units(row, marks, wanted=True)


def outside(row, marks):
    return _units(row, marks, wanted=False)


def _units(row, marks, *, wanted):
    if row.image is not None:
        ((top, left, *_),) = marks.rationale
        patches = {(y, x): row.image[y : y + 8, x : x + 8].tobytes() for y in range(0, 32, 8) for x in range(0, 32, 8)}
        return [patch for place, patch in patches.items() if (place == (top, left)) == wanted]
    flags = marked_words(marks.rationale, marks.texts)
    return [row.text_of(word) for word, flag in zip(words_of(row.texts), flags, strict=True) if flag == wanted]
