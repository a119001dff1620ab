"""Spreadsheets evaluate no text of a CSV file; numbers stay numbers. One rule for reports and exports."""

import pytest

from didact.viz.formulas import without_formula
from didact.viz.tables import Table

TEXTS = [
    ("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("+1+cmd|x", "'+1+cmd|x"), ("@SUM(1)", "'@SUM(1)"), ("-2+3", "'-2+3"),
    ("-cmd|x", "'-cmd|x"), ("-inf", "'-inf"), ("-1_0", "'-1_0"), ("-0.42", "-0.42"), ("+1e-5", "+1e-5"), (".5", ".5"),
    ("good", "good"), ("+0.3 [-0.1, +0.7]", "+0.3 [-0.1, +0.7]"), ("+0.3 [=x, 1]", "'+0.3 [=x, 1]"), ("", ""),
    ("−2.5", "−2.5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "written"), TEXTS)
def test_formulas_are_quoted_and_numbers_are_not(text, written):
    assert without_formula(text) == written


@pytest.mark.parametrize(("text", "written"), [("-2+3", "'-2+3"), ("-2.5", "-2.5"), ("@x", "'@x")])
def test_tables_of_a_report_follow_the_same_rule(text, written):
    by_rows = Table("t", "c", ["name", "value"], [["m", text]]).csv()
    by_data = Table("t", "c", ["name"], [["m"]], data=[{"name": text}]).csv()
    assert by_rows.splitlines()[1] == f"m,{written}"
    assert by_data.splitlines()[1] == written
