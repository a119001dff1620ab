"""Results on disk: no torch, versions, what older files lack, and one way to write a number."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from didact.errors import OptionError, RecordError
from didact.results.agreement import Agreement
from didact.results.comparison import Comparison
from didact.results.documents import save_document
from didact.results.evaluation import Evaluation, MetricRow, MetricTable, MetricTest
from didact.results.gains import GainRow
from didact.results.measured import Measurements
from didact.results.number_format import NumberFormat
from didact.results.run_record import RunRecord
from didact.results.sanity import FooledMetric, Sanity, SanityStep
from reports.folders import change, write_run

WITHOUT_TORCH = """
import pkgutil, sys
sys.modules["torch"] = sys.modules["transformers"] = None
import didact.results
for module in pkgutil.iter_modules(didact.results.__path__, "didact.results."):
    __import__(module.name)
from didact.results.comparison import Comparison
found = Comparison.load(sys.argv[1])
print(found.table(), found._repr_html_(), found.launch.date, len(found.measured.metrics.rows))
"""


def test_results_are_read_and_shown_without_torch(tmp_path):
    folder = write_run(tmp_path / "run")
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gradient_norm" in done.stdout


class TestVersions:
    @pytest.mark.parametrize("file", ["comparison.json", "measured.json"])
    def test_a_file_without_a_version_is_the_first(self, tmp_path, file):
        folder = write_run(tmp_path / "run")
        before = Comparison.load(folder)
        change(folder / file, version=1)
        again = Comparison.load(folder)
        assert again.to_document() == before.to_document()
        assert again.measured.to_document() == before.measured.to_document()

    @pytest.mark.parametrize("file", ["comparison.json", "measured.json", "run.json"])
    def test_a_later_version_is_refused(self, tmp_path, file):
        folder = write_run(tmp_path / "run")
        (folder / "run.json").write_text('{"command": "didact compare"}')
        assert Comparison.load(folder).launch.command == "didact compare"
        change(folder / file, version=99)
        with pytest.raises(RecordError, match=rf"{file} has schema version 99.*Update didact"):
            assert all([Comparison.load(folder).measured, Comparison.load(folder).launch])

    def test_a_version_is_written(self, tmp_path):
        folder = write_run(tmp_path / "run")
        found = Comparison.load(folder)
        found.save(folder / "comparison.json")
        found.measured.save()
        RunRecord("didact compare").save(folder)
        for file in ("comparison.json", "measured.json", "run.json"):
            assert json.loads((folder / file).read_text())["version"] == 1

    def test_what_no_version_is(self, tmp_path):
        folder = write_run(tmp_path / "run")
        change(folder / "comparison.json", version="new")
        with pytest.raises(RecordError, match="its version is 'new'"):
            Comparison.load(folder)


EVALUATION = Evaluation(
    ("roc_auc", "sufficiency"), ("lrp", "random"), ("r1", "r2", "r3"),
    np.array([[[0.5, math.nan, 1.0], [0.1, 0.2, 0.3]], [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]),
    {"roc_auc": "words by size"},
    MetricTable((MetricRow("lrp", "roc_auc", 0.75, rows=2, skipped=1),), (MetricTest("roc_auc", "lrp", "random", 0.5),),
                "truth", ("a note",), 3),
)  # fmt: skip
AGREEMENT = Agreement(
    ("lrp", "lime"), "kendall", "size", "word",
    np.array([[[1.0, 0.25], [0.25, 1.0]], [[1.0, math.nan], [math.nan, 1.0]]]),
    np.array([[True, True], [True, False]]), ("r1", "r2"), ("pair", "pair"), ("t", "u"), np.array([3, 8]),
    "the order of all units", "one unit", -1.0, ("a note",),
)  # fmt: skip
SANITY = Sanity(
    (SanityStep("lrp", "head", 6, 0.5, 0.25, 0.75, math.nan, math.nan, math.nan),), (),
    (FooledMetric("roc_auc", 0.5, 0.5, 0.0, -0.1, 0.1, "higher", 6, False),), ("a note",),
)  # fmt: skip


class TestSavedResults:
    """What users keep beside a run: the same after saving, with a version, which is checked."""

    def test_an_evaluation(self, tmp_path):
        EVALUATION.save(tmp_path / "deep" / "metrics.json")
        found = Evaluation.load(tmp_path / "deep" / "metrics.json")
        assert found.to_document() == EVALUATION.to_document()
        assert (found.metrics, found.methods, found.ids) == (EVALUATION.metrics, EVALUATION.methods, EVALUATION.ids)
        assert (found.how, found.heading, found.notes) == (EVALUATION.how, "truth", ("a note",))
        np.testing.assert_array_equal(found.values, EVALUATION.values)

    def test_an_agreement(self, tmp_path):
        AGREEMENT.save(tmp_path / "kendall.parquet")
        found = Agreement.load(tmp_path / "kendall.parquet")
        assert found.table() == AGREEMENT.table()
        for name in AGREEMENT.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(found, name), getattr(AGREEMENT, name))
        assert found.to_document("length") == AGREEMENT.to_document("length")

    def test_sanity_checks(self, tmp_path):
        SANITY.save(tmp_path / "sanity.json")
        found = Sanity.load(tmp_path / "sanity.json")
        assert found.to_document() == SANITY.to_document()
        assert (found.weights[0].roc_auc, found.trivial[0].fooled) == (None, False)

    @pytest.mark.parametrize(("result", "file"), [(EVALUATION, "a.json"), (AGREEMENT, "a.parquet"), (SANITY, "a.json")])
    def test_a_later_version_is_refused(self, tmp_path, monkeypatch, result, file):
        module = sys.modules[type(result).__module__]
        monkeypatch.setattr(module, "VERSION", 7)
        result.save(tmp_path / file)
        monkeypatch.setattr(module, "VERSION", 1)
        with pytest.raises(RecordError, match=rf"{file} has schema version 7, and this didact reads up to 1\. Update"):
            type(result).load(tmp_path / file)

    @pytest.mark.parametrize(("result", "file"), [(EVALUATION, "a.json"), (AGREEMENT, "a.parquet"), (SANITY, "a.json")])
    def test_what_is_missing_or_damaged(self, tmp_path, result, file):
        with pytest.raises(OptionError, match="There is no file .*save"):
            type(result).load(tmp_path / file)
        result.save(tmp_path / file)
        content = (tmp_path / file).read_bytes()
        for place in (5, len(content) // 2, len(content) - 6):
            (tmp_path / file).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(RecordError, match="damaged"):
                type(result).load(tmp_path / file)

    def test_another_document(self, tmp_path):
        save_document(tmp_path / "a.json", {"rows": 3}, 1)
        with pytest.raises(RecordError, match=r"a\.json is damaged \(there is no 'metrics'"):
            Evaluation.load(tmp_path / "a.json")


class TestDocuments:
    def test_a_comparison_is_the_same_after_saving(self, tmp_path):
        found = Comparison.load(write_run(tmp_path / "run", learned=True, failed=1))
        (tmp_path / "copy").mkdir()
        found.save(tmp_path / "copy" / "comparison.json")
        assert Comparison.load(tmp_path / "copy").to_document() == found.to_document()

    def test_what_was_measured_is_the_same_after_saving(self, tmp_path):
        folder = write_run(tmp_path / "run")
        before = json.loads((folder / "measured.json").read_text())
        Measurements.load(folder).save()
        after = json.loads((folder / "measured.json").read_text())
        assert after.pop("checksum")
        assert after.pop("version") == 1
        claims = [test.pop("claimed") for test in after["metrics"]["tests"]]
        assert not any(claims), "files of before have none"
        assert after == before

    def test_rows_are_read_by_name_too(self):
        row = GainRow("lime", "same", 9, 8, "accuracy", gain=0.1)
        assert (row["gain"], row.get("other"), dict(row)["seeds"]) == (0.1, None, 8)
        assert row == dict(row)
        with pytest.raises(KeyError):
            row["folder"]

    def test_older_rows_have_a_median_alone(self):
        line = {"explainer": "a", "student": "s", "size": 1, "seeds": 2, "gain": None, "low": None, "high": None}
        assert GainRow.from_document(line | {"median": 0.5}).mean == 0.5
        with pytest.raises(TypeError, match="size of a row is '1'"):
            GainRow.from_document(line | {"size": "1"})

    def test_numbers_that_are_none_are_null(self, tmp_path):
        metrics = Measurements("test", "image").metrics
        assert metrics.rows == ()
        lost = Measurements("test", "image", folder=tmp_path, notes=("a",))
        lost.save()
        assert json.loads((tmp_path / "measured.json").read_text())["metrics"] == {}
        assert MetricRow("a", "b", float("nan"))["value"] != 0

    def test_a_run_without_a_record(self, tmp_path):
        assert RunRecord.load(tmp_path) == RunRecord()


@pytest.mark.parametrize(
    ("value", "plain", "signed"),
    [(0.1234, "12.3 %", "+12.3"), (-0.05, "−5.0 %", "−5.0"), (-0.0001, "0.0 %", "0.0"), (None, "–", "–")],
)
def test_one_way_to_write_a_number(value, plain, signed):
    form = NumberFormat(100.0, 1, " %")
    assert (form.plain(value), form.signed(value)) == (plain, signed)


def test_intervals():
    form = NumberFormat(ascii_minus=True)
    assert form.interval(-0.1, 0.2) == "-0.10 to +0.20"
    assert form.brackets(-0.1, 0.2) == "[-0.10, +0.20]"
    assert form.interval(None, 0.2) == form.brackets(0.1, None) == "no interval"
