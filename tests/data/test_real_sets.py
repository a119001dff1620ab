"""The real sets on disk: how many rows, what is marked, and that no text is in two splits."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from didact.core.words import marked_words
from didact.data.load import load_data
from didact.data.recipes.cifar100 import COARSE, FINE
from didact.errors import DataError

pytestmark = pytest.mark.realdata

# teach (and explain), train, dev, test
SIZES = {
    "imdb": (4995, 1750, 500, 2750),
    "sst": (5417, 1500, 872, 1821),
    "movie_rationales": (1000, 600, 200, 199),
    "esnli": (5901, 2955, 986, 9824),
    "mnli": (4907, 2454, 491, 1963),
    "quora": (5950, 2975, 992, 9928),
    "cola": (6533, 2000, 526, 516),
    "mlqe_pe": (1000, 1000, 1000, 1000),
    "mlqe_pe(pair=et-en+ro-en)": (2000, 2000, 2000, 2000),
    "qed": (542, 406, 136, 271),
    "cifar100": (7000, 2500, 500, 2000),
}
FINGERPRINTS = {
    "imdb": "0a98e55457ffbc87",
    "sst": "d90a1455222fcc04",
    "movie_rationales": "1a54a6fbd9b62538",
    "esnli": "3d7054f6084a2496",
    "mnli": "c83301287b6b6dd4",
    "quora": "d51c6c8e1281d8c0",
    "cola": "3651e5ae82915481",
    "mlqe_pe": "aea8a41cbbd9fc38",
    "mlqe_pe(pair=et-en+ro-en)": "d399e46133ae26c5",
    "qed": "b749377294b1141b",
    "cifar100": "61af40ea071b668c",
}


@pytest.fixture(scope="session")
def load(real_data):
    """Each set is read once."""
    loaded = {}

    def of(name):
        if name not in loaded:
            loaded[name] = load_data(name, data_dir=real_data)
        return loaded[name]

    return of


def records(real_data, path):
    with gzip.open(real_data / path, "rt", encoding="utf-8") as file:
        return {record["id"]: record for record in map(json.loads, file)}


@pytest.fixture(scope="session")
def survey(real_data):
    """Facts about every set, from a plain interpreter: the type checker of the tests makes rows ten times slower."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("survey.py")),
        str(real_data),
        *SIZES,
        "cifar100(labels=coarse)",
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", SIZES)
def test_rows_per_split(name, survey):
    facts = survey[name]
    assert tuple(facts["sizes"][split] for split in ("teach", "train", "dev", "test")) == SIZES[name]
    assert facts["explain_is_teach"]
    assert facts["fingerprint"] == FINGERPRINTS[name]


@pytest.mark.parametrize("name", SIZES)
def test_no_content_is_in_two_splits(name, survey):
    assert survey[name]["rows_in_two_splits"] == 0
    assert survey[name]["ids_used_twice"] == 0


@pytest.mark.parametrize("name", ["imdb", "sst", "movie_rationales", "esnli", "mnli", "quora", "cola", "cifar100"])
def test_every_class_is_in_every_split(name, survey):
    classes = len(survey[name]["classes"])
    assert survey[name]["labels"] == dict.fromkeys(("teach", "explain", "train", "dev", "test"), classes)


def test_dropped_rows_are_counted(survey):
    assert "teach: 2 rows dropped: the same content is in test." in survey["imdb"]["notes"]
    assert "dev: 1 rows dropped: the same content is in test." in survey["cola"]["notes"]
    assert "train: 1,624 of 8,544 records left out on purpose." in survey["sst"]["notes"]


def test_imdb_has_no_marks(survey):
    assert not survey["imdb"]["has_line_breaks"]
    assert not survey["imdb"]["has_rationales"]


def test_premises_and_passages_are_not_parted(survey):
    assert survey["esnli"]["parted"][0] == 0  # teach, train and dev come from one official split
    assert survey["mnli"]["parted"][0] == 0
    assert survey["qed"]["parted"][1] == 0
    assert survey["esnli"]["parted"][1] > 0  # hypotheses may recur


def test_sst_marks_words_of_the_sentence_polarity(load, real_data):
    data = load("sst")
    raw = records(real_data, "sst/test.jsonl.gz")
    assert data["test"].ids == tuple(key for key, record in raw.items() if record["label"] is not None)
    for row in data["test"]:
        record = raw[row.id]
        words = row.texts[0].split(" ")
        good = {0: {0, 1}, 1: {3, 4}}[record["label"]]
        assert [row.text_of(span) for span in row.rationale] == [
            words[start] for start, end, grade in record["phrases"] if end == start + 1 and grade in good
        ]
    assert sum(bool(row.rationale) for row in data["test"]) > 1500


