"""Words that count most: the mean score of each word over all measured rows, by method and explained class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from didact.records.explanations import Explanations
from didact.render.heat import shade
from didact.reports.describe import method_text
from didact.reports.leaders import CHANCE, written
from didact.reports.part import Part, lead, notes
from didact.reports.read import Run
from didact.reports.rows import seen
from didact.reports.table import Cell, Table, cut

SHOWN: Final = 12  # words of a class
_CLASSES: Final = 6
_METHODS: Final = 12
_LEAST: Final = 0.02  # share of a class's rows below which a word is rare
_LONGEST: Final = 40  # characters of a word


@dataclass(frozen=True)
class Word:
    """A word with the mean of its scores' sizes, the mean of its scores, and the number of rows that hold it."""

    text: str
    size: float
    mean: float
    rows: int


def top_words(maps: Explanations, *, shown: int = SHOWN) -> dict[str, list[Word]]:
    """By explained class the words with the highest mean |score|, case ignored, punctuation left out.

    A rare word says more about its row than about the model: words in at least two rows, and in 2 % of the class's,
    come first, and others fill up. Explanations of images have no words.
    """
    if maps.task == "image":
        return {}
    scores: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for place, row in enumerate(maps.words()):
        group = scores.setdefault(row.target, {})
        for token, segment, score in zip(row.tokens, row.segments.tolist(), row.scores.tolist(), strict=True):
            word = token.strip().casefold()
            if segment >= 0 and any(map(str.isalnum, word)):
                group.setdefault(word, []).append((place, score))
    counts = Counter(maps.targets)
    return {target: _best(group, counts[target], shown) for target, group in scores.items() if group}


def _best(group: Mapping[str, Sequence[tuple[int, float]]], rows: int, shown: int) -> list[Word]:
    least = max(2, _LEAST * rows)
    words = []
    for text, found in group.items():
        values = [score for _, score in found]
        size = sum(map(abs, values)) / len(values)
        words.append(Word(text, size, sum(values) / len(values), len({place for place, _ in found})))
    words = [word for word in words if word.size > 0]
    return sorted(words, key=lambda word: (word.rows < least, -word.size, -word.rows, word.text))[:shown]


def part(run: Run) -> Part | None:
    """None where no words were scored: nothing measured, images, or files that cannot be read."""
    if run.measured is None or run.measured.task == "image":
        return None
    methods = [one for one in run.measured.methods if one.label not in CHANCE]
    found: dict[str, dict[str, list[Word]]] = {}
    kinds = {}
    for method in sorted(methods, key=lambda one: one.is_control)[:_METHODS]:
        maps = run.explanations(method)
        if isinstance(maps, Explanations) and (words := top_words(maps)):
            found[method.label], kinds[method.label] = words, maps.kind
    classes = sorted({target for words in found.values() for target in words})
    if not classes:
        return None
    tables = [_table(run, target, found, kinds, alone=len(classes) == 1) for target in classes[:_CLASSES]]
    said = (
        f"Mean |score| of each word over {len(run.measured.rows):,} explained rows, from the highest down. Read it as "
        "a first look at what the model goes by; a word may count in one text and not in another."
    )
    remarks = [
        "Scores of different methods have different scales; compare words within a column. − marks words that speak "
        "against the answer on average (signed methods only). Rare words come last."
    ]
    if len(classes) > _CLASSES:
        remarks.append(f"{len(classes) - _CLASSES} more classes are left out here.")
    drawn = "".join(f'<div class="panel">{table.html()}</div>' for table in tables)
    body = f'{lead(said)}<div class="maps">{drawn}</div>{notes(remarks)}'
    return Part("words", "Words that count most", body, tables=tables)


def _table(
    run: Run, target: str, found: Mapping[str, Mapping[str, list[Word]]], kinds: Mapping[str, str], *, alone: bool
) -> Table:
    columns = {name: words.get(target, []) for name, words in found.items()}
    rows: list[list[Cell | str]] = []
    for place in range(max(map(len, columns.values()))):
        rows.append([str(place + 1), *(_cell(words, place, kinds[name]) for name, words in columns.items())])
    heads: list[Cell | str] = ["#"]
    heads += [Cell(name, "control" if name in run.controls else "", method_text(name)) for name in columns]
    data = [
        {
            "class": target, "method": name, "word": word.text, "mean_abs": word.size, "mean": word.mean,
            "rows": word.rows,
        }
        for name, words in columns.items() for word in words
    ]  # fmt: skip
    name = seen(cut(target, 80))
    caption = "All explained rows" if alone or not name else f"Rows explained as “{name}”"
    return Table(f"words-{name}", caption, heads, rows, look="words", words=range(len(heads)), data=data)


def _cell(words: Sequence[Word], place: int, kind: str) -> Cell:
    if place >= len(words):
        return Cell("–")
    word = words[place]
    sign = "−" if kind == "signed" and word.mean < 0 else ""
    step = shade(word.size, 2.0 * max(one.size for one in words), "magnitude")
    rows = f"{word.rows} {'row' if word.rows == 1 else 'rows'}"
    return Cell(
        seen(cut(word.text, _LONGEST)), f"strength{step.level}" if step.level else "",
        f"mean |score| {written(word.size)}, mean {written(word.mean)}, in {rows}", f"{sign}{written(word.size)}",
    )  # fmt: skip
