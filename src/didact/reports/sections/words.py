"""Words that count most: the mean score of each word over all measured rows, by method and explained class."""

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

SHOWN: Final = 12  # words of a class
_CLASSES: Final = 6
_METHODS: Final = 12
_LONGEST: Final = 40  # characters of a word


def top_words(maps: Explanations, *, shown: int = SHOWN) -> dict[str, list[WordScore]]:
    """By explained class the words with the highest mean |score|. Explanations of images have no words."""
    if maps.is_image:
        return {}
    summary = summarise(maps, k=shown)
    return {target: [word for word in summary.of(target) if word.mean_size > 0] for target in summary.targets}


def section(run: Comparison) -> Section | None:
    """None where no words were scored: nothing measured, images, or files that cannot be read."""
    if run.measured is None or run.measured.is_image:
        return None
    methods = [one for one in run.measured.methods if one.label not in CHANCE]
    found: dict[str, dict[str, list[WordScore]]] = {}
    kinds = {}
    for method in sorted(methods, key=lambda one: one.is_control)[:_METHODS]:
        maps = run.measured.explanations(method)
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
        "against the answer on average (signed methods only). Words that occur once are left out."
    ]
    if len(classes) > _CLASSES:
        remarks.append(f"{len(classes) - _CLASSES} more classes are left out here.")
    panels = Group("maps", [Group("panel", [table]) for table in tables])
    return Section("words", "Words that count most", [lead(said), panels, Notes(remarks)])


def _table(
    run: Comparison,
    target: str,
    found: Mapping[str, Mapping[str, list[WordScore]]],
    kinds: Mapping[str, str],
    *,
    alone: bool,
) -> Table:
    columns = {name: words.get(target, []) for name, words in found.items()}
    rows: list[list[Cell | str]] = []
    for place in range(max(map(len, columns.values()))):
        rows.append([str(place + 1), *(_cell(words, place, kinds[name]) for name, words in columns.items())])
    heads: list[Cell | str] = ["#"]
    heads += [Cell(name, "control" if name in run.controls else "", method_text(name)) for name in columns]
    data = []
    for name, words in columns.items():
        for word in words:
            means = {"mean_abs": word.mean_size, "mean": word.mean, "count": word.count}
            data.append({"class": target, "method": name, "word": word.word, **means})
    name = replace_control_characters(cut(target, 80))
    caption = "All explained rows" if alone or not name else f"Rows explained as “{name}”"
    return Table(f"words-{name}", caption, heads, rows, look="words", words=range(len(heads)), data=data)


def _cell(words: Sequence[WordScore], place: int, kind: str) -> Cell:
    if place >= len(words):
        return Cell("–")
    word = words[place]
    sign = "−" if kind == "signed" and word.mean < 0 else ""
    step = shade(word.mean_size, 2.0 * max(one.mean_size for one in words), "magnitude")
    times = f"{word.count} time{'s' * (word.count != 1)}"
    size = metric_text(word.mean_size)
    title = f"mean |score| {size}, mean {metric_text(word.mean)}, {times}"
    return Cell(replace_control_characters(cut(word.word, _LONGEST)), step.look, title, f"{sign}{size}")
