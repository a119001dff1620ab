"""The section about people: every number is the analysis's, damage is told, and nothing that came with data can run."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.errors import OptionError, RecordError
from didact.reports.build import report_sections, study_page
from didact.reports.sections import people
from didact.results.comparison import Comparison
from didact.results.study_analysis import StudyAnalysis
from didact.study.analyze import analyze
from didact.study.design import Design, Item
from didact.study.synthetic_annotators import simulate_answers
from reports.folders import HOSTILE, write_run
from reports.reading import Page

pytest.importorskip("trueskill")
METHODS = ("smat", "attention_all", "lime(samples=100)")
KINDS = ("ranking", "simulation", "rating")


def write_study(folder: Path, kind: str, *, methods=METHODS, people=6, items=12, title="Films", **options) -> Path:
    """The folder of a study that was analysed."""
    listed = tuple(
        Item(
            f"r{one}", ("no", "yes")[one % 2], "yes",
            "" if kind != "simulation" else "learning" if one < items // 2 else "test",
        )
        for one in range(items)
    )  # fmt: skip
    design = Design(kind, title, f"{title}?", "classification", ("no", "yes"), tuple(methods), listed, people)
    answers = [replace(one, is_synthetic=False) for one in simulate_answers(design, people=people, **options)]
    folder.mkdir(parents=True)
    found = analyze(design, answers, replicates=100, difference=0.3).to_document()
    (folder / "analysis.json").write_text(json.dumps(found))
    return folder


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """One study of each kind."""
    base = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("didact.study.trueskill_ranking._SHUFFLES", 0)
        return {kind: write_study(base / kind, kind) for kind in KINDS}


def minus(text: str) -> str:
    return text.replace("-", "−")


def table(found: Page, start: str) -> list[list[str]]:
    return next(rows for caption, rows in found.tables.items() if caption.lower().startswith(start))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_analysis(kind, studies, tmp_path):
    document = json.loads((studies[kind] / "analysis.json").read_text())
    found = Page(study_page(studies[kind], tmp_path / "page.html").read_text())
    assert document["headline"] in found.text
    first = table(found, {"ranking": "log-worth", "simulation": "foreseen", "rating": "mean rating"}[kind])
    scale, digits = (100, 0) if kind == "simulation" else (1, 2)
    for row in document["methods"]:
        cells = next(line for line in first if line[0].startswith(row["method"]))
        assert cells[1:3] == [str(row["rank"]), str(row["rank_here"])]
        assert f"{scale * row['estimate']:.{digits}f}" in cells[3].replace("−", "-")
        assert f"{scale * row['low']:.{digits}f}" in cells[3].replace("−", "-")
    pairs = table(found, "differences between methods")
    assert len(pairs) == 1 + len(document["pairs"])
    for line, row in zip(pairs[1:], document["pairs"], strict=True):
        assert line[:2] == [row["better"], row["worse"]]
        ends = [f"{scale * row[name]:+.{digits}f}" for name in ("low", "high", "sure_low", "sure_high")]
        assert [*line[3].split(" to "), *line[4].split(" to ")] == [minus(one) for one in ends]
        assert line[5] == ("yes" if row["is_sure"] else "among these people" if row["is_sure_here"] else "no")
    assert len(table(found, "everybody")) == 1 + 6
    assert len(table(found, "to tell a difference")) == 1 + len(document["power"]["rows"])
    assert not any(word in found.text.split() for word in ("nan", "None", "inf"))


def test_who_beats_whom_is_told_both_ways(studies, tmp_path):
    document = json.loads((studies["rating"] / "analysis.json").read_text())
    said = study_page(studies["rating"], tmp_path / "page.html").read_text()
    for row in document["pairs"]:
        word = "surely {}" if row["is_sure"] else "cannot be distinguished"
        for first, second, sign, how in (("better", "worse", 1, "better"), ("worse", "better", -1, "worse")):
            written = minus(f"{sign * row['difference']:+.2f}")
            assert f"{row[first]} against {row[second]}: {written}, {word.format(how)}" in said


@pytest.mark.parametrize("kind", ["ranking", *(pytest.param(one, marks=pytest.mark.slow) for one in KINDS[1:])])
def test_charts_and_tables_are_exported(kind, studies, tmp_path):
    study_page(studies[kind], tmp_path / "page.html", figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {
        "people-methods.png",
        "people-methods.svg",
        "people-methods.csv",
        "people-beats.png",
        "people-pairs.tex",
    } <= names
    assert ("people-trueskill.csv" in names) is (kind == "ranking")
    ElementTree.parse(tmp_path / "figures" / "people-beats.svg")
    lines = (tmp_path / "figures" / "people-pairs.csv").read_text().splitlines()
    assert lines[0].startswith("better,worse,difference,low,high,sure_low")
    assert len(lines) == 1 + len(json.loads((studies[kind] / "analysis.json").read_text())["pairs"])


def test_in_the_report_of_a_run(studies, tmp_path):
    """By the command line and by Python; sections stand before what was run."""
    folder = write_run(tmp_path / "run", measured=False)
    asked = ["report", str(folder), "--study", str(studies["rating"]), "--study", str(studies["simulation"])]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    found = Page((folder / "report.html").read_text())
    ids = [attributes.get("id") for name, attributes in found.elements if name == "section"]
    assert ids[-3:] == ["people", "people-2", "provenance"]
    assert "Mean ratings" in found.text
    assert not {"people", "people-2"} & {part.id for part in report_sections(Comparison.load(folder))}
    done = CliRunner().invoke(app, ["report", str(folder), "--study", str(tmp_path)])
    assert isinstance(done.exception, OptionError)
    with pytest.raises(OptionError, match="was not analysed yet"):
        didact.report(folder, studies=[tmp_path])


def test_not_analysed(tmp_path):
    with pytest.raises(OptionError, match="was not analysed yet. Run `didact study analyze"):
        StudyAnalysis.load(tmp_path)
    with pytest.raises(OptionError, match="There is no folder"):
        StudyAnalysis.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.clear(),
        lambda document: document.update(version="new"),
        lambda document: document.update(kind="poll"),
        lambda document: document.pop("methods"),
        lambda document: document["methods"][0].pop("estimate"),
        lambda document: document["methods"][0].update(estimate="high"),
        lambda document: document["methods"][0].update(rank=None),
        lambda document: document["pairs"].append(3),
        lambda document: document.update(people=[{}]),
        lambda document: document.update(counts=None),
        lambda document: document.update(agreement=4),
        lambda document: document["trueskill"]["rows"][0].update(mu=None),
        lambda document: document["power"].update(rows=[{"what": "smallest"}]),
        lambda document: document["power"].update(rows=7),
        lambda document: document["power"].update(power="strong"),
    ],
)
def test_damage_is_told(change, studies, tmp_path):
    """Whatever is wrong in the file is told with what to do, and never a traceback."""
    document = json.loads((studies["ranking"] / "analysis.json").read_text())
    change(document)
    (tmp_path / "analysis.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"is damaged .*Run `didact study analyze"):
        study_page(tmp_path)


def test_an_analysis_of_a_newer_didact_says_so(studies, tmp_path):
    document = json.loads((studies["ranking"] / "analysis.json").read_text())
    (tmp_path / "analysis.json").write_text(json.dumps(document | {"version": 2}))
    with pytest.raises(
        RecordError, match=r"analysis\.json has schema version 2, and this didact reads up to 1\. Update"
    ):
        study_page(tmp_path)


def test_what_is_odd_in_the_margin_is_a_dash(studies, tmp_path):
    document = json.loads((studies["ranking"] / "analysis.json").read_text())
    document["agreement"].update(by_cohort={"a": []}, alpha="high")
    document["methods"][0].update(mean_rank=None, first_places="most", by_person=[3])
    (tmp_path / "analysis.json").write_text(json.dumps(document))
    assert "–" in Page(study_page(tmp_path).read_text()).text


@pytest.mark.parametrize("content", ["", "[1, 2]", "{", '"x"', "null", "[" * 100_000])
def test_no_document_at_all(content, tmp_path):
    (tmp_path / "analysis.json").write_text(content)
    with pytest.raises(RecordError, match="didact study analyze"):
        StudyAnalysis.load(tmp_path)


def test_hostile_names_are_words(tmp_path, monkeypatch):
    monkeypatch.setattr("didact.study.trueskill_ranking._SHUFFLES", 0)
    folder = write_study(tmp_path / "study", "ranking", methods=HOSTILE, people=3, items=6, title=HOSTILE[0])
    html = study_page(folder, figures=tmp_path / "figures").read_text()
    found = Page(html)
    assert not found.scripts
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    assert {name for name, _ in found.elements}.isdisjoint({"script", "img", "iframe"})
    assert "<script>alert" not in html
    for csv in (tmp_path / "figures").glob("*.csv"):
        assert "\x1b" not in csv.read_text()


def test_few_answers_make_a_page(tmp_path):
    for place, (kind, people_, items) in enumerate([("ranking", 1, 1), ("rating", 1, 2), ("simulation", 4, 2)]):
        folder = write_study(tmp_path / str(place), kind, people=people_, items=items)
        found = Page(study_page(folder).read_text())
        assert not any(word in found.text.split() for word in ("nan", "None", "inf"))
        assert "no interval" in found.text


def test_pages_do_not_need_a_study(studies):
    section = people.section(StudyAnalysis.load(studies["rating"]), number=2)
    assert section.id == "people-2"
    assert section.title == "People, study 2"
    assert all(table.name.startswith("people-2-") for table in section.tables)
