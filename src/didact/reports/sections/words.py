"""The words with the highest mean |score| over all measured rows, by method and explained class."""

from collections.abc import Mapping, Sequence
from typing import Final

from didact.reports.describe import method_text
from didact.reports.leaders import CHANCE, metric_text
from didact.reports.section import Group, Notes, Section, lead
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from didact.results.word_summary import WordScore, summarise
from didact.viz.colours import shade
from didact.viz.html import cut, replace_control_characters
from didact.viz.tables import Cell, Table

SHOWN: Final = 12  # words per class
_CLASSES: Final = 6
_METHODS: Final = 12
_LONGEST: Final = 40  # characters of a word


def top_words(explanations: Explanations, *, shown: int = SHOWN) -> dict[str, list[WordScore]]:
    """The words with the highest mean |score| by explained class; empty for images."""
    if explanations.is_image:
        return {}
    summary = summarise(explanations, k=shown)
    return {target: [word for word in summary.of(target) if word.mean_size > 0] for target in summary.targets}


def section(run: Comparison) -> Section | None:
    """The section, or None if no words were scored: nothing measured, images, or unreadable files."""
    if run.measured is None or run.measured.is_image:
        return None
    methods = [entry for entry in run.measured.methods if entry.label not in CHANCE]
    words_by_method: dict[str, dict[str, list[WordScore]]] = {}
    kinds = {}
    for method in sorted(methods, key=lambda entry: entry.is_control)[:_METHODS]:
        explanations = run.measured.explanations(method)
        if isinstance(explanations, Explanations) and (words := top_words(explanations)):
            words_by_method[method.label], kinds[method.label] = words, explanations.kind
    classes = sorted({target for words in words_by_method.values() for target in words})
    if not classes:
        return None
    tables = [
        _table(run, target, words_by_method, kinds, is_only_class=len(classes) == 1) for target in classes[:_CLASSES]
    ]
    intro = (
        f"Mean |score| of each word over {len(run.measured.rows):,} explained rows, from the highest down: a first "
        "look at what the model relies on. A word may count in one text and not in another."
    )
    remarks = [
        "Scores of different methods have different scales; compare words within a column. − marks words that speak "
        "against the answer on average (signed methods only). Words that occur only once are left out."
    ]
    if len(classes) > _CLASSES:
        remarks.append(f"{len(classes) - _CLASSES} more classes are left out here.")
    panels = Group("maps", [Group("panel", [table]) for table in tables])
    return Section("words", "Words that count most", [lead(intro), panels, Notes(remarks)])


def _table(
    run: Comparison,
    target: str,
    words_by_method: Mapping[str, Mapping[str, list[WordScore]]],
    kinds: Mapping[str, str],
    *,
    is_only_class: bool,
) -> Table:
    columns = {name: words.get(target, []) for name, words in words_by_method.items()}
    rows: list[list[Cell | str]] = []
    for index in range(max(map(len, columns.values()))):
        rows.append([str(index + 1), *(_cell(words, index, kinds[name]) for name, words in columns.items())])
    heads: list[Cell | str] = ["#"]
    heads += [Cell(name, "control" if name in run.controls else "", method_text(name)) for name in columns]
    data = []
    for name, words in columns.items():
        for word in words:
            means = {"mean_abs": word.mean_size, "mean": word.mean, "count": word.count}
            data.append({"class": target, "method": name, "word": word.word, **means})
    name = replace_control_characters(cut(target, 80))
    caption = "All explained rows" if is_only_class or not name else f"Rows explained as “{name}”"
    return Table(f"words-{name}", caption, heads, rows, look="words", words=range(len(heads)), data=data)


def _cell(words: Sequence[WordScore], index: int, kind: str) -> Cell:
    if index >= len(words):
        return Cell("–")
    word = words[index]
    sign = "−" if kind == "signed" and word.mean < 0 else ""
    step = shade(word.mean_size, 2.0 * max(other.mean_size for other in words), "magnitude")
    times = f"{word.count} time{'s' * (word.count != 1)}"
    size = metric_text(word.mean_size)
    title = f"mean |score| {size}, mean {metric_text(word.mean)}, {times}"
    return Cell(replace_control_characters(cut(word.word, _LONGEST)), step.look, title, f"{sign}{size}")
