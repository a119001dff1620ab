"""Tables in a terminal: split where they are too wide, and names are never cut."""

import pytest

from didact.cli.output import print_table, split_columns


@pytest.mark.parametrize(("widths", "pieces"), [
    ([10, 10, 10], [[0, 1, 2]]),
    ([30, 20, 20, 20], [[0, 1, 2], [0, 3]]),
    ([70, 20, 20], [[0, 1], [0, 2]]),
    ([90], [[0]]),
])  # fmt: skip
def test_columns_are_split_over_tables(widths, pieces):
    assert split_columns(widths, 80) == pieces


def test_a_wide_table_fits_and_keeps_every_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    methods = ["integrated_gradients(steps=20)", "attention_all(sharpened)"]
    columns = ["better", "worse", "difference", "95 %", "where it is right", "odd"]
    odd = "answers look as if nobody had read the page; the same answer to all"
    print_table(columns, [[*methods, "+12.5 %", "+1.0 % to +20.0 %", "100 %", odd]], keys=2)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert shown.count(methods[0]) == shown.count(methods[1]) > 1
    for word in ("+1.0 % to +20.0 %", *odd.split()):
        assert word in shown


def test_a_name_wider_than_the_terminal_is_not_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_table(["name", "kind"], [["n" * 90, "signed"]])
    assert "n" * 90 in capsys.readouterr().out
