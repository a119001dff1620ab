"""The browser of examples, without a browser: what goes into the page, and what does not."""

import base64
import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from didact.reports.build import page
from didact.reports.example_json import DIGITS
from didact.reports.section import Browser
from didact.reports.sections import examples
from didact.results.comparison import Comparison
from didact.results.task_kinds import TASK_KINDS
from didact.viz.colours import LEVELS
from didact.viz.html import asset, replace_control_characters
from reports.folders import HOSTILE, change, write_run
from reports.reading import section_html


def section_of(folder, **options):
    return examples.section(Comparison.load(write_run(folder, **options)))


def browser_of(section):
    return next(block for block in section.blocks if isinstance(block, Browser))


def content(section):
    """What the script reads."""
    return json.loads(re.search(r'id="examples-data">(.*?)</script>', section_html(section), re.DOTALL).group(1))


def articles(section):
    """The rows that are there without a script, as HTML."""
    return browser_of(section).static_rows


def texts_of(row):
    return ["".join(text["pieces"]) for text in row["texts"]]


class Tags(HTMLParser):
    """Every element of a page and its attributes, inside of noscript too."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


# -- what is encoded --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASK_KINDS)
def test_levels_and_scores_are_those_of_the_heat_maps(task, tmp_path):
    """For every unit of every method the level is the renderer's, computed from the whole score."""
    run = Comparison.load(write_run(tmp_path, task=task))
    found = content(examples.section(run))
    by_name = {method.label: run.measured.explanations(method) for method in run.measured.methods}
    for place, row in enumerate(found["rows"]):
        for method, (layout, levels, scores, _, _) in zip(found["methods"], row["maps"], strict=True):
            explained = by_name[method["name"]][place]
            heat_map = explained.heat_map()
            expected = [heat_map.shade(unit.score).level for unit in heat_map.units]
            assert [DIGITS.index(sign) for sign in levels] == expected
            if method["kind"] != "binary":
                np.testing.assert_allclose([float(one) for one in scores.split(" ")], explained.scores, rtol=6e-3)
            if task == "image":
                assert row["layouts"][layout]["boxes"] == explained.offsets.tolist()
            else:
                # The pieces that a unit covers are its characters.
                for unit in range(len(explained)):
                    segment = int(explained.segments[unit])
                    text = row["texts"][segment]
                    pieces = zip(text["pieces"], text["units"][layout], strict=True)
                    start, end = explained.offsets[unit]
                    assert "".join(p for p, cover in pieces if cover == unit) == explained.texts[segment][start:end]


@pytest.mark.parametrize("task", [task for task in TASK_KINDS if TASK_KINDS[task].segments])
def test_texts_are_whole_and_named(task, tmp_path):
    run = Comparison.load(write_run(tmp_path, task=task, rows=3))
    whole = run.measured.explanations(run.measured.methods[0]).texts
    for row, texts in zip(content(examples.section(run))["rows"], whole, strict=True):
        assert texts_of(row) == list(texts)
        assert [text["name"] for text in row["texts"]] == list(TASK_KINDS[task].segments)
        assert len(row["layouts"]) == 1  # shared by all methods


def test_rationale_is_marked_to_the_character(tmp_path):
    rationale = [[0, 2, 6], [0, 5, 9], [0, 12, 400]]  # overlapping, and beyond the end
    section = section_of(tmp_path, texts=[("good film, bad plot",)], told=[{"rationale": rationale}])
    text = content(section)["rows"][0]["texts"][0]
    marked = "".join(p if m == "1" else "." * len(p) for p, m in zip(text["pieces"], text["marked"], strict=True))
    assert marked == "..od film...ad plot"


def test_methods_with_other_units_share_the_text(tmp_path):
    texts = [("good film",), ("bad plot",)]
    write_run(tmp_path / "a", texts=texts, methods=("lime", "shap"), controls=())
    write_run(
        tmp_path / "b", texts=texts, methods=("lime", "shap"), controls=(), cut=lambda text: [(0, 2), (2, len(text))]
    )
    shutil.copy(tmp_path / "b/measured/1-shap.parquet", tmp_path / "a/measured/1-shap.parquet")
    row = content(examples.section(Comparison.load(tmp_path / "a")))["rows"][0]
    assert len(row["layouts"]) == 2
    text = row["texts"][0]
    assert text["pieces"] == ["go", "od", " ", "film"]
    assert text["units"] == [[0, 0, -1, 1], [0, 1, 1, 1]]


