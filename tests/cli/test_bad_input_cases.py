"""Bad input by the hundred, through every command: one error with a message, exit code 1 or 2, and nothing left behind.

`{w}` in a command is a folder with good and bad files (see `world`), which no command may change.
"""

import gzip
import json
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from didact.cli.main import app
from didact.errors import DidactError
from didact.learning.train import train_teacher
from reports.folders import write_run
from scored import maps_of

pytestmark = pytest.mark.slow

SMALL = "planted/sentiment(teach=20, explain=5, train=5, dev=5, test=5)"
TEXT = '{"text": "good", "label": "yes"}\n'
CSV = "text,label\n" + "".join(f"text number {n},{'yes' if n % 2 else 'no'}\n" for n in range(24))


def lines(*records: object) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in records).encode()


# Files that are no data, each for a reason of its own.
FILES: dict[str, bytes] = {
    "empty.jsonl": b"",
    "empty.csv": b"",
    "empty.tsv": b"",
    "empty.parquet": b"",
    "empty.npz": b"",
    "blank.jsonl": b"\n\n \n",
    "empty.csv.gz": gzip.compress(b""),
    "header.csv": b"text,label\n",
    "cut.jsonl": b'{"text": "good"',
    "list.jsonl": b"[1, 2]\n",
    "number.jsonl": b"5\n",
    "null.jsonl": b"null\n",
    "text.jsonl": b'"good"\n',
    "python.jsonl": b"{'text': 'good'}\n",
    "two.jsonl": b'{"text": "a"}{"text": "b"}\n',
    "nan.jsonl": b'{"text": NaN}\n',
    "latin.jsonl": '{"text": "caf\xe9"}\n'.encode("latin-1"),
    "latin.csv": "text\ncaf\xe9\n".encode("latin-1"),
    "utf16.jsonl": TEXT.encode("utf-16"),
    "utf16.csv": CSV.encode("utf-16-le"),
    "utf32.tsv": b"text\tlabel\n".decode().encode("utf-32"),
    "zeros.jsonl": bytes(100),
    "zeros.csv": bytes(100),
    "binary.csv": bytes(range(256)),
    "wide.csv": b"text,label\na,b,c\n",
    "narrow.csv": b"text,label\na\n",
    "twice.csv": b"text,text\na,b\n",
    "noname.csv": b",\na,b\n",
    "quote.csv": b'text,label\n"good,yes\n',
    "quoted.csv": b'text,label\n"go"od,yes\n',
    "mixed.csv": b"text,label\na;b\nc,d,e\n",
    "cut.jsonl.gz": gzip.compress(TEXT.encode() * 99)[:-20],
    "plain.jsonl.gz": TEXT.encode(),
    "damaged.csv.gz": gzip.compress(CSV.encode())[:40] + b"xxxx",
    "bomb.jsonl.gz": gzip.compress(b" " * (80 * 2**20)),
    "text.parquet": b"text",
    "cut.parquet": b"PAR1" + bytes(40),
    "text.npz": b"text",
    "cut.npz": b"PK\x03\x04" + bytes(30),
    "good.xlsx": b"PK",
    "good.txt": b"good",
    "good.json": b"[]",
    "noending": b"good",
    "notext.jsonl": lines({"label": 1}),
    "nocolumn.csv": b"a,b\n1,2\n",
    "number-text.jsonl": lines({"text": 5}),
    "list-text.jsonl": lines({"text": ["a"]}),
    "empty-text.jsonl": lines({"text": ""}),
    "blank-text.csv": b"text,label\n  ,yes\n",
    "null-text.jsonl": lines({"text": None}),
    "dict-label.jsonl": lines({"text": "a", "label": {"x": 1}}),
    "half-label.jsonl": lines({"text": "a", "label": 0.5}),
    "both-labels.jsonl": lines({"text": "a", "label": 1}, {"text": "b", "label": "x"}),
    "near-label.csv": b"text,lable\na,yes\n",
    "same-id.jsonl": lines({"id": 1, "text": "a"}, {"id": 1, "text": "b"}),
    "list-id.jsonl": lines({"id": [1], "text": "a"}),
    "surrogate.jsonl": b'{"text": "a\\ud800"}\n',
    "long-number.jsonl": b'{"text": "a", "score": ' + b"9" * 400 + b"}\n",
    "text-score.jsonl": lines({"text": "a", "score": "high"}),
    "inf-score.jsonl": b'{"text": "a", "score": Infinity}\n',
    "nan-score.jsonl": b'{"text": "a", "score": NaN}\n',
    "true-score.jsonl": lines({"text": "a", "score": True}),
    "deep.jsonl": b'{"text": "a", "rationale": ' + b"[" * 900 + b"]" * 900 + b"}\n",
    "deeper.jsonl": b'{"text": "a", "rationale": ' + b"[" * 90_000 + b"]" * 90_000 + b"}\n",
    "outside.jsonl": lines({"text": "a", "rationale": [[0, 9]]}),
    "reverse.jsonl": lines({"text": "abc", "rationale": [[2, 1]]}),
    "negative.jsonl": lines({"text": "abc", "rationale": [[-1, 1]]}),
    "marks.jsonl": lines({"text": "a b", "rationale": [1, 0, 1]}),
    "text-marks.jsonl": lines({"text": "a b", "rationale": "xx"}),
    "half.jsonl": lines({"premise": "a", "label": 1}),
    "answer.jsonl": lines({"question": "a", "passage": "b", "answers": ["c"]}),
    "answers.jsonl": lines({"question": "a", "passage": "b", "answers": {"text": [5], "answer_start": [0]}}),
    "starts.jsonl": lines({"question": "a", "passage": "b", "answers": {"text": ["b"], "answer_start": ["x"]}}),
    "unequal.jsonl": lines({"question": "a", "passage": "b", "answers": {"text": ["b"], "answer_start": []}}),
    "alignments.jsonl": lines({"question": "a", "passage": "b", "answers": ["b"], "alignments": [[1]]}),
    "image.jsonl": lines({"image": "x.png", "label": 0}),
    "flat-image.jsonl": lines({"image": [1, 2], "label": 0}),
    "large-image.jsonl": lines({"image": [[[300]]], "label": 0}),
    "float-image.jsonl": lines({"image": [[[0.5]]], "label": 0}),
}

