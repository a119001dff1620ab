"""The command line, as a person or a script calls it: in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from didact.cli.main import app


def didact(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "didact.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        timeout=240,
        check=False,
    )


def imported_by(code: str) -> set[str]:
    """Which of the heavy packages a piece of code imports, in a fresh interpreter."""
    heavy = ("torch", "transformers", "pandas", "scipy", "sklearn", "pyarrow", "altair", "vl_convert")
    program = f"import sys\n{code}\nprint(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.splitlines()[-1].split())


class TestLightness:
    @pytest.mark.parametrize(
        "code",
        [
            "import didact",
            "import didact.cli.main",
            "import didact.data, didact.models, didact.registry",
            "import didact.files.store, didact.viz.terminal, didact.viz.progress, didact.viz.weights_chart",
            "from typer.testing import CliRunner\nfrom didact.cli.main import app\n"
            "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
            "assert 'planted/sentiment' in CliRunner().invoke(app, ['data', 'list', '--json']).output\n"
            "assert 'kernel_shap' in CliRunner().invoke(app, ['methods', '--json']).output\n"
            "assert 'kernel_shap' in CliRunner().invoke(app, ['methods']).output",
        ],
    )
    def test_imports_nothing_heavy(self, code):
        assert imported_by(code) == set()

    def test_data_needs_no_torch(self):
        code = "import didact\ndata = didact.load_data('planted/inference', teach=9, explain=9, train=9, dev=9, test=9)"
        assert "torch" not in imported_by(code)

    def test_streams_of_a_native_teacher_need_no_transformers(self):
        """Every worker would hold it in memory."""
        assert "transformers" not in imported_by("import didact.explaining.shard_jobs, didact.explaining.stream")


class TestData:
    def test_list_for_machines(self):
        rows = json.loads(didact("data", "list", "--json").stdout)["rows"]
        found = {row["name"]: row for row in rows}
        assert {
            "planted/sentiment",
            "planted/inference",
            "planted/quality",
            "planted/reading",
            "planted/shapes",
        } <= set(found)
        assert {
            "imdb", "sst", "sst_rationales", "movie_rationales", "esnli", "mnli", "quora", "cola", "ag_news", "mlqe_pe",
            "qed", "cifar100", "hatexplain",
        } <= set(found)  # fmt: skip
        assert found["planted/quality"] == {
            "name": "planted/quality", "task": "regression", "sources": ["embedded"], "rationales": True,
        }  # fmt: skip
        assert {row["task"] for row in rows} == {"classification", "pair", "regression", "reading", "image"}

    def test_list_for_people_never_cuts_a_name(self):
        listed = didact("data", "list", COLUMNS="60").stdout
        assert "planted/sentiment" in listed
        assert "movie_rationales" in listed

    def test_show_marks_the_rationale(self):
        shown = didact("data", "show", "planted/sentiment", "--rows", "3")
        assert shown.returncode == 0
        assert shown.stdout.count("test-") == 3
        assert shown.stdout.count("[") >= 3

    def test_show_for_machines(self):
        done = didact("data", "show", "planted/reading", "--rows", "2", "--split", "dev", "--json")
        rows = json.loads(done.stdout)["rows"]
        assert len(rows) == 2
        for row in rows:
            segment, start, end = row["label"][0]
            assert row["texts"][segment][start:end]
            assert row["alignments"]

    def test_pictures(self):
        assert "test-0" in didact("data", "show", "planted/shapes", "--rows", "1").stdout


def slow(arguments, message):
    """It loads torch and data first."""
    return pytest.param(arguments, message, marks=pytest.mark.slow)


class TestFaults:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["data", "show", "planted/sentimnt"], "Did you mean 'planted/sentiment'"),
            (["data", "show", "planted/sentiment(cue=2)"], "cue"),
            (["data", "show", "planted/sentiment", "--split", "tset"], "Did you mean 'test'"),
            (["data", "show", "planted/sentiment", "--rows", "0"], "must be an integer from 1"),
            (["data", "shw"], "show"),
            (["train"], "--data"),
            slow(["train", "--data", "planted/sentiment", "--model", "natve"], "Did you mean 'native'"),
            slow(["train", "--data", "planted/sentiment", "--model", "native(width=10)"], "multiple"),
            (["train", "--data", "planted/sentiment", "--epochs", "0"], "--epochs: must be an integer from 1"),
            slow(["train", "--data", "planted/sentiment", "--device", "quantum"], "cannot be used here"),
            slow(["train", "--data", "planted/sentiment", "--seed", "9" * 25], "2^31"),
            slow(["train", "--data", "planted/shapes", "--model", "minilm"], "cannot be opened for this task"),
            slow(["train", "--data", "planted/sentiment", "--length", "2", "--truncate"], "no room for words"),
        ],
    )
    def test_a_bad_request_exits_with_2_and_says_what_to_do(self, arguments, message, tmp_path):
        done = didact(*arguments, *(["--out", str(tmp_path / "out")] if arguments[0] == "train" else []))
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert not (tmp_path / "out").exists()

    def test_a_folder_that_exists_is_not_touched(self, tmp_path):
        (tmp_path / "out").mkdir()
        done = didact("train", "--data", "planted/sentiment", "--out", str(tmp_path / "out"))
        assert done.returncode == 2
        assert "exists already" in done.stderr

    def test_failed_work_exits_with_1(self, tmp_path):
        small = "planted/sentiment(teach=100, explain=10, train=10, dev=50, test=50)"
        done = didact("train", "--data", small, "--out", str(tmp_path / "out"), "--learning-rate", "1e30")
        assert done.returncode == 1
        assert "The loss became" in done.stderr
        assert not (tmp_path / "out").exists()


def test_version_and_help():
    assert didact("--version").stdout.startswith("didact 0.")
    assert "train" in didact("--help").stdout


@pytest.mark.slow
def test_train_for_machines(tmp_path):
    small = "planted/sentiment(teach=300, explain=10, train=10, dev=50, test=50)"
    done = didact("train", "--data", small, "--out", str(tmp_path / "t"), "--epochs", "1", "--json", "--threads", "1")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) == {"out", "metrics", "seconds"}
    assert answer["metrics"] == json.loads((tmp_path / "t" / "metrics.json").read_text())
    assert {"dev_accuracy", "test_accuracy", "verified"} <= set(answer["metrics"])


class TestExplain:
    def test_a_bad_request_ends_with_2_and_advice(self):
        done = didact("explain", "--model", "nowhere", "--method", "limes", "a good film")
        assert done.returncode == 2
        assert done.stderr.startswith("didact: There is no explainer named 'limes'. Did you mean 'lime'?")
        assert done.stdout == ""


def test_what_a_library_prints_itself_is_not_printed_again():
    """huggingface_hub has a handler of its own, and passes its lines on to the root."""
    code = """
