"""Every kind of bad input is answered by one message that names file, line and field; nothing is half loaded."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from didact.data.load import load_data
from didact.errors import DataError, RequestError

GOOD = [{"id": f"r{n}", "text": f"text {n}", "label": n % 2} for n in range(20)]


def lines(path, records):
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records))
    return path


def message(source, **options) -> str:
    with pytest.raises(DataError) as caught:
        load_data(source, **options)
    assert isinstance(caught.value, RequestError)
    return str(caught.value)


def with_row(tmp_path, **changes):
    """Twenty good rows, the fourth of them changed."""
    return lines(tmp_path / "a.jsonl", [*GOOD[:3], GOOD[3] | changes, *GOOD[4:]])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text": ""}, "field 'text' is empty"),
        ({"text": " \n"}, "field 'text' is empty"),
        ({"text": None}, "field 'text' is empty"),
        ({"text": 12}, "field 'text' must be a text, got 12"),
        ({"text": "half \ud800"}, "field 'text' holds half a surrogate pair at character 5"),
        ({"label": "one"}, "field 'label' holds 'one', but labels are integers elsewhere (0, "),
        ({"label": 0.5}, "field 'label' must be a class, got 0.5; scores need task='regression'"),
        ({"label": [1]}, "field 'label' must be a class, got [1]"),
        ({"id": [1]}, "field 'id' must be a text or an integer, got [1]"),
        ({"id": "r1"}, "the id 'r1' was already used, "),
        ({"rationale": [[0, 99]]}, "field 'rationale' holds the span 0 to 99, outside its text of 6 characters"),
        ({"rationale": [[-1, 2]]}, "field 'rationale' holds the span -1 to 2, outside its text of 6 characters"),
        ({"rationale": [[3, 3]]}, "field 'rationale' holds the span 3 to 3, whose start is not before its end"),
        ({"rationale": [[4, 2]]}, "field 'rationale' holds the span 4 to 2, whose start"),
        ({"rationale": [[1, 0, 2]]}, "field 'rationale' holds [1, 0, 2], but a row has the segments 0 to 0"),
        ({"rationale": [["a", "b"]]}, "field 'rationale' must be a span [start, end] or"),
        ({"rationale": [1, 0, 1]}, "field 'rationale' has 3 marks for 2 whitespace tokens"),
        ({"rationale": "text"}, "field 'rationale' must be a list of spans or of 0 and 1, got 'text'"),
    ],
)
def test_faulty_field(tmp_path, changes, told):
    path = with_row(tmp_path, **changes)
    text = message(path)
    assert f"{path} line 4: {told}" in text
    assert "1 fault, and none of it was loaded" in text


def test_missing_field_of_one_row(tmp_path):
    path = lines(tmp_path / "a.jsonl", [*GOOD[:3], {"id": "x", "label": 1}])
    assert f"{path} line 4: field 'text' is missing" in message(path)


def test_label_outside_the_set(tmp_path):
    path = with_row(tmp_path, label=7)
    assert f"{path} line 4: field 'label' holds 7, which is not one of the classes no, yes" in message(
        path, classes=["no", "yes"]
    )


def test_first_ten_faults_together(tmp_path):
    text = message(lines(tmp_path / "a.jsonl", [row | {"text": ""} for row in GOOD]))
    assert "20 faults" in text
    assert text.count("  - ") == 10
    assert "line 10:" in text
    assert "line 11:" not in text
    assert "… and 10 more" in text


@pytest.mark.parametrize("values", [["0", "x"], ["1.5", ""], ["nan", "1"], ["1", "inf"]])
def test_scores_must_be_numbers(tmp_path, values):
    path = tmp_path / "a.csv"
    path.write_text("src,mt,score\n" + "".join(f"a{n},b,{value}\n" for n, value in enumerate(values)))
    if values == ["1.5", ""]:  # no score is no label
        assert [row.label for row in load_data({"test": path})["test"]] == [1.5, None]
    else:
        assert "field 'score' must be a" in message({"test": path})


def test_misnamed_column_given(tmp_path):
    text = message(lines(tmp_path / "a.jsonl", GOOD), columns={"text": "txet"})
    assert "has no column 'txet' (for text). Nearest: 'text'" in text
    assert "Columns: id, text, label" in text


def test_misnamed_text_column(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"reviw": "a", "label": 0}])
    text = message(path)
    assert "'reviw' (review?)" in text
    assert "columns={'text': …, 'label': …} (on the command line --columns text=…,label=…)" in text
    assert "'reviw' (review?)" in message(path, task="classification")


def test_misnamed_label_column_is_not_taken_for_none(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"text": f"a{n}", "lable": 0} for n in range(9)])
    assert "'lable' (label?)" in message(path)
    data = load_data(path, columns={"label": None})
    assert data["test"][0].label is None
    assert any("No labels found" in note for note in data.notes)


def test_unknown_role():
    with pytest.raises(RequestError, match="Did you mean 'label'"):
        load_data(pd.DataFrame(GOOD), columns={"labels": "label"})


def test_half_a_pair():
    text = message(pd.DataFrame({"a": ["x"], "b": ["y"]}), columns={"premise": "a"})
    assert "task pair also needs a column for 'second'" in text


def test_a_column_missing_in_one_split(tmp_path):
    (tmp_path / "d").mkdir()
    lines(tmp_path / "d" / "train.jsonl", GOOD)
    lines(tmp_path / "d" / "test.jsonl", [{"text": "x", "labels": 1}])
    text = message(tmp_path / "d")
    assert "has no column 'label" in text
    assert "train.jsonl" in text or "test.jsonl" in text


def test_span_of_a_pair_without_segment(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"premise": "a b", "hypothesis": "c", "label": 0, "rationale": [[0, 1]]}])
    assert "so write [segment, start, end]" in message({"test": path})


def test_answer_that_is_not_in_the_passage(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"question": "q", "passage": "p", "answers": ["x"]}])
    assert "line 1: field 'answers' holds the answer 'x', which is not in the passage" in message({"test": path})


def test_json_cut_off_in_the_middle(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, GOOD))[:-9])
    assert f"{path} line 20: the line is cut off or broken" in message(path)


def test_broken_lines_are_all_named(tmp_path):
    text = message(lines(tmp_path / "a.jsonl", [GOOD[0], "{no", GOOD[1], "[1]", "[" * 100_000]))
    assert "line 2: the line is broken" in text
    assert "line 4: must be a JSON object, got list" in text
    assert "line 5: the line is cut off or broken" in text


def test_gzip_cut_off_in_the_middle(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    rng = np.random.default_rng(0)
    whole = gzip.compress(
        ("\n".join(json.dumps({"text": str(rng.random()), "label": 0}) for _ in range(999)) + "\n").encode()
    )
    path.write_bytes(whole[: len(whole) // 2])
    text = message(path)
    assert f"{path} is cut off, or its gzip data are damaged, after line " in text
    count = int(text.split("after line ")[1].split(".")[0])
    assert 400 < count < 600
    path.write_bytes(b"no gzip")
    assert "its gzip data are damaged" in message(path)


def test_parquet_cut_off(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(GOOD), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path} cannot be read as Parquet; it may be cut off" in message(path)


def test_npz_cut_off(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((5, 2, 2, 3), np.uint8), labels=np.zeros(5, int))
    path.write_bytes(path.read_bytes()[:-40])
    assert f"{path} cannot be read as an .npz archive; it may be cut off" in message(path)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "a.npz"
    np.savez(path, images=np.array([Trap()], dtype=object), labels=np.zeros(1, int))
    assert "holds pickled objects" in message(path)
    import pickle

    path.write_bytes(pickle.dumps(Trap()))
    assert "didact never unpickles" in message(path)


def test_npz_that_is_no_table(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((5, 2, 2, 3), np.uint8), labels=np.zeros(4, int))
    assert "arrays of different lengths" in message(path)
    np.savez(path, images=np.zeros((5, 2, 2, 3)), labels=np.zeros(5, int))
    assert f"{path} row 1: field 'images' has shape (2, 2, 3) and type float64" in message(path)


def test_csv_faults(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"a\nb",1\nc,1,2\nd\n')
    text = message(path)
    assert f"{path} line 4: has 3 fields, the header names 2" in text
    assert f"{path} line 5: has 1 fields" in text
    path.write_text('text,label\na,1\n"b,1\n')
    assert f"{path} line 3: the record that starts here is cut off or broken" in message(path)
    path.write_text("text,text\na,1\n")
    assert "must name each column once" in message(path)
    path.write_text("text,label\na,1\n,1\n")
    assert f"{path} line 3: field 'text' is empty" in message({"test": path})


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_invalid_utf8(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"text\tlabel\nab\xff\t1\n")
    assert f"{path} line 2: byte 3 of the line, 14 of the file, is not UTF-8 (0xff)" in message(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.npz", "a.jsonl.gz"])
def test_empty_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    assert "is empty (0 bytes)" in message(tmp_path / name)


def test_file_without_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n\n")
    assert "holds no rows" in message(tmp_path / "a.jsonl")
    (tmp_path / "a.csv").write_text("text,label\n")
    assert "holds no rows" in message(tmp_path / "a.csv")
    assert "holds no rows" in message(pd.DataFrame({"text": [], "label": []}))


def test_unknown_ending(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    text = message(tmp_path / "a.xlsx")
    assert "has an ending that didact does not read. Known endings: .jsonl, .jsonl.gz, .csv" in text


def test_neither_path_nor_name():
    text = message("imbd")
    assert "neither an existing file or folder nor the name of a data set" in text
    assert "Did you mean 'imdb'" in text
    text = message("no/such/file (1).jsonl")
    assert "As a path: it does not exist" in text
    assert "As a name: There is no data set named" in text


def test_folders(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"a picture")
    text = message(tmp_path)
    assert "holds no file that didact reads" in text
    assert "save images as an .npz archive of the arrays 'images' and 'labels'" in text
    lines(tmp_path / "train.jsonl", GOOD)
    pd.DataFrame(GOOD).to_csv(tmp_path / "train.csv", index=False)
    assert "holds split 'train' more than once" in message(tmp_path)
    assert "There is no file" in message({"test": tmp_path / "nothing.jsonl"})


def test_nothing_left_after_overlaps():
    frame = pd.DataFrame(GOOD)
    assert "No rows are left for teach" in message({"teach": frame, "test": frame})