# Plans that cannot be carried out.
PLANS: dict[str, str] = {
    "empty.toml": "",
    "broken.toml": "model = ",
    "list.toml": "[[[",
    "unknown.toml": 'modl = "x"\ndata = "y"\n',
    "types.toml": 'model = 5\ndata = "sst"\n',
    "nomodel.toml": 'data = "sst"\n',
    "twice.toml": "seeds = 1\nseeds = 2\n",
    "negative.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\nseeds = -1\n',
    "students.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\nstudents = ["nope/nope"]\n',
    "sizes.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\nsizes = [0]\n',
    "text.toml": 'model = "{w}/model"\ndata = 7\n',
    "methods.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\nexplainers = ["nope"]\n',
    "rate.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\n[training]\nrate = inf\n',
    "training.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\n[training]\nspeed = 1\n',
    "test.toml": 'model = "{w}/model"\ndata = "{w}/good.csv"\ntest = "nope"\n',
    "engine.toml": 'engine = "nope"\nmodel = "x"\ndata = "y"\n',
}

# What other tools might have written, or not.
FOREIGN: dict[str, bytes] = {
    "eraser.jsonl": lines({"annotation_id": "row-99", "rationales": []}),
    "norationale.jsonl": lines({"annotation_id": "row-1"}),
    "marks.jsonl": lines({"annotation_id": "row-1", "rationales": [{"docid": "x"}]}),
    "inseq.json": b'{"sequence_attributions": 5}',
    "sequences.json": b'{"sequence_attributions": [{"source": 5}]}',
    "broken.json": b'{"sequence_attributions": [',
    "other.json": b'{"a": 1}',
    "list.json": b"[1, 2, 3]",
    "untold.jsonl": lines({"attributions": [1.0], "input_ids": [1]}),
    "pickled.pkl": b"\x80\x04N.",
    "pickled.pt": b"PK",
    "text.txt": b"good",
    "empty.jsonl": b"",
    "latin.jsonl": b'{"annotation_id": "\xe9"}',
    "zero.parquet": b"PAR1PAR1",
    "cut.npz": b"PK\x03\x04",
    "cut.json.gz": gzip.compress(b'{"sequence_attributions": []}')[:-9],
}

