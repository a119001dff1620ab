"""Names of models: paths are checked before anybody is asked, and the hub is asked briefly and quietly."""

import logging
from types import SimpleNamespace

import huggingface_hub
import pytest

import tiny
from didact import load_teacher
from didact.errors import OptionError, UnknownNameError, UnsupportedError
from didact.models import hub
from didact.models.hub import looks_like_path, unreachable_reason


class Refused(huggingface_hub.errors.HfHubHTTPError):
    def __init__(self):
        self.response = SimpleNamespace(status_code=404)


@pytest.fixture
def asked(monkeypatch):
    """The hub is not offline, and whoever asks it is written down; it never answers."""
    calls = []

    def fail(url, **_):
        calls.append(url if huggingface_hub.utils.logging.get_verbosity() >= logging.ERROR else "with a line on screen")
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
    monkeypatch.setattr(huggingface_hub.file_download, "get_hf_file_metadata", fail)
    monkeypatch.setattr(hub, "_WAIT", 0.0)
    return calls


@pytest.mark.parametrize("name", ["./model", "../model", "~/model", "/nowhere/model", "a/b/c", "runs/model", "runs/"])
def test_a_path_that_is_not_there_is_told_without_asking(name, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name != "runs/":
        (tmp_path / "runs").mkdir()
    with pytest.raises(UnknownNameError, match="There is no folder") as told:
        load_teacher(name)
    assert "bilstm" not in str(told.value)
    assert asked == []


def test_the_folder_that_may_be_meant(asked, tmp_path):
    (tmp_path / "teacher-a").mkdir()
    (tmp_path / "teacher-a" / "config.json").write_text("{}")
    with pytest.raises(UnknownNameError, match="Did you mean '.*teacher-a'?"):
        load_teacher(tmp_path / "teacher")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownNameError, match="has no model: there is no config.json"):
        load_teacher(tmp_path / "empty")
    with pytest.raises(UnknownNameError, match="is a file"):
        load_teacher(tmp_path / "teacher-a" / "config.json")
    assert asked == []


def test_names_on_the_hub_do_not_look_like_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not any(map(looks_like_path, ["bert-base-uncased", "owner/model", "owner/model-1.5"]))


def test_a_hub_that_does_not_answer_is_asked_twice_and_in_silence(asked):
    before = huggingface_hub.utils.logging.get_verbosity()
    with pytest.raises(UnknownNameError, match="no model 'owner/nothing'. It is not a folder with a model") as told:
        load_teacher("owner/nothing")
    assert "bilstm" not in str(told.value)
    assert len(asked) == 2, "once, and one retry"
    assert "with a line on screen" not in asked
    assert huggingface_hub.utils.logging.get_verbosity() == before < logging.ERROR


def test_what_the_hub_answers_is_left_to_transformers(asked, monkeypatch):
    def refuse(url, **_):
        asked.append(url)
        raise Refused

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    assert unreachable_reason("owner/nothing") == ""
    assert len(asked) == 1
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda url, **_: asked.append(url))
    assert unreachable_reason("owner/model", "v2") == ""
    assert asked[-1].endswith("/owner/model/resolve/v2/config.json")


def test_offline_means_offline(asked, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert unreachable_reason("owner/model") == ""
    assert asked == []


def test_an_architecture_is_no_model():
    with pytest.raises(UnknownNameError, match="'bilstm' is an architecture, .* didact train --model bilstm"):
        load_teacher("bilstm")


class TestPipelines:
    def pipeline(self, task="text-classification"):
        import transformers

        model, tokenizer = tiny.huggingface("bert", id2label={0: "bad", 1: "good", 2: "so so"})
        return transformers.pipeline(task, model=model, tokenizer=tokenizer)

    def test_one_for_text_classification_is_a_teacher(self):
        pipeline = self.pipeline()
        pipeline.model.train()
        teacher = load_teacher(pipeline)
        assert teacher.classes == ("bad", "good", "so so")
        outputs = teacher.predict(["a good film"])
        assert pipeline.model.training, "it is left as it was found"
        pipeline.model.eval()
        (expected,) = pipeline("a good film")
        assert teacher.classes[outputs.labels[0]] == expected["label"]
        assert outputs.probabilities.max() == pytest.approx(expected["score"], abs=1e-5)

    def test_others_are_refused_by_name(self):
        pipeline = self.pipeline()
        pipeline.task = "fill-mask"
        with pytest.raises(UnsupportedError, match="pipeline for 'fill-mask' cannot be a teacher"):
            load_teacher(pipeline)

    def test_a_model_needs_its_tokenizer(self):
        with pytest.raises(
            OptionError, match="BertForSequenceClassification .* load_teacher\\(\\(model, tokenizer\\)\\)"
        ):
            load_teacher(tiny.huggingface("bert")[0])
        with pytest.raises(OptionError, match="stays on its device"):
            load_teacher(self.pipeline(), device="cpu")
