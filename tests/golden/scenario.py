"""The golden scenario: a stored teacher, one tiny comparison, and every command that prints JSON.

`python tests/golden/scenario.py` writes what they print into tests/golden/expected. Do this only where a change of the
numbers is meant, and say so in the commit.
"""

import html
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from typer.testing import CliRunner

from didact.cli.main import app

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
OLD_RUN_REPORT = HERE / "old_run_report.json"  # the text of its page
DATA = "planted/sentiment(teach=1500, explain=10, train=200, dev=40, test=60)"
SMALL = "planted/sentiment(teach=60, explain=60, train=20, dev=20, test=20)"
MODEL = ("--model", "teacher")
ROWS = ("--data", SMALL, "--split", "test", "--rows", "6")

# The commands of the scenario in their order; each prints one JSON document. They run in one folder that holds the
# teacher and the plan, and later ones read what earlier ones wrote.
COMMANDS: dict[str, tuple[str, ...]] = {
    "compare-dry-run": ("compare", "plan.toml", *MODEL, "--dry-run", "--workers", "0"),
    "compare": ("compare", "plan.toml", *MODEL, "--out", "run", "--workers", "0"),
    "report": ("report", "run", "--overwrite"),
    "train": ("train", "--data", SMALL, "--model", "native(width=8, layers=1, heads=2)", "--epochs", "3",
              "--threads", "1", "--out", "trained"),
    "explain": ("explain", *MODEL, *ROWS, "--method", "integrated_gradients", "--out", "ig.parquet"),
    "explain-occlusion": ("explain", *MODEL, *ROWS, "--method", "occlusion", "--out", "occlusion.parquet"),
    "explain-texts": ("explain", *MODEL, "--method", "lrp", "the film was great", "not a good day", "--target", "all"),
    "explain-stream": ("explain", *MODEL, "--data", "rows.jsonl", "--stream", "--shard", "2", "--method", "lrp",
                       "--out", "streamed.parquet", "--threads", "1"),
    "metrics": ("metrics", "ig.parquet", "occlusion.parquet", *MODEL, "--data", SMALL, "--split", "test", "--tests"),
    "metrics-list": ("metrics",),
    "agree": ("agree", "ig.parquet", "occlusion.parquet", "--each", "length"),
    "sanity": ("sanity", *MODEL, *ROWS, "--methods", "gradient_norm,attention_all"),
    "cost": ("cost", *MODEL, *ROWS, "--methods", "gradient_norm,lime"),
    "learn-smat": ("learn", "smat", *MODEL, "--data", SMALL, "--size", "32", "--batch-size", "8", "--epochs", "2",
                   "--threads", "1", "--out", "smat"),
    "learn-l2e": ("learn", "l2e", *MODEL, "--data", SMALL, "--imitate", "gradient_input", "--size", "24", "--epochs",
                  "2", "--initialisations", "1", "--options", "width=16", "--threads", "1", "--out", "l2e"),
    "explain-learned": ("explain", *MODEL, *ROWS, "--method", "smat"),
    "methods": ("methods",),
    "methods-one": ("methods", "kernel_shap"),
    "data-list": ("data", "list"),
    "data-show": ("data", "show", SMALL, "--split", "test", "--rows", "2"),
    "study-new": ("study", "new", "--explanations", "ig.parquet", "--explanations", "occlusion.parquet", "--data",
                  SMALL, "--split", "test", "--items", "4", "--annotators", "3", "--about", "It judges a text.",
                  "--out", "study"),
    "study-simulate": ("study", "simulate", "study", "--worths", "occlusion=1"),
    "study-analyze": ("study", "analyze", "study", "--replicates", "200"),
    "study-status": ("study", "status", "study"),
    "study-report": ("report", "run", "--study", "study", "--out", "with_people.html"),
}  # fmt: skip
NO_JSON = ("study-simulate",)
# What time, place, chance or the machine decide. The rest of a document must be equal.
VARIES = re.compile(
    r"(^|_)(seconds?|times?|date|started|finished|created|elapsed|duration|spent|eta|checksum|peak|memory|bytes|disk|mb|ms|links?|token"
    r"|host|version|didact|torch|transformers|python|platform|path|folder)($|_)"
)
VARYING_TEXT = re.compile(r"(< )?\b[0-9.,]+ (s|ms|MB|min|h|seconds)\b|\d{4}-\d\d-\d\d\S*( \d\d:\d\d\S*)?")


