"""Data of one's own: every kind of source gives the same rows, and what was guessed is said."""

import csv
import gzip
import json
import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from didact.core.row import Box, Span
from didact.data.load import load_data
from didact.errors import DataError, OptionError, UnknownNameError

ROWS = [{"id": f"r{n}", "text": f"text number {n} , ünïcode", "label": ["neg", "pos"][n % 2]} for n in range(40)]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def rows_of(data):
    return {row.id: (row.texts, row.label) for name in ("teach", "train", "dev", "test") for row in data[name]}


def all_sources(tmp_path):
    frame = pd.DataFrame(ROWS)
    yield write_lines(tmp_path / "a.jsonl", ROWS)
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write((tmp_path / "a.jsonl").read_text(encoding="utf-8"))
    yield str(tmp_path / "b.jsonl.gz")
    frame.to_csv(tmp_path / "c.csv", index=False)
    yield tmp_path / "c.csv"
    frame.to_csv(tmp_path / "d.tsv", index=False, sep="\t")
    yield tmp_path / "d.tsv"
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "e.parquet")
    yield tmp_path / "e.parquet"
    yield frame
    (tmp_path / "folder").mkdir()
    write_lines(tmp_path / "folder" / "reviews.jsonl", ROWS)
    yield tmp_path / "folder"


def test_every_source_gives_the_same_data(tmp_path):
    prints = set()
    for source in all_sources(tmp_path):
        data = load_data(source)
        assert data.classes == ("neg", "pos")
        assert data.task.name == "classification"
        assert rows_of(data) == {row["id"]: ((row["text"],), int(row["label"] == "pos")) for row in ROWS}
        prints.add(data.fingerprint)
    assert len(prints) == 1


def test_hugging_face_sets_bring_their_class_names():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    table = {"text": [f"t {n}" for n in range(20)], "label": [-1, *(n % 2 for n in range(19))]}
    one = datasets.Dataset.from_dict(table, features=features)
    data = load_data(one)
    assert data.classes == ("bad", "good")
    assert [row.label for name in ("teach", "train", "dev", "test") for row in data[name] if row.texts == ("t 0",)] == [
        None
    ]
    both = load_data(datasets.DatasetDict({"train": one, "test": one.select(range(5))}))
    assert len(both["test"]) == 5
    assert sum(len(both[name]) for name in ("teach", "train", "dev")) == 15  # the five are test's alone


def test_order_of_rows_does_not_matter(tmp_path):
    forward = load_data(write_lines(tmp_path / "a.jsonl", ROWS))
    backward = load_data(write_lines(tmp_path / "b.jsonl", ROWS[::-1]))
    assert forward.fingerprint == backward.fingerprint
    assert {name: len(split) for name, split in forward.items()} == {
        "teach": 20,
        "explain": 20,
        "train": 10,
        "dev": 2,
        "test": 8,
    }


def test_seed_does_not_change_a_cut(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", ROWS)
    assert load_data(path, seed=0).fingerprint == load_data(path, seed=1).fingerprint


def test_guesses_are_stated_and_logged(tmp_path, caplog):
    path = write_lines(tmp_path / "a.jsonl", [{"review": f"text {n}", "stars": n % 5 + 1} for n in range(30)])
    with caplog.at_level(logging.INFO, logger="didact"):
        data = load_data(path)
    told = " ".join(data.notes)
    assert "Column 'review' is used as text; column 'stars' is used as label." in told
    assert "(on the command line --columns text=…)" in told
    assert "Task classification was inferred" in told
    assert "'review' is used as text" in caplog.text
    assert data.classes == ("1", "2", "3", "4", "5")
    assert data.segments == ("review",)
    given = load_data(path, task="classification", columns={"text": "review", "label": "stars"})
    assert not any("is used as" in note or "inferred" in note for note in given.notes)
    assert given.fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("record", "task", "texts"),
    [
        ({"sentence": "a b", "label": 1}, "classification", ("a b",)),
        ({"premise": "p", "hypothesis": "h", "label": "x"}, "pair", ("p", "h")),
        ({"question1": "p", "question2": "h", "label": 0}, "pair", ("p", "h")),
        ({"sentence1": "p", "sentence2": "h", "label": 0}, "pair", ("p", "h")),
        ({"text_b": "h", "text_a": "p", "label": 0}, "pair", ("p", "h")),
        ({"question": "q", "context": "the answer", "answers": ["answer"]}, "reading", ("q", "the answer")),
        ({"src": "s", "mt": "t", "score": 0.5}, "regression", ("s", "t")),
        ({"text": "s", "score": 0.5}, "regression", ("s",)),
    ],
)
def test_task_is_inferred_from_columns(record, task, texts):
    data = load_data({"test": pd.DataFrame([record])})
    assert data.task.name == task
    assert data["test"][0].texts == texts


