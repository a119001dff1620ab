"""The glossary is in alphabetical order, without doubles, and has the words that a table of results needs."""

import re

from pages import DOCS

NEEDED = {
    "L2E", "SMaT", "cell", "control", "gain", "human", "none", "random", "run", "seed", "simulability", "student",
    "teacher", "trivial",
}  # fmt: skip


def entries():
    return re.findall(r"^- \*\*(.+?)\*\*:", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_entries_are_in_alphabetical_order():
    found = entries()
    assert found == sorted(set(found), key=str.casefold)


def test_the_words_of_a_ranking_are_there():
    assert set(entries()) >= NEEDED
