"""Coefficients of a mix: which are heads, how sparse they are, and what the terminal and the pictures show."""

import io
import json
import math
import re
import sys
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from didact.errors import MissingExtraError, OptionError, ShapeError
from didact.viz.chart import KINDS
from didact.viz.weights_chart import WeightsView

EVIL = "</script><b>\"A\" & 'B'</b>\x1b[2J"
HEADS = WeightsView(("0.0", "0.1", "0.2", "1.0", "1.1", "1.2"), (0.5, 0.0, 0.25, 0.2496, 0.0, 0.0004), EVIL)
MEMBERS = WeightsView(("lime", "saliency", "attention"), (0.25, 0.0, 0.75), EVIL)


def printed(view, **options):
    stream = io.StringIO()
    view.show(console=Console(file=stream, highlight=False, **{"width": 60, **options}))
    return stream.getvalue()


class Scripts(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)


class TestGrid:
    def test_is_found_in_any_order(self):
        layers, heads, weights = WeightsView(("5.1", "4.0", "4.1", "5.0"), (0.4, 0.1, 0.2, 0.3)).grid
        assert (layers, heads) == ((4, 5), (0, 1))
        np.testing.assert_array_equal(weights, [[0.1, 0.2], [0.3, 0.4]])

    def test_numbers_are_not_sorted_as_words(self):
        heads = WeightsView(tuple(f"0.{head}" for head in range(12)), tuple(float(head) for head in range(12))).grid
        np.testing.assert_array_equal(heads[2], [range(12)])

    @pytest.mark.parametrize(
        "names",
        [("0.0", "0.1", "1.0"), ("0.0", "lime"), ("0", "1"), ("0.0", "0.01"), ("0.0", "0.-1"), ("0.0", "0.²")],
    )
    def test_other_names_are_members(self, names):
        view = WeightsView(names, (0.5,) * len(names))
        assert view.grid is None
        assert "head" not in view.text().plain


class TestNumbers:
    def test_active_are_above_zero(self):
        assert (HEADS.active, MEMBERS.active) == (4, 2)
        assert WeightsView(("a", "b", "c"), (1e-30, 0.0, -0.5)).active == 1

    @pytest.mark.parametrize(
        ("weights", "expected"),
        [
            ((0.25,) * 4, math.log(4)),
            ((1.0, 0.0, 0.0), 0.0),
            ((0.0, 0.0), 0.0),
            ((3.0, -1.0), math.log(4) - 0.75 * math.log(3)),
        ],
    )
    def test_entropy(self, weights, expected):
        view = WeightsView(tuple("abcd"[: len(weights)]), weights)
        assert view.entropy == pytest.approx(expected, abs=1e-12)

    def test_the_summary(self):
        assert MEMBERS.summary == "2 of 3 active, entropy 0.56 of at most 1.10"
        assert "1 of 2 active, 1 below 0," in WeightsView(("a", "b"), (0.5, -0.5)).summary

    @pytest.mark.parametrize(
        ("names", "weights", "error"),
        [
            (("a",), (1.0, 2.0), ShapeError),
            ((), (), OptionError),
            (("a", "a"), (0.5, 0.5), OptionError),
            (("a", "b"), (0.5, float("nan")), OptionError),
        ],
    )
    def test_what_cannot_be_shown(self, names, weights, error):
        with pytest.raises(error):
            WeightsView(names, weights)


