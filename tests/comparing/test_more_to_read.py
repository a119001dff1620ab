"""Normalised gain, helped and misled: by hand from the answers, where they are undefined, and how they are shown."""

from pathlib import Path

import numpy as np
import pytest

from didact.comparing.statistics import REFERENCE, contrasts_of, gain_rows
from didact.core.measure import class_weights
from didact.reports.sections import ranking
from didact.results.comparison import Comparison
from didact.results.gains import SHARES, GainRow
from didact.results.run_record import RunInfo

NONE = np.array([[1, 1, 0, 0, 0, 1, 0, 1.0], [1, 0, 0, 0, 1, 1, 0, 1]])
LIME = np.array([[1, 0, 1, 1, 0, 1, 1, 1.0], [1, 1, 1, 0, 1, 0, 1, 1]])


def table_of(none=NONE, lime=LIME, *, reference=None, strata=None, columns=(("s", 9),)):
    scores = {}
    for column in columns:
        scores |= {("none", *column): dict(enumerate(none)), ("lime", *column): dict(enumerate(lime))}
    if reference is not None:
        scores[REFERENCE] = {0: reference}
    contrasts = contrasts_of(scores, explainers=["none", "lime"], columns=columns, strata=strata)
    rows = gain_rows(
        scores, contrasts, explainers=["none", "lime"], controls=["none"], columns=columns, measure="accuracy", lost={},
        test_rows=8, strata=strata,
    )  # fmt: skip
    about = RunInfo(measure="accuracy", controls=("none",))
    return Comparison(tuple(rows), (), (), about, {}, Path("x"), contrasts=contrasts)


def test_by_hand():
    none, lime = table_of().rows
    assert [none[name] for name in SHARES] == [None] * 5
    helped = ((NONE == 0) & (LIME == 1)).mean()
    misled = ((NONE == 1) & (LIME == 0)).mean()
    assert (lime.helped, lime.misled) == pytest.approx((helped, misled))
    assert (lime.helped, lime.misled) == (6 / 16, 2 / 16)
    assert lime.normalised_gain == pytest.approx(4 / 8), "8 of 16 answers were wrong, 4 more are right"
    assert lime.normalised_low <= lime.normalised_gain <= lime.normalised_high <= 1


def test_the_difference_is_the_gain_for_every_measure_that_is_a_mean():
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    graded = np.random.default_rng(0).random((2, 3, 8))
    for comparison in (table_of(), table_of(strata=labels), table_of(*graded)):
        lime = comparison.row("lime")
        assert lime.helped - lime.misled == pytest.approx(lime.gain)
    weights = class_weights(labels)
    lime = table_of(strata=labels).row("lime")
    assert lime.helped == pytest.approx((weights * ((NONE == 0) & (LIME == 1))).mean())
    assert lime.normalised_gain == pytest.approx(lime.gain / (1 - (NONE * weights).mean()))


def test_the_interval_and_the_mark_are_one_statement():
    dice = np.random.default_rng(1)
    for shift in np.linspace(-0.2, 0.2, 21):
        none, lime = ((dice.random((4, 60)) < chance).astype(float) for chance in (0.6, 0.6 + shift))
        row = table_of(none, lime).row("lime")
        assert row.claimed == (row.normalised_low > 0 or row.normalised_high < 0)


def test_where_they_are_undefined():
    ceiling = table_of(np.ones((2, 8))).row("lime")
    assert (ceiling.normalised_gain, ceiling.helped) == (None, 0)
    assert ceiling.misled > 0
    one_seed = table_of(NONE[:1], LIME[:1]).row("lime")
    assert one_seed.normalised_gain is not None
    assert one_seed.normalised_low is None
    correlation = table_of(reference=np.arange(8.0)).row("lime")
    assert [correlation[name] for name in SHARES] == [None] * 5


class TestDocument:
    def test_only_what_is_defined_is_stored(self):
        none, lime = table_of().rows
        assert not set(SHARES) & set(none.to_document())
        assert set(SHARES) <= set(lime.to_document())
        for row in (none, lime):
            assert GainRow.from_document(row.to_document()).to_document() == row.to_document()

    def test_a_row_of_before_loads(self):
        document = {name: value for name, value in table_of().rows[1].to_document().items() if name not in SHARES}
        row = GainRow.from_document(document)
        assert row.normalised_gain is row.misled is None
        assert row.to_document() == document
        with pytest.raises(TypeError, match="misled"):
            GainRow.from_document({**document, "misled": "many"})


class TestShown:
    def test_text(self):
        first, _, more = table_of().table().partition("gap closed")
        assert "lime" in first
        assert "helped" in more
        line = next(line for line in more.splitlines() if line.split()[:1] == ["lime"])
        assert line.split()[-2:] == ["37.5", "12.5"]
        assert "+50.0 [" in line
        assert not any(line.split()[:1] == ["none"] for line in more.splitlines())

    def test_several_columns_are_named(self):
        text = table_of(columns=(("s", 9), ("t", 9))).table()
        assert text.count("gap closed  ") == text.count("misled") - 1 == 2
        line = next(line for line in text.splitlines() if "helped" in line)
        assert line.split() == ["explainer", *["gap", "closed", "helped", "misled"] * 2]
        assert [number.split() for number in text.splitlines()].count(["s", "t"]) == 1

    def test_notebook(self):
        page = table_of()._repr_html_()
        assert "gap closed" in page
        assert "37.5" in page
        assert "gap closed" not in table_of(reference=np.arange(8.0))._repr_html_()

    def test_report(self):
        section = ranking.section(table_of())
        table = next(table for table in section.tables if table.name == "more-to-read")
        assert table.text_rows[0][1].startswith("+50.0 [−")
        assert table.data[0]["misled"] == 2 / 16
        assert table.text_rows[0][2:] == ["37.5", "12.5"]
        assert not [
            table
            for table in ranking.section(table_of(reference=np.arange(8.0))).tables
            if table.name == "more-to-read"
        ]

    def test_frame(self):
        frame = table_of().to_pandas()
        assert frame["misled"].tolist()[1] == 2 / 16
