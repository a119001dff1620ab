"""Training that diverges is an error, and weights that are no numbers are never kept."""

import math

import pandas
import pytest
import torch

from didact.core.dataset import Dataset
from didact.data.load import load_data
from didact.errors import DataError, OptionError, RecordError, TrainingError
from didact.explainers.learned import save_explainer
from didact.explainers.mix import AttentionMix
from didact.files import atomic
from didact.learning import fit as fitting
from didact.learning.fit import Training
from didact.learning.smat_options import SmatOptions
from didact.learning.train import save_teacher, train_teacher
from didact.models.build import build_model

SMALL = "planted/sentiment(teach=40, explain=10, train=5, dev=5, test=12)"
TINY = "native(width=16, layers=1)"


@pytest.mark.parametrize("name", ["rate", "weight_decay", "warmup", "clip", "momentum"])
@pytest.mark.parametrize("value", [math.inf, math.nan, -1.0])
def test_training_takes_finite_numbers(name, value):
    with pytest.raises(OptionError, match=name):
        Training(**{name: value})


@pytest.mark.parametrize("name", ["outer_rate", "outer_clip", "temperature_rate"])
def test_smat_takes_finite_numbers(name):
    with pytest.raises(OptionError, match=f"{name} must be above 0 and finite, not inf"):
        SmatOptions(**{name: math.inf})


def test_weights_that_overflow_in_the_last_step_are_an_error(tmp_path):
    with pytest.raises(
        TrainingError, match=r"in epoch 1, and nothing is saved.*lower it \(learning_rate, --learning-rate\)"
    ):
        train_teacher(SMALL, TINY, out=tmp_path / "model", epochs=1, batch_size=64, rate=1e300, progress=False)
    assert not any(tmp_path.iterdir())


def test_a_model_with_broken_weights_is_not_saved(tmp_path):
    model = build_model(TINY, load_data(SMALL), seed=0)
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    with pytest.raises(TrainingError, match="NaN or infinite"):
        save_teacher(model, tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_the_check_names_the_epoch():
    with pytest.raises(TrainingError, match="in epoch 3"):
        fitting.check_finite([torch.tensor([1.0, math.inf])], Training(), 3)


def test_one_class_is_nothing_to_learn(tmp_path):
    frame = pandas.DataFrame({"text": [f"text {number}" for number in range(40)], "label": "yes"})
    data = load_data(frame)
    assert isinstance(data, Dataset)
    with pytest.raises(DataError, match="have the class 'yes', so there is nothing to learn"):
        train_teacher(data, TINY, out=tmp_path / "model", epochs=1)
    assert not any(tmp_path.iterdir())


def test_rows_without_labels_are_refused_with_the_remedy(tmp_path):
    data = load_data(pandas.DataFrame({"text": [f"text {number}" for number in range(40)]}))
    with pytest.raises(DataError, match="Training needs labels.*--columns label=NAME"):
        train_teacher(data, TINY, out=tmp_path / "model", epochs=1)
    assert not any(tmp_path.iterdir())


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    from safetensors import SafetensorError

    model = build_model(TINY, load_data(SMALL), seed=0)

    def full(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("didact.models.native.save_file", full)
    with pytest.raises(RecordError, match=r"Could not write.*No space left on device.*unchanged"):
        save_teacher(model, tmp_path / "model")
    assert not any(tmp_path.iterdir())
    assert atomic.SafetensorError is SafetensorError


def test_an_explainer_with_broken_weights_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(AttentionMix, "is_ready", True)
    monkeypatch.setattr(AttentionMix, "learned_weights", lambda _: {"coefficients": torch.tensor([math.nan])})
    with pytest.raises(TrainingError, match="NaN or infinite"):
        save_explainer(AttentionMix(), tmp_path / "explainer")
    assert not any(tmp_path.iterdir())