class TestText:
    def test_heads_without_colour(self):
        lines = HEADS.text(colour=False).plain.splitlines()
        assert [line.split() for line in lines[1:-1]] == [
            ["head"],
            ["layer", "0", "1", "2"],
            ["0", "50", "·", "25"],
            ["1", "25", "·", "~0"],
        ]
        assert len({len(line) for line in lines[2:-1]}) == 1
        assert lines[-1].startswith("4 of 6 active, entropy 1.04 of at most 1.79")

    def test_members_without_colour_are_ranked(self):
        lines = MEMBERS.text(width=40, colour=False).plain.splitlines()[1:-1]
        assert [line.split()[:2] for line in lines] == [["attention", "75"], ["lime", "25"], ["saliency", "·"]]
        bars = [line.count("█") for line in lines]
        assert bars == [25, 8, 0]
        assert max(map(len, lines)) == 40

    def test_colour_is_added_to_the_same_words(self):
        for view in (HEADS, MEMBERS):
            coloured = printed(view, force_terminal=True, color_system="truecolor")
            assert "38;2;" in coloured
            assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(view)
            assert "\x1b" not in printed(view)

    def test_largest_heads_have_the_full_colour(self):
        coloured = printed(HEADS, force_terminal=True, color_system="truecolor")
        assert re.search(r"48;2;0;158;115m +50 ", coloured)
        assert not re.search(r"48;2;[0-9;]*m +~0 ", coloured)

    def test_sixteen_colours_are_too_few(self):
        assert "38;" not in printed(HEADS, force_terminal=True, color_system="standard")

    def test_wide_grids_are_cut_into_bands(self):
        view = WeightsView(tuple(f"{layer}.{head}" for layer in range(2) for head in range(16)), (1 / 32,) * 32)
        text = view.text(width=40, colour=False).plain
        table = text.splitlines()[:-1]
        assert max(map(len, table)) <= 40
        assert text.count("head") == 3
        assert text.count("3.1") == 32

    def test_long_names_are_cut(self):
        view = WeightsView(("x" * 300, "汉" * 300), (0.5, 0.5))
        lines = view.text(width=40, colour=False).split("\n")[:-1]
        assert all(line.cell_len <= 40 and "…" in line.plain for line in lines)

    def test_nothing_at_all(self):
        assert "0 of 2 active, entropy 0.00 of at most 0.69" in printed(WeightsView(("a", "b"), (0.0, 0.0)))


class TestPicture:
    def test_unknown_kinds(self):
        with pytest.raises(OptionError, match="'pdf'.*png, svg, html, json"):
            HEADS.picture("pdf")

    def test_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(MissingExtraError, match="vl_convert.*pip install altair vl-convert-python"):
            HEADS.picture("png")

    @pytest.mark.parametrize("view", [HEADS, MEMBERS])
    def test_png(self, view):
        assert view.picture("png").startswith(b"\x89PNG\r\n\x1a\n")

    def test_svg_is_well_formed_and_escaped(self):
        root = ElementTree.fromstring(HEADS.picture("svg"))
        words = list(root.itertext())
        assert "</script><b>\"A\" & 'B'</b>�[2J" in words
        assert {"layer", "head", "weight"} <= set(words)
        assert any(text.startswith(HEADS.summary) for text in words)
        assert not root.findall(".//{*}script")

    def test_svg_leaves_only_exact_zeros_blank(self):
        root = ElementTree.fromstring(HEADS.picture("svg"))
        fills = {
            element.get("aria-label"): element.get("fill")
            for element in root.findall(".//{*}path")
            if (element.get("aria-label") or "").startswith("head")
        }
        assert len(fills) == 6
        blank = sorted(label for label, fill in fills.items() if fill == "#ffffff")
        assert [re.findall(r": ([^;]+)", label)[:2] for label in blank] == [["1", "0"], ["1", "1"]]

    def test_svg_of_members_in_order(self):
        words = list(ElementTree.fromstring(MEMBERS.picture("svg")).itertext())
        names = [word for word in words if word in MEMBERS.names]
        assert names == ["attention", "lime", "saliency"]

    def test_html_is_offline_and_escaped(self):
        content = HEADS.picture("html").decode()
        page = Scripts(content)
        assert [attributes.get("src") for tag, attributes in page.tags if tag == "script"] == [None, None]
        assert not [tag for tag, _ in page.tags if tag in ("b", "img", "iframe")]
        assert [attributes["href"] for tag, attributes in page.tags if tag == "link"] == ["data:,"]
        assert "default-src 'none'" in unescape(content)
        assert json.loads(page.scripts[0])["title"]["text"].startswith("</script><b>")
        assert 'getElementById("spec")' in page.scripts[1]

    def test_json_is_vega_lite_and_repeats_itself(self):
        spec = json.loads(HEADS.picture("json"))
        assert "vega-lite" in spec["$schema"]
        assert spec["data"]["values"][0] == {"layer": 0, "head": 0, "weight": 0.5}
        assert HEADS.picture("json") == HEADS.picture("json")

    @pytest.mark.parametrize("weights", [(0.0, 0.0), (0.5, -0.25)])
    @pytest.mark.parametrize("names", [("0.0", "0.1"), ("a", "b")])
    def test_odd_weights_are_drawn(self, names, weights):
        view = WeightsView(names, weights)
        words = list(ElementTree.fromstring(view.picture("svg")).itertext())
        assert any(text.startswith(view.summary) for text in words)
        assert not {"NaN", "undefined", "null"} & set(words)

    def test_there_are_four_kinds(self):
        assert KINDS == ("png", "svg", "html", "json")
