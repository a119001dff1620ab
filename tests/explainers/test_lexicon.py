"""The control `lexicon`: the mean score of each word and class, whatever stands around it."""

from dataclasses import replace

import numpy as np
import pytest

from didact.core.row import Row
from didact.errors import OptionError, UnsupportedError
from didact.explainers.lexicon import Lexicon
from didact.explaining.explain import explain
from teachers import black_box, examples, teacher

TEXTS = ["a good film", "the good plot is not a good plot", "bad film", "The film was bad, so bad"]
OTHERS = ["a bad plot", "nobody said it was a good film"]


def written_out(maps) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], list[float]] = {}
    for one in maps:
        for segment, (start, end), score in zip(one.segments, one.offsets, one.scores, strict=True):
            found.setdefault((one.target, one.texts[segment][start:end].casefold()), []).append(float(score))
    return {key: float(np.mean(scores)) for key, scores in found.items()}


@pytest.mark.parametrize("subject", [teacher("native", "classification"), black_box()], ids=["native", "black box"])
@pytest.mark.parametrize("level", ["token", "word"])
def test_means_of_words_and_classes(subject, level):
    rows = [Row(f"r{number}", (text,)) for number, text in enumerate(TEXTS)]
    seen = explain(subject, rows, "occlusion", level=level)
    means = written_out(seen)
    found = explain(subject, OTHERS, "lexicon(imitate=occlusion)", background_rows=rows, level=level)
    for one in found:
        expected = [means.get((one.target, token.casefold()), 0.0) for token in one.tokens]
        np.testing.assert_allclose(one.scores, expected, atol=1e-12)
    assert "nobody" in found[1].tokens
    assert found[1].scores[found[1].tokens.index("nobody")] == 0


def test_of_explanations():
    """A lexicon of explanations that exist is the one of their rows."""
    subject = teacher("native", "classification")
    rows = [Row(f"r{number}", (text,)) for number, text in enumerate(TEXTS)]
    given = Lexicon.of(explain(subject, rows, "occlusion"))
    named = explain(subject, OTHERS, "lexicon", background_rows=rows)
    np.testing.assert_allclose(explain(subject, OTHERS, given).scores, named.scores, atol=1e-12)


def test_of_explanations_by_a_learned_explainer():
    """Whatever made them: also what could not be named."""
    subject = teacher("native", "classification")
    maps = replace(explain(subject, TEXTS, "occlusion"), method="l2e")
    np.testing.assert_array_equal(
        explain(subject, OTHERS, Lexicon.of(maps)).scores,
        explain(subject, OTHERS, Lexicon.of(replace(maps, method="occlusion"))).scores,
    )


def test_magnitudes_stay_magnitudes():
    maps = explain(teacher("native", "classification"), TEXTS, "lexicon(imitate=gradient_norm)")
    assert maps.kind == "magnitude"


def test_refusals():
    with pytest.raises(UnsupportedError, match="images have none"):
        explain(teacher("native", "image"), examples("image"), "lexicon")
    with pytest.raises(UnsupportedError, match="images have none"):
        Lexicon.of(explain(teacher("native", "image"), examples("image"), "gradient_norm"))
    with pytest.raises(OptionError, match="must be a method with its options"):
        Lexicon(imitate="lexicon")
    with pytest.raises(OptionError, match=r"Lexicon\.of"):
        Lexicon(imitate="runs/l2e")
    with pytest.raises(UnsupportedError, match="the target is a contrast"):
        explain(teacher("native", "classification"), TEXTS, "lexicon", target="contrast")
    with pytest.raises(OptionError, match="'token' or 'word'"):
        Lexicon(level="letter")


def test_another_background_is_another_lexicon():
    subject, mine = teacher("native", "classification"), Lexicon()
    first, second = ([Row("r", (text,))] for text in ("a good film", "a film was a bad film"))
    before = explain(subject, OTHERS, mine, background_rows=first).scores
    after = explain(subject, OTHERS, mine, background_rows=second).scores
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(after, explain(subject, OTHERS, "lexicon", background_rows=second).scores)