import logging
from didact.cli.main import app
app(["methods", "--json"], standalone_mode=False)
own = logging.getLogger("library")
own.addHandler(logging.StreamHandler())
logging.getLogger("library.http").warning("retrying")
logging.getLogger("didact.data").warning("a note")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "retrying\ndidact.data: a note\n"


def _commands(group, prefix=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*prefix, name))
        else:
            yield " ".join((*prefix, name)), {flag for one in command.params for flag in one.opts}


def test_every_command_that_reads_data_lets_columns_be_named():
    commands = dict(_commands(typer.main.get_command(app)))
    for name, flags in commands.items():
        if "--data" in flags and name not in ("compare", "demo"):
            assert "--columns" in flags, name
    assert "--columns" in commands["data show"]
    matched = ("explain", "agree", "learn smat", "learn l2e", "cost", "sanity", "study new")
    assert all("--classes" in commands[name] for name in matched)


def test_a_file_is_shown_from_its_first_row_and_notes_go_to_stderr(tmp_path):
    (tmp_path / "a.csv").write_text("case_id;remark;verdict\n" + "".join(f"R{n};text {n};a\n" for n in range(12)))
    result = CliRunner().invoke(
        app, ["data", "show", str(tmp_path / "a.csv"), "--columns", "text=remark", "--rows", "2"]
    )
    assert result.exit_code == 0, result.exception
    assert "all 12, teach 6" in result.stdout
    assert result.stdout.index("text 0") < result.stdout.index("text 1")
    assert "note" not in result.stdout
    assert "note: Fields of a.csv are separated by semicolons." in result.stderr
    assert "note: Cut: train = 25%" in result.stderr
