"""`didact study`: made, filled, read, exported and erased from the command line."""

import csv
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.errors import DidactError, RecordError
from didact.files.checksummed import read_json
from didact.study.auth import read_keys
from study.people import CLASSES, maps_of, rows_of, study_of

WITHOUT_TORCH = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Gone())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files of explanations, and the data that they are about, as a user has them."""
    folder = tmp_path_factory.mktemp("study")
    data, said = rows_of(40)
    for number, method in enumerate(("one", "two", "three")):
        maps_of(data, said, method, seed=number).save(folder / f"{method}.parquet")
    lines = [{"id": row.id, "text": row.texts[0], "label": CLASSES[row.label]} for row in data["test"]]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def run(*arguments, **options):
    result = CliRunner().invoke(app, ["study", *map(str, arguments)], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit | DidactError):
        raise result.exception
    return result


def lines_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def made(place, out, *arguments):
    files = [place / f"{name}.parquet" for name in ("one", "two", "three")]
    return run("new", "--explanations", *files, "--data", place / "rows.jsonl", "--out", out, "--items", 9, *arguments)


def test_a_study_is_made_from_several_files_after_one_option(place, tmp_path):
    result = made(place, tmp_path / "s", "--annotators", 4, "--url", "https://study.example/", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["methods"] == ["one", "two", "three"]
    assert (document["items"], document["people"]) == (9, 4)
    links = lines_of(tmp_path / "s" / "invites.csv")
    assert [line["person"] for line in links] == ["p01", "p02", "p03", "p04"]
    assert links[0]["link"] == f"https://study.example/i/{read_keys(tmp_path / 's').code(1)}"


def test_a_simulation_study_says_how_many_errors_it_has(place, tmp_path):
    result = made(place, tmp_path / "s", "--kind", "simulation", "--annotators", 1)
    assert "the model is wrong about 5" in result.stdout  # three of the six to learn from, two of three in the test
    assert "4 people in 4 cohorts (none, one, two, three)" in result.stdout


@pytest.mark.parametrize(("arguments", "said"), [
    (["--kind", "rankings"], "ranking"),
    (["--items", "400"], "only 40 distinct rows"),
    (["--explanations", "nowhere.parquet"], "no file nowhere.parquet"),
    (["--consent", "nowhere.txt"], "nowhere.txt cannot be read"),
    (["--database", "sqlite:////nowhere/at/all.sqlite"], "cannot be used: unable to open database file"),
    (["--database", "postgresql+nothing://a:secret@b/c"], "cannot be used"),
])  # fmt: skip
def test_wrong_requests_are_told_and_leave_nothing(place, tmp_path, arguments, said):
    result = made(place, tmp_path / "s", *arguments)
    assert said in str(result.exception) + result.output
    assert "secret" not in str(result.exception) + result.output
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("command", ["serve", "invite", "status", "close", "simulate", "analyze"])
def test_every_command_tells_a_folder_without_a_study(tmp_path, command):
    assert "holds no study" in str(run(command, tmp_path).exception)


def test_more_people_are_invited_by_name_and_exported_without(tmp_path):
    folder = study_of(tmp_path / "s")
    (tmp_path / "names.txt").write_text("Ada\n\nGrace\n")
    first = run("invite", folder).stdout.splitlines()
    result = run("invite", folder, "--more", 2, "--names", tmp_path / "names.txt", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [row["person"] for row in rows] == ["p01", "p02", "p03", "p04"]
    assert [f"{row['person']}  {row['link']}" for row in rows[:2]] == first
    too_many = run("invite", folder, "--more", 1, "--names", tmp_path / "names.txt")
    assert "2 names, and 1 people" in str(too_many.exception)


def test_more_links_lead_where_the_first_ones_do(tmp_path):
    folder = study_of(tmp_path / "s", url="https://study.example/x/")
    before = lines_of(folder / "invites.csv")
    run("invite", folder, "--more", 1)
    assert lines_of(folder / "invites.csv")[:2] == before
    assert all(line["link"].startswith("https://study.example/x/i/") for line in lines_of(folder / "invites.csv"))
    assert "https://moved.example/i/" in run("invite", folder, "--url", "https://moved.example").stdout


@pytest.fixture
def terminal(monkeypatch):
    """The command's stderr is a terminal."""
    monkeypatch.setattr("didact.cli.study.sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("root", ["/study", "/study/"])
def test_the_links_that_serve_prints_lead_to_pages(tmp_path, monkeypatch, root):
    folder = study_of(tmp_path / "s")
    monkeypatch.setattr("didact.study.serve.serve", lambda *_, ready, **__: ready("http://127.0.0.1:1"))
    said = run("serve", folder, "--root", root).output
    assert "http://127.0.0.1:1/study/\n" in said
    assert f"http://127.0.0.1:1/study/o/{read_keys(folder).organiser}" in said
    assert "synthetic" not in said
    run("simulate", folder, "--people", 2)
    assert "2 synthetic people have answered" in run("serve", folder, "--root", root).output


@pytest.mark.usefixtures("terminal")
def test_serve_prints_links_for_its_own_address(tmp_path, monkeypatch):
    folder = study_of(tmp_path / "s")
    monkeypatch.setattr("didact.study.serve.serve", lambda *_, ready, **__: ready("http://127.0.0.1:8123"))
    shown = run("serve", folder, "--port", 8123).output
    assert f"p01  http://127.0.0.1:8123/i/{read_keys(folder).code(1)}\n" in shown
    rewrite = f"didact study invite {folder} --url http://127.0.0.1:8123"
    assert "lead to http://127.0.0.1:8000, not here" in shown
    assert rewrite in shown
    run(*rewrite.split()[2:])
    assert "warning" not in run("serve", folder, "--port", 8123).output
    run("invite", folder, "--more", 1)  # the address stays the rewritten one
    assert all(line["link"].startswith("http://127.0.0.1:8123/i/") for line in lines_of(folder / "invites.csv"))


def test_a_log_file_holds_no_code(tmp_path, monkeypatch):
    folder = study_of(tmp_path / "s", url="https://study.example")
    keys = read_keys(folder)
    monkeypatch.setattr("didact.study.serve.serve", lambda *_, ready, **__: ready("http://127.0.0.1:8000"))
    for arguments, base in (([], "http://127.0.0.1:8000"), (["--https"], "https://study.example")):
        printed = run("serve", folder, *arguments).output
        assert not any(code in printed for code in (keys.organiser, keys.code(1), keys.code(2)))
        path = folder / "organiser.txt"
        assert f"The organiser's link is in {path}, those of participants in {folder / 'invites.csv'}.\n" in printed
        assert path.read_text() == f"{base}/o/{keys.organiser}\n"
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_is_served(tmp_path, monkeypatch):
    def refused(*_):
        raise RecordError("Could not write organiser.txt: Read-only file system.")

    folder = study_of(tmp_path / "s")
    monkeypatch.setattr("didact.study.serve.serve", lambda *_, ready, **__: ready("http://127.0.0.1:8000"))
    monkeypatch.setattr("didact.study.auth.write_private", refused)
    result = run("serve", folder)
    assert result.exit_code == 0
    assert "Read-only file system. The organiser's link is printed if" in result.output


@pytest.mark.parametrize("option", ["--title", "--about", "--question", "--contact", "--url"])
def test_bytes_that_are_no_utf8_are_refused_by_the_name_of_their_option(place, tmp_path, option):
    result = made(place, tmp_path / "s", option, "a\udcffb")
    assert result.exception.faults == (f"{option}: must be valid Unicode text, got 'a\\udcffb'. Write it in UTF-8.",)
    assert not (tmp_path / "s").exists()


def test_an_address_that_is_no_utf8_does_not_replace_the_links(tmp_path):
    folder = study_of(tmp_path / "s")
    before = (folder / "invites.csv").read_text()
    assert "must be valid Unicode text" in str(run("invite", folder, "--url", "http://\udcff").exception)
    assert (folder / "invites.csv").read_text() == before


def test_new_prints_how_to_serve_its_address(place, tmp_path):
    shown = made(place, tmp_path / "s", "--url", "http://127.0.0.1:8124", "--about", "It reads reviews.").output
    assert f"Serve it with: didact study serve {tmp_path / 's'} --port 8124\n" in shown
    assert "participants read: It reads reviews." in shown


def test_new_asks_a_person_what_the_model_does(place, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("didact.cli.study.sys", SimpleNamespace(stdin=Terminal()))
    result = made_with(place, tmp_path / "s", "It reads reviews.\n")
    assert "What does the model do?" in result.output
    assert json.loads((tmp_path / "s" / "study.json").read_text())["about"] == "It reads reviews."
    made_with(place, tmp_path / "t", "\n")
    default = "A computer model reads a text and answers one of: bad, good."
    assert json.loads((tmp_path / "t" / "study.json").read_text())["about"] == default


def made_with(place, out, typed):
    files = [place / f"{name}.parquet" for name in ("one", "two")]
    return run("new", "--explanations", *files, "--data", place / "rows.jsonl", "--out", out, "--items", 4, input=typed)


@pytest.mark.parametrize(("kind", "people", "answer"), [
    ("simulation", 12, "To detect a difference of 10.0 % with a power of 80 %, ask "),
    ("simulation", 4, "How many people a difference of 10.0 % takes cannot be said: "),
    ("ranking", 4, "To detect a difference of 0.10 with a power of 80 %, ask "),
])  # fmt: skip
def test_analyze_answers_about_a_difference_at_80_columns(tmp_path, monkeypatch, kind, people, answer):
    monkeypatch.setenv("COLUMNS", "80")
    folder = study_of(tmp_path / "s", kind, items=12)
    run("simulate", folder, "--people", people)
    shown = run("analyze", folder, "--replicates", 100, "--difference", 0.1).stdout
    assert answer in shown
    tables = [line for line in shown.splitlines() if line.startswith(" ")]
    assert max(map(len, tables)) <= 80
    assert "…" not in shown
    page = (folder / "analysis.html").read_text()
    heading = {"simulation": "Which explanations help people predict the model?", "ranking": "do people prefer?"}[kind]
    assert f"{heading}</h1>" in page


def test_simulate_analyze_export_erase(tmp_path):
    folder = study_of(tmp_path / "s", items=12)
    assert run("simulate", folder, "--people", 4, "--worths", "secret_alpha=2,secret_gamma=-2").exit_code == 0
    status = json.loads(run("status", folder, "--json").stdout)
    assert status["counts"] == {"people": 6, "answers": 48, "finished": 4}
    assert "p03 (synthetic)" in run("status", folder).stdout
    result = run("analyze", folder, "--replicates", 200, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["headline"].startswith("4 of 4 people are synthetic")
    assert [row["method"] for row in document["methods"]] == ["secret_alpha", "secret_beta", "secret_gamma"]
    assert read_json(folder / "analysis.json", advice="") == document
    assert "<h2" in (folder / "analysis.html").read_text()
    shown = run("analyze", folder, "--replicates", 200, "--leave-out", "p03", "--difference", 0.5)
    assert "Left out on request: p03" in shown.stdout
    for kind in ("csv", "json", "parquet"):
        assert run("export", folder, "--out", tmp_path / f"answers.{kind}").exit_code == 0
    lines = lines_of(tmp_path / "answers.csv")
    table = pq.read_table(tmp_path / "answers.parquet").to_pylist()
    assert len(lines) == len(table) == len(json.loads((tmp_path / "answers.json").read_text())) == 48 * 3
    assert [int(line["rank"]) for line in lines] == [line["rank"] for line in table]
    assert "name" not in lines[0]
    run("export", folder, "--out", tmp_path / "named.csv", "--names")
    assert (tmp_path / "named.csv").read_text().startswith("name,")
    assert run("erase", folder, "p04", input="n\n").exit_code == 1
    assert json.loads(run("status", folder, "--json").stdout)["counts"]["answers"] == 48
    assert run("erase", folder, "p04", "--yes").exit_code == 0
    assert json.loads(run("status", folder, "--json").stdout)["counts"]["answers"] == 36


def test_synthetic_people_are_never_mixed_with_real_ones(tmp_path):
    from study.people import Someone

    folder = study_of(tmp_path / "s")
    Someone(folder).agree().answer(1)
    assert "1 answers of real people" in str(run("simulate", folder).exception)


@pytest.mark.parametrize(("arguments", "said"), [
    (["simulate", "--worths", "lime"], "a number for each method"),
    (["simulate", "--worths", "lime=1"], "has no lime"),
    (["simulate", "--means", "secret_alpha=1"], "takes worths, not means"),
    (["erase", "p99"], "No one is called 'p99'"),
    (["export", "--out", "answers.xlsx"], "csv, json, parquet"),
    (["analyze"], "no answers to analyse"),
    (["serve", "--root", "study"], "--root: must be a plain path that begins with a slash"),
    (["serve", "--root", "//evil.com"], "--root: must be a plain path that begins with a slash"),
    (["serve", "--host", "300.1.1.1"], "cannot be served at 300.1.1.1"),
])  # fmt: skip
def test_what_cannot_be_done_is_told(tmp_path, arguments, said):
    folder = study_of(tmp_path / "s")
    command, *rest = arguments
    assert said in str(run(command, folder, *rest).exception)


def test_a_closed_study_is_told_and_opened(tmp_path):
    folder = study_of(tmp_path / "s")
    run("close", folder)
    assert "the study is closed" in run("status", folder).stdout
    run("close", folder, "--open")
    assert "the study is open" in run("status", folder).stdout


def test_a_missing_extra_is_told_by_what_to_install(tmp_path, monkeypatch):
    folder = study_of(tmp_path / "s")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "fastapi" else object())
    assert 'pip install "didact[study]"' in str(run("serve", folder).exception)


def test_pages_are_served_without_torch_or_anything_as_heavy(tmp_path):
    folder = study_of(tmp_path / "s")
    code = (
        f"{WITHOUT_TORCH}from didact.cli.main import app\nfrom didact.study.app import create_app\n"
        f"create_app({str(folder)!r})\n"
        "print(*({'pandas', 'scipy', 'sklearn', 'pyarrow', 'altair'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_an_analysis_needs_no_torch(tmp_path):
    folder = study_of(tmp_path / "s")
    run("simulate", folder)
    code = (
        f"{WITHOUT_TORCH}from didact.cli.main import app\n"
        f"sys.argv = ['didact', 'study', 'analyze', {str(folder)!r}, '--replicates', '50', '--json']\napp()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["kind"] == "ranking"


def test_the_public_face_makes_and_reads_a_study(tmp_path):
    data, said = rows_of(20)
    maps = [maps_of(data, said, name, seed=number) for number, name in enumerate("ab")]
    folder = didact.new_study(maps, data, out=tmp_path / "s", items=6, annotators=2)
    run("simulate", folder)
    assert didact.analyze_study(folder, replicates=50).to_document()["counts"]["people"] == 2
