"""The invented example in the instructions, which is about none of the items."""

from pathlib import Path

from didact.core.task import task_named
from didact.study.stimuli import Stimulus, View, save_picture

GOOD, WEAK = "good", "weak"  # the views: one marks the reasons for the answer, the other something else
TEXT = "The soup was cold, but the waiter was so kind that we will come again."


def example_for(task: str, folder: Path) -> Stimulus:
    """The example for a task: one stimulus with a good and a weak explanation."""
    names = task_named(task).segments
    if not names:
        return _picture(folder)
    if len(names) == 2:
        texts = ("Who won the match?", "After a long delay, the match was won by the visitors.")
        views = {
            GOOD: View((_marked(texts[0], {"Who": 7}), _marked(texts[1], {"won by": 6, "the visitors": 10}))),
            WEAK: View((_marked(texts[0], {"the": 9}), _marked(texts[1], {"After": 10, "long": 5}))),
        }
        return Stimulus(names, texts, None, views)
    views = {
        GOOD: View((_marked(TEXT, {"so kind": 10, "come again": 7, "cold": 3}),)),
        WEAK: View((_marked(TEXT, {"The": 8, "waiter": 3, "that": 10}),)),
    }
    return Stimulus(("",), (TEXT,), None, views)


def _marked(text: str, marks: dict[str, int]) -> tuple[tuple[str, str], ...]:
    """The text as stretches (text, CSS class). Each marked part is marked where it first occurs."""
    marked_spans = sorted((text.index(text_part), text_part, level) for text_part, level in marks.items())
    stretches: list[tuple[str, str]] = []
    position = 0
    for start, text_part, level in marked_spans:
        stretches += [(text[position:start], ""), (text_part, f"strength{level}")]
        position = start + len(text_part)
    return tuple((text_part, look) for text_part, look in [*stretches, (text[position:], "")] if text_part)


def _picture(folder: Path) -> Stimulus:
    """A bright disc on a dark background."""
    import numpy as np

    rows, columns = np.mgrid[0:96, 0:96]
    disc = (rows - 34) ** 2 + (columns - 60) ** 2 < 20**2
    pixels = np.where(disc[..., None], (250, 200, 60), (50, 70, 90)).astype(np.uint8)
    good = tuple((x, y, 16, 16, "strength10", 0.75) for x in (48, 64) for y in (16, 32))
    weak = tuple((x, 80, 16, 16, "strength10", 0.6) for x in (0, 32, 80))
    views = {GOOD: View(patches=good), WEAK: View(patches=weak)}
    return Stimulus((), (), save_picture(pixels, folder), views)
