"""Sets read from a folder, written small here: the two that few have, and files that went wrong."""

import json

import pytest

from didact.data.cut import REST
from didact.data.load import load_data
from didact.data.recipes import labelled
from didact.errors import DataError


def write(folder, **splits):
    folder.mkdir()
    for split, records in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder.parent


def news(split, count):
    return [{"id": f"{split}-{n}", "text": f"{split} news {n}", "label": n % 4} for n in range(count)]


def test_ag_news(tmp_path):
    data = load_data("ag_news", data_dir=write(tmp_path / "ag_news", train=news("train", 100), test=news("test", 8)))
    assert {name: len(split) for name, split in data.items()} == {
        "teach": 85,
        "explain": 85,
        "train": 10,
        "dev": 5,
        "test": 8,
    }
    assert data.classes == ("World", "Sports", "Business", "Sci/Tech")
    named = [record | {"label": "Sci/Tech"} for record in news("test", 8)]
    (tmp_path / "named").mkdir()
    data = load_data("ag_news", data_dir=write(tmp_path / "named" / "ag_news", train=news("train", 100), test=named))
    assert {row.label for row in data["test"]} == {3}


def test_hatexplain(tmp_path):
    def posts(split, count):
        return [
            {
                "id": f"{split}{n}",
                "tokens": [f"{split}{n}", "you", "all", "lot"],
                "label": ["hatespeech", "normal", "offensive"][n % 3],
                "rationales": [] if n % 3 == 1 else [[0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 1], [1, 1]],
            }
            for n in range(count)
        ]

    folder = write(tmp_path / "hatexplain", train=posts("a", 40), validation=posts("b", 6), test=posts("c", 6))
    data = load_data("hatexplain", data_dir=folder)
    assert {name: len(split) for name, split in data.items()} == {
        "teach": 30,
        "explain": 30,
        "train": 10,
        "dev": 6,
        "test": 6,
    }
    first, normal = data["test"][0], data["test"][1]
    assert first.texts == ("c0 you all lot",)
    assert [first.text_of(span) for span in first.rationale] == ["you", "lot"]  # the list of two does not count
    assert normal.rationale is None
    assert data.classes[normal.label] == "normal"


def test_whole_inference_set_from_a_folder(tmp_path, monkeypatch):
    """With a training file the official splits stay whole; without it validation is cut."""

    def pairs(split, count):
        return [
            {"id": f"{split}{n}", "premise": f"{split} {n}", "hypothesis": "h", "label": "neutral"}
            for n in range(count)
        ]

    part = {"validation": pairs("v", 100), "test": pairs("t", 7)}
    data = load_data("esnli", data_dir=write(tmp_path / "esnli", **part))
    assert [len(data[name]) for name in ("teach", "train", "dev", "test")] == [60, 30, 10, 7]
    (tmp_path / "whole").mkdir()
    monkeypatch.setattr(labelled, "FULL_CUT", labelled.FULL_CUT | {"train": {"train": 1_000, "teach": REST}})
    data = load_data("esnli", data_dir=write(tmp_path / "whole" / "esnli", train=pairs("x", 1_100), **part))
    assert [len(data[name]) for name in ("teach", "train", "dev", "test")] == [100, 1_000, 100, 7]


def test_faults_of_a_recipe_name_file_line_and_field(tmp_path):
    bad = news("train", 30)
    bad[4]["label"] = 9
    bad[6]["text"] = ""
    del bad[7]["text"]
    folder = write(tmp_path / "ag_news", train=bad, test=news("test", 8))
    with pytest.raises(DataError) as caught:
        load_data("ag_news", data_dir=folder)
    text = str(caught.value)
    assert "ag_news has 3 faults, and none of it was loaded" in text
    assert (
        "train.jsonl line 5: field 'label' holds 9, which is not one of the classes World, Sports, Business, Sci/Tech"
        in text
    )
    assert "train.jsonl line 7: field 'text' is empty" in text
    assert "train.jsonl line 8: field 'text' is missing" in text


def test_records_of_another_form_are_named(tmp_path):
    rows = [{"id": f"{n}", "text": f"a b {n}", "label": 1} for n in range(9)]
    folder = write(tmp_path / "sst", train=rows, validation=rows, test=rows)
    with pytest.raises(DataError, match=r"train\.jsonl line 1: not the structure that sst has \(KeyError: 'phrases'\)"):
        load_data("sst", data_dir=folder)


def test_marks_that_do_not_fit(tmp_path):
    row = {"id": "1", "src": "a b", "mt": "c", "da_z_mean": 0.5, "src_bad": [1], "mt_bad": [0]}
    (tmp_path / "mlqe_pe").mkdir()
    write(tmp_path / "mlqe_pe" / "en-de", train=[row], validation=[row], test=[row])
    with pytest.raises(DataError, match="field 'src_bad' has 1 marks for 2 whitespace tokens"):
        load_data("mlqe_pe", data_dir=tmp_path)
