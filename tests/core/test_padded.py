"""Explanations on the positions of a batch, held against a literal re-implementation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from didact.core.batch import Batch, TokenizedRow, patch_batch, text_batch
from didact.core.padded import PositionMap, padded, padded_units
from didact.core.row import Row
from didact.errors import ShapeError
from didact.results.explanations import Explanations
from didact.students.lesson import distribution_lesson, marks_lesson
from references import crossing as reference

CASES = ["words and pieces", "bytes", "truncated", "nothing read", "special units", "no units", "one is the same"]


def cut(length: int, dice: np.random.Generator, *, most: int, gaps: bool = True) -> list[tuple[int, int]]:
    """Pieces of a text of so many characters, each of 1 to `most`, some with a gap in front."""
    spans, at = [], 0
    while at < length:
        at += int(gaps and dice.random() < 0.3)
        end = min(length, at + int(dice.integers(1, most + 1)))
        if end > at:
            spans.append((at, end))
        at = end
    return spans


def pieces(case: str, row: Row, dice: np.random.Generator, *, most: int, is_student: bool) -> TokenizedRow:
    """A row as some tokenizer cuts it: text number and characters of each piece."""
    spans = [(n, *span) for n, text in enumerate(row.texts) for span in cut(len(text), dice, most=most)]
    if case == "bytes":  # several pieces of one character, one of none, one of two characters that overlaps others
        spans = [span for span in spans for _ in range(int(dice.integers(1, 3)))]
        spans += [(1, 2, 2), (1, 0, min(2, len(row.texts[1])))]
    if is_student and case == "truncated":
        spans = spans[: len(spans) // 2]
    if is_student and case == "nothing read":
        spans = [span for span in spans if span[0] == 1]
    if case == "no units" and row.id in ("0", "5"):
        spans = []
    if case == "special units" and not is_student:
        spans = [(-1, 0, 0), *spans, (-1, 0, 0)]
    table = np.array(spans, dtype=np.int64).reshape(-1, 3)
    return TokenizedRow(np.zeros(len(table), dtype=np.int64), table[:, 0], table[:, 1:])


def scene(case: str, seed: int) -> tuple[Explanations, Batch]:
    """Explanations of six rows of two texts, and a batch of the same rows by another tokenizer."""
    dice = np.random.default_rng(seed)
    rows = [Row(str(n), tuple("x" * int(dice.integers(2, 30)) for _ in range(2))) for n in range(6)]
    wide = int(dice.integers(2, 9))
    theirs = [pieces(case, row, dice, most=wide, is_student=False) for row in rows]
    ours = [pieces(case, row, dice, most=int(dice.integers(1, 9)), is_student=True) for row in rows]
    if case == "one is the same":
        ours[1], ours[4] = theirs[1], theirs[4]
    segments = np.concatenate([one.segments for one in theirs])
    maps = explanations(rows, [len(one.segments) for one in theirs], dice, segments=segments, word_index=segments,
                        offsets=np.concatenate([one.offsets for one in theirs]), task="pair")  # fmt: skip
    return maps, text_batch(rows, ours, padding=0)


def explanations(rows, counts, dice: np.random.Generator, **columns) -> Explanations:
    units = sum(counts)
    return Explanations(
        method="m", kind="signed", options={}, classes=None, teacher="t", fingerprints={},
        ids=tuple(row.id for row in rows), texts=tuple(row.texts for row in rows), bounds=np.cumsum([0, *counts]),
        tokens=("",) * units, scores=dice.normal(size=units), targets=("",) * len(rows),
        predictions=("",) * len(rows), residuals=np.full(len(rows), np.nan), **columns,
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(5))
class TestAsTheReference:
    def test_the_map(self, case, seed):
        """The same entries in the same order, with the same shares to the last bit."""
        maps, batch = scene(case, seed)
        expected, crossing = reference.crossing(maps, batch), PositionMap.of(maps, batch)
        assert crossing.counts.tolist() == np.diff(expected.bounds).tolist()
        there = torch.arange(crossing.units.shape[1]) < crossing.counts[:, None]
        np.testing.assert_array_equal(crossing.units[there].numpy(), expected.units)
        np.testing.assert_array_equal(crossing.positions[there].numpy(), expected.pieces)
        np.testing.assert_array_equal(crossing.shares[there].numpy(), expected.shares)
        assert (crossing.shares[~there] == 0).all()
        np.testing.assert_array_equal(crossing.uncovered.any(-1).numpy(), expected.lost)

    def test_mass(self, case, seed):
        """What arrives, who lost some, and that the mass stays where nothing is lost."""
        maps, batch = scene(case, seed)
        maps = maps.derive(kind="magnitude", scores=np.abs(maps.scores))
        expected, lost = reference.crossed_mass(maps, maps.scores, batch)
        sent = padded(maps, batch)
        np.testing.assert_allclose(sent.scores.numpy(), expected, rtol=1e-12, atol=0)
        np.testing.assert_array_equal(sent.lost.numpy(), lost)
        assert (sent.scores[~batch.units] == 0).all()
        total = padded_units(maps).scores.sum(-1)
        torch.testing.assert_close(sent.scores.sum(-1)[~sent.lost], total[~sent.lost])
        assert (sent.scores.sum(-1) <= total + 1e-9).all()
        if case in ("truncated", "nothing read"):
            assert sent.lost.any()

    def test_marks(self, case, seed):
        maps, batch = scene(case, seed)
        marked = np.random.default_rng(seed).random(len(maps.scores)) < 0.3
        expected, lost = reference.crossed_marks(maps, marked, batch)
        lesson = marks_lesson(maps.derive(kind="binary", scores=marked.astype(float)), batch)
        np.testing.assert_array_equal(lesson.marks.numpy(), expected)
        np.testing.assert_array_equal(lesson.lost.numpy(), lost)

    @pytest.mark.parametrize("kind", ["signed", "magnitude", "distribution"])
    def test_what_is_sent(self, case, seed, kind):
        maps, batch = scene(case, seed)
        if kind != "signed":
            maps = maps.derive(kind=kind, scores=np.abs(maps.scores))
        for options in ({}, {"temperature": 0.3}, {"signed": "positive"}, {"signed": "softmax", "temperature": 2.0}):
            expected = reference.sent_mass(maps, batch, **options)
            np.testing.assert_allclose(
                distribution_lesson(maps, batch, **options).mass.numpy(), expected, rtol=1e-6, atol=1e-12
            )


def test_selected_rows_send_the_same():
    maps, batch = scene("words and pieces", 0)
    crossing, scores = PositionMap.of(maps, batch), padded_units(maps).scores
    everything = crossing.apply(scores, batch.mask.shape[1])
    for rows in ([3], [5, 0, 0], [1, 2, 4]):
        chosen = torch.tensor(rows)
        length = int(batch.lengths[chosen].max())
        torch.testing.assert_close(
            crossing.select(chosen).apply(scores[chosen], length), everything[chosen, :length], rtol=0, atol=0
        )


def test_signed_scores_keep_their_sum_and_count_as_lost_by_size():
    maps, batch = scene("truncated", 1)
    lost = padded(maps, batch).lost
    assert torch.equal(lost, padded(replace(maps, scores=-maps.scores), batch).lost)
    maps, batch = scene("words and pieces", 2)
    sent = padded(maps, batch)
    torch.testing.assert_close(sent.scores.sum(-1)[~sent.lost], padded_units(maps).scores.sum(-1)[~sent.lost])


def test_images_go_patch_by_patch():
    rows = tiny.images(2, size=32)
    corners = patch_batch(rows, torch.zeros(2, 3, 32, 32), patch=16, leading=1)
    units, dice = 4, np.random.default_rng(0)
    places = {"segments": np.zeros(8, dtype=np.int64), "word_index": np.tile(range(4), 2)}
    maps = explanations(rows, [units] * 2, dice, task="image", offsets=np.tile([[0, 0, 16, 16]], (8, 1)), **places)
    sent = padded(maps, corners)
    np.testing.assert_array_equal(sent.scores[corners.units].numpy(), maps.scores)
    assert not sent.lost.any()
    with pytest.raises(ShapeError, match="4 patches, and the student sees 16"):
        padded(maps, patch_batch(rows, torch.zeros(2, 3, 32, 32), patch=8))
