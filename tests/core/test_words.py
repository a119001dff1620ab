"""Words, and how pieces are tied to them by characters."""

import numpy as np

from didact.core.row import Box, Span
from didact.core.words import marked_words, patches_touched, touches, word_index, words, words_of


def test_words_are_runs_of_letters_and_single_signs():
    text = "It's naïve—50%!"
    assert [text[w.start : w.end] for w in words(text)] == ["It", "'", "s", "naïve", "—", "50", "%", "!"]


def test_words_of_two_texts_keep_their_segment():
    assert words_of(["a b", "c"]) == [Span(0, 0, 1), Span(0, 2, 3), Span(1, 0, 1)]


def test_pieces_belong_to_the_word_of_their_first_visible_character():
    texts = ["ab  cde, f"]  # words ab, cde, the comma, f
    pieces = [(0, 1), (1, 2), (2, 4), (3, 6), (6, 8), (8, 10), (9, 10), (0, 0)]
    found = word_index(texts, np.zeros(8, dtype=np.int64), np.array(pieces))
    assert found.tolist() == [0, 0, -1, 1, 1, 3, 3, -1]


def test_special_tokens_belong_to_no_word():
    assert word_index(["a"], np.array([-1, 0, -1]), np.array([[0, 0], [0, 1], [0, 0]])).tolist() == [-1, 0, -1]


def test_a_mark_touches_every_piece_it_shares_a_character_with():
    segments = np.array([-1, 0, 0, 0, 1])
    offsets = np.array([[0, 0], [0, 2], [2, 5], [5, 6], [0, 6]])
    assert touches([Span(0, 1, 5)], segments, offsets).tolist() == [False, True, True, False, False]
    assert touches([], segments, offsets).tolist() == [False] * 5


def test_marked_words():
    assert marked_words([Span(1, 2, 3)], ["a b", "a bc"]) == [False, False, False, True]


def test_boxes_touch_patches():
    marked = patches_touched([Box(0, 0, 8, 8), Box(15, 8, 17, 9)], size=8, grid=(3, 2))
    assert marked.reshape(3, 2).tolist() == [[True, False], [False, True], [False, True]]
