"""Mean scores by word and class over many rows. Needs no torch."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from didact.errors import OptionError, UnsupportedError
from didact.results.ragged import row_of_units
from didact.viz.heat_map import printable
from didact.viz.tables import Cell, Table

if TYPE_CHECKING:
    from didact.results.explanations import Explanations


@dataclass(frozen=True)
class WordScore:
    """One word in the rows of one class. `mean_size` is the mean |score|, `mean` the mean score with its sign."""

    target: str
    word: str
    count: int
    mean_size: float
    mean: float


@dataclass(frozen=True)
class WordSummary:
    """The words with the largest mean |score| of each explained class, strongest first."""

    method: str
    kind: str
    rows: int
    least: int
    words: tuple[WordScore, ...]

    @property
    def is_signed(self) -> bool:
        return self.kind == "signed"

    @property
    def targets(self) -> tuple[str, ...]:
        """The explained classes in alphabetical order."""
        return tuple(dict.fromkeys(word.target for word in self.words))

    def of(self, target: str) -> tuple[WordScore, ...]:
        """The words of one class."""
        return tuple(word for word in self.words if word.target == target)

    @property
    def title(self) -> str:
        return f"{self.method}: mean scores over {self.rows:,} rows, words that occur at least {self.least}×"

    def __repr__(self) -> str:
        if not self.words:
            return f"{self.title}\n  no word occurs that often"
        lines = [self.title]
        width = max(len(printable(word.word)) for word in self.words)
        for target in self.targets:
            lines += ["", *([printable(target)] if target else [])]
            lines.append(f"  {'word':<{width}}  {'count':>6}  {'mean |score|':>12}{self._signed('mean score', 12)}")
            for word in self.of(target):
                value = self._signed(f"{word.mean:+.4g}", 12)
                lines.append(f"  {printable(word.word):<{width}}  {word.count:>6,}  {word.mean_size:>12.4g}{value}")
        return "\n".join(lines)

    def _signed(self, text: str, width: int) -> str:
        return f"  {text:>{width}}" if self.is_signed else ""

    def _repr_html_(self) -> str:
        heads = ["word", "count", "mean |score|", *(["mean score"] if self.is_signed else [])]
        rows = []
        for word in self.words:
            row: list[Cell | str] = [word.word, f"{word.count:,}", f"{word.mean_size:.4g}"]
            rows.append([*row, *([Cell(f"{word.mean:+.4g}", "above" if word.mean > 0 else "below")] * self.is_signed)])
        groups = [(target, len(self.of(target))) for target in self.targets]
        return Table("words", "", heads, rows, groups=groups).notebook([self.title])

    def to_documents(self) -> list[dict[str, Any]]:
        """One dictionary of JSON data per class and word."""
        return [vars(word) for word in self.words]

    def to_pandas(self) -> Any:
        """A data frame with one line per class and word."""
        import pandas

        columns = ["target", "word", "count", "mean_size", "mean"]
        return pandas.DataFrame(self.to_documents(), columns=columns)


def summarise(explanations: "Explanations", *, k: int = 20, least: int | None = None) -> WordSummary:
    """The `k` words with the largest mean |score| over all their occurrences, for each explained class.

    Words are lower-cased; special tokens and words without a letter or digit are left out. A word must occur at least
    `least` times in the rows of a class: by default 2, or 1 for fewer than 10 rows. Scores are not rescaled: normalise
    first if the scale of the method differs between rows. Raises UnsupportedError for images.
    """
    if explanations.is_image:
        raise UnsupportedError("A summary lists words, and images have none. Use show() or to_html().")
    if k < 1 or (least is not None and least < 1):
        raise OptionError(f"summary: k and least must be at least 1, got {k} and {least}.")
    least = (1 if len(explanations) < 10 else 2) if least is None else least
    words = explanations.words()
    rows = row_of_units(words.bounds).tolist()
    scores_by_word: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, token, segment, score in zip(
        rows, words.tokens, words.segments.tolist(), words.scores.tolist(), strict=True
    ):
        word = token.strip().lower()
        if segment >= 0 and any(character.isalnum() for character in word):
            scores_by_word[words.targets[row] if explanations.classes is not None else ""][word].append(score)
    best: list[WordScore] = []
    for target in sorted(scores_by_word):
        word_scores = [
            WordScore(target, word, len(scores), float(np.abs(scores).mean()), float(np.mean(scores)))
            for word, scores in scores_by_word[target].items()
            if len(scores) >= least
        ]
        best += sorted(word_scores, key=lambda word_score: (-word_score.mean_size, word_score.word))[:k]
    return WordSummary(explanations.method, explanations.kind, len(explanations), least, tuple(best))