def test_units_that_cover_the_same_characters(tmp_path):
    """The pieces of one emoji: its colour is the strongest one's, and all scores can be read."""
    section = section_of(
        tmp_path, texts=[("👍 ok",)], methods=("lime",), controls=(), cut=lambda _: [(0, 1), (0, 1), (2, 4)]
    )
    found = content(section)
    row = found["rows"][0]
    assert row["texts"][0]["units"] == [[[0, 1], -1, 2]]
    scores = row["maps"][0][2].split(" ")
    assert f'title="{scores[0]}, {scores[1]}">👍</span>' in articles(section)[0]


def test_control_signs_joiners_and_long_texts(tmp_path):
    texts = [(one,) for one in (*HOSTILE, "", " \t\n", "é" * 10_000, "word 🙂 " * 1500)]
    rows = content(section_of(tmp_path, texts=texts))["rows"]
    assert [texts_of(row)[0] for row in rows] == [replace_control_characters(text) for (text,) in texts]
    shown = "".join("".join(texts_of(row)) for row in rows)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202e]", shown)
    assert "👩‍👩‍👧‍👦" in shown  # joiners stay


def test_facts_of_a_row(tmp_path):
    told = [
        {"gold": "negative", "prediction": "positive", "is_right": False, "sureness": 0.99999, "agreement": -0.126},
        {"gold": None, "prediction": "positive", "is_right": None, "sureness": None, "agreement": None},
    ]
    first, second = content(section_of(tmp_path, rows=2, told=told))["rows"]
    assert first["facts"] == [
        ["prediction", "positive", ""], ["confidence", "> 99.9 %", ""], ["label", "negative", ""],
        ["", "✗ wrong", "wrong"], ["agreement of methods", "τ = −0.13", ""],
    ]  # fmt: skip
    assert second["facts"] == [["prediction", "positive", ""]]


def test_a_target_is_told_where_it_is_not_the_prediction(tmp_path):
    section = section_of(tmp_path, rows=2, told=[{"prediction": "negative"}, {"prediction": "positive"}])
    first, second = content(section)["rows"]
    assert ["target", "positive", ""] in first["facts"]
    assert "target" not in [name for name, _, _ in second["facts"]]


def test_strongest_units_are_told_in_words(tmp_path):
    found = content(section_of(tmp_path, rows=2))
    for row in found["rows"]:
        for method, heat in zip(found["methods"], row["maps"], strict=True):
            assert heat[3].startswith("Strongest: " if "a" in heat[1] else "Nothing is marked.")
            assert method["kind"] == "binary" or re.search(r" [+-]?\d", heat[3])


# -- which rows -------------------------------------------------------------------------------------------------------


def test_groups_of_rows(tmp_path):
    told = [{"is_right": n != 4, "agreement": n / 10, "sureness": 1 - n / 10} for n in range(6)]
    rows = content(section_of(tmp_path, rows=6, told=told))["rows"]
    found = {
        name: {n for n, row in enumerate(rows) if name in row["groups"]}
        for name in ("wrong", "apart", "alike", "unsure")
    }
    assert found == {"wrong": {4}, "apart": {0, 1}, "alike": {4, 5}, "unsure": {4, 5}}


def test_no_unit_leads_in_all_methods(tmp_path):
    """Two methods that mark other halves of a text share nothing; a method shares all with itself."""
    texts = [("one two three four",)] * 2
    folder = write_run(tmp_path, texts=texts, methods=("lime", "shap"), controls=("random",))
    run = Comparison.load(folder)
    maps = run.measured.explanations(run.measured.methods[1])
    for label, places in (("1-lime", (0, 3)), ("2-shap", (3, 3))):
        scores = np.zeros(8)
        scores[[places[0], 4 + places[1]]] = 1
        replace(maps, scores=scores).save(folder / f"measured/{label}.parquet")
    rows = content(examples.section(Comparison.load(folder)))["rows"]
    assert ["unshared" in row["groups"] for row in rows] == [True, False]


def test_filters_that_mean_nothing_are_left_out(tmp_path):
    section = section_of(tmp_path, task="regression", rows=2, methods=("lime",), told=[{"agreement": None}] * 2)
    values = [attrs["value"] for tag, attrs in Tags(section_html(section)).found if tag == "option"]
    assert values == ["all", "data"]


