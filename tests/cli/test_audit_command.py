"""`didact audit run` and `didact audit table`, through the commands themselves."""

import json

import pytest
from typer.testing import CliRunner

import didact
from auditing.made import METRIC, STUDENT, audit, equal, leak, step
from didact.cli.main import app
from didact.errors import DidactError, OptionError, PlanError, RecordError
from school import SIZES

DATA = f"planted/sentiment({SIZES})"


def invoke(*arguments):
    result = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


@pytest.fixture
def files(tmp_path):
    """Two audits in the folders of their runs."""
    for name, difference in (("a", 0.1), ("b", -0.1)):
        pairs = [step(difference), equal(0.5), leak(0.0, "none"), step(difference, by=METRIC)]
        made = audit(f'{name}, "quoted"', pairs, evaluators=[STUDENT, METRIC])
        made.save(tmp_path / "runs" / name / "audit.json")
        (tmp_path / "runs" / name / "comparison").mkdir()
        (tmp_path / "runs" / name / "comparison" / "comparison.json").write_text('{"rows": []}')
    return tmp_path / "runs"


class TestTable:
    @pytest.mark.parametrize("names", [("a/audit.json", "b/audit.json"), ("a", "b"), (".",), ("a", "b/audit.json")])
    def test_files_folders_and_folders_of_runs(self, files, names):
        result = invoke("table", *(files / name for name in names))
        assert result.exit_code == 0, result.output
        assert "2 audits of 2 teachers on planted/sentiment; 2 seeds." in result.stdout
        line = next(line for line in result.stdout.splitlines() if "pool/attention" in line)
        assert "1/2 = 50%" in line

    def test_json(self, files):
        result = invoke("table", files, "--json")
        document = json.loads(result.stdout)
        assert document == didact.summarise_audits(sorted(files.glob("*/audit.json"))).to_document()
        assert document["audits"] == ['a, "quoted"', 'b, "quoted"']

    @pytest.mark.parametrize("name", ["scores.json", "scores.csv"])
    def test_out(self, files, tmp_path, name):
        result = invoke("table", files, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert f"The scores are in {tmp_path / name}." in result.stderr
        if name.endswith("json"):
            assert didact.AuditSummary.load(tmp_path / name).teachers == 2
        else:
            assert len((tmp_path / name).read_text().splitlines()) == 3
        again = invoke("table", files, "--out", tmp_path / name)
        assert isinstance(again.exception, OptionError)
        assert invoke("table", files, "--out", tmp_path / name, "--overwrite").exit_code == 0

    @pytest.mark.parametrize("name", ["scores.txt", "scores", "scores.parquet"])
    def test_out_of_another_kind(self, files, tmp_path, name):
        result = invoke("table", files, "--out", tmp_path / name)
        assert isinstance(result.exception, OptionError)
        assert f"--out: scores are saved as .json or .csv, not as '{name}'" in str(result.exception)
        assert not (tmp_path / name).exists()

    def test_no_audit(self, files, tmp_path):
        missing = invoke("table", files / "c")
        assert isinstance(missing.exception, OptionError)
        assert "There is no evidence in" in str(missing.exception)
        (tmp_path / "empty").mkdir()
        for folder in (tmp_path / "empty", files / "a" / "comparison"):
            result = invoke("table", folder)
            assert isinstance(result.exception, OptionError)
            assert f"There is no audit in {folder}. Write one with `didact audit run" in str(result.exception)

    def test_the_same_audit_twice(self, files):
        result = invoke("table", files / "a", files / "a" / "audit.json")
        assert isinstance(result.exception, OptionError)
        assert "is given twice" in str(result.exception)

    def test_a_damaged_audit(self, files):
        path = files / "a" / "audit.json"
        path.write_text(path.read_text().replace("0.1", "0.2"))
        for name in (files, path):
            result = invoke("table", name)
            assert isinstance(result.exception, RecordError)
            assert f"{path} is damaged" in str(result.exception)


class TestRun:
    FLAGS = ("--data", DATA, "--explainers", "gradient_norm", "--bases", "gradient_norm", "--damage", "0.5")
    SMALL = ("--students", "pool/attention", "--normalisations", "raw", "--metrics", "sufficiency", "--eval-rows", "4")
    FAST = ("--train-sizes", "12", "--seeds", "1", "--epochs", "1", "--workers", "0", "--balance", "no")

    @pytest.mark.slow
    def test_it_writes_an_audit_and_prints_the_table(self, folder, tmp_path):
        flags = ["run", "--model", folder, *self.FLAGS, *self.SMALL, *self.FAST, "--out", tmp_path / "run"]
        result = invoke(*flags, "--name", "mine, too")
        assert result.exit_code == 0, result.output
        path = tmp_path / "run" / "audit.json"
        assert f"The audit is in {path}." in result.stderr
        assert "Target normalisation raw:" in result.stderr
        made = didact.Audit.load(path)
        assert (made.name, [item.name for item in made.evaluators]) == (
            "mine, too",
            ["pool/attention, raw, new rows", "sufficiency"],
        )
        assert result.stdout.rstrip() == didact.summarise_audits([made]).table().rstrip()
        again = invoke(*flags, "--name", "mine, too", "--json")
        document = json.loads(again.stdout)
        assert document["fingerprint"] == made.evidence.fingerprint
        assert document["kind"] == "audit"
        (tmp_path / "plan.toml").write_text(
            f'model = "{folder}"\ndata = "{DATA}"\nexplainers = ["gradient_norm"]\nbases = ["gradient_norm"]\n'
            'damage = [0.5]\nstudents = ["pool/attention"]\nnormalisations = ["raw"]\nmetrics = ["sufficiency"]\n'
            "eval_rows = 4\ntrain_sizes = [12]\nseeds = [0]\nbalance = false\n"
            'name = "from a file"\n[training]\nepochs = 1\n'
        )
        planned = invoke("run", tmp_path / "plan.toml", "--workers", "0", "--out", tmp_path / "run", "--json")
        assert planned.exit_code == 0, planned.output
        assert json.loads(planned.stdout)["name"] == "from a file"
        assert json.loads(planned.stdout)["tables"] == document["tables"]

    def test_all_faults_at_once(self):
        result = invoke("run", "--model", "m", "--train-sizes", "1,2", "--damage", "0,x", "--metrics", "srgg")
        assert isinstance(result.exception, PlanError)
        for fault in ("data: missing", "train-sizes: an audit has one", "got 0", "got 'x'", "no metric named 'srgg'"):
            assert fault in str(result.exception)

    def test_urls(self, folder):
        result = invoke("run", "--model", folder, *self.FLAGS, "--out", "s3://bucket/run")
        assert isinstance(result.exception, OptionError)
        assert "An audit is written to a local folder" in str(result.exception)
