"""Splits by a hash of the content: the same rows give the same splits in any order and on any machine.

A cut is a mapping: `{"train": {"train": 1500, "teach": REST}, "validation": "dev", "test": "test"}` puts 1,500 rows of
the official training set into the students' train split and the rest into teach; validation becomes dev, and test
stays test.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from didact.core.dataset import SPLITS, Split
from didact.core.row import Row
from didact.errors import DataError

REST: Final = "rest"
Size: TypeAlias = int | float | str  # a number of rows, a fraction of them, or REST
Cut: TypeAlias = Mapping[str, str | Mapping[str, Size]]

# A row in a split to the left is dropped from the splits to the right.
PRIORITY: Final = ("test", "dev", "train", "teach", "explain")
FOUR_WAYS: Final[Mapping[str, Size]] = {"train": 0.25, "dev": 0.05, "test": 0.20, "teach": REST}


def apply_cut(
    cut: Cut, rows: Mapping[str, Sequence[Row]], *, grouped_by: int | None = None
) -> tuple[dict[str, Split], list[str]]:
    """Our splits, cut from the official ones, and notes on the rows that were dropped.

    `grouped_by` is as for `split_by_hash`. Raises `DataError` if a split gets no rows.
    """
    digests = {id(row): _digest(row.content) for members in rows.values() for row in members}
    splits: dict[str, list[Row]] = {}
    for official, goal in cut.items():
        if isinstance(goal, str):
            splits.setdefault(goal, []).extend(rows[official])
    notes = _drop_overlaps(splits, digests)
    # Rows that are also in dev or test are removed before the rest is split, so that counts stay exact.
    reserved = {digests[id(row)] for name in ("test", "dev") for row in splits.get(name, ())}
    for official, goal in cut.items():
        if not isinstance(goal, str):
            free = [row for row in rows[official] if digests[id(row)] not in reserved]
            dropped = len(rows[official]) - len(free)
            if dropped:
                notes.append(f"{official}: {dropped:,} rows dropped: the same content is in dev or test.")
            for name, members in split_by_hash(free, goal, grouped_by=grouped_by).items():
                splits.setdefault(name, []).extend(members)
    notes += _drop_overlaps(splits, digests)
    if "teach" in splits:
        splits.setdefault("explain", splits["teach"])
    empty = [name for name, members in splits.items() if not members]
    if empty:
        raise DataError(
            f"No rows are left for {', '.join(empty)}: equal rows stay in one split. Give more, or different, rows.",
            notes,
        )
    return {name: Split(name, splits[name]) for name in SPLITS if name in splits}, notes


def split_by_hash(
    rows: Sequence[Row], sizes: Mapping[str, Size], *, grouped_by: int | None = None
) -> dict[str, list[Row]]:
    """Split rows by a hash of their content. Equal rows stay in one split.

    `sizes` maps each split to a number of rows, a fraction, or `REST`. With `grouped_by`, rows with the same text of
    that number stay in one split, too. The result does not depend on the order of the rows. A split may get a few rows
    more than its size, because groups are never divided.
    """
    if len(rows) < len(sizes):
        raise DataError(
            f"{len(rows)} rows are too few to cut into {', '.join(sizes)}. Pass the splits yourself: a "
            "folder with files named after splits, or a mapping from split names to files."
        )
    groups: dict[bytes, list[Row]] = {}
    for row in rows:
        shared = row.content if grouped_by is None else row.texts[grouped_by].encode()
        groups.setdefault(_digest(shared), []).append(row)
    queue = deque(sorted(groups[digest], key=lambda row: (row.texts, row.id)) for digest in sorted(groups))
    splits: dict[str, list[Row]] = {}
    for name, size in sizes.items():
        if isinstance(size, str):
            continue
        count = size if isinstance(size, int) else max(1, round(size * len(rows)))
        if count >= len(rows):
            raise DataError(f"{count} rows for {name} cannot be cut out of {len(rows)}.")
        splits[name] = []
        while queue and len(splits[name]) < count:
            splits[name] += queue.popleft()
    rest = [row for group in queue for row in group]
    return splits | {name: rest for name, size in sizes.items() if size == REST}


def _drop_overlaps(splits: dict[str, list[Row]], digests: Mapping[int, bytes]) -> list[str]:
    """Drop rows whose content is also in a split of higher `PRIORITY`. Duplicates within one split stay."""
    owner_of: dict[bytes, str] = {}
    notes = []
    for name in PRIORITY:
        if name not in splits:
            continue
        contents = [digests[id(row)] for row in splits[name]]
        dropped = Counter(owner_of[content] for content in contents if content in owner_of)
        notes += [
            f"{name}: {count:,} rows dropped: the same content is in {owner}." for owner, count in dropped.items()
        ]
        splits[name] = [row for row, content in zip(splits[name], contents, strict=True) if content not in owner_of]
        if name != "teach":  # explain may equal teach
            owner_of = dict.fromkeys(contents, name) | owner_of
    return notes


def default_cut(names: Sequence[str], aliases: Mapping[str, str], unsplit: str) -> Cut:
    """The cut for data of the user's own, whose splits are called `names`.

    Data without splits (one name, `unsplit`) are cut four ways. Data with a `teach` split, or without `train`, keep
    their splits. Otherwise `train` is cut into the students' train split, dev and test where they are missing, and
    teach. `aliases` maps usual split names to ours.
    """
    if list(names) == [unsplit]:
        return {unsplit: FOUR_WAYS}
    unknown = [name for name in names if name not in aliases]
    if unknown:
        raise DataError(
            f"{unknown[0]!r} is not the name of a split. Known names: {', '.join(aliases)}. Rename it, leave it "
            "out, or pass a mapping from split names to files of any name."
        )
    our_names = [aliases[name] for name in names]
    repeated = [name for name in our_names if our_names.count(name) > 1]
    if repeated:
        raise DataError(
            f"Two names mean the split {repeated[0]!r}: "
            f"{', '.join(key for key in names if aliases[key] == repeated[0])}. Keep one."
        )
    if "teach" in our_names or "train" not in our_names:
        return {name: aliases[name] for name in names}
    sizes = {name: size for name, size in FOUR_WAYS.items() if name == "train" or name not in our_names}
    return {name: sizes if aliases[name] == "train" else aliases[name] for name in names}


def describe(cut: Cut) -> str:
    """A cut in words, for the notes of a data set."""
    phrases = []
    for official, goal in cut.items():
        source = f" of {official}" if official else ""
        if isinstance(goal, str):
            phrases.append(goal if goal == official else f"{goal} = {official}")
        else:
            phrases.append(", ".join(f"{name} = {_amount(size)}{source}" for name, size in goal.items()))
    return "; ".join(phrases)


def _amount(size: Size) -> str:
    if isinstance(size, str):
        return "the rest"
    return f"{size:,} rows" if isinstance(size, int) else f"{size:.0%}"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