# Values that an option does not take.
E = 'explain --model {w}/model "a good film" '
D = "explain --model {w}/model --data {w}/good.csv "
T = "train --data {w}/good.csv --model native(width=16,layers=1) --epochs 1 --out {w}/new "
C = "compare --model {w}/model --data {w}/good.csv --out {w}/new "
L, Y = (
    "learn smat --model {w}/model --data {w}/good.csv --out {w}/new ",
    "learn l2e --model {w}/model --data {w}/good.csv --out {w}/new ",
)
M, A, R = "metrics {w}/maps.parquet ", "agree {w}/maps.parquet {w}/other.parquet ", "report {w}/run "
S, K = (
    "sanity --model {w}/model --data {w}/good.csv --methods occlusion ",
    "cost --model {w}/model --data {w}/good.csv --methods occlusion ",
)
N = "study new --explanations {w}/maps.parquet --out {w}/new "
LONG = "x" * 5000
OPTIONS = [
    "",
    "nope",
    "explain",
    "explain text",
    "explain --model {w}/nope text",
    "explain --model nope/a/b text",
    f"explain --model {LONG} text",
    "explain --model {w}/good.csv text",
    "explain --model {w}/void text",
    "explain --model /dev/null text",
    "explain --model '' text",
    E + "--data {w}/good.csv",
    E + "--columns text=a",
    E + "--classes a,b",
    E + "--method nope",
    E + "--method ''",
    E + "--method 'lime('",
    E + "--method lime(nope=1)",
    E + "--method lime(samples=x)",
    E + "--method lime(samples=0)",
    E + "--method lime(samples=1,samples=2)",
    E + "--method lime,lrp --json",
    E + f"--method {LONG}",
    E + "--method {w}/void",
    E + "--method {w}/model",
    E + "--target nope",
    E + "--target 9",
    E + "--target gold",
    E + "--scale nope",
    E + "--level nope",
    E + "--normalise nope",
    E + "--normalise top(k=0)",
    E + "--normalise softmax(temperature=0)",
    E + "--preset nope",
    E + "--batch-size 0",
    E + "--batch-size x",
    E + "--seed x",
    E + "--length 0",
    E + "--batch-size 1000000000000000000000000000000 --method integrated_gradients",
    E + "--length x",
    E + "--length 999999",
    E + "--device nope",
    E + "--device meta",
    E + "--precision nope",
    E + "--threads 0",
    E + "--task nope",
    E + "--task pair",
    E + "--rows 0",
    E + "--shard 5",
    E + "--workers 2",
    E + "--stream",
    E + "--out /dev/null",
    E + "--out /dev/stdout",
    E + "--out -",
    E + "--html /dev/null",
    E + "--out {w}/void",
    E + "--out {w}/notes.txt",
    E + "--html {w}/notes.txt",
    E + "--out {w}/x --html {w}/x",
    E + f"--out {{w}}/{LONG}",
    E + "--out {w}/run/comparison.json",
    E + "--out {w}/run/comparison.json --overwrite",
    E + "--out {w}/model/didact.json --overwrite",
    E + "--out {w}/notes.txt/x",
    E + "--out {w}/pipe",
    E + "--out {w}/dangling",
    E + "--out {w}/maps.parquet --target all",
    E + "--html {w}/maps.parquet",
    "explain --model {w}/model ''",
    "explain --model {w}/model '  '",
    "explain --nope",
    "explain --model",
    D + "--split nope",
    D + "--rows 0",
    D + "--rows x",
    D + "--columns nope",
    D + "--columns nope=text",
    D + "--columns text=nope",
    D + "--columns text=",
    D + "--columns text=text,text=label",
    D + "--classes a --target gold",
    D + "--classes a,a --target gold",
    D + "--out {w}/good.csv",
    D + "--background {w}/nope.csv",
    D + "--data-dir {w}/nope --data sst",
    D + "--stream --out {w}/x",
    D + "--stream --html {w}/x",
    D + "--stream --out {w}/x --method lime,lrp",
    "explain --model {w}/model --data nope",
    "explain --model {w}/model --data {w}/nope.jsonl --stream --out {w}/x",
    "explain --model {w}/model --data {w} --stream --out {w}/x",
    "explain --model {w}/model --data planted/inference",
    "explain --model {w}/model --data planted/shapes",
    f"explain --model {{w}}/model --data {LONG}",
    "data",
    "data nope",
    "data show",
    "data show nope",
    f"data show {LONG}",
    "data show /dev/null",
    "data show ''",
    "data show {w}/void",
    "data show {w}",
    "data show sst --data-dir {w}/nope",
    "data show sst_rationales --data-dir {w}/void",
    "data show planted/nope",
    "data show planted/sentiment(nope=1)",
    "data show 'planted/sentiment('",
    "data show {w}/good.csv --rows 0",
    "data show {w}/good.csv --split nope",
    "data show {w}/good.csv --columns a",
    "data show {w}/good.csv --columns text=nope",
    "data show planted/sentiment --columns text=a",
    "data show {w}/good.csv --seed x",
    "data show planted/sentiment --seed 1.5",
    "train",
    "train --data nope",
    "train --data {w}/one.csv --epochs 1 --out {w}/new",
    T + "--learning-rate inf",
    T + "--learning-rate nan",
    T + "--learning-rate -1",
    T + "--learning-rate x",
    T + "--learning-rate 0",
    T + "--weight-decay inf",
    T + "--weight-decay -1",
    T + "--warmup 1",
    T + "--warmup nan",
    T + "--clip inf",
    T + "--clip 0",
    T + "--patience 0",
    T + "--epochs 0",
    T + "--epochs x",
    T + "--batch-size 0",
    T + "--seed 99999999999999999999",
    T + "--device nope",
    T + "--device auto",
    T + "--precision nope",
    T + "--model nope",
    T + "--model native(width=0)",
    T + "--model native(nope=1)",
    T + "--length 0",
    T + "--model {w}/void",
    T + "--rate 1e300",
    T + "--out {w}/void",
    T + "--out {w}/notes.txt",
    T + "--out {w}/project --overwrite",
    T + "--out {w}/run --overwrite",
    T + "--out {w}/notes.txt --overwrite",
    T + "--out {w}/model",
    T + f"--out {{w}}/{LONG}",
    "train --data {w}/nolabel.csv --epochs 1 --out {w}/new",
    "learn",
    "learn nope",
    L + "--family nope",
    L + "--outer nope",
    L + "--outer-rate inf",
    L + "--outer-rate nan",
    L + "--outer-rate -1",
    L + "--outer-batch 0",
    L + "--learning-rate inf",
    L + "--epochs 0",
    L + "--options nope=1",
    L + "--options route=nope",
    L + "--options x",
    L + "--device nope",
    L + "--out {w}/model",
    L + "--out {w}/project --overwrite",
    L + "--student nope",
    L + "--data nope",
    L + "--model {w}/void",
    Y + "--imitate nope",
    Y + "--imitate ''",
    Y + "--formulation nope",
    Y + "--combine nope",
    Y + "--size 0",
    Y + "--learning-rate inf",
    Y + "--epochs 0",
    Y + "--initialisations 0",
    Y + "--preset nope",
    Y + "--options nope=1",
    Y + "--out {w}/notes.txt",
    Y + "--out {w}/project --overwrite",
    "compare",
    "compare {w}/nope.toml",
    "compare {w}/void",
    "compare --model {w}/model",
    "compare --data {w}/good.csv",
    C + "--seeds 0",
    C + "--seeds x",
    C + "--sizes 0",
    C + "--sizes x",
    C + "--students nope",
    C + "--students same/nope",
    C + "--explainers nope",
    C + "--explainers ''",
    C + "--epochs 0",
    C + "--learning-rate inf",
    C + "--learning-rate nan",
    C + "--batch-size 0",
    C + "--engine nope",
    C + "--device nope",
    C + "--precision nope",
    C + "--workers -1",
    C + "--threads 0",
    C + "--balance nope",
    C + "--eval-rows -1",
    C + "--columns nope",
    C + "--task nope",
    C + "--gpus nan",
    C + "--model {w}/void",
    C + "--data {w}/nope.csv",
    C + "--out {w}/notes.txt",
    "metrics {w}/nope.parquet",
    "metrics {w}/notes.txt",
    M + "--metrics nope",
    M + "--metrics ''",
    M + "--tests nope",
    M + "--level nope",
    M + "--replace nope",
    M + "--batch-size 0",
    M + "--seed x",
    M + "--model {w}/void",
    M + "--data nope",
    M + "--metrics comprehensiveness",
    M + "--preset nope",
    M + "--encoder nope",
    "metrics {w}/damaged.parquet",
    "metrics {w}/table.parquet",
    f"metrics {LONG}",
    "agree",
    "agree {w}/maps.parquet",
    "agree {w}/nope.parquet {w}/maps.parquet",
    A + "--measure nope",
    A + "--by nope",
    A + "--level nope",
    A + "--each nope",
    A + "--out {w}/x.txt",
    A + "--out {w}/notes.png",
    A + "--out {w}/void",
    A + "--out -",
    A + "--methods lime",
    A + "--model {w}/model",
    A + "--data {w}/good.csv",
    "agree {w}/maps.parquet {w}/damaged.parquet",
    "agree {w}/maps.parquet {w}/table.parquet",
    "agree --methods lime,lrp",
    "agree --methods nope,lime --model {w}/model --data {w}/good.csv",
    "report",
    "report {w}/nope",
    "report {w}/void",
    "report {w}/notes.txt",
    R + "--out {w}/run/comparison.json",
    R + "--out {w}/run/results.parquet --overwrite",
    R + "--out {w}/void",
    R + "--out {w}/notes.txt",
    R + "--out /dev/null",
    R + "--out {w}/pipe",
    R + "--figures {w}/notes.txt",
    R + "--study {w}/nope",
    R + "--study {w}/void",
    R + f"--out {{w}}/{LONG}",
    R + "--out -",
    R + "--out {w}/dangling",
    "report {w}/badrun",
    "methods nope",
    "methods --nope",
    "methods --kind nope",
    S + "--checks nope",
    S + "--rows 0",
    S + "--epochs 0",
    S + "--split nope",
    S + "--device nope",
    S + "--methods nope",
    S + "--data nope",
    S + "--model {w}/void",
    "sanity",
    K + "--rows 0",
    K + "--batch-size 0",
    K + "--split nope",
    K + "--device nope",
    K + "--methods nope",
    K + "--data nope",
    K + "--model {w}/void",
    "cost",
    "demo --model {w}/void --out {w}/new",
    "demo --quick --full --out {w}/new",
    "demo --data {w}/good.csv --out {w}/new",
    "demo --seed x",
    "demo --device nope --out {w}/new",
    "study",
    "study nope",
    "study new",
    "study new --out {w}/new",
    N + "--kind nope",
    N + "--items 0",
    N + "--items x",
    N + "--annotators 0",
    N + "--errors 2",
    N + "--errors nan",
    N + "--consent {w}/nope.txt",
    N + "--data nope",
    N + "--points 1",
    N + "--out {w}/void",
    N + "--out {w}/notes.txt",
    "study new --explanations {w}/nope.parquet --out {w}/new",
    "study new --explanations {w}/damaged.parquet --out {w}/new",
    "study serve {w}/nope",
    "study serve {w}/void",
    "study serve {w}/notes.txt",
    "study invite {w}/void",
    "study status {w}/void",
    "study close {w}/void",
    "study simulate {w}/void",
    "study analyze {w}/void",
    "study analyze {w}/void --level 2",
    "study analyze {w}/void --figures {w}/notes.txt",
    "study export {w}/void --out {w}/x.csv",
    "study export {w}/void --out {w}/x.txt",
    "study export {w}/void --out {w}/notes.csv",
    "study export {w}/void --out /dev/null",
    "study erase {w}/void p01",
]


