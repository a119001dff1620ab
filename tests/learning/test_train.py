"""Training: the same bytes for the same seed, what is kept can be opened, and what goes wrong is said."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import didact
from didact.core.dataset import Dataset, Split
from didact.core.human import HumanTeacher
from didact.core.measure import measure
from didact.errors import OptionError, RecordError, RequestError, TrainingError, UnknownNameError, UnsupportedError
from didact.learning.fit import Examples, Training, epoch_batches, fit, learning_rate_factor
from didact.learning.train import train_teacher
from didact.models.build import build_model
from tiny import huggingface

SMALL = {"teach": 600, "explain": 20, "train": 100, "dev": 100, "test": 100}
QUICK = {"epochs": 1, "progress": False}


def small(name: str = "sentiment", **options: object) -> Dataset:
    return didact.load_data(f"planted/{name}", **{**SMALL, **options})


def weights(folder) -> bytes:
    return (folder / "model.safetensors").read_bytes()


class TestSeeds:
    @pytest.mark.parametrize("model", ["native(dropout=0.1)", "bilstm"])
    @pytest.mark.slow
    def test_one_seed_one_set_of_bytes(self, model, tmp_path):
        data = small()
        for name, seed in (("one", 0), ("again", 0), ("other", 1)):
            torch.rand(3)  # the state of the global generator must not matter
            train_teacher(data, model, out=tmp_path / name, seed=seed, **QUICK)
        assert weights(tmp_path / "one") == weights(tmp_path / "again")
        assert weights(tmp_path / "one") != weights(tmp_path / "other")

    def test_the_global_generator_is_left_alone(self):
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        train_teacher(small(), "native(dropout=0.1)", **QUICK)
        assert torch.equal(torch.rand(2), expected)


class TestKept:
    @pytest.mark.parametrize("task", ["sentiment", "inference", "quality", "reading", "shapes"])
    def test_save_load_predict_is_equal_for_every_task(self, task, tmp_path):
        data = small(task, teach=64)
        teacher = train_teacher(data, out=tmp_path / "teacher", **QUICK)
        again = didact.load_teacher(tmp_path / "teacher")
        ours, theirs = teacher.predict(data["test"].rows), again.predict(data["test"].rows)
        assert np.array_equal(ours.values, theirs.values)
        assert again.fingerprint() == teacher.fingerprint()
        assert again.classes == data.classes

    def test_the_folder_holds_what_it_says(self, tmp_path):
        data = small()
        teacher = train_teacher(data, "native(layers=1)", out=tmp_path / "teacher", seed=5, **QUICK)
        assert {path.name for path in (tmp_path / "teacher").iterdir()} == {
            "config.json", "model.safetensors", "metrics.json", "didact.json",
        }  # fmt: skip
        metrics = json.loads((tmp_path / "teacher" / "metrics.json").read_text())
        record = json.loads((tmp_path / "teacher" / "didact.json").read_text())
        gold = HumanTeacher(data.task, data.classes).predict(data["test"].rows)
        assert metrics["test_accuracy"] == pytest.approx(measure(teacher.predict(data["test"].rows), gold))
        assert metrics["verified"] is False
        assert record["base"] == "native(layers=1)"
        assert record["data"] == {"name": data.name, "fingerprint": data.fingerprint}
        assert record["training"]["seed"] == 5
        assert record["version"] == 1
        assert not list(tmp_path.glob("*.tmp"))

    def test_hugging_face_models_open_with_transformers_too(self, tmp_path):
        network, tokenizer = huggingface("bert")
        network.save_pretrained(tmp_path / "base")
        tokenizer.save_pretrained(tmp_path / "base")
        data = small(teach=64)
        folder = tmp_path / "teacher"
        teacher = train_teacher(data, str(tmp_path / "base"), out=folder, truncate=True, max_length=32, **QUICK)
        assert {"tokenizer.json", "metrics.json", "didact.json"} <= {path.name for path in folder.iterdir()}
        again = didact.load_teacher(folder)
        assert again.record["base"] == str(tmp_path / "base")
        assert again.max_length == 32
        rows = data["test"].rows[:20]
        assert np.array_equal(teacher.predict(rows).values, again.predict(rows).values)
        theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        inputs = AutoTokenizer.from_pretrained(folder)(
            [row.texts[0] for row in rows], padding=True, return_tensors="pt"
        )
        with torch.no_grad():
            np.testing.assert_allclose(theirs(**inputs).logits.numpy(), again.predict(rows).values, atol=1e-5)
        assert theirs.config.id2label == {0: "negative", 1: "positive"}

    def test_nothing_is_overwritten_unless_allowed(self, tmp_path):
        (tmp_path / "teacher").mkdir()
        (tmp_path / "teacher" / "precious").write_text("x")
        with pytest.raises(OptionError, match="exists already.*--overwrite"):
            train_teacher(small(), out=tmp_path / "teacher", **QUICK)
        assert (tmp_path / "teacher" / "precious").exists()

    def test_damaged_folders_are_named(self, tmp_path):
        folder = tmp_path / "teacher"
        train_teacher(small(), "native(layers=1)", out=folder, **QUICK)
        config = json.loads((folder / "config.json").read_text())
        config["options"]["width"] = 32
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(RecordError, match=r"do not fit its config.json"):
            didact.load_teacher(folder)
        train_teacher(small(), "native(layers=1)", out=folder, overwrite=True, **QUICK)
        (folder / "model.safetensors").write_bytes(weights(folder)[:-100])
        with pytest.raises(RecordError, match=r"model\.safetensors is damaged .*checksum"):
            didact.load_teacher(folder)
        record = {"kind": "native"}  # as earlier versions wrote it, without checksums
        (folder / "didact.json").write_text(json.dumps(record))
        with pytest.raises(RecordError, match="weights in .* are damaged"):
            didact.load_teacher(folder)
        (folder / "config.json").write_text("{}")
        with pytest.raises(RecordError, match="config.json is missing or damaged"):
            didact.load_teacher(folder)
        (folder / "didact.json").write_text('{"kind": "native", "version": 2}')
        with pytest.raises(RecordError, match=r"didact\.json has schema version 2, .* reads up to 1\. Update didact"):
            didact.load_teacher(folder)
        (folder / "didact.json").write_text("{")
        with pytest.raises(RecordError, match=r"didact.json is damaged"):
            didact.load_teacher(folder)


class TestFit:
    def test_learns_and_keeps_the_best_epoch(self):
        data = small(teach=1500)
        model = build_model("native", data)
        gold = HumanTeacher(data.task, data.classes)
        train, dev = (Examples.of(model, data[name].rows, gold.predict(data[name].rows)) for name in ("teach", "dev"))
        seen = []
        history = fit(model, train, dev, Training(epochs=4, rate=3e-3, patience=4), on_epoch_end=seen.append)
        assert seen == history
        assert history[-1].loss < history[0].loss
        best = max(epoch.dev_measure for epoch in history)
        assert measure(model.predict(dev.rows), dev.outputs) == pytest.approx(best)
        assert not model.training

    def test_stops_when_dev_no_longer_improves(self):
        data = small(teach=64)
        model = build_model("native", data)
        gold = HumanTeacher(data.task, data.classes)
        parts = [Examples.of(model, data[name].rows, gold.predict(data[name].rows)) for name in ("teach", "dev")]
        history = fit(model, *parts, Training(epochs=50, rate=1e-9, patience=2))
        assert len(history) == 3

    def test_warm_up_and_decay(self):
        rates = [learning_rate_factor(step, 100, Training(warmup=0.1)) for step in range(100)]
        assert rates[0] == pytest.approx(0.1)
        assert rates[9] == rates[10] == pytest.approx(1.0)
        assert rates[-1] == pytest.approx(0.0605, abs=1e-3)
        assert sorted(rates[10:], reverse=True) == rates[10:]
        assert {learning_rate_factor(step, 100, Training(warmup=0.0, schedule="constant")) for step in range(100)} == {
            1.0
        }

    def test_every_row_once_per_epoch_in_batches_of_similar_length(self):
        data = small()
        batch = build_model("native", data).encode(data["teach"].rows)
        training = Training(batch_size=16, seed=1)
        one, two = (list(epoch_batches(batch, training, epoch)) for epoch in (1, 2))
        assert sorted(np.concatenate(one).tolist()) == list(range(600))
        assert [part.tolist() for part in one] != [part.tolist() for part in two]
        lengths = batch.lengths.numpy()
        spread = np.mean([np.ptp(lengths[part]) for part in one])
        assert spread < np.ptp(lengths) / 3

    def test_a_loss_that_is_no_number_stops_with_the_likely_cause(self):
        data = small(teach=128)
        with pytest.raises(TrainingError, match=r"loss became (nan|inf) in epoch.*--learning-rate"):
            train_teacher(data, rate=1e30, epochs=3, progress=False)

    def test_all_faults_of_the_training_at_once(self):
        with pytest.raises(OptionError, match=r"epochs must be at least 1, not 0; rate must be above 0 and fin"):
            Training(epochs=0, rate=-1)


class TestRequests:
    def test_models_nobody_knows(self):
        with pytest.raises(UnknownNameError, match=r"no model named 'natve'. Did you mean 'native'\?.*not a folder"):
            train_teacher(small(), "natve", **QUICK)
        with pytest.raises(
            UnknownNameError, match="not a folder with a model, and the Hugging Face hub did not provide it"
        ):
            didact.load_teacher("no/such-model")

    def test_options_nobody_knows(self):
        with pytest.raises(OptionError, match="no option of model 'native' named 'layer'. Did you mean 'layers'"):
            train_teacher(small(), "native(layer=2)", **QUICK)

    def test_a_base_without_a_head_is_no_teacher(self, tmp_path):
        network, tokenizer = huggingface("bert")
        network.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(UnsupportedError, match=r"saved as BertModel, which has no head.*didact train --model"):
            didact.load_teacher(tmp_path)

    def test_a_folder_without_tokenizer_is_no_teacher(self, tmp_path):
        """transformers would make up an empty tokenizer, and every word would be unknown."""
        huggingface("bert")[0].save_pretrained(tmp_path)
        with pytest.raises(UnsupportedError, match="has no tokenizer beside it"):
            didact.load_teacher(tmp_path)

    def test_weights_that_are_missing_are_not_made_up(self, tmp_path):
        network, tokenizer = huggingface("bert")
        network.bert.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["BertForSequenceClassification"]}))
        with pytest.raises(RecordError, match="lack classifier.bias"):
            didact.load_teacher(tmp_path)

    def test_what_is_asked_of_a_native_model_must_fit_it(self, tmp_path):
        train_teacher(small(), "native(layers=1)", out=tmp_path / "t", **QUICK)
        assert didact.load_teacher(tmp_path / "t", max_length=30).max_length == 30
        for options, message in (
            ({"task": "pair"}, "is classification, not pair"),
            ({"classes": ["x", "y"]}, "has the classes"),
            ({"max_length": 9999}, "reads 1 to 512"),
            ({"device": "quantum"}, "cannot be used here"),
        ):
            with pytest.raises(OptionError, match=message):
                didact.load_teacher(tmp_path / "t", **options)

    def test_a_live_pair_stays_where_it_is(self):
        with pytest.raises(OptionError, match="stays on its device"):
            didact.load_teacher(huggingface("bert"), device="cpu")

    def test_no_rows_to_choose_the_epoch_by(self):
        data = small()
        empty = Dataset("empty", data.task, {**data.splits, "dev": Split("dev", ())}, data.classes)
        with pytest.raises(TrainingError, match="one of the two sets is empty"):
            train_teacher(empty, **QUICK)

    def test_things_that_are_no_teacher(self):
        with pytest.raises(OptionError, match="int cannot be a teacher"):
            didact.load_teacher(3)
        with pytest.raises(OptionError, match="'human' needs task="):
            didact.load_teacher("human")
        teacher = didact.load_teacher("human", task="classification", classes=["a", "b"])
        assert didact.load_teacher(teacher) is teacher

    def test_data_without_rows_to_teach(self):
        data = small()
        empty = Dataset("empty", data.task, {**data.splits, "teach": Split("teach", ())}, data.classes)
        with pytest.raises(RequestError, match="no rows in 'teach'"):
            train_teacher(empty, **QUICK)

    def test_a_live_pair_is_a_teacher(self):
        teacher = didact.load_teacher(huggingface("bert"))
        assert teacher.classes == ("LABEL_0", "LABEL_1", "LABEL_2")
