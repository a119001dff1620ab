"""Model folders whose files are damaged: one error of ours that names the file or the field."""

import json
import pickle
import shutil

import pytest
import torch

import didact
import tiny
from didact.core.task import CLASSIFICATION
from didact.errors import RecordError, UnsupportedError
from didact.models import MODELS
from didact.models.load import RECORD
from didact.models.tokenizer import WordTokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    for part in tiny.huggingface("bert"):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def native(tmp_path):
    reader = WordTokenizer.from_rows(tiny.rows())
    model = MODELS.load("native")(CLASSIFICATION, ("no", "yes"), reader, width=16)
    model.save(tmp_path)
    (tmp_path / RECORD).write_text('{"kind": "native"}')
    return tmp_path


def changed(folder, **fields):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for name, value in fields.items():
        outer, _, inner = name.partition("__")
        if inner:
            config[outer][inner] = value
        else:
            config[name] = value
    path.write_text(json.dumps(config))
    return str(folder)


class Harmful:
    def __reduce__(self):
        return print, ("this ran",)


class TestHuggingFace:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"num_attention_heads": 0}, "ZeroDivisionError"),
            ({"pad_token_id": 999}, "Padding_idx must be within"),
            ({"hidden_size": "x"}, "Field 'hidden_size' expected int, got str"),
            ({"id2label": 5}, "AttributeError"),
            ({"vocab_size": 0}, "IndexError"),
        ],
    )
    def test_what_config_json_says_cannot_be_built(self, folder, fields, reason):
        with pytest.raises(UnsupportedError, match=f"cannot be opened.*{reason}.*config.json"):
            didact.load_teacher(changed(folder, **fields))

    def test_a_damaged_config_is_no_missing_model(self, folder):
        (folder / "config.json").write_text("{bad")
        with pytest.raises(RecordError, match="The model in folder .* cannot be opened.*config.json.*not a valid JSON"):
            didact.load_teacher(str(folder))

    def test_missing_weights_are_named(self, folder):
        (folder / "model.safetensors").unlink()
        with pytest.raises(
            RecordError, match="The model in folder .* cannot be opened.*no file named model.safetensors"
        ):
            didact.load_teacher(str(folder))

    @pytest.mark.parametrize(
        "content", [b"garbage" * 50, pickle.dumps({"weight": Harmful()}, protocol=2)], ids=["garbage", "harmful"]
    )
    def test_pickled_weights_that_are_not_tensors(self, folder, content, capsys):
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(content)
        with pytest.raises(RecordError, match="pytorch_model.bin cannot be read.*model.safetensors") as caught:
            didact.load_teacher(str(folder))
        assert "weights_only" not in str(caught.value)
        assert "this ran" not in capsys.readouterr().out

    def test_pickled_tensors_are_read(self, folder):
        weights = didact.load_teacher(str(folder)).model.state_dict()
        (folder / "model.safetensors").unlink()
        torch.save(weights, folder / "pytorch_model.bin")
        loaded = didact.load_teacher(str(folder)).model.state_dict()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())


class TestNative:
    def test_as_it_was_saved(self, native):
        assert didact.load_teacher(str(native)).classes == ("no", "yes")

    @pytest.mark.parametrize("value", [None, 5, [1], {"a": 1}, 1.5])
    @pytest.mark.parametrize("field", ["architecture", "task", "truncate", "reader__kind", "reader__special"])
    def test_a_value_of_another_type_names_its_field(self, native, field, value):
        with pytest.raises(RecordError, match=f"config.json .*field '{field.replace('__', '.')}' must be"):
            didact.load_teacher(changed(native, **{field: value}))

    @pytest.mark.parametrize("value", [None, "5", 0, 1.5, True])
    def test_lengths(self, native, value):
        with pytest.raises(RecordError, match="field 'max_length' must be an integer >= 1"):
            didact.load_teacher(changed(native, max_length=value))

    @pytest.mark.parametrize("value", [5, "yes", [1, 2], {"a": 1}])
    @pytest.mark.parametrize("field", ["classes", "reader__vocabulary"])
    def test_lists_of_texts(self, native, field, value):
        with pytest.raises(RecordError, match=f"field '{field.replace('__', '.')}' must be a list of texts"):
            didact.load_teacher(changed(native, **{field: value}))

    @pytest.mark.parametrize("value", [None, 5, "x", [1]])
    @pytest.mark.parametrize("field", ["options", "reader"])
    def test_objects(self, native, field, value):
        with pytest.raises(RecordError, match=f"field '{field}' must be an object"):
            didact.load_teacher(changed(native, **{field: value}))