def test_sst_rationales(load, real_data):
    data = load("sst_rationales")
    assert list(data) == ["test"]
    raw = records(real_data, "sst_rationales/test.jsonl.gz")
    assert len(data["test"]) == 84
    assert all(raw[row.id]["sst_split"] != "train" for row in data["test"])
    assert len(load("sst_rationales(keep_seen=true)")["test"]) == 263
    row = data["test"][0]
    assert row.id == "sst-rationale-170"
    # Marked by 3, 6, 3, 4, 4, 5 and 4 of 6: more than half of six is four.
    assert [row.text_of(span) for span in row.rationale] == ["annoying", "obviously", "knows", "nothing"]
    assert data.classes[row.label] == "negative"


def test_movie_rationales_are_the_marked_tokens(load, real_data):
    data = load("movie_rationales")
    raw = records(real_data, "movie_rationales/train.jsonl.gz") | records(real_data, "movie_rationales/test.jsonl.gz")
    for row in [*data["train"], *data["teach"], *data["test"]]:
        words = raw[row.id]["text"].split(" ")
        expected = [" ".join(words[start:end]) for start, end in raw[row.id]["rationales"]]
        assert [row.text_of(span) for span in row.rationale] == expected
    share = [sum(marks) / len(marks) for marks in (marked_words(row.rationale, row.texts) for row in data["test"])]
    assert 0.29 < sum(share) / len(share) < 0.34  # 31 % of tokens, as the source says


def test_mlqe_pe_marks_bad_words(load, real_data):
    data = load("mlqe_pe")
    raw = records(real_data, "mlqe_pe/en-de/test.jsonl.gz")
    for row in data["test"]:
        record = raw[row.id]
        bad = [
            word
            for text, marks in (("src", "src_bad"), ("mt", "mt_bad"))
            for word, mark in zip(record[text].split(" "), record[marks], strict=True)
            if mark
        ]
        assert [row.text_of(span) for span in row.rationale] == bad
        assert row.label == record["da_z_mean"]
    assert {span.segment for row in data["test"] for span in row.rationale} == {0, 1}


def test_qed_answers_and_alignments(load, real_data):
    data = load("qed")
    raw = records(real_data, "qed/validation.jsonl.gz")
    rows = [row for name in ("teach", "train", "dev", "test") for row in data[name]]
    assert len(rows) == len(raw)  # all have an answer
    nowhere = 0
    for row in rows:
        record = raw[row.id]
        given = {(start, end) for answer in record["nq_answers"] for start, end in answer}
        assert {(span.start, span.end) for span in row.label} == given
        assert {span.segment for span in row.label} == {1}
        if record["explanation_type"] != "single_sentence":
            assert row.rationale is None
            assert row.alignments is None
            continue
        kept = [one for one in record["referential_equalities"] if one["sentence"] != [-1, -1]]
        nowhere += len(record["referential_equalities"]) - len(kept)
        assert [(list(first[1:]), list(second[1:])) for first, second in row.alignments] == [
            (one["question"], one["sentence"]) for one in kept
        ]
        assert all((first.segment, second.segment) == (0, 1) for first, second in row.alignments)
        assert {span for pair in row.alignments for span in pair} <= set(row.rationale)
    assert nowhere == 77
    assert sum(row.alignments is not None for row in rows) == 1021


def test_cifar100_classes(survey, real_data):
    names = json.loads((real_data / "cifar100" / "classes.json").read_text())
    assert list(FINE) == names["fine"]
    assert list(COARSE) == names["coarse"]
    fine, coarse = survey["cifar100"], survey["cifar100(labels=coarse)"]
    assert coarse["classes"] == names["coarse"]
    groups = [names["fine_to_coarse"][label] for label in fine["test_labels"]]
    assert coarse["test_labels"] == [one if isinstance(one, int) else names["coarse"].index(one) for one in groups]


def test_a_missing_file_is_named(real_data, tmp_path):
    (tmp_path / "cola").mkdir()
    shutil.copy(real_data / "cola" / "train.jsonl.gz", tmp_path / "cola")
    with pytest.raises(DataError) as caught:
        load_data("cola", data_dir=tmp_path)
    text = str(caught.value)
    assert "cola needs the splits train and validation and validation_ood" in text
    assert str(tmp_path / "cola" / "validation.jsonl.gz") in text
    assert str(tmp_path / "cola" / "train.jsonl.gz") not in text


def test_plain_lines_do_as_well(real_data, tmp_path, load):
    (tmp_path / "qed").mkdir()
    packed = (real_data / "qed" / "validation.jsonl.gz").read_bytes()
    (tmp_path / "qed" / "validation.jsonl").write_bytes(gzip.decompress(packed))
    assert load_data("qed", data_dir=tmp_path).fingerprint == load("qed").fingerprint


def test_the_environment_names_the_folder(real_data, monkeypatch, load):
    monkeypatch.setenv("DIDACT_DATA", str(real_data))
    assert load_data("qed").fingerprint == load("qed").fingerprint
