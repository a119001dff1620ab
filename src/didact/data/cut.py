"""Splits cut by content: the same rows give the same splits, whatever their order and whoever asks.

A cut is data: `{"train": {"train": 1500, "teach": REST}, "validation": "dev", "test": "test"}` reads "of the official
training set 1,500 rows are the students' train and the rest is teach; validation is dev; test is test".
"""

import hashlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from didact.core.dataset import SPLITS, Split
from didact.core.row import Row
from didact.errors import DataError

REST: Final = "rest"
Share: TypeAlias = int | float | str  # a number of rows, a fraction of them, or REST
Cut: TypeAlias = Mapping[str, str | Mapping[str, Share]]

# A row in a split to the left is dropped from the splits to the right.
PRIORITY: Final = ("test", "dev", "train", "teach", "explain")
FOUR_WAYS: Final[Mapping[str, Share]] = {"train": 0.25, "dev": 0.05, "test": 0.20, "teach": REST}


def apply(
    cut: Cut, rows: Mapping[str, Sequence[Row]], *, together: int | None = None
) -> tuple[dict[str, Split], list[str]]:
    """Our splits of the official ones, and notes on the rows that had to go."""
    digests = {id(row): _digest(row.content) for part in rows.values() for row in part}
    found: dict[str, list[Row]] = {}
    for official, goal in cut.items():
        if isinstance(goal, str):
            found.setdefault(goal, []).extend(rows[official])
    notes = _drop_overlaps(found, digests)
    # What dev and test hold as a whole is taken out before the rest is dealt, so that a number of rows stays exact.
    held = {digests[id(row)] for name in ("test", "dev") for row in found.get(name, ())}
    for official, goal in cut.items():
        if not isinstance(goal, str):
            free = [row for row in rows[official] if digests[id(row)] not in held]
            gone = len(rows[official]) - len(free)
            if gone:
                notes.append(f"{official}: {gone:,} rows dropped: the same content is in dev or test.")
            for name, part in share(free, goal, together=together).items():
                found.setdefault(name, []).extend(part)
    notes += _drop_overlaps(found, digests)
    if "teach" in found:
        found.setdefault("explain", found["teach"])
    bare = [name for name, part in found.items() if not part]
    if bare:
        raise DataError(
            f"No rows are left for {', '.join(bare)}: equal rows stay in one split. Give more, or different, rows.",
            notes,
        )
    return {name: Split(name, found[name]) for name in SPLITS if name in found}, notes


def share(rows: Sequence[Row], shares: Mapping[str, Share], *, together: int | None = None) -> dict[str, list[Row]]:
    """Deal rows out by a hash of their content. Equal rows stay together, and so do rows that share text `together`.

    Rows come in the order of their hashes, so nothing depends on their order in the file; a split may get a few rows
    more than asked for, to keep a group whole.
    """
    if len(rows) < len(shares):
        raise DataError(
            f"{len(rows)} rows are too few to be cut into {', '.join(shares)}. Give the splits yourself: a "
            "folder with files named after splits, or a mapping from split names to files."
        )
    groups: dict[bytes, list[Row]] = {}
    for row in rows:
        shared = row.content if together is None else row.texts[together].encode()
        groups.setdefault(_digest(shared), []).append(row)
    queue = deque(sorted(groups[digest], key=lambda row: (row.texts, row.id)) for digest in sorted(groups))
    dealt: dict[str, list[Row]] = {}
    for name, wanted in shares.items():
        if isinstance(wanted, str):
            continue
        count = wanted if isinstance(wanted, int) else max(1, round(wanted * len(rows)))
        if count >= len(rows):
            raise DataError(f"{count} rows for {name} cannot be cut out of {len(rows)}.")
        dealt[name] = []
        while queue and len(dealt[name]) < count:
            dealt[name] += queue.popleft()
    rest = [row for group in queue for row in group]
    return dealt | {name: rest for name, wanted in shares.items() if wanted == REST}


def _drop_overlaps(splits: dict[str, list[Row]], digests: Mapping[int, bytes]) -> list[str]:
    """Take rows out of `splits` whose content is in a split before theirs. Equal rows inside one split stay."""
    seen: dict[bytes, str] = {}
    notes = []
    for name in PRIORITY:
        if name not in splits:
            continue
        contents = [digests[id(row)] for row in splits[name]]
        lost = Counter(seen[content] for content in contents if content in seen)
        notes += [f"{name}: {count:,} rows dropped: the same content is in {owner}." for owner, count in lost.items()]
        splits[name] = [row for row, content in zip(splits[name], contents, strict=True) if content not in seen]
        if name != "teach":  # explain may equal teach
            seen = dict.fromkeys(contents, name) | seen
    return notes


def cut_for(names: Sequence[str], known: Mapping[str, str], whole: str) -> Cut:
    """The rule for data of your own.

    Data without splits are cut four ways. Where there is a `teach`, the names are ours and stay. Else the students'
    train, and dev and test where they are missing, are cut out of `train`; what is left of it is `teach`.
    """
    if list(names) == [whole]:
        return {whole: FOUR_WAYS}
    strange = [name for name in names if name not in known]
    if strange:
        raise DataError(
            f"{strange[0]!r} is not the name of a split. Known: {', '.join(known)}. Rename it, or leave it out: "
            "a mapping from split names to sources takes any files."
        )
    ours = [known[name] for name in names]
    twice = [name for name in ours if ours.count(name) > 1]
    if twice:
        raise DataError(
            f"Two splits stand for {twice[0]!r}: {', '.join(n for n in names if known[n] == twice[0])}. Keep one."
        )
    if "teach" in ours or "train" not in ours:
        return {name: known[name] for name in names}
    shares = {name: part for name, part in FOUR_WAYS.items() if name == "train" or name not in ours}
    return {name: shares if known[name] == "train" else known[name] for name in names}


def told(cut: Cut) -> str:
    """A cut in words, for notes."""
    parts = []
    for official, goal in cut.items():
        source = f" of {official}" if official else ""
        if isinstance(goal, str):
            parts.append(goal if goal == official else f"{goal} = {official}")
        else:
            parts.append(", ".join(f"{name} = {_amount(part)}{source}" for name, part in goal.items()))
    return "; ".join(parts)


def _amount(part: Share) -> str:
    if isinstance(part, str):
        return "the rest"
    return f"{part:,} rows" if isinstance(part, int) else f"{part:.0%}"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
