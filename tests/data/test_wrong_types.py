"""Arguments of wrong types, and values that cannot be meant: one error of didact each, never one of Python's."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import tiny
from didact.data.load import load_data
from didact.data.stream import stream_rows
from didact.errors import DataError, OptionError
from didact.models.load import load_teacher


@pytest.mark.slow
def test_every_call_with_a_wrong_type_ends_in_an_error_of_didact():
    script = Path(__file__).with_name("wrong_types.py")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=250)
    assert result.returncode == 0, result.stderr


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_number_of_400_digits(tmp_path):
    path = lines(tmp_path / "x.jsonl", {"text": "good", "score": 10**400})
    with pytest.raises(DataError, match="line 1: field 'score' must be a finite number, got "):
        load_data(path)


@pytest.mark.parametrize("column", ["rationale", "label", "answers"])
def test_lists_nested_900_deep(column, tmp_path):
    path = tmp_path / "x.jsonl"
    texts = '"question": "who", "passage": "anna sings"' if column == "answers" else '"text": "good"'
    path.write_text(f'{{{texts}, "{column}": {"[" * 900}{"]" * 900}}}\n')
    with pytest.raises(DataError, match=f"line 1: field '{column}'"):
        load_data(path)


def test_texts_of_parquet_that_are_no_utf8(tmp_path):
    path = tmp_path / "x.parquet"
    column = pyarrow.array([b"good", b"\xff\xfe"], pyarrow.binary()).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": column}), path)
    for read in (lambda: load_data(path), lambda: list(stream_rows(path, size=4))):
        with pytest.raises(DataError, match="not UTF-8"):
            read()


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_long_fields_are_read(name, tmp_path):
    content = f'text,label\n"{"word " * 50_000}",yes\n'.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert len(load_data(tmp_path / name).all_rows[0].texts[0]) == 250_000


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_utf16_is_told_by_name(name, encoding, tmp_path):
    content = '{"text": "good"}\n' if name == "x.jsonl" else "text,label\ngood,yes\n"
    (tmp_path / name).write_bytes(content.encode(encoding))
    with pytest.raises(DataError, match="UTF-16 or UTF-32"):
        load_data(tmp_path / name)


@pytest.mark.parametrize(
    "answers", [{"text": [5], "answer_start": [0]}, {"text": ["anna"], "answer_start": ["0"]}, {"text": "a"}]
)
def test_answers_of_a_wrong_type(answers, tmp_path):
    path = lines(tmp_path / "x.jsonl", {"question": "who", "passage": "anna sings", "answers": answers})
    with pytest.raises(DataError, match="line 1: field 'answers' holds .*SQuAD's form"):
        load_data(path)


def test_labels_of_5000_digits_are_names(tmp_path):
    (tmp_path / "x.csv").write_text(f"text,label\ngood,{'1' * 5000}\nbad,2\n")
    assert len(load_data(tmp_path / "x.csv").classes) == 2


def test_a_model_that_names_a_class_twice():
    model, tokenizer = tiny.huggingface("bert", id2label={0: "yes", 1: "yes", 2: "no"})
    with pytest.raises(OptionError, match="have the same name: yes, yes, no"):
        load_teacher((model, tokenizer))
    assert load_teacher((model, tokenizer), classes=["a", "b", "c"]).classes == ("a", "b", "c")