def prepare(folder: Path) -> None:
    """Put the stored inputs of the scenario into a folder."""
    shutil.copytree(HERE / "teacher", folder / "teacher")
    shutil.copy(HERE / "plan.toml", folder / "plan.toml")
    texts = ("the film was great", "not a good day", "it was very bad", "we liked this", "they hated that")
    lines = [json.dumps({"id": f"s{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_commands() -> Iterator[tuple[str, Any]]:
    """Run the scenario in the current folder; yield the name and the document of each command and file."""
    for name, arguments in COMMANDS.items():
        as_json = () if name in NO_JSON else ("--json",)
        sys.argv = ["didact", *arguments]  # a run records its command
        answer = CliRunner().invoke(app, [*arguments, *as_json], catch_exceptions=False)
        assert answer.exit_code == 0, f"didact {' '.join(arguments)}: {answer.output}"
        if name not in NO_JSON:
            yield name, comparable(json.loads(answer.stdout))
        if name == "compare":
            yield "results", comparable(pq.read_table("run/results.parquet").to_pylist())
            yield "measured", comparable(json.loads(Path("run/measured.json").read_text(encoding="utf-8")))
        if name == "report":
            yield "report-text", page_text(Path("run/report.html"))
        if name == "explain-stream":
            yield "streamed", comparable(pq.read_table("streamed.parquet").to_pylist())
        if name == "study-report":
            yield "study-report-text", page_text(Path("with_people.html"))


def comparable(document: Any) -> Any:
    """Return the document with what varies from run to run left out."""
    if isinstance(document, dict):
        return {name: "…" if VARIES.search(name) else comparable(value) for name, value in document.items()}
    if isinstance(document, list):
        return [comparable(value) for value in document]
    return VARYING_TEXT.sub("…", document) if isinstance(document, str) else document


def page_text(path: Path) -> list[str]:
    """Return what a reader sees of a page, line by line, without scripts, styles and what varies."""
    page = path.read_text(encoding="utf-8")
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", page)
    page = re.sub(r"(?i)</?(p|div|tr|li|ul|ol|h\d|table|section|details|summary|br|figure|figcaption|article)\b[^>]*>",
                  "\n", page)  # fmt: skip
    text = html.unescape(re.sub(r"<[^>]*>", " ", page))
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    lines = [VARYING_TEXT.sub("…", line) for line in lines if line]
    # The table of costs is ordered by time: adjacent lines with a time are put in the order of their words.
    timed = groupby(lines, key=lambda line: "… " in line)
    return [line for is_timed, group in timed for line in (sorted(group) if is_timed else group)]


def old_run_text() -> list[str]:
    """Report the run of an earlier version in the present folder, and return the text of its page."""
    shutil.copytree(HERE / "old_run", "old_run")
    CliRunner().invoke(app, ["report", "old_run"], catch_exceptions=False)
    return page_text(Path("old_run/report.html"))


def write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> str:
    """Return what decides the last digits of a result, beside the code."""
    model = re.search(r"model name\s*: (.*)", _cpuinfo())
    return f"{platform.machine()}, {model[1] if model else 'unknown CPU'}, torch {torch.__version__}"


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""


def main() -> None:
    torch.set_num_threads(1)
    keeps_run = "--keep-run" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.chdir(folder)
        documents = dict(run_commands())
        write(OLD_RUN_REPORT, old_run_text())
        if keeps_run:
            shutil.rmtree(HERE / "old_run", ignore_errors=True)
            shutil.copytree("run", HERE / "old_run")
            (HERE / "old_run" / "report.html").unlink()
    shutil.rmtree(EXPECTED, ignore_errors=True)
    EXPECTED.mkdir()
    for name, document in documents.items():
        write(EXPECTED / f"{name}.json", document)
    (EXPECTED / "machine.txt").write_text(machine() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
