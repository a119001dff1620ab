"""What is sent, and how it crosses from the teacher's units to the student's pieces."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from didact.core.row import Row
from didact.core.task import CLASSIFICATION, PAIR
from didact.errors import ShapeError
from didact.explaining.explain import explain
from didact.models.huggingface import HuggingFaceModel
from didact.models.native import NativeModel
from didact.models.tokenizer import WordTokenizer
from didact.models.transformer import TransformerModel
from didact.results.explanations import Explanations
from didact.students.lesson import (
    aligned_lesson,
    distribution_lesson,
    marks_lesson,
    scores_lesson,
    tags_lesson,
    top_lesson,
)

ROWS = [
    Row("a", ("an unbelievable film, not bad",), label=0),
    Row("b", ("good",), label=1),
    Row("c", ("the music was very very good but unbelievable!",), label=0),
]
PAIRS = [Row(row.id, (row.texts[0], "a good plot, unbelievable"), label=0) for row in ROWS]


def pieces(task=CLASSIFICATION, *, length: int | None = None) -> HuggingFaceModel:
    """A student that reads word pieces: 'unbelievable' has three of them."""
    model, tokenizer = tiny.huggingface("bert", labels=2)
    return HuggingFaceModel(
        model, tokenizer, task=task, classes=["n", "p"], max_length=length, truncate=length is not None
    )


def words(task=CLASSIFICATION, rows=ROWS) -> NativeModel:
    torch.manual_seed(0)
    return TransformerModel(task, ["n", "p"], WordTokenizer.from_rows(rows), layers=1, width=8, heads=2)


def maps_by(teacher, rows, method: str = "random", **options) -> Explanations:
    return explain(teacher, rows, method, **options)


@pytest.mark.parametrize("task", [CLASSIFICATION, PAIR], ids=str)
@pytest.mark.parametrize("way", ["pieces to words", "words to pieces"])
def test_mass_stays_one_between_tokenizers(task, way):
    """Word-piece teacher and word-level student, and the other way round; pairs never mix their texts."""
    rows = PAIRS if task is PAIR else ROWS
    pair = pieces(task), words(task, rows)
    teacher, student = pair if way == "pieces to words" else pair[::-1]
    maps, batch = maps_by(teacher, rows), student.encode(rows)
    lesson = distribution_lesson(maps, batch)
    torch.testing.assert_close(lesson.mass.sum(-1), torch.ones(3))
    assert (lesson.mass[~batch.units] == 0).all()
    assert not lesson.lost.any()
    # Each text and each word keeps the mass it was given.
    sent = _share(maps)
    for row in range(3):
        for segment in range(len(rows[row].texts)):
            units = slice(maps.bounds[row], maps.bounds[row + 1])
            for word in set(maps.word_index[units][maps.segments[units] == segment]):
                theirs = sent[units][(maps.segments[units] == segment) & (maps.word_index[units] == word)].sum()
                here = (batch.segments[row] == segment) & (batch.words[row] == word)
                assert lesson.mass[row][here].sum().item() == pytest.approx(theirs, abs=1e-6)


def _share(maps: Explanations) -> np.ndarray:
    totals = np.add.reduceat(maps.scores, maps.bounds[:-1])
    return maps.scores / np.repeat(totals, np.diff(maps.bounds))


@pytest.mark.parametrize("build", [pieces, words])
def test_equal_tokenizers_give_the_identity(build):
    model = build()
    maps, batch = maps_by(model, ROWS), model.encode(ROWS)
    np.testing.assert_allclose(distribution_lesson(maps, batch).mass[batch.units].numpy(), _share(maps), rtol=1e-6)
    marked = replace(maps, kind="binary", scores=(maps.scores > 0.5).astype(float))
    np.testing.assert_array_equal(marks_lesson(marked, batch).marks[batch.units].numpy(), marked.scores > 0)


def test_two_pieces_of_one_character_give_the_identity():
    """Byte pieces of one sign have the same offsets; equal tokenizers must still give each its own mass."""
    model, tokenizer = tiny.huggingface("gpt2", labels=2)
    student = HuggingFaceModel(model, tokenizer, classes=["n", "p"])
    rows = [Row("a", ("schön 漢字",), label=0)]
    maps, batch = maps_by(student, rows), student.encode(rows)
    np.testing.assert_allclose(distribution_lesson(maps, batch).mass[batch.units].numpy(), _share(maps), rtol=1e-6)


def test_each_kind_is_sent_as_it_is_meant():
    """Closed forms on one row of two words and one of three pieces."""
    model = words(rows=[Row("a", ("x y",))])
    rows = [Row("a", ("x y",))]
    batch = model.encode(rows)
    base = maps_by(model, rows)

    def sent(kind: str, scores: list[float], **options: object) -> list[float]:
        lesson = distribution_lesson(replace(base, kind=kind, scores=np.array(scores)), batch, **options)
        return lesson.mass[batch.units].tolist()

    assert sent("distribution", [0.25, 0.75]) == pytest.approx([0.25, 0.75])
    assert sent("magnitude", [1.0, 3.0]) == pytest.approx([0.25, 0.75])
    assert sent("signed", [-1.0, 3.0]) == pytest.approx([0.25, 0.75])
    assert sent("signed", [-1.0, 3.0], signed="positive") == pytest.approx([0.0, 1.0])
    soft = np.exp([-1.0, 3.0]) / np.exp([-1.0, 3.0]).sum()
    assert sent("signed", [-1.0, 3.0], signed="softmax") == pytest.approx(soft)
    soft = np.exp([-0.5, 1.5]) / np.exp([-0.5, 1.5]).sum()
    assert sent("signed", [-1.0, 3.0], signed="softmax", temperature=2.0) == pytest.approx(soft)
    assert sent("magnitude", [1.0, 3.0], temperature=0.5) == pytest.approx([0.1, 0.9])
    assert sent("binary", [0.0, 1.0]) == pytest.approx([1e-3 / 1.001, 1 / 1.001])
    assert sent("binary", [0.0, 0.0]) == pytest.approx([0.5, 0.5])
    assert sent("magnitude", [0.0, 0.0]) == pytest.approx([0.5, 0.5])


def test_top_counts_words_before_they_cross():
    """Ten words, k = 0.1: one word is sent, and a word-piece student gets all its pieces."""
    text = "a good film the unbelievable plot is not very bad"
    rows = [Row("a", (text,))]
    teacher, student = words(rows=rows), pieces()
    maps = maps_by(teacher, rows)
    scores = np.zeros(10)
    scores[4] = -5.0  # by size: a signed score may be negative
    maps = replace(maps, kind="signed", scores=scores)
    batch = student.encode(rows)
    marks = marks_lesson(maps, batch, k=0.1).marks[0]
    start = text.index("unbelievable")
    inside = (batch.offsets[0, :, 0] >= start) & (batch.offsets[0, :, 1] <= start + 12) & batch.units[0]
    assert inside.sum() == 3
    assert torch.equal(marks, inside)
    sent = top_lesson(maps, batch, k=0.1, floor=0.0).mass[0]
    torch.testing.assert_close(sent, inside.float() / 3)
    assert marks_lesson(maps, batch, k=0.11).marks.sum() > 3  # ceil(1.1) = 2 words


def test_what_the_student_cannot_read_is_dropped_and_counted():
    teacher, student = words(), pieces(length=6)
    maps, batch = maps_by(teacher, ROWS), student.encode(ROWS)
    lesson = distribution_lesson(maps, batch)
    assert lesson.lost.tolist() == [True, False, True]
    torch.testing.assert_close(lesson.mass.sum(-1), torch.ones(3))
    last = replace(maps, kind="binary", scores=np.zeros(len(maps.scores)))
    last.scores[maps.bounds[1:] - 1] = 1.0
    beyond = marks_lesson(last, batch)
    assert beyond.lost.tolist() == [True, False, True]
    assert not beyond.marks[0].any()
    assert distribution_lesson(last, batch).mass[0][batch.units[0]].std() == 0  # nothing arrived: uniform


def test_phrases_land_on_their_pieces():
    rows = [Row("q", ("who sings", "the unbelievable anna sings"), label=())]
    model, tokenizer = tiny.huggingface("bert", "ForQuestionAnswering", labels=2)
    student = HuggingFaceModel(model, tokenizer)
    base = maps_by(student, rows, "random")
    pairs = (((0, 4, 9), (1, 22, 27)), ((0, 0, 3), (1, 4, 21)))
    batch = student.encode(rows)
    found = aligned_lesson(replace(base, alignments=(pairs,)), batch)
    read = [["".join(_texts(rows[0], batch, side)) for side in pair] for pair in found.phrases[0]]
    assert read == [["sings", "sings"], ["who", "unbelievableanna"]]
    with pytest.raises(ShapeError, match="attention_alignment"):
        aligned_lesson(replace(base, alignments=None), batch)


def _texts(row: Row, batch, here: torch.Tensor) -> list[str]:
    places = zip(batch.segments[0][here].tolist(), batch.offsets[0][here].tolist(), strict=True)
    return [row.texts[segment][start:end] for segment, (start, end) in places]


def test_images_need_the_same_grid():
    from didact.core.task import IMAGE
    from didact.models.tokenizer import PatchReader

    rows = tiny.images(2, size=32)
    teacher = TransformerModel(IMAGE, ["n", "p"], PatchReader(32, 32, 3, 8), layers=1, width=8, heads=2)
    other = TransformerModel(IMAGE, ["n", "p"], PatchReader(32, 32, 3, 16), layers=1, width=8, heads=2)
    maps = maps_by(teacher, rows)
    batch = teacher.encode(rows)
    np.testing.assert_allclose(distribution_lesson(maps, batch).mass[batch.units].numpy(), _share(maps), rtol=1e-6)
    with pytest.raises(ShapeError, match="16 patches, and the student sees 4"):
        distribution_lesson(maps, other.encode(rows))


def test_rows_must_be_the_students():
    model = words()
    maps = maps_by(model, ROWS)
    with pytest.raises(ShapeError, match="in their order"):
        distribution_lesson(maps, model.encode(ROWS[::-1]))


def test_tags_follow_the_sign_that_covers_more_of_a_token():
    """Words of both signs under one token: the sign of most characters wins; a score of 0 is no tag."""
    student = words()
    maps = maps_by(pieces(), ROWS)
    scores = np.zeros(len(maps.scores))
    start = maps.bounds[0]
    names = list(maps.tokens[start : maps.bounds[1]])
    for token, score in (("un", 1.0), ("believ", -0.6), ("film", -2.0)):
        scores[start + names.index(token)] = score
    signed = replace(maps, kind="signed", scores=scores)
    batch = student.encode(ROWS)
    lesson = tags_lesson(signed, batch, k=1.0)
    tagged = {ROWS[0].texts[0][slice(*batch.offsets[0, at].tolist())]: int(tag) for at, tag in
              enumerate(lesson.tags[0]) if batch.units[0, at] and tag}  # fmt: skip
    assert tagged == {"unbelievable": 1, "film": 2}  # pieces of a word are summed: 1 − 0.6
    assert not lesson.tags[1:].any()


def test_signed_scores_keep_their_sums_between_tokenizers():
    """Word-piece scores on a student's words: sums of pieces with their signs, up to one factor per row."""
    teacher, student = pieces(), words()
    maps = maps_by(teacher, ROWS)
    scores = np.random.default_rng(0).normal(size=len(maps.scores))
    signed = replace(maps, kind="signed", scores=scores)
    batch = student.encode(ROWS)
    lesson = scores_lesson(signed, batch)
    torch.testing.assert_close(lesson.scores.norm(dim=-1), torch.ones(3))
    by_word = signed.words()
    for row in range(3):
        sums = torch.from_numpy(by_word.scores[by_word.bounds[row] : by_word.bounds[row + 1]])
        mine = lesson.scores[row][batch.units[row]].double()
        torch.testing.assert_close(mine, sums / sums.norm(), rtol=1e-5, atol=1e-6)