def test_rows_that_do_not_fit_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "BUDGET", 480_000)
    told = [{"is_right": n not in (50, 70), "agreement": 0.0 if n == 60 else 0.5} for n in range(80)]
    texts = [("good film " * 40,)] * 80
    section = section_of(tmp_path, texts=texts, told=told)
    rows = content(section)["rows"]
    names = [int(row["id"].removeprefix("test-")) for row in rows]
    assert 4 < len(rows) < 80
    assert len(section_html(section).encode()) <= 480_000
    assert {50, 60, 70} <= set(names)  # worth a look
    assert {0, 1} <= set(names)  # and some as they come
    assert names == sorted(names)
    assert f"{len(rows)} of 80 explained rows are shown" in section_html(section)


@pytest.mark.slow
def test_the_real_budget_holds(tmp_path):
    section = section_of(tmp_path, texts=[("film <b> " * 1000,)] * 30, methods=("lime", "shap"), controls=())
    files = [asset("didact.reports", name) for name in (section.style, section.script)]
    assert 2_000_000 < len("".join([section_html(section), *files]).encode()) <= examples.BUDGET
    assert "of 30 explained rows are shown" in section_html(section)


def test_a_row_that_is_too_long_is_cut_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "BUDGET", 600_000)
    texts = [("film " * 8_000, "x " * 4_000), ("short", "too")]
    section = section_of(tmp_path, task="pair", texts=texts, methods=("lime",), controls=("random",))
    found = content(section)
    first, second = found["rows"]
    assert re.fullmatch(r"This row is long: [\d,]+ of its 48,000 characters are shown\.", first["note"])
    assert second["note"] == ""
    for shown, whole in zip(texts_of(first), texts[0], strict=True):
        assert shown.endswith(" …")
        assert whole.startswith(shown.removesuffix(" …"))
    assert len(section_html(section).encode()) <= 600_000
    for _, levels, scores, _, _ in first["maps"]:
        assert len(levels) == len(scores.split(" "))


# -- what is missing --------------------------------------------------------------------------------------------------


def test_nothing_was_measured(tmp_path):
    assert section_of(tmp_path, measured=False) is None


@pytest.mark.parametrize("what", ["methods", "rows"])
def test_no_methods_or_no_rows(what, tmp_path):
    folder = write_run(tmp_path)
    change(folder / "measured.json", **{what: []})
    assert "--eval-rows 200" in section_html(examples.section(Comparison.load(folder)))


def test_files_that_are_missing_or_damaged_are_named(tmp_path):
    section = section_of(
        tmp_path, missing=["random"], damaged=["gradient_norm"], skipped={"human": "there is no rationale."}
    )
    names = [method["name"] for method in content(section)["methods"]]
    assert names == ["attention_all", "lime(samples=100)", "trivial"]
    said = " ".join(re.findall(r"<li>(.*?)</li>", section_html(section)))
    assert "random is not shown: the file" in said
    assert "gradient_norm is not shown: " in said
    assert "human did not explain these rows: there is no rationale." in said
    assert str(tmp_path) not in section_html(section)  # where the folder lies is not told


def test_no_file_can_be_read(tmp_path):
    section = section_of(tmp_path, methods=("lime",), controls=("random",), missing=["lime"], damaged=["random"])
    assert "No explanation of a row could be read." in section_html(section)
    assert "lime is not shown" in section_html(section)
    assert section.script == ""


def test_a_row_that_a_method_does_not_have(tmp_path):
    folder = write_run(tmp_path, rows=3)
    run = Comparison.load(folder)
    method = run.measured.methods[-1]
    run.measured.explanations(method)[:2].save(folder / method.file)
    section = examples.section(Comparison.load(folder))
    found = content(section)
    place = [one["name"] for one in found["methods"]].index(method.label)
    assert [row["maps"][place] is None for row in found["rows"]] == [False, False, True]
    assert "no explanation of this row" in articles(section)[2]


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_pictures_are_in_the_page_once(tmp_path):
    section = section_of(tmp_path, task="image", rows=4)
    rows = content(section)["rows"]
    for number, row in enumerate(rows):
        kept = base64.b64decode(row["picture"].removeprefix("data:image/png;base64,"))
        assert kept == (tmp_path / f"measured/pictures/{number}.png").read_bytes()
        assert row["size"] == [48, 32]
        assert len(row["frames"]) == 2


