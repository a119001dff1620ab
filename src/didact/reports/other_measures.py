"""What faithfulness and the other measures say about the methods of a headline, in plain words."""

from collections.abc import Iterable, Sequence
from typing import Final

from didact.reports.leaders import FAITHFULNESS, Leader, leaders, listed, more_faithful, no_better_than_random
from didact.results.comparison import Comparison

NAMED: Final = 4  # methods that a title names


def faithfulness_text(run: Comparison, tied: Sequence[str]) -> str:
    """What the headline adds about faithfulness; docs/compare.md states the rule."""
    chance = [no_better_than_random(run, name, FAITHFULNESS) for name in tied]
    if all(2 * worse > known for worse, known in chance):
        return f", but {'none of them is' if len(tied) > 1 else 'it is no'} more faithful than random marks"
    better = [more_faithful(run, name) for name in tied]
    ahead = [name for name in better[0] if all(name in own for own in better)]
    return f"; {quoted(ahead)} {'is' if len(ahead) == 1 else 'are'} clearly more faithful" if ahead else ""


def other_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """What faithfulness and the other measures say about the methods of a headline."""
    said = []
    for name in tied:
        worse, known = no_better_than_random(run, name, FAITHFULNESS)
        if worse * 2 > known:
            said.append(f"By faithfulness “{name}” is no better than random marks ({worse} of {known} metrics).")
        if better := more_faithful(run, name):
            said.append(f"{quoted(better)} {'is' if len(better) == 1 else 'are'} clearly more faithful than “{name}”.")
    return (*said, *leading_texts(run, tied))


def leading_texts(run: Comparison, tied: Sequence[str]) -> tuple[str, ...]:
    """Which methods lead by the other measures, and whether they are those that teach."""
    found = leaders(run)
    if not found:
        return ()
    if not tied:
        start = "Other measures need no students"
    elif all(leader.names == tuple(tied[:1]) for leader in found):
        start = "Other measures point the same way"
    elif len(tied) > 1 and (also := [one for one in found if len(one.names) == 1 and one.names[0] in tied]):
        return (*_also(also), *_rest(one for one in found if one not in also))
    else:
        start = "Teaching is one measure. By others"
    return (f"{start}: {'; '.join(one.text for one in found)}.",)


def _also(found: Sequence[Leader]) -> list[str]:
    """Of methods that are tied in teaching, those that lead elsewhere."""
    by_name: dict[str, list[Leader]] = {}
    for one in found:
        by_name.setdefault(one.names[0], []).append(one)
    return [
        f"Of those tied, “{name}” also leads in {listed([f'{one.family} ({one.scope})' for one in own])}."
        for name, own in by_name.items()
    ]


def _rest(found: Iterable[Leader]) -> list[str]:
    texts = [one.text for one in found]
    return [f"By other measures: {'; '.join(texts)}."] if texts else []


def quoted(names: Sequence[str]) -> str:
    """The names in quotation marks; of many, the first and how many more."""
    marked = [f"“{name}”" for name in names]
    more = len(marked) - NAMED
    return listed([*marked[:NAMED], f"{more} more"]) if more > 1 else listed(marked)
