"""Marks in texts, pictures of characters, progress without a terminal."""

import io

import numpy as np
import pytest

from didact.viz.progress import Progress
from didact.viz.terminal import draw_image, highlight
from didact.viz.text_spans import marked_runs, merge_spans


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [("a good film", False)]),
        ([(2, 6)], [("a ", False), ("good", True), (" film", False)]),
        ([(7, 11), (0, 1)], [("a", True), (" good ", False), ("film", True)]),
        ([(0, 4), (2, 6), (6, 7)], [("a good ", True), ("film", False)]),
        ([(0, 99)], [("a good film", True)]),
        ([(3, 3)], [("a good film", False)]),
    ],
)
def test_runs(spans, expected):
    assert marked_runs("a good film", spans) == expected


def test_merged():
    assert merge_spans([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]


def test_marks_are_brackets_without_colour():
    assert highlight("a good film", [(2, 6)], colour=False).plain == "a [good] film"
    assert highlight("a good film", [(2, 6)]).plain == "a good film"


def test_control_characters_never_reach_the_terminal():
    assert highlight("a\x1b[31mb\tc\nd", []).plain == "a\N{REPLACEMENT CHARACTER}[31mb c d"


def test_pictures_fade_outside_their_boxes():
    image = np.full((4, 4, 3), 255, dtype=np.uint8)
    assert draw_image(image, [(0, 0, 2, 2)], colour=False).plain == "@@··\n····\n"
    drawn = draw_image(image, [(0, 0, 2, 2)])
    assert drawn.plain == "▀▀▀▀\n▀▀▀▀\n"
    colours = {str(span.style.color.triplet.hex) for span in drawn.spans}
    assert colours == {"#ffffff", "#555555"}


class TestProgress:
    def test_a_plain_line_from_time_to_time(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("didact.viz.progress.time.monotonic", lambda: now[0])
        stream = io.StringIO()
        with Progress("training", total=100, stream=stream) as progress:
            progress.advance(10)
            assert stream.getvalue() == ""
            now[0] = 31.0
            progress.advance(10, note="dev 0.9")
            now[0] = 40.0
            progress.advance(10)
        assert stream.getvalue() == "training: 20 of 100, 2 min left dev 0.9\n"

    def test_without_an_end_in_sight_it_counts(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("didact.viz.progress.time.monotonic", lambda: now[0])
        stream = io.StringIO()
        with Progress("explaining", total=None, stream=stream) as progress:
            now[0] = 31.0
            progress.advance(1024)
            now[0] = 200.0
            progress.advance(1024)
        assert stream.getvalue() == "explaining: 1,024 after 31 s\nexplaining: 2,048 after 3 min\n"

    @pytest.mark.parametrize(("total", "said"), [(4, ["25%", "left"]), (None, ["1,000 so far"])])
    def test_a_bar_on_a_terminal(self, total, said):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        stream = Terminal()
        with Progress("explaining", total=total, stream=stream) as progress:
            progress.advance(1 if total else 1000, note="so it goes")
            progress._bar.refresh()
            shown = stream.getvalue()
        for one in [*said, "so it goes"]:
            assert one in shown

    def test_what_was_skipped_says_nothing_of_the_time_left(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("didact.viz.progress.time.monotonic", lambda: now[0])
        with Progress("explaining", total=1000, shown=False) as progress:
            progress.skip(500)
            assert progress.time_left() == ""
            now[0] = 40.0
            progress.advance(1)
            assert progress.time_left() == "333 min left"
            now[0] = 80.0  # and however long ago the last step was
            progress.advance(1)
            assert progress.time_left() == "332 min left"

    def test_can_be_silent(self, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("didact.viz.progress.time.monotonic", lambda: now[0])
        stream = io.StringIO()
        with Progress("training", total=2, shown=False, stream=stream) as progress:
            now[0] = 99.0
            progress.advance()
        assert stream.getvalue() == ""