def test_a_large_picture_is_made_small_and_keeps_its_places(tmp_path):
    folder = write_run(tmp_path, task="image", rows=1, picture=(600, 900))
    noise = np.random.default_rng(0).integers(0, 255, (600, 900, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "measured/pictures/0.png")
    section = examples.section(Comparison.load(folder))
    found = content(section)
    row = found["rows"][0]
    small = Image.open(io.BytesIO(base64.b64decode(row["picture"].removeprefix("data:image/jpeg;base64,"))))
    assert max(small.size) == 320
    assert row["size"] == [600, 900]
    assert 'viewBox="0 0 900 600"' in articles(section)[0]


@pytest.mark.parametrize("name", [None, "measured/pictures/none.png", "../secret.png", "comparison.json", "a\x00b"])
def test_a_picture_that_is_not_there(name, tmp_path):
    folder = write_run(tmp_path / "run", task="image", rows=1, told=[{"picture": name}])
    shutil.copy(folder / "measured/pictures/0.png", tmp_path / "secret.png")
    section = examples.section(Comparison.load(folder))
    found = content(section)
    row = found["rows"][0]
    assert row["picture"] == ""
    assert row["size"] == [48, 32]
    assert row["note"].startswith("Its picture was not stored")
    html = articles(section)[0]
    assert "<img" not in html
    assert html.count('role="img"') == 1 + len(found["methods"])


# -- nothing of the data is HTML --------------------------------------------------------------------------------------


def hostile(folder, **changes):
    nasty = "<img src=x onerror=alert(9)>\"'</script><script>alert(8)</script>\x00\u2028"
    options = {
        "texts": [(one,) for one in HOSTILE],
        "ids": [f"{number}{nasty}" for number in range(len(HOSTILE))],
        "methods": (f"lime{nasty}", "</noscript><b>"),
        "classes": (f"no{nasty}", f"yes{nasty}"),
        "skipped": {"human": f"because {nasty}"},
        "teacher": f"model {nasty}",
    } | changes
    return write_run(folder, **options)


def test_hostile_content_stays_text(tmp_path):
    section = examples.section(Comparison.load(hostile(tmp_path)))
    inside = re.search(r'id="examples-data">(.*?)</script>', section_html(section), re.DOTALL).group(1)
    assert not set("<>&\u2028\u2029\x00") & set(inside)
    found = Tags(section_html(section)).found
    assert [tag for tag, _ in found if tag in ("script", "img", "style", "svg", "iframe")] == ["script"]
    allowed = {
        "section", "h2", "h3", "p", "span", "i", "b", "div", "label", "input", "select", "option", "button", "details",
        "summary", "fieldset", "legend", "noscript", "script", "article", "ul", "li",
    }  # fmt: skip
    assert {tag for tag, _ in found} <= allowed
    assert not [
        name for _, attrs in found for name in attrs if name.startswith("on") or name in ("href", "src", "style")
    ]
    assert section_html(section).count("</noscript>") == 1


def test_surrogates_in_json_do_not_stop_the_page(tmp_path):
    """JSON may hold half of a character; a file cannot."""
    folder = write_run(tmp_path, rows=2, told=[{"gold": "half \ud83d", "prediction": "\udc4d"}])
    run = Comparison.load(folder)
    page(run, [examples.section(run)]).encode("utf-8")


def test_the_script_is_plain(tmp_path):
    """No way from text to HTML or code; nothing that asks the network."""
    script = asset("didact.reports", section_of(tmp_path).script)
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch(",
                 "XMLHttpRequest", "import(", "localStorage", "</script"):  # fmt: skip
        assert word not in script


# -- without a script -------------------------------------------------------------------------------------------------


def test_the_first_rows_are_there_without_a_script(tmp_path):
    section = section_of(tmp_path, rows=5)
    inside = re.search(r"<noscript>(.*?)</noscript>", section_html(section), re.DOTALL).group(1)
    assert inside.count("<article") == 3
    assert "3 of 5 rows are shown; the others are drawn by a script" in inside
    few = browser_of(section_of(tmp_path / "few", rows=2))
    assert (few.static_note, len(few.static_rows)) == ("", 2)  # none is left out


def test_every_step_of_the_scale_can_be_written():
    assert len(DIGITS) == LEVELS + 1