def commands() -> Iterator[str]:
    """All commands, each bad in a way of its own."""
    yield from OPTIONS
    for name in FILES:
        yield f"data show {{w}}/data/{name}"
    for name in FILES:
        if name.endswith((".jsonl", ".jsonl.gz", ".parquet")) and "rationale" not in FILES[name].decode("latin-1"):
            yield f"explain --model {{w}}/model --data {{w}}/data/{name} --stream --method occlusion --out {{w}}/x"
    for name in (*PLANS, "nothing.toml"):
        yield f"compare {{w}}/plans/{name} --out {{w}}/new"
    for name in FOREIGN:
        yield f"metrics {{w}}/foreign/{name} --data {{w}}/good.csv"
        yield f"agree {{w}}/foreign/{name} {{w}}/maps.parquet --data {{w}}/good.csv"


# Streamed rows need neither labels nor a score, so that these are good input there.
FINE = {
    f"explain --model {{w}}/model --data {{w}}/data/{name}.jsonl --stream --method occlusion --out {{w}}/x"
    for name in (
        "half-label",
        "both-labels",
        "dict-label",
        "long-number",
        "inf-score",
        "nan-score",
        "text-score",
        "true-score",
    )
}
CASES = [one for one in dict.fromkeys(commands()) if one not in FINE]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    train_teacher(SMALL, "native(width=16, layers=1)", out=root / "model", epochs=1, progress=False)
    for folder, files in (("data", FILES), ("foreign", FOREIGN), ("plans", PLANS)):
        (root / folder).mkdir()
        for name, content in files.items():
            whole = content.replace("{w}", str(root)).encode() if isinstance(content, str) else content
            (root / folder / name).write_bytes(whole)
    (root / "good.csv").write_text(CSV)
    (root / "one.csv").write_text("text,label\n" + "".join(f"text number {n},yes\n" for n in range(24)))
    (root / "nolabel.csv").write_text("text\n" + "".join(f"text number {n}\n" for n in range(24)))
    for name in ("notes.txt", "notes.png", "notes.csv"):
        (root / name).write_text("precious")
    for name in ("void", "project", "badrun"):
        (root / name).mkdir()
    (root / "project" / "keep.txt").write_text("precious")
    (root / "badrun" / "comparison.json").write_text('{"rows": [{}]}')
    (root / "pipe").symlink_to("/dev/null")
    (root / "dangling").symlink_to(root / "gone")
    maps_of([1.0, 2.0]).save(root / "maps.parquet")
    maps_of([2.0, 1.0], method="lrp").save(root / "other.parquet")
    (root / "damaged.parquet").write_bytes((root / "maps.parquet").read_bytes()[:-30])
    parquet.write_table(pyarrow.table({"a": [1]}), root / "table.parquet")
    with zipfile.ZipFile(root / "data" / "cut.npz", "w") as archive:
        archive.writestr("images.npy", np.lib.format.magic(1, 0) + b"\x10\0")
    write_run(root / "run")
    return root


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in root.rglob("*"):
        about = path.lstat()
        found[str(path)] = (about.st_mode, about.st_mtime_ns if path.is_file() else 0)
    return found


def test_there_are_300_cases():
    assert len(CASES) >= 300
    assert len({one.split()[0] for one in CASES if one}) >= 13


@pytest.mark.parametrize("command", CASES)
def test_bad_input_is_one_error(command, world, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = snapshot(world)
    arguments = [one.replace("{w}", str(world)) for one in shlex.split(command)]
    result = CliRunner().invoke(app, arguments)
    error = result.exception
    assert isinstance(error, DidactError | SystemExit), f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        assert error.code in (1, 2)
        assert result.output.strip()
    else:
        assert str(error).strip()
    assert "Traceback" not in result.output
    assert snapshot(world) == before
    assert list(tmp_path.iterdir()) == []
