"""The page of a run: every number is the run's, what is missing is told, and nothing that came with data can run."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.errors import OptionError, RecordError
from didact.reports.build import export, page, report, report_sections
from didact.results.comparison import Comparison
from didact.results.explanations import Explanations
from reports import folders
from reports.folders import HOSTILE, change, write_run
from reports.reading import Page

LIMIT = 5_000_000


def page_of(folder) -> Page:
    run = Comparison.load(folder)
    return Page(page(run, report_sections(run)))


def cell(table, row, column):
    head = table[0].index(column)
    return next(line[head] for line in table if line[0].startswith(row))


class TestNumbers:
    def test_the_ranking_is_the_runs(self, tmp_path):
        folder = write_run(tmp_path / "run", gains={"attention_all": 0.1234, "gradient_norm": 0.05}, sizes=(125, 250))
        document = json.loads((folder / "comparison.json").read_text())
        found = page_of(folder)
        table = next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))
        for row in document["rows"]:
            said = cell(table, row["explainer"], f"{row['student']}, {row['size']:,} rows").replace("−", "-")
            if row["explainer"] == "none":
                assert said.startswith(f"{100 * row['mean']:.1f}")
            else:
                assert said.startswith(f"{100 * row['gain']:+.1f}")
                assert f" [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]" in said

    def test_metrics_are_the_runs_and_the_best_is_marked(self, tmp_path):
        folder = write_run(tmp_path / "run")
        rows = json.loads((folder / "measured.json").read_text())["metrics"]["rows"]
        table = page_of(folder).tables["Every metric by every method"]
        for row in rows:
            arrow = "↓" if row["better"] == "lower" else "↑"
            said = cell(table, f"{row['metric']} {arrow}", row["method"])
            assert f"{row['value']:.2f}" in said
        for metric, better in {row["metric"]: row["better"] for row in rows}.items():
            own = [
                row for row in rows if row["metric"] == metric and row["method"] not in ("random", "trivial", "human")
            ]
            best = (min if better == "lower" else max)(own, key=lambda row: row["value"])["method"]
            line = next(line for line in table if line[0].startswith(f"{metric} "))
            starred = [name for name, said in zip(table[0], line, strict=True) if "★" in said]
            assert starred == ([] if "(" in cell(table, f"{metric} ", best) else [best])

    def test_what_is_no_better_than_random_stands_in_brackets(self, tmp_path):
        folder = write_run(tmp_path / "run", controls=("random",), methods=("lime", "lrp"))
        measured = json.loads((folder / "measured.json").read_text())
        tests = [
            # Differences are of the first to the second: lime is clearly more, lrp is not.
            {"metric": "comprehensiveness", "method": "random", "other": "lime", "low": -0.3, "high": -0.1},
            {"metric": "comprehensiveness", "method": "lrp", "other": "random", "low": -0.1, "high": 0.3},
            # Less is better here: lime is clearly worse, lrp clearly better.
            {"metric": "sufficiency", "method": "lime", "other": "random", "low": 0.1, "high": 0.3},
            {"metric": "sufficiency", "method": "lrp", "other": "random", "low": -0.3, "high": -0.1},
        ]
        change(folder / "measured.json", metrics=measured["metrics"] | {"tests": tests})
        table = page_of(folder).tables["Every metric by every method"]
        assert "(" not in cell(table, "comprehensiveness", "lime")
        assert "(" in cell(table, "comprehensiveness", "lrp")
        assert "(" in cell(table, "sufficiency", "lime")
        assert "(" not in cell(table, "sufficiency", "lrp")

    def test_methods_whose_scores_do_not_add_up_are_marked(self, tmp_path):
        folder = write_run(tmp_path / "run")
        methods = json.loads((folder / "measured.json").read_text())["methods"]
        file = next(folder / one["file"] for one in methods if one["label"] == "gradient_norm")
        maps = Explanations.load(file)
        assert "§" not in page(Comparison.load(folder), report_sections(Comparison.load(folder)))
        replace(maps, residuals=np.linspace(0.2, 0.4, len(maps))).save(file)
        found = page_of(folder)
        ranking = next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))
        assert [line[0].split("★")[0] for line in ranking if "§" in line[0]] == ["gradient_norm §"]
        assert "gradient_norm §" in found.tables["Every metric by every method"][0]
        assert "gradient_norm by 30 %" in found.text

    def test_agreement_is_the_runs(self, tmp_path):
        folder = write_run(tmp_path / "run")
        square = json.loads((folder / "measured.json").read_text())["agreement"][0]
        table = next(rows for caption, rows in page_of(folder).tables.items() if caption.startswith("Kendall's τ: the"))
        names = square["methods"]
        for first in range(len(names)):
            for second in range(len(names)):
                if first != second:
                    said = cell(table, names[first], names[second]).replace("−", "-")
                    assert float(said) == pytest.approx(square["matrix"][first][second], abs=0.005)

    def test_gains_beside_cost_are_over_students_that_all_methods_taught(self, tmp_path):
        folder = write_run(tmp_path / "run", students=("same/attention", "bilstm/multitask"), methods=("lime", "smat"))
        document = json.loads((folder / "comparison.json").read_text())
        kept = [row for row in document["rows"] if (row["explainer"], row["student"]) != ("smat", "bilstm/multitask")]
        change(folder / "comparison.json", rows=kept)
        found = page_of(folder)
        table = next(rows for caption, rows in found.tables.items() if caption.startswith("Cost per row"))
        for name in ("lime", "smat"):
            gain = next(r["gain"] for r in kept if (r["explainer"], r["student"]) == (name, "same/attention"))
            assert cell(table, name, "mean gain, points").replace("−", "-") == f"{100 * gain:+.1f}"
        assert "the combinations that all of these methods share: same/attention, 250 rows" in found.text

    def test_a_correlation_is_written_as_one(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", task="regression", gains={"attention_all": 0.2}, spread=0.01))
        assert "correlate with the model on unseen rows at r =" in found.text
        assert re.search(r"\+0\.\d{3} in Pearson's r", found.text)

    def test_learned_weights_are_means_over_seeds(self, tmp_path):
        folder = write_run(tmp_path / "run", learned=True)
        learned = json.loads((folder / "comparison.json").read_text())["learned"]
        table = next(rows for caption, rows in page_of(folder).tables.items() if caption.startswith("smat for"))
        mean = sum(one["weights"][5] for one in learned) / len(learned)  # layer 1, head 1
        assert float(cell(table, "layer 1", "head 1")) == pytest.approx(100 * mean, abs=0.05)

    def test_what_learning_remarked_on_stands_beside_the_weights(self, tmp_path, monkeypatch):
        mixes, note = folders._mixes, "From step 3 (epoch 1) on the mix has one part (0.3) <b>"
        noted = lambda *given: [one | {"notes": [note]} if one["seed"] < 2 else one for one in mixes(*given)]  # noqa: E731
        monkeypatch.setattr(folders, "_mixes", noted)
        assert f"seed 0, 1: {note}" in page_of(write_run(tmp_path / "run", learned=True)).text


class TestWhatIsMissing:
    def test_failed_cells_are_listed(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", failed=2))
        table = found.tables["2 runs failed"]
        assert len(table) == 3
        assert "the loss is not a number" in table[1][2]
        assert "2 failed runs" in found.text
        assert "2 runs failed and are missing from these numbers." in found.text

    def test_nothing_ended_well(self, tmp_path):
        folder = write_run(tmp_path / "run", failed=3)
        change(folder / "comparison.json", rows=[])
        found = page_of(folder)
        assert "Nothing could be compared" in found.text
        assert "No training succeeded." in found.text

    def test_one_method_one_seed(self, tmp_path):
        folder = write_run(tmp_path / "run", methods=("lime",), controls=(), seeds=1, gains={"lime": 0.1}, spread=0.02)
        found = page_of(folder)
        assert "No method clearly teaches: “lime” ranks first, but this may be chance" in found.text
        assert "With one seed, nothing can be claimed about other seeds." in found.text
        assert "no interval" in found.text
        assert "Do the methods agree?" not in found.text
        assert "few seeds (1)" in found.text

    def test_students_that_failed_to_learn_are_marked(self, tmp_path):
        folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2}, seeds=8)
        rows = json.loads((folder / "comparison.json").read_text())["rows"]
        change(folder / "comparison.json", rows=[row | {"low_seeds": 2 * (row["explainer"] == "lime")} for row in rows])
        found = page_of(folder)
        table = next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))
        assert "‡" in cell(table, "lime", "same/attention, 250 rows ‡")
        assert "‡" not in cell(table, "none", "same/attention, 250 rows ‡")
        assert "some students failed to learn (‡)" in found.text
        assert (
            "lime: 2 of 8 students failed to learn what the others did; intervals with it are too narrow." in found.text
        )

    def test_marks_are_what_is_claimed(self, tmp_path):
        """▲ and ▼ from `claimed` alone; a run of before, which has none, gets no mark and is told to run again."""
        folder = write_run(tmp_path / "run", methods=("lime", "lrp"), gains={"lime": 0.2, "lrp": -0.2}, seeds=8)
        column = "same/attention, 250 rows"
        table = next(rows for caption, rows in page_of(folder).tables.items() if caption.startswith("Gain over none"))
        assert "▲" in cell(table, "lime", column)
        assert "▼" in cell(table, "lrp", column)
        rows = json.loads((folder / "comparison.json").read_text())["rows"]
        old = [{name: row[name] for name in row if name not in ("claimed", "level", "low_seeds")} for row in rows]
        change(folder / "comparison.json", rows=old, contrasts=None)
        found = page_of(folder)
        table = next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))
        assert not {"▲", "▼"} & set(cell(table, "lime", column) + cell(table, "lrp", column))
        assert "Run the same comparison again to add them: nothing is trained twice." in found.text

    def test_why_there_are_no_contrasts(self, tmp_path):
        """A run of today that lacks them is not called old."""
        folder = write_run(tmp_path / "run", methods=("lime",), controls=(), gains={"lime": 0.2})
        rows = json.loads((folder / "comparison.json").read_text())["rows"]
        rows = [row | dict.fromkeys(("gain", "low", "high", "p")) for row in rows]
        change(folder / "comparison.json", rows=rows, contrasts=[])
        text = page_of(folder).text
        assert "older didact" not in text
        assert "No two explainers have a finished run of the same seed" in text
        assert "no method has a finished run of the same seed" in text
        change(folder / "comparison.json", rows=[row for row in rows if row["explainer"] == "lime"], contrasts=[])
        text = page_of(folder).text
        assert "older didact" not in text
        assert "No column has runs of two explainers" in text

    def test_one_seed_without_intervals(self, tmp_path):
        folder = write_run(tmp_path / "run", seeds=1)
        rows = json.loads((folder / "comparison.json").read_text())["rows"]
        change(folder / "comparison.json", rows=[row | {"low": None, "high": None} for row in rows])
        found = page_of(folder)
        assert "no interval" in found.text
        assert "teaches best" not in found.text  # nothing is sure
        assert "There are no intervals, so this may be chance." in found.text
        assert "intervals overlap" not in found.text

    def test_not_measured(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", measured=False))
        assert (
            "No other measures were computed. Run the same didact compare command again with --eval-rows 200"
            in found.text
        )
        assert "no other measures" in found.text
        for title in ("Do the methods agree?", "Examples", "What it costs", "Words that count most"):
            assert title not in found.text  # a section without content is left out

    @pytest.mark.parametrize("name", ["metrics", "agreement", "cost"])
    def test_a_part_was_not_measured(self, tmp_path, name):
        found = page_of(write_run(tmp_path / "run", **{name: False}))
        assert "not measured" in found.text or "No other measures were computed" in found.text

    def test_methods_that_could_not_be_measured_are_named(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", skipped={"gradient_norm": "the teacher has no gradient"}))
        assert "gradient_norm was not measured: the teacher has no gradient" in found.text

    def test_one_size_has_no_curve(self, tmp_path):
        found = page_of(write_run(tmp_path / "r"))
        assert "With more rows to learn from" not in found.text
        assert "There is one training size. Use --train-sizes 125,250,500" in found.text

    def test_an_unknown_metric_stands_apart(self, tmp_path):
        folder = write_run(tmp_path / "run")
        measured = json.loads((folder / "measured.json").read_text())["metrics"]
        rows = [row | {"metric": "of_a_plugin"} for row in measured["rows"][:3]]
        change(folder / "measured.json", metrics=measured | {"rows": [*measured["rows"], *rows]})
        assert any(line[0].startswith("of_a_plugin") for line in page_of(folder).tables["Every metric by every method"])

    @pytest.mark.parametrize("file", ["comparison.json", "measured.json"])
    @pytest.mark.parametrize("content", ["", "{", "[]", '{"rows": 3}', '{"rows": [{"explainer": 1}], "about": {}}'])
    def test_damaged_files_are_told(self, tmp_path, file, content):
        folder = write_run(tmp_path / "run")
        (folder / file).write_text(content)
        if (
            (file, content) == ("measured.json", '{"rows": 3}')
            or file == "comparison.json"
            or content in ("", "{", "[]")
        ):
            with pytest.raises(RecordError, match=rf"{file} is damaged"):
                report(folder)

    def test_a_run_without_results(self, tmp_path):
        folder = write_run(tmp_path / "run")
        (folder / "results.parquet").unlink()
        assert "pairs of students" not in page_of(folder).text

    def test_no_run(self, tmp_path):
        with pytest.raises(OptionError, match="There is no folder"):
            report(tmp_path / "nowhere")
        with pytest.raises(OptionError, match=r"not the folder of a finished run.*didact compare"):
            report(tmp_path)
        with pytest.raises(OptionError, match="not int"):
            report(3)


class TestSafety:
    @pytest.mark.slow
    def test_names_of_the_user_never_become_elements(self, tmp_path):
        """Every name that a user or a model gives is hostile, each in another way."""
        script, image, style, control, right, emoji = HOSTILE
        folder = write_run(
            tmp_path / "run", methods=HOSTILE, controls=("random",), students=(script, control), sizes=(125, 250),
            teacher=image, notes=HOSTILE, skipped={style: image}, classes=(script, style), learned=True,
            about={"data": control, "plan": "".join(HOSTILE), "starts": {right: emoji}},
        )  # fmt: skip
        numbers = {"size": 1, "seed": 0}
        failed = [{"key": one, "explainer": one, "student": one, "error": one, **numbers} for one in HOSTILE]
        change(folder / "comparison.json", failed=failed)
        plain = page_of(write_run(tmp_path / "plain", sizes=(125, 250), failed=1, notes=("n",), learned=True))
        found = page_of(folder)
        known = {name for name, _ in plain.elements} | {"details", "summary"}
        assert {name for name, _ in found.elements} <= known
        for _, attributes in found.elements:
            assert not [name for name in attributes if name.startswith("on")]
            assert not attributes.get("href", "#").lower().startswith("javascript")
        assert len([1 for attributes, _ in found.scripts if "type" not in attributes]) <= 1
        assert "\x00" not in found.html

    def test_the_policy_allows_the_pages_own_script_alone(self, tmp_path):
        found = page_of(write_run(tmp_path / "run"))
        policy = next(a["content"] for tag, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
        assert "default-src 'none'" in policy
        allowed = set(re.findall(r"'sha256-([^']+)'", policy))
        run = [said for attributes, said in found.scripts if "type" not in attributes]
        assert {base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in run} == allowed

    def test_nothing_is_fetched(self, tmp_path):
        found = page_of(write_run(tmp_path / "run"))
        sources = [a[name] for _, a in found.elements for name in ("src", "href", "xlink:href") if name in a]
        assert all(one.startswith(("#", "data:")) for one in sources)
        assert "url(http" not in found.html
        assert "@import" not in found.html

    def test_files_outside_of_the_run_are_not_read(self, tmp_path):
        folder = write_run(tmp_path / "run")
        secret = write_run(tmp_path / "other") / "measured"
        measured = json.loads((folder / "measured.json").read_text())
        methods = [one | {"file": f"../other/measured/{next(secret.iterdir()).name}"} for one in measured["methods"]]
        change(folder / "measured.json", methods=methods)
        run = Comparison.load(folder)
        assert all("is not in the run's folder" in run.measured.explanations(one) for one in run.measured.methods)

    @pytest.mark.slow
    def test_a_large_run_stays_small(self, tmp_path):
        text = "word " * 2_000
        folder = write_run(
            tmp_path / "run", methods=[f"method{n}" for n in range(6)], rows=200,
            texts=[(f"{n} {text}",) for n in range(40)],
        )  # fmt: skip
        assert len(page(Comparison.load(folder), report_sections(Comparison.load(folder))).encode()) < LIMIT


class TestFiles:
    def test_where_it_is_written(self, tmp_path):
        folder = write_run(tmp_path / "run")
        assert didact.report(folder) == folder / "report.html"
        assert report(str(folder), tmp_path / "new" / "page.html").read_text() == (folder / "report.html").read_text()

    def test_of_a_comparison(self, tmp_path):
        folder = write_run(tmp_path / "run")
        assert report(didact.Comparison.load(folder)) == folder / "report.html"

    def test_figures_and_tables_for_papers(self, tmp_path):
        folder = write_run(tmp_path / "run", methods=("attention_all", "lime"), controls=("random",), learned=True)
        report(folder, figures=tmp_path / "figures")
        files = {one.name for one in (tmp_path / "figures").iterdir()}
        assert {"ranking.csv", "ranking.tex", "metrics.csv", "cost.png", "cost.svg", "agreement-kendall.png"} <= files
        for one in (tmp_path / "figures").glob("*.png"):
            assert one.read_bytes().startswith(b"\x89PNG")
        for one in (tmp_path / "figures").glob("*.svg"):
            assert ElementTree.fromstring(one.read_text()).tag.endswith("svg")
        frame = pandas.read_csv(tmp_path / "figures" / "ranking.csv")
        rows = json.loads((folder / "comparison.json").read_text())["rows"]
        assert frame["gain"].dropna().tolist() == pytest.approx([r["gain"] for r in rows if r["gain"] is not None])
        assert {"metrics.png", "metrics.svg", "metrics.pdf", "cost.pdf", "agreement-kendall.pdf"} <= files
        for one in (tmp_path / "figures").glob("*.pdf"):
            assert one.read_bytes().startswith(b"%PDF")
        row = next(row for row in rows if row["explainer"] == "lime")
        cell = f"{100 * row['gain']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
        assert frame.set_index("explainer").loc["lime", "written"].replace("−", "-") == cell
        latex = (tmp_path / "figures" / "ranking.tex").read_text()
        assert r"\label{tab:ranking}" in latex
        assert cell in latex.replace("$-$", "-")
        assert r"attention\_all" in latex
        assert latex.count(r"\\") == len({row["explainer"] for row in rows}) + 1

    def test_a_title_of_ones_own(self, tmp_path):
        folder = write_run(
            tmp_path / "run", methods=("lime", "lrp"), controls=(), students=("same/attention", "b"), agreement=False
        )
        path = report(folder, title="Reviews & stars", figures=tmp_path / "figures")
        found = Page(path.read_text())
        assert found.text.startswith("Reviews & stars ")
        assert "which explanation of" not in found.text
        chart = (tmp_path / "figures" / "cost.svg").read_text()
        assert "Reviews &amp; stars" in chart
        chart = (tmp_path / "figures" / "ranking-same-attention-250.svg").read_text()
        assert "Reviews &amp; stars: same/attention, 250 rows" in chart

    def test_the_command(self, tmp_path):
        gains = {"lime": 0.2, "lrp": 0.2}
        folder = write_run(tmp_path / "run", methods=tuple(gains), controls=(), gains=gains, seeds=6)
        result = CliRunner().invoke(app, ["report", str(folder), "--title", "Reviews", "--json"])
        answer = json.loads(result.stdout)
        assert answer["level"] == "close"
        assert sorted(answer["tied"]) == ["lime", "lrp"]
        assert Page((folder / "report.html").read_text()).text.startswith("Reviews ")

    def test_the_same_run_gives_the_same_page(self, tmp_path):
        folder = write_run(tmp_path / "run")
        assert report(folder).read_bytes() == report(folder, tmp_path / "again.html").read_bytes()

    def test_names_that_are_no_file_names(self, tmp_path):
        folder = write_run(tmp_path / "run", students=("../../etc/passwd",), methods=("lime",), controls=())
        run = Comparison.load(folder)
        export(report_sections(run), tmp_path / "figures")
        assert all(one.parent == tmp_path / "figures" for one in (tmp_path / "figures").rglob("*"))

    def test_it_is_built_without_torch(self, tmp_path):
        folder = write_run(tmp_path / "run", learned=True)
        code = (
            "import sys\n"
            "for name in ('torch', 'transformers', 'sklearn', 'pandas'):\n    sys.modules[name] = None\n"
            f"import didact\nprint(didact.report({str(folder)!r}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str(folder / "report.html")


def test_charts_say_what_they_show(tmp_path):
    found = page_of(write_run(tmp_path / "run", sizes=(125, 250)))
    charts = [attributes for name, attributes in found.elements if name == "svg"]
    assert charts
    assert all(attributes.get("role") == "img" and attributes.get("aria-label") for attributes in charts)


@pytest.mark.parametrize(
    ("name", "tooltip"),
    [
        ("ranking", r"lime\(samples=100\): [+−][\d.]+ \(.+\), 3 seeds"),
        ("curve", r"same/attention, 125 rows: [+−][\d.]+ \(.+\)"),
        ("cost", r"lime\(samples=100\): [\d.]+ m?s per row, gain [+−][\d.]+"),
    ],
)
def test_points_of_charts_have_tooltips(name, tooltip, tmp_path):
    run = Comparison.load(write_run(tmp_path / "run", sizes=(125, 250)))
    figures = [figure for part in report_sections(run) for figure in part.figures if figure.name.startswith(name)]
    for _, drawing in figures[0].drawings:
        assert re.search(f"<title>{tooltip}</title>", drawing), re.findall("<title>.*?</title>", drawing)
