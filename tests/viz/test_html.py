"""Templates escape whatever they are given, and every file that they need is in the package."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

import didact
from didact.viz.html import attributes, environment, replace_control_characters, script_json, soft
from didact.viz.tables import Cell, Table

EVIL = "<script>alert('x')</script>\"&\x00\u202e"
ROOT = Path(didact.__file__).parent
TEMPLATES = sorted(ROOT.rglob("templates/*.j2"))


@pytest.mark.parametrize("package", ["didact.viz", "didact.reports"])
def test_words_are_escaped_and_control_characters_replaced(package):
    template = environment(package).from_string('<p title="{{ text }}">{{ text }}</p>{{ ours }}')
    drawn = template.render(text=EVIL, ours=Markup("<b>ours</b>"))
    assert "<script" not in drawn
    assert drawn.count("&lt;script&gt;") == 2
    assert not set(drawn) & {"\x00", "\u202e"}
    assert drawn.endswith("<b>ours</b>")


def test_a_name_that_is_not_given_is_an_error():
    with pytest.raises(UndefinedError):
        environment("didact.viz").from_string("{{ nobody }}").render()


def test_attributes_and_breaks_are_escaped():
    assert attributes(**{"class": "", "title": EVIL}).startswith(' title="&lt;script&gt;alert(&#39;x')
    assert soft("a_b<b>(c").startswith("a_<wbr>b&lt;b&gt;(<wbr>c")
    assert replace_control_characters("a\tb\u200dc\x1b") == "a\tb\u200dc\N{REPLACEMENT CHARACTER}"


def test_json_cannot_end_its_element():
    text = script_json({"text": "</script><!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_a_table_escapes_every_part_of_it():
    cell = Cell(EVIL, EVIL, EVIL, EVIL, is_best=True)
    table = Table(EVIL, EVIL, [EVIL, cell], [[EVIL, cell]], groups=[(EVIL, 1)])
    drawn = table.notebook([EVIL])
    assert "<script" not in drawn
    assert drawn.count("&lt;script&gt;") >= 8


def test_templates_trust_nothing():
    """Only Python marks HTML of ours, each time with a reason; no template does."""
    assert len(TEMPLATES) > 10
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("{#"), f"{path.name} says at its head what it draws"
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), path.name
    for path in [*(ROOT / "viz").rglob("*.py"), *(ROOT / "reports").rglob("*.py")]:
        lines = path.read_text(encoding="utf-8")
        if re.search(r"\bMarkup\(", lines):
            assert re.search(r"Markup: ", lines), f"{path.name} says why it may"


def test_one_document_has_one_frame():
    """The head of a page is written in one place."""
    frames = [
        path for path in ROOT.rglob("*") if path.suffix in (".j2", ".py") and "<!doctype" in path.read_text().lower()
    ]
    assert [path.name for path in frames] == ["base.html.j2"]
