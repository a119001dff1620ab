"""Scores as colours and brackets: what is read, what is escaped, what never leaves the page."""

import io
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from didact.viz import page as pages
from didact.viz.colours import LEVELS, Shade, colours, contrast, shade
from didact.viz.heat_map import HeatMap, RowView, Unit, heat_picture, heat_text, number, show
from didact.viz.page import fragment, page
from didact.viz.text_spans import completeness_note, split_at_spans

EVIL = "<script>alert(\"1\")</script> & 'x'"


def heat(text="a great film", kind="signed", scores=(0.0, 0.82, -0.3), spans=((0, 1), (2, 7), (8, 12)), **details):
    units = [Unit(text[a:b], score, 0, (a, b)) for score, (a, b) in zip(scores, spans, strict=True)]
    return HeatMap(kind=kind, units=units, texts=[("text", text)], **details)


def printed(*sections, **options):
    stream = io.StringIO()
    console = Console(file=stream, width=80, highlight=False, **options)
    show(sections, console=console)
    return stream.getvalue()


class Reader(HTMLParser):
    """What a browser sees: elements with their attributes, and text outside style."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


class TestScale:
    def test_the_sign_chooses_the_hue_and_the_size_the_level(self):
        assert shade(2.0, 2.0, "signed") == Shade("for", LEVELS)
        assert shade(-1.0, 2.0, "signed") == Shade("against", LEVELS // 2)
        assert shade(0.01, 2.0, "signed").level == 0
        assert shade(0.0, 0.0, "signed").level == 0
        assert {shade(1.0, 2.0, kind).hue for kind in ("magnitude", "distribution", "binary")} == {"strength"}

    @pytest.mark.parametrize("hue", ["for", "against", "strength"])
    @pytest.mark.parametrize("ground", [(255, 255, 255), pages._DARK, (118, 118, 118)])
    def test_ink_is_readable_on_every_background(self, hue, ground):
        for full in (None, pages._DARK_FULL):
            backs = [colours(Shade(hue, level), page=ground, full=full) for level in range(LEVELS + 1)]
            assert min(contrast(back, ink) for back, ink in backs) >= 4.5
            away = [sum(abs(a - b) for a, b in zip(back, ground, strict=True)) for back, _ in backs]
            assert away == sorted(set(away))  # stronger is always further from the page

    def test_contrast_of_black_on_white(self):
        assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
        assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)

    def test_numbers(self):
        assert number(0.82, "signed") == "+0.82"
        assert number(-0.12345, "signed") == "-0.123"
        assert number(0.5, "magnitude") == "0.5"
        assert number(1.0, "binary") == ""


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [("abcdef", ())]),
        ([(0, 2), (2, 4)], [("ab", (0,)), ("cd", (1,)), ("ef", ())]),
        ([(4, 6), (1, 2)], [("a", ()), ("b", (1,)), ("cd", ()), ("ef", (0,))]),
        ([(1, 3), (1, 3)], [("a", ()), ("bc", (0, 1)), ("def", ())]),
        ([(0, 4), (2, 6)], [("ab", (0,)), ("cd", (0, 1)), ("ef", (1,))]),
        ([(2, 2), (-5, 99)], [("abcdef", (1,))]),
    ],
)
def test_parts(spans, expected):
    assert split_at_spans("abcdef", spans) == expected


class TestTerminal:
    def test_brackets_without_colour(self):
        assert heat_text(heat(), 0, colour=False).plain == "a [great +0.82] [film -0.3]"
        assert heat_text(heat(kind="magnitude", scores=(0, 0.82, 0.1)), 0, colour=False).plain == "a [great 0.82] film"
        # Two marked pieces of one word are one mark.
        marks = heat(kind="binary", scores=(0, 1, 1), spans=((0, 1), (2, 5), (5, 7)))
        assert heat_text(marks, 0, colour=False).plain == "a [great] film"

    def test_only_the_strongest_are_bracketed(self):
        text = " ".join("abcdefghij" * 4)
        many = heat(text, scores=range(1, 41), spans=[(2 * n, 2 * n + 1) for n in range(40)])
        assert heat_text(many, 0, colour=False).plain.count("[") == 8

    def test_colour_adds_no_characters(self):
        whole = heat(scores=(0.5, 0.82, -0.8), spans=((0, 1), (2, 5), (5, 7)))
        shown = heat_text(whole, 0)
        assert shown.plain == "a great film"
        styled = {shown.plain[span.start : span.end]: span.style for span in shown.spans}
        assert set(styled) == {"a", "gre", "at"}  # neither spaces nor what was not scored
        red, _, blue = styled["gre"].bgcolor.triplet
        assert red > blue
        red, _, blue = styled["at"].bgcolor.triplet
        assert red < blue

    def test_control_characters_never_reach_the_terminal(self):
        text = "a\x1b[31mb\tc\nd\u202e"
        evil = heat(text, scores=(1.0,), spans=((0, len(text)),), target="\x1b]0;x\x07", prediction="\x9b")
        special = Unit("\x1b[2J", 0.5, -1, (0, 0))
        row = RowView("\x1bid", [replace(evil, units=[*evil.units, special], method="\x07m")])
        for options in ({"color_system": None}, {"force_terminal": True, "color_system": "truecolor"}):
            shown = re.sub(r"\x1b\[[0-9;]*m", "", printed(row, **options))  # rich's own colours
            assert not set(shown) & set("\x1b\x07\x9b\t\u202e")
            assert "\N{REPLACEMENT CHARACTER}[31mb c d" in shown
            assert "\N{REPLACEMENT CHARACTER}id" in shown

    def test_square_brackets_are_no_markup(self):
        assert "[bold]x[/bold]" in printed(
            RowView("[red]id", [heat("[bold]x[/bold]", scores=(), spans=())]), color_system=None
        )

    def test_special_tokens_only_where_there_are_any(self):
        whole = heat(target="yes", prediction="no", residual=0.0031)
        shown = printed(RowView("r1", [whole]), color_system=None)
        assert "not in the text" not in shown
        assert "r1  prediction no · target yes\n" in shown
        assert "add" not in shown  # as it should be: not worth a word
        special = replace(whole, units=[Unit("[CLS]", 0.25, -1, (0, 0)), *whole.units])
        assert "not in the text: [CLS] +0.25" in printed(RowView("r1", [special]), color_system=None)

    def test_the_header_of_a_row(self):
        whole = heat(target="yes", prediction="no", probability=0.912, label="yes", is_right=False)
        shown = printed(RowView("r1", [whole]), color_system=None)
        assert "r1  prediction no (91.2 %) · label yes ✗ · target yes\n" in shown
        assert "label yes ✓" in printed(RowView("r1", [replace(whole, is_right=True)]), color_system=None)
        assert "label yes ·" in printed(RowView("r1", [replace(whole, is_right=None)]), color_system=None)

    def test_scores_that_do_not_add_up_are_told(self):
        off = RowView("r1", [heat(residual=0.388)])
        assert "scores do not add up: off by 38.8 %" in printed(off, color_system=None)
        assert '<p class="warning">scores do not add up: off by 38.8 %</p>' in page("t", [off])
        assert "scores do not" not in printed(RowView("r1", [heat(residual=0.05)]), color_system=None)

    def test_completeness_is_never_rounded_up(self):
        assert [
            completeness_note(residual) for residual in (0.0, 1e-9, 0.000123, 0.05, 0.0501, 12.0, float("nan"))
        ] == [
            "adds up to 100 %",
            "adds up to 99.99 %",
            "adds up to 99.98 %",
            "adds up to 95.00 %",
            "scores do not add up: off by 5.01 %",
            "scores do not add up: off by 1,200 %",
            "",
        ]

    def test_texts_of_a_pair_have_names_and_methods_are_said_once(self):
        pair = HeatMap(
            kind="signed",
            units=[Unit("b", 1.0, 1, (0, 1))],
            texts=[("question", "a b"), ("passage", "b a")],
            method="lime",
        )
        lines = printed(RowView("r1", [pair]), color_system=None).splitlines()
        assert [line.split() for line in lines[1:3]] == [
            ["lime", "question", "a", "b"],
            ["passage", "[b", "+1]", "a"],
        ]

    def test_few_colours_are_no_colours(self, monkeypatch):
        row = RowView("r1", [heat()])
        assert "[great +0.82]" in printed(row, force_terminal=True, color_system="standard")
        assert "[great" not in printed(row, force_terminal=True, color_system="256")
        monkeypatch.setenv("NO_COLOR", "1")
        assert "[great +0.82]" in printed(row, force_terminal=True, color_system="truecolor")

    def test_pictures_are_grey_but_for_their_patches(self):
        image = np.zeros((4, 4, 3), dtype=np.uint8)
        image[..., 0] = 90
        units = [Unit("", 1.0, 0, (0, 0, 2, 2)), Unit("", -1.0, 0, (2, 2, 4, 4)), Unit("", 0.0, 0, (0, 2, 2, 4))]
        whole = HeatMap(kind="signed", units=units, image=image, is_image=True)
        assert heat_picture(whole, colour=False).plain == "..··\n··..\n"
        drawn = heat_picture(whole)
        assert drawn.plain == "▀▀▀▀\n▀▀▀▀"
        inks = [span.style.color.triplet for span in drawn.spans if span.style and not isinstance(span.style, str)]
        assert inks[0].red > inks[0].blue
        assert tuple(inks[2]) == (30, 30, 30)
        assert inks[6].red < inks[6].blue


class TestPage:
    def test_everything_that_came_with_the_data_is_escaped(self):
        units = [Unit(EVIL, 1.0, 0, (0, len(EVIL))), Unit(EVIL, 0.5, -1, (0, 0))]
        details = {"method": EVIL, "target": EVIL, "prediction": EVIL}
        text = HeatMap(kind="signed", units=units, texts=[(EVIL, EVIL), (EVIL, EVIL)], **details)
        image = np.zeros((2, 2, 3), dtype=np.uint8)
        patch = [Unit(EVIL, 1.0, 0, (0, 0, 2, 2)), units[1]]
        picture = HeatMap(kind="magnitude", units=patch, image=image, is_image=True, **details)
        for heat_maps in ([text], [text, text], [picture], [replace(picture, image=None)]):
            content = page(EVIL, [RowView(EVIL, heat_maps)], lead=EVIL)
            assert "<script" not in content
            read = Reader(content)
            assert not {tag for tag, _ in read.elements} & {"script", "x"}
            assert not {name for _, attributes in read.elements for name in attributes if "x" in name} - {
                "x",
                "viewbox",
            }
            assert EVIL in "".join(read.texts)
            assert "<script" not in fragment([RowView(EVIL, heat_maps)], more=EVIL)

    def test_a_page_asks_nobody_for_anything(self):
        image = np.zeros((2, 2, 1), dtype=np.uint8)
        rows = [
            RowView("a", [heat()]),
            RowView("b", [HeatMap("binary", [Unit("", 1, 0, (0, 0, 1, 1))], image=image, is_image=True)]),
        ]
        content = page("Title", rows)
        assert not re.search(r"https?:|//|url\(|@import|javascript:|\bon\w+=", content)
        for tag, attributes in Reader(content).elements:
            assert tag not in ("script", "iframe", "object", "form", "a")
            for name in ("src", "href"):
                assert attributes.get(name, "data:").startswith("data:")
        assert "default-src 'none'" in unescape(content)

    def test_the_frame_of_a_page(self):
        content = page("My title", [RowView("r1", [heat()])])
        assert content.startswith("<!doctype html>")
        elements = Reader(content).elements
        assert ("html", {"lang": "en"}) in elements
        assert ("meta", {"charset": "utf-8"}) in elements
        assert "width=device-width" in content
        assert "prefers-color-scheme: dark" in content
        assert "for the target" in content
        assert "important" not in content  # the legend tells only of what is there
        assert Reader(content).open == []

    def test_each_unit_tells_its_score(self):
        read = Reader(page("t", [RowView("r1", [heat(target="yes", prediction="no", residual=0.0031)])]))
        spans = [attributes for tag, attributes in read.elements if tag == "span" and "title" in attributes]
        assert spans == [
            {"title": "a: +0"},
            {"class": "for10", "title": "great: +0.82"},
            {"class": "against4", "title": "film: -0.3"},
        ]
        words = "".join(read.texts)
        assert "a great film" in words  # no gaps, none inserted
        for fact in ("r1", "target yes", "prediction no", "adds up to 99.69 %"):
            assert fact in words
        assert "adds up" not in page("t", [RowView("r1", [heat()])])

    def test_classes_of_units_are_defined_in_light_and_dark(self):
        content = page("t", [])
        for hue in ("for", "against", "strength"):
            for level in range(1, LEVELS + 1):
                found = re.findall(rf"\.{hue}{level} {{ background: (#\w{{6}}); color: #", content)
                assert len(found) == 2
                assert found[0] != found[1]

    def test_units_on_the_same_characters_are_told_together(self):
        same = heat("🙂", scores=(0.1, -0.4), spans=((0, 1), (0, 1)))
        content = page("t", [RowView("r", [same])])
        assert '<span class="against10" title="🙂: +0.1, 🙂: -0.4">🙂</span>' in content

    def test_control_characters_are_replaced_and_layout_is_kept(self):
        text = "a\x00\x1b\nb\u200dc\u202e\ud800"
        content = page("t", [RowView("r", [heat(text, scores=(), spans=())])])
        replaced = "\N{REPLACEMENT CHARACTER}"
        assert f"a{replaced}{replaced}\nb\u200dc{replaced}{replaced}" in content
        content.encode()

    def test_what_methods_share_is_said_once(self):
        one, two = (
            heat(method="lime", target="yes", prediction="yes"),
            heat(method="ig", target="yes", prediction="yes"),
        )
        assert page("t", [RowView("r", [one, two])]).count("target <b>yes") == 1
        other = heat(method="ig", target="no", prediction="yes")
        content = page("t", [RowView("r", [one, other])])
        assert content.count("target <b>yes") == content.count("target <b>no") == 1

    def test_long_pages_are_cut_and_say_so(self):
        rows = [RowView(f"row-{number}", [heat()]) for number in range(620)]
        content = page("t", rows)
        assert content.count("<section>") == 500
        assert "row-499<" in content
        assert "row-500<" not in content
        assert "The first 500 of 620 rows are shown" in content
        assert "explanations[500:620].to_html" in content
        assert "are shown" not in page("t", rows[:500])

    @pytest.mark.parametrize("channels", [1, 2, 3, 4])
    def test_pictures_are_inside_the_page(self, channels):
        image = np.full((4, 6, channels), 200, dtype=np.uint8)
        units = [Unit("", 1.0, 0, (0, 0, 2, 3)), Unit("", 0.5, 0, (2, 3, 4, 6))]
        content = page("t", [RowView("r", [HeatMap("magnitude", units, image=image, is_image=True, target="disc")])])
        elements = Reader(content).elements
        pictures = [attributes for tag, attributes in elements if tag == "img"]
        assert len(pictures) == 2
        assert content.count('class="picture grey"') == 1  # once as it is, once under its patches
        assert all(one["src"].startswith("data:image/png;base64,") and one["alt"] for one in pictures)
        rects = [attributes for tag, attributes in elements if tag == "rect"]
        assert [(one["x"], one["y"], one["width"], one["height"]) for one in rects] == [
            ("0", "0", "3", "2"),
            ("3", "2", "3", "2"),
        ]
        assert float(rects[0]["fill-opacity"]) > float(rects[1]["fill-opacity"]) > 0
        assert ("svg", "0 0 6 4") in [(tag, attributes.get("viewbox")) for tag, attributes in elements]
