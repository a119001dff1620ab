"""The words that count most are means over the explained rows, by class."""

import numpy as np
import pytest

from didact.reports.build import page, report_sections
from didact.reports.sections.words import top_words
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from reports.folders import write_run
from reports.reading import Page


def explained(rows, *, kind="signed"):
    """Explanations of (target, {word: score}) rows; each word is a unit of its own."""
    texts, tokens, offsets, scores, bounds = [], [], [], [], [0]
    for _, words in rows:
        text = " ".join(words)
        start = 0
        for word, score in words.items():
            tokens.append(word)
            offsets.append((start, start + len(word)))
            scores.append(score)
            start += len(word) + 1
        texts.append((text,))
        bounds.append(len(tokens))
    count = len(rows)
    numbers = np.concatenate([np.arange(len(words)) for _, words in rows])
    targets = tuple(target for target, _ in rows)
    return Explanations(
        method="lime", kind=kind, options={}, task="classification", classes=("bad", "good"), teacher="t",
        fingerprints={}, ids=tuple(map(str, range(count))), texts=tuple(texts), bounds=np.array(bounds),
        tokens=tuple(tokens), segments=np.zeros(len(tokens), dtype=np.int64), word_index=numbers,
        offsets=np.array(offsets), scores=np.array(scores, dtype=float), targets=targets, predictions=targets,
        residuals=np.full(count, np.nan),
    )  # fmt: skip


def test_words_without_a_score_and_images_show_nothing():
    rows = [("good", {"a": 0.0, "b": 1.0}), ("bad", {"a": 0.5})]
    found = top_words(explained(rows))
    assert {target: [word.word for word in words] for target, words in found.items()} == {"bad": ["a"], "good": ["b"]}
    rows = [("good", {f"w{n}": float(n) for n in range(30)})] * 2
    assert [word.word for word in top_words(explained(rows), shown=3)["good"]] == ["w29", "w28", "w27"]


def page_of(folder) -> Page:
    run = Comparison.load(folder)
    return Page(page(run, report_sections(run)))


def test_the_page_has_a_table_by_class_without_chance(tmp_path):
    folder = write_run(tmp_path / "run", methods=("lime", "gradient_norm"), controls=("random", "trivial", "human"))
    run = Comparison.load(folder)
    found = page_of(folder)
    table = found.tables["All explained rows"]
    assert table[0] == ["#", "lime", "gradient_norm", "human"]
    maps = run.measured.explanations(next(one for one in run.measured.methods if one.label == "gradient_norm"))
    best = top_words(maps)["positive"][0]
    assert table[1][2].startswith(best.word)
    assert f"{best.mean_size:.2f}" in table[1][2]


@pytest.mark.parametrize("options", [{"task": "image"}, {"measured": False}, {"damaged": ("lime",)}])
def test_nothing_to_show(tmp_path, options):
    folder = write_run(tmp_path / "run", methods=("lime",), controls=("random",), **options)
    assert "Words that count most" not in page_of(folder).text


@pytest.mark.parametrize("task", ["regression", "reading", "pair"])
def test_other_tasks(tmp_path, task):
    assert "Words that count most" in page_of(write_run(tmp_path / "run", task=task)).text