def test_answers_in_each_form():
    passage = "Ann met Bob . Bob left ."
    forms = [
        [[8, 11]],
        [8, 11],
        "Bob",
        ["Bob"],
        {"text": ["Bob"], "answer_start": [8]},
        [[1, 8, 11]],
    ]
    for answer in forms:
        frame = pd.DataFrame([{"question": "whom ?", "passage": passage, "answers": answer}])
        assert load_data({"test": frame})["test"][0].label == (Span(1, 8, 11),)


def test_alignments_of_a_reading_row(tmp_path):
    record = {"question": "who left ?", "passage": "Bob left .", "answers": [[0, 3]], "alignments": [[[4, 8], [4, 8]]]}
    row = load_data({"test": write_lines(tmp_path / "a.jsonl", [record])})["test"][0]
    assert row.alignments == ((Span(0, 4, 8), Span(1, 4, 8)),)


def test_rationales_as_spans_and_as_marks(tmp_path):
    records = [
        {"text": "a  bad film", "label": 0, "rationale": [[3, 6]]},
        {"text": "a  bad film!", "label": 0, "rationale": [0, 1, 0]},
        {"text": "a film", "label": 1, "rationale": None},
        {"text": "the film", "label": 1, "rationale": []},
    ]
    rows = load_data({"test": write_lines(tmp_path / "a.jsonl", records)})["test"]
    assert [row.rationale for row in rows] == [(Span(0, 3, 6),), (Span(0, 3, 6),), None, ()]
    frame = pd.DataFrame(records)
    frame["rationale"] = [
        json.dumps(record["rationale"]) if record["rationale"] is not None else "" for record in records
    ]
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert [row.rationale for row in load_data({"test": tmp_path / "a.csv"})["test"]] == [row.rationale for row in rows]


def test_rationales_of_a_pair_name_their_segment(tmp_path):
    record = {"premise": "a cat", "hypothesis": "no cat", "label": 0, "rationale": [[1, 0, 2], [0, 2, 5]]}
    row = load_data({"test": write_lines(tmp_path / "a.jsonl", [record])})["test"][0]
    assert [row.text_of(span) for span in row.rationale] == ["no", "cat"]
    marks = record | {"rationale": [0, 1, 1, 0]}
    row = load_data({"test": write_lines(tmp_path / "b.jsonl", [marks])})["test"][0]
    assert [row.text_of(span) for span in row.rationale] == ["cat", "no"]


def test_images_from_an_archive(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 4, 5, 3)).astype(np.uint8)
    np.savez(
        tmp_path / "pictures.npz", images=pixels, labels=np.arange(20) % 3, rationale=np.tile([0, 1, 2, 3], (20, 1, 1))
    )
    data = load_data({"test": tmp_path / "pictures.npz"})
    assert data.task.name == "image"
    assert data.classes == ("0", "1", "2")
    np.testing.assert_array_equal(data["test"][7].image, pixels[7])
    assert data["test"][7].rationale == (Box(0, 1, 2, 3),)
    assert data["test"][7].id == "test-8"
    grey = pd.DataFrame({"image": list(pixels[..., 0]), "label": [0] * 20})
    assert load_data({"test": grey})["test"][0].image.shape == (4, 5, 1)


def test_classes_by_name_or_by_number(tmp_path):
    numbers = write_lines(tmp_path / "n.jsonl", [{"text": f"t{n}", "label": n % 2} for n in range(8)])
    assert load_data({"test": numbers}, classes=["neg", "pos"])["test"][1].label == 1
    assert load_data({"test": numbers}, classes=["1", "0"])["test"][1].label == 0  # written like a name, so it is one
    stars = write_lines(tmp_path / "s.jsonl", [{"text": f"t{n}", "label": n + 9} for n in range(3)])
    data = load_data({"test": stars})
    assert data.classes == ("9", "10", "11")  # as numbers, not as texts
    assert [row.label for row in data["test"]] == [0, 1, 2]
    flags = write_lines(tmp_path / "f.jsonl", [{"text": "a", "label": True}, {"text": "b", "label": False}])
    assert load_data({"test": flags}).classes == ("false", "true")


def test_frames_with_missing_labels():
    data = load_data({"test": pd.DataFrame({"text": ["a", "b", "c"], "label": [1, None, 0]})})
    assert [row.label for row in data["test"]] == [1, None, 0]


