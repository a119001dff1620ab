"""One flipped bit in any file that didact writes and reads back is an error, or changes nothing. Never a traceback."""

import json
import logging
import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from didact.comparing.answer_file import AnswerFile
from didact.comparing.cell import load_outputs
from didact.comparing.compare import compare
from didact.comparing.run_inputs import read_rows
from didact.core.function import FunctionTeacher
from didact.core.outputs import Outputs
from didact.data.load import load_data
from didact.errors import DidactError
from didact.execution.base import open_runner
from didact.explainers.learned import load_explainer
from didact.explaining.row_io import load_rows, save_rows
from didact.explaining.stream import explain_stream
from didact.files.checksummed import check_tensors, read_json, write_json, write_tensors
from didact.files.store import Store
from didact.learning.train import train_teacher
from didact.models.load import load_teacher, read_record
from didact.models.student_init import StudentInit
from didact.results.comparison import Comparison
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.study_analysis import StudyAnalysis
from didact.results.training_record import TrainingRecord
from didact.study.analyze import analyze
from didact.study.design import read_design
from didact.study.stimuli import read_stimuli
from didact.study.synthetic_annotators import simulate_answers
from explainers.test_mix import prepared
from study.people import study_of

SIZES = "teach=40, explain=10, train=30, dev=8, test=16"
TINY = "native(width=16, layers=1, heads=2)"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One folder with every kind of file in it."""
    root = tmp_path_factory.mktemp("written")
    data = load_data(f"planted/sentiment({SIZES})")
    teacher = train_teacher(data, TINY, epochs=1, progress=False, out=root / "teacher")
    compare(
        teacher, data, ["gradient_norm"], ["same/attention"], train_sizes=[8], seeds=1, workers=0, replicates=20,
        training={"epochs": 1}, eval_rows=2, balance=False, out=root / "run",
    )  # fmt: skip
    mix = prepared("attention_mix", normaliser="softmax")
    mix.learned = {"data": "planted", "rows": ["a"]}
    mix.save_pretrained(root / "explainer")
    study_of(root / "study")
    design = read_design(root / "study")
    document = analyze(design, simulate_answers(design, people=3), replicates=20).to_document()
    write_json(root / "study" / "analysis.json", document, indent=1)  # as `analyze_study` does
    rows = [replace(row, rationale=None) for row in data["test"]]
    lines = [json.dumps({"id": row.id, "text": row.texts[0]}) for row in rows]
    (root / "rows.jsonl").write_text("\n".join(lines) + "\n")
    explain_stream(teacher, root / "rows.jsonl", "gradient_norm", out=root / "stream.parquet", shard=8)
    maps = Explanations.load(first(root / "run", "explanations/gradient*.parquet"))
    values = np.random.default_rng(0).normal(size=(len(maps.scores), 3)).astype(np.float32)
    ComponentScores(maps, ("head 1", "head 2", "head 3"), values).save(root / "parts-x")
    save_rows(root / "rows.parquet", rows[:4])
    start = StudentInit("x", "random", {"kind": "none"}, {"tokenizer.json": b'{"words": ["good", "bad", "film"]}' * 5})
    (root / "start").mkdir()
    start.save(root / "start")
    write_json(root / "plain.json", {"seconds": {"lime": 1.5}, "nan": float("nan")})
    return root


def first(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


def same(value: object) -> str:
    """A text that is equal for equal values; `repr` cuts long arrays."""
    if isinstance(value, Explanations):
        columns = [getattr(value, name) for name in value.__dataclass_fields__]
        return repr([one.tobytes() if isinstance(one, np.ndarray) else one for one in columns])
    return repr(value)


def outputs_of(path: Path) -> object:
    store = Store(path.parent)
    return load_outputs(store, TrainingRecord.load(store, path.stem)).columns


def start_of(folder: Path, _: Path) -> object:
    found = StudentInit.load(folder)
    return found.spec, found.origin, found.facts, sorted(found.files.items())


def explainer_of(path: Path) -> object:
    found = load_explainer(path.parent)
    return found.options, found.names, found.learned, found.weights.tolist()


def model_of(path: Path) -> object:
    return [weights.tolist() for weights in load_teacher(path.parent).state_dict().values()]


def parts_of(path: Path) -> object:
    found = ComponentScores.load(path.with_suffix(""))
    return found.names, found.values.tobytes(), same(found.maps)


def rows_of(path: Path) -> object:
    labelled = read_rows(path)
    return {name: (one.rows, one.outputs.values.tobytes(), one.outputs.answers) for name, one in labelled.items()}


def comparison_of(path: Path) -> object:
    found = Comparison.load(path.parent)
    return found.table(), found.to_document()


KINDS = {
    "comparison.json": ("run/comparison.json", comparison_of),
    "comparison.json, report": ("run/comparison.json", lambda path: Comparison.load(path.parent)),
    "measured.json": ("run/measured.json", lambda path: Comparison.load(path.parent).measured),
    "run.json": ("run/run.json", lambda path: Comparison.load(path.parent).launch),
    "cell record": ("run/cells/*.json", lambda path: Store(path.parent).load(path.stem)),
    "cell answers": ("run/cells/*.parquet", outputs_of),
    "explanations": ("run/explanations/gradient*.parquet", Explanations.load),
    "explanations, joined": ("stream.parquet", Explanations.load),
    "parts": ("parts-x.safetensors", parts_of),
    "labelled rows": ("run/classroom/rows-*.parquet", rows_of),
    "list of cells": ("run/classroom/cells-*.json", lambda path: sorted(map(repr, open_runner(path).cells.values()))),
    "start": ("run/classroom/starts/*/start.json", lambda path: start_of(path.parent, path)),
    "start, files": ("start/start/*", lambda path: start_of(path.parents[1], path)),
    "explainer, config": ("explainer/config.json", explainer_of),
    "explainer, weights": ("explainer/model.safetensors", explainer_of),
    "model, weights": ("teacher/model.safetensors", model_of),
    "didact.json": ("teacher/didact.json", lambda path: read_record(path.parent)),
    "study": ("study/study.json", lambda path: read_design(path.parent)),
    "study, stimuli": ("study/stimuli.json", lambda path: read_stimuli(path.parent)),
    "study, analysis": ("study/analysis.json", lambda path: StudyAnalysis.load(path.parent)),
    "rows for workers": ("rows.parquet", load_rows),
    "orders and costs": ("plain.json", partial(read_json, advice="")),
}


def flipped(written: Path, kind: str, count: int, tmp_path: Path) -> dict[str, int]:
    """How many of `count` single-bit flips are told, change nothing, or are silent."""
    pattern, read = KINDS[kind]
    source = first(written, pattern)
    top = source.relative_to(written).parts[0]
    if (written / top).is_dir():
        shutil.copytree(written / top, tmp_path / top)
    else:
        for file in written.glob(f"{source.stem}.*"):
            shutil.copy(file, tmp_path)
    path = tmp_path / source.relative_to(written)
    content = path.read_bytes()
    expected = same(read(path))
    draw = random.Random(f"{kind} {count}")
    found = {"told": 0, "same": 0, "silent": 0, "nameless": 0}
    for _ in range(count):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(damaged))
        try:
            found["same" if same(read(path)) == expected else "silent"] += 1
        except DidactError as error:
            is_named = path.name in str(error) or path.parent.name in str(error)
            found["told" if is_named else "nameless"] += 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_told(written, kind, tmp_path):
    found = flipped(written, kind, 20, tmp_path)
    assert found["silent"] == found["nameless"] == 0, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_three_hundred_flipped_bits_are_told(written, kind, tmp_path):
    found = flipped(written, kind, 300, tmp_path)
    logging.getLogger(__name__).info("%s: %s", kind, found)
    assert found["silent"] == found["nameless"] == 0, found


def test_a_checkpoint(tmp_path):
    """Safetensors of any framework: what is read is what was written, and damage is noticed."""
    from safetensors import SafetensorError
    from safetensors.torch import load, save

    path = tmp_path / "checkpoint.safetensors"
    write_tensors(path, save({"a": torch.arange(6.0), "b": torch.ones(3, dtype=torch.bfloat16)}, metadata={"x": "y"}))
    content = path.read_bytes()
    expected = load(content)
    assert torch.equal(expected["a"], torch.arange(6.0))
    draw, told = random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(damaged))
        try:
            check_tensors(path, advice="")
            assert all(torch.equal(one, expected[name]) for name, one in load(bytes(damaged)).items())
        except (DidactError, SafetensorError):
            told += 1
    assert told > 270


def test_answers_of_a_function(tmp_path):
    """A damaged line counts as missing, so its row is asked about again; no answer is ever another one."""
    data = load_data(f"planted/sentiment({SIZES})")
    teacher = FunctionTeacher(lambda texts: np.full((len(texts), 2), 0.5), data.classes, name="half")
    rows = data["test"].rows
    file = AnswerFile(tmp_path, teacher)
    values = np.random.default_rng(0).normal(size=(len(rows), 2))
    file.add(rows, Outputs(teacher.task, tuple(row.id for row in rows), values))
    content = file.path.read_bytes()
    draw = random.Random(0)
    missing = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        file.path.write_bytes(bytes(damaged))
        found = [AnswerFile(tmp_path, teacher).get(row) for row in rows]
        missing += sum(one is None for one in found)
        assert all(one is None or np.array_equal(one, kept) for one, kept in zip(found, values, strict=True))
    assert 250 < missing <= 600, "of 16 rows, one line each time; two where their line end is hit"


@pytest.mark.parametrize("document", [
    '{"rows": [{}]}', '{"rows": [{}], "failed": [], "notes": [], "about": {}, "agreement": {}}', "[]", "5", "",
    '{"rows": [[]], "failed": [], "notes": [], "about": {}, "agreement": {}}',
    '{"rows": [], "failed": [{}], "notes": [], "about": {}, "agreement": {}}', "[" * 5000 + "]" * 5000,
])  # fmt: skip
def test_missing_fields_are_told(tmp_path, document):
    (tmp_path / "comparison.json").write_text(document)
    with pytest.raises(DidactError, match=r"comparison\.json is damaged.*Run the same comparison again"):
        Comparison.load(tmp_path)


def test_files_of_earlier_versions_have_no_checksum_and_are_read(written, tmp_path):
    shutil.copytree(written / "run", tmp_path / "run")
    path = tmp_path / "run" / "comparison.json"
    document = json.loads(path.read_text())
    assert document.pop("checksum")
    path.write_text(json.dumps(document))
    assert Comparison.load(tmp_path / "run").table() == Comparison.load(written / "run").table()
