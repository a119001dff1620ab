"""Results on disk: no torch, versions, what older files lack, and one way to write a number."""

import json
import subprocess
import sys

import pytest

from didact.errors import RecordError
from didact.results.comparison import Comparison
from didact.results.gains import GainRow
from didact.results.measured import Measured, MetricRow
from didact.results.number_format import NumberFormat
from didact.results.run_record import RunRecord
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

    @pytest.mark.parametrize("file", ["comparison.json", "measured.json"])
    def test_a_later_version_is_refused(self, tmp_path, file):
        folder = write_run(tmp_path / "run")
        change(folder / file, version=99)
        with pytest.raises(RecordError, match=rf"{file} has schema version 99.*Update didact"):
            assert Comparison.load(folder).measured

    def test_what_no_version_is(self, tmp_path):
        folder = write_run(tmp_path / "run")
        change(folder / "comparison.json", version="new")
        with pytest.raises(RecordError, match="its version is 'new'"):
            Comparison.load(folder)


class TestDocuments:
    def test_a_comparison_is_the_same_after_saving(self, tmp_path):
        found = Comparison.load(write_run(tmp_path / "run", learned=True, failed=1))
        (tmp_path / "copy").mkdir()
        found.save(tmp_path / "copy" / "comparison.json")
        assert Comparison.load(tmp_path / "copy").to_document() == found.to_document()

    def test_what_was_measured_is_the_same_after_saving(self, tmp_path):
        folder = write_run(tmp_path / "run")
        before = json.loads((folder / "measured.json").read_text())
        Measured.load(folder).save()
        after = json.loads((folder / "measured.json").read_text())
        assert after.pop("checksum")
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
        metrics = Measured("test", "image").metrics
        assert metrics.rows == ()
        lost = Measured("test", "image", folder=tmp_path, notes=("a",))
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