def test_ids_are_made_from_split_and_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 0}\n\n{"text": "b", "label": 1}\n')
    assert load_data({"test": path})["test"].ids == ("test-1", "test-3")


def test_ids_that_two_splits_share_get_the_name_of_the_split():
    frame = pd.DataFrame({"id": [1, 2], "text": ["a", "b"], "label": [0, 1]})
    data = load_data({"teach": frame, "test": frame.assign(text=["c", "d"])})
    assert data["teach"].ids == ("teach/1", "teach/2")
    assert any("same ids" in note for note in data.notes)


def test_names_like_ours_are_kept():
    frame = pd.DataFrame(ROWS)
    parts = {
        "teach": frame[:10],
        "explain": frame[5:12],
        "train": frame[12:20],
        "dev": frame[20:25],
        "test": frame[25:],
    }
    data = load_data(parts)
    assert {name: len(split) for name, split in data.items()} == {
        "teach": 10,
        "explain": 7,
        "train": 8,
        "dev": 5,
        "test": 15,
    }
    assert data["test"].ids == tuple(frame["id"][25:])  # whole splits keep their order


def test_usual_names_are_mapped(tmp_path):
    for name, part in {"train": ROWS[:30], "validation": ROWS[30:35], "test": ROWS[35:]}.items():
        write_lines(tmp_path / f"{name}.jsonl", part)
    data = load_data(tmp_path)
    assert data["dev"].ids == tuple(row["id"] for row in ROWS[30:35])
    assert data["test"].ids == tuple(row["id"] for row in ROWS[35:])
    assert len(data["train"]) == 8
    assert len(data["teach"]) == 22
    assert {*data["teach"].ids, *data["train"].ids} == {row["id"] for row in ROWS[:30]}
    assert data["explain"].ids == data["teach"].ids


def test_train_alone_is_cut_four_ways():
    data = load_data({"train": pd.DataFrame(ROWS)})
    assert {name: len(split) for name, split in data.items()} == {
        "teach": 20,
        "explain": 20,
        "train": 10,
        "dev": 2,
        "test": 8,
    }


def test_options_belong_to_names(tmp_path):
    with pytest.raises(OptionError, match="no option 'pair'"):
        load_data(write_lines(tmp_path / "a.jsonl", ROWS), pair="en-de")
    with pytest.raises(OptionError, match="imdb has its own columns"):
        load_data("imdb", columns={"text": "t"})
    with pytest.raises(OptionError, match="given twice"):
        load_data("mlqe_pe(pair=en-de)", pair="ro-en")
    with pytest.raises(OptionError, match=r"(?s)'en-fr'.*en-de"):
        load_data("mlqe_pe(pair=en-fr)")
    with pytest.raises(OptionError, match="option of imdb"):
        load_data("imdb(half=1)")
    with pytest.raises(OptionError, match="kind of labels"):
        load_data("cifar100(labels=rough)")


def test_strange_sources_are_refused():
    with pytest.raises(DataError, match="cannot be read as data"):
        load_data(3)
    with pytest.raises(DataError, match="mapping of splits is empty"):
        load_data({})
    with pytest.raises(DataError, match="'unsupervised' is not the name of a split"):
        load_data({"train": pd.DataFrame(ROWS), "unsupervised": pd.DataFrame(ROWS)})
    with pytest.raises(DataError, match="Two names mean the split 'dev': dev, validation"):
        load_data({"dev": pd.DataFrame(ROWS), "validation": pd.DataFrame(ROWS), "train": pd.DataFrame(ROWS)})
    with pytest.raises(DataError, match="3 rows are too few"):
        load_data({"train": pd.DataFrame(ROWS[:3])})


