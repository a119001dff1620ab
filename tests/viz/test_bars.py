"""The scores of one row as bars: what altair is given, and what it writes."""

import pytest

from didact.errors import OptionError
from didact.viz.bars import bar_chart
from didact.viz.heat_map import HeatMap, Unit

FACTS = {"target": "yes", "prediction": "yes", "probability": 0.912}


def heat(kind="signed", **changes):
    words = [("very", 0.25), ("very", -2.0), ("good", 1.0), ("\x1b[2J", 0.0)]
    units = [Unit(word, abs(score) if kind != "signed" else score, 0, (0, 1)) for word, score in words]
    return HeatMap(kind=kind, units=units, texts=[("text", "x")], **(FACTS | changes))


def bars(chart):
    return [(row["word"], row["score"]) for row in chart.to_dict()["data"]["values"]]


def test_words_in_their_order_with_the_prediction_above():
    chart = bar_chart(heat(), title="lime · r1")
    assert bars(chart)[:3] == [("very", 0.25), ("very", -2.0), ("good", 1.0)]
    assert "\x1b" not in chart.to_json()
    found = chart.to_dict()
    assert len(set(found["encoding"]["y"]["sort"])) == 4, "the same word twice has two bars"
    assert found["title"]["text"] == "lime · r1"
    assert found["title"]["subtitle"] == ["prediction yes (91.2 %) · target yes"]


def test_the_strongest_where_there_are_many():
    assert bars(bar_chart(heat(), title="", k=2)) == [("very", -2.0), ("good", 1.0)]
    assert "the 2 strongest of 4 words" in bar_chart(heat(), title="", k=2).to_dict()["title"]["subtitle"]
    assert len(bars(bar_chart(heat("magnitude"), title="", k=None))) == 4
    with pytest.raises(OptionError, match="k must be at least 1"):
        bar_chart(heat(), title="", k=0)


def test_images_have_no_words():
    with pytest.raises(OptionError, match="this row is an image"):
        bar_chart(heat(is_image=True), title="")


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_files(tmp_path, ending, start):
    bar_chart(heat(), title="lime").save(str(tmp_path / f"row.{ending}"))
    content = (tmp_path / f"row.{ending}").read_bytes()
    assert content.startswith(start)
    if ending == "svg":
        assert b">very<" in content
        assert b">1 very<" not in content
