"""The page says what every method, control and student is, when the run was made, and of how many rows."""

import json

import pytest

from didact.errors import RecordError
from didact.explainers import EXPLAINERS
from didact.reports.build import page, report, report_sections
from didact.reports.describe import OWN_METHOD, method_text, student_text
from didact.reports.sections import provenance
from didact.results.comparison import Comparison
from reports.folders import change, write_run
from reports.reading import Page


def page_of(folder) -> Page:
    run = Comparison.load(folder)
    return Page(page(run, report_sections(run)))


def whole(text):
    """Without the places where a long name may be broken."""
    return text.replace("_ ", "_").replace("/ ", "/")


class TestMethods:
    def test_every_registered_method_has_its_own_line(self):
        texts = [method_text(name) for name in EXPLAINERS]
        assert OWN_METHOD not in texts
        assert len(set(texts)) == len(texts)

    @pytest.mark.parametrize(
        ("label", "part"),
        [
            ("none", "no explanation"),
            ("none+extra", "the extra rows"),
            ("lime(samples=100)", "random words are removed"),
            ("smat", "SMaT"),
            ("smat(outer=dev)", "SMaT"),
            ("smat(cotrained)", "the students that smat learned with"),
            ("smat(outer=dev, cotrained)", "the students that smat learned with"),
            ("smat(flattened)", "as even as before"),
            ("attention_all(matched)", "attention_all made as sharp as the learned"),
            ("attention_all(matched, smat(outer=dev))", "attention_all made as sharp as the learned"),
            ("attention_all(sharpened)", "attention_all with its marks made sharper"),
            ("scores.parquet", "read from a file"),
            ("runs/l2e", "a learned explainer"),
            ("mine", OWN_METHOD),
        ],
    )
    def test_labels(self, label, part):
        assert part in method_text(label)

    def test_the_page_lists_them_all_and_names_carry_them(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", methods=("gradient_norm", "mine"), controls=("trivial",)))
        for name in ("none", "trivial", "gradient_norm"):
            assert f"{name} {method_text(name)}" in whole(found.text)
        assert f"mine {OWN_METHOD}" in found.text
        titles = [attributes.get("title") for tag, attributes in found.elements if tag == "th"]
        assert method_text("gradient_norm") in titles

    def test_the_head_says_what_the_best_is(self, tmp_path):
        folder = write_run(
            tmp_path / "run", methods=("lime", "lrp"), controls=(), gains={"lime": 0.4, "lrp": 0.1}, seeds=6
        )
        assert f"lime : {method_text('lime')}." in page_of(folder).text


class TestStudents:
    def test_as_recorded(self, tmp_path):
        about = {"students": {"same/attention": "a small BiLSTM on the frozen word embeddings of the teacher"}}
        found = page_of(write_run(tmp_path / "run", about=about))
        assert "same/attention a small BiLSTM on the frozen word embeddings of the teacher" in whole(found.text)

    @pytest.mark.parametrize(
        ("student", "text"),
        [
            (
                "same/attention",
                "the same architecture as the model, from random weights; its attention is trained towards",
            ),
            ("bilstm_attention(embeddings=base, width=64)/attention", "on frozen word embeddings of a pretrained"),
            ("bilstm/multitask", "a small BiLSTM; also tags the units that the explanation marks"),
            ("org/model/attention", "a model of its own (org/model)"),
            ("odd", "a model of its own"),
        ],
    )
    def test_by_its_spec(self, tmp_path, student, text):
        run = Comparison.load(write_run(tmp_path / "run", students=(student,)))
        assert text in student_text(run, student)


class TestProvenance:
    def test_date_command_and_counts(self, tmp_path):
        about = {"file_rows": 3000, "train_rows": 1400, "dev_rows": 300, "test_rows": 600}
        folder = write_run(tmp_path / "run", about=about, rows=6)
        launch = {
            "command": f"didact compare --model m --data {'long' * 40}.csv --out runs/first",
            "started": "2026-11-17T09:00:00+00:00", "finished": "2026-11-17T10:30:00+01:00", "seconds": 1800.0,
        }  # fmt: skip
        (folder / "run.json").write_text(json.dumps(launch))
        found = page_of(folder)
        lines = {line[0]: line[1] for line in found.tables["What was run"]}
        names = list(lines)[1:]
        assert names[:3] == ["date", "duration", "command"]
        assert lines["date"] == "2026-11-17 09:30 UTC"
        assert lines["duration"] == "30 min"
        assert lines["command"] == launch["command"]
        assert lines["rows in the data"] == "3,000"
        assert (lines["dev rows"], lines["test rows"], lines["rows measured otherwise"]) == ("300", "2,000", "6")
        when = "2026-11-17 09:30 UTC · 3,000 rows in the data · students learn from 250 rows · 300 dev rows"
        assert f"{when} · 2,000 test rows · 6 measured rows" in found.text

    @pytest.mark.parametrize("content", [None, '{"started": 3}', '{"finished": "yesterday"}'])
    def test_older_runs_do_without(self, tmp_path, content):
        folder = write_run(tmp_path / "run")
        if content is not None:
            (folder / "run.json").write_text(content)
        table = provenance.section(Comparison.load(folder)).tables[0]
        assert not {line[0] for line in table.rows} & {"date", "command"}

    @pytest.mark.parametrize("content", ["", "[]", '{"started": "2026", "checksum": "0"}'])
    def test_a_damaged_file_is_told(self, tmp_path, content):
        folder = write_run(tmp_path / "run")
        (folder / "run.json").write_text(content)
        with pytest.raises(RecordError, match=r"run\.json is damaged.*Run the same comparison again"):
            report(folder)

    def test_where_a_model_lay_is_not_told(self, tmp_path):
        assert Comparison.load(write_run(tmp_path / "run", teacher="/home/ann/models/mine")).name == "mine"
        assert Comparison.load(write_run(tmp_path / "other", teacher="org/model")).name == "org/model"

    def test_what_a_budget_left_out_comes_first(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", about={"left_out": ["lime: no time was left"]}, notes=("A note.",)))
        assert "What was left out, and why lime: no time was left A note." in found.text
        assert "parts of the plan were left out" in found.text

    @pytest.mark.parametrize("name", ["agreement", "cost"])
    def test_what_was_not_measured(self, tmp_path, name):
        assert "was not measured. Run the same" in page_of(write_run(tmp_path / "run", **{name: False})).text


class TestStudentsThatDidNotLearn:
    COLUMNS = ({"student": "b", "size": 250, "learned": False, "reason": "All answers are “positive”."},)

    def test_they_are_marked_in_table_and_chart(self, tmp_path):
        found = page_of(write_run(tmp_path / "run", students=("a", "b"), about={"columns": list(self.COLUMNS)}))
        table = next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))
        assert table[0][2:] == ["a, 250 rows", "b, 250 rows (students did not learn: no verdict)"]
        assert not [line for line in table if "▲" in line[3] or "▼" in line[3]]
        labels = [attributes["aria-label"] for tag, attributes in found.elements if tag == "svg"]
        assert any("b, 250 rows (students did not learn: no verdict)" in one for one in labels)
        assert "b, 250 rows: students did not learn: no verdict. All answers are “positive”." in found.text
        assert "students did not learn in 1 of 2" in found.text

    def test_a_run_without_any_that_learned(self, tmp_path):
        columns = [self.COLUMNS[0] | {"student": "same/attention", "size": size} for size in (125, 250)]
        folder = write_run(tmp_path / "run", about={"columns": columns}, sizes=(125, 250))
        found = page_of(folder)
        assert "The students did not learn; this run says nothing about the explanations" in found.text
        assert "★" not in "".join(cell for line in _ranking(found) for cell in line)
        assert "With more rows to learn from" not in found.text
        assert "What it does not mean" not in found.text
        assert "No method helped" not in found.text