class TestSeparators:
    HEADER = ("review_id", "comment", "verdict")

    @pytest.mark.parametrize(
        ("sign", "called"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars"), (",", None)]
    )
    def test_are_found(self, tmp_path, sign, called):
        """Whatever separates the fields, the same rows; quotes hold separators and line breaks."""
        path = tmp_path / "a.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=sign)
            writer.writerow(self.HEADER)
            writer.writerows((f"R{n}", f'good, "bad"; a|b\tand\nso on {n}', "ab"[n % 2]) for n in range(12))
        data = load_data(path, columns={"label": "verdict"})
        assert data.all_rows.ids == tuple(f"R{n}" for n in range(12))
        assert data.all_rows[3].texts == ('good, "bad"; a|b\tand\nso on 3',)
        told = [note for note in data.notes if "separated" in note]
        assert told == ([] if called is None else [f"Fields of a.csv are separated by {called}."])

    def test_commas_in_texts_separate_nothing(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("text;label\n" + "".join(f"a, b, c {n};{n % 2}\n" for n in range(12)))
        assert load_data(path).all_rows[0].texts == ("a, b, c 0",)

    def test_none_fits(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("id,text;label\n1,a good film\n2;b\n3|x\n")
        with pytest.raises(DataError) as caught:
            load_data(path)
        for called in ("commas: the header has 2 fields, and 1 of the first 3", "semicolons", "tabs", "vertical bars"):
            assert called in str(caught.value)
        assert "line 3: has 1 fields, the header names 2" in str(caught.value)

    def test_one_column(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text('comment\n"well, good"\nbad\n')
        assert [row.texts[0] for row in load_data(path).all_rows] == ["well, good", "bad"]


class TestIds:
    @staticmethod
    def load(tmp_path, column, values, **more):
        records = [{column: value, "text": f"text {n}"} | more for n, value in enumerate(values)]
        return load_data(write_lines(tmp_path / "a.jsonl", records))

    @pytest.mark.parametrize("column", ["review_id", "reviewId", "ID", "customer-id"])
    def test_a_column_called_like_an_id_is_one(self, tmp_path, column):
        data = self.load(tmp_path, column, range(100, 112))
        assert data.all_rows.ids[:2] == ("100", "101")
        assert f"{column!r} is used as id" in " ".join(data.notes)

    @pytest.mark.parametrize(
        ("column", "values"),
        [("user_id", [1, 1, 2]), ("user_id", ["a", "", "b"]), ("user_id", [0.5, 1.5, 2.5]), ("paid", ["a", "b", "c"])],
    )
    def test_not_without_a_value_for_each_row(self, tmp_path, column, values):
        assert self.load(tmp_path, column, values).all_rows.ids == ("row-1", "row-2", "row-3")

    def test_an_exact_name_comes_first_and_none_can_be_asked_for(self, tmp_path):
        records = [{"review_id": n, "id": f"i{n}", "text": f"text {n}"} for n in range(3)]
        path = write_lines(tmp_path / "a.jsonl", records)
        assert load_data(path).all_rows.ids == ("i0", "i1", "i2")
        assert load_data(path, columns={"id": None}).all_rows.ids == ("row-1", "row-2", "row-3")

    def test_it_must_differ_in_every_split(self):
        frames = {"train": [1, 2, 3, 4, 5, 6], "test": [7, 7, 8]}
        data = load_data(
            {
                name: pd.DataFrame([{"my_id": one, "text": f"{name} {n}"} for n, one in enumerate(ids)])
                for name, ids in frames.items()
            }
        )
        assert data["test"].ids == ("test-1", "test-2", "test-3")


class TestAllRows:
    def test_are_in_the_order_of_the_file_and_no_split_of_their_own(self, tmp_path):
        data = load_data(write_lines(tmp_path / "a.jsonl", [*ROWS, ROWS[0] | {"id": "again"}]))
        assert data["all"] is data.all_rows
        assert data["all"].ids == (*(row["id"] for row in ROWS), "again")
        assert data["all"].classes == data.classes
        assert "all" in data
        assert list(data) == ["teach", "explain", "train", "dev", "test"]
        assert data.fingerprint == replace(data, all_rows=None).fingerprint

    def test_only_of_data_that_came_without_splits(self):
        data = load_data({"train": pd.DataFrame(ROWS), "test": pd.DataFrame(ROWS[:3])})
        assert data.all_rows is None
        assert "all" not in data
        assert data.get("all") is None
        with pytest.raises(UnknownNameError, match="no split of data named 'all'"):
            data["all"]

    def test_a_file_too_small_for_splits_has_them_alone(self, tmp_path):
        data = load_data(write_lines(tmp_path / "a.jsonl", ROWS[:3]))
        assert list(data) == []
        assert repr(data) == "Dataset('a', classification, all 3)"
        assert data["all"].ids == ("r0", "r1", "r2")
        assert any("3 rows are too few to cut" in note for note in data.notes)
        with pytest.raises(UnknownNameError, match=r"Known: all\. 3 rows are too few to cut"):
            data["test"]


def test_columns_that_are_not_used_are_named(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"comment": f"text {n}", "verdict": "a"} for n in range(3)])
    (note,) = [note for note in load_data(path).notes if "No labels found" in note]
    assert "Columns not used: verdict." in note
    assert "--columns label=…" in note


def test_importing_the_room_is_light():
    import subprocess
    import sys

    code = (
        "import sys, didact.data, didact.data.load\n"
        "heavy = {'torch', 'transformers', 'pandas', 'pyarrow', 'datasets', 'scipy', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