def _ranking(found):
    return next(rows for caption, rows in found.tables.items() if caption.startswith("Gain over none"))


def test_tied_methods_share_the_star_of_the_ranking(tmp_path):
    gains = {"lime": 0.2, "lrp": 0.2, "occlusion": 0.0}
    found = page_of(write_run(tmp_path / "run", methods=tuple(gains), controls=(), gains=gains, seeds=6))
    assert sorted(line[0].partition("★")[0] for line in _ranking(found) if "★" in line[0]) == ["lime", "lrp"]


def test_imbalance_is_small_print_of_the_headline(tmp_path):
    balance = "90 % of the answers are “negative”: balanced agreement is measured."
    assert balance in page_of(write_run(tmp_path / "run", about={"balance": balance})).text


def test_a_run_with_hostile_descriptions(tmp_path):
    hostile = "<script>alert(1)</script>"
    about = {
        "students": {"same/attention": hostile}, "balance": hostile, "left_out": [hostile],
        "columns": [{"student": "same/attention", "size": 250, "learned": False, "reason": hostile}],
    }  # fmt: skip
    folder = write_run(tmp_path / "run", about=about)
    (folder / "run.json").write_text(json.dumps({"command": hostile, "started": hostile}))
    found = page_of(folder)
    assert not [said for attributes, said in found.scripts if said.startswith("alert")]
    assert hostile in found.text
    change(folder / "comparison.json", rows=[])
    assert "Nothing could be compared" in page_of(folder).text
