"""Teachers that derive from nothing of ours: what answers rows, and what can be differentiated too."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import didact
from didact.core.adapt import as_teacher
from didact.core.batch import Batch
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.rows import as_rows
from didact.core.target import Target
from didact.core.task import CLASSIFICATION
from didact.core.teacher import Attentive, Differentiable, Predictor
from didact.core.trace import Trace
from didact.errors import OptionError, ShapeError, UnsupportedError
from didact.explainers.integrated_gradients import IntegratedGradients

GOOD = ("good", "great", "fine", "warm", "bright")
TEXTS = ["a good film", "a bad film with great actors", "the plot was dull"]


class Stranger:
    """The least that a teacher is: it counts kind words."""

    name = "stranger"
    task = CLASSIFICATION
    classes = ("negative", "positive")

    def __init__(self):
        self.asked = 0

    def predict(self, rows, *, batch_size=32):  # noqa: ARG002
        rows = as_rows(rows)
        self.asked += len(rows)
        kind = [sum(word in GOOD for word in row.texts[0].lower().split()) for row in rows]
        return Outputs(self.task, tuple(row.id for row in rows), np.array([[0.5, count] for count in kind]))


class OpenStranger(nn.Module):
    """A bag of words whose sum is squashed and weighed: it cuts, embeds and runs, and no more."""

    name = "open stranger"
    task = CLASSIFICATION
    classes = ("negative", "positive")

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.table = nn.Embedding(64, 8)
            self.head = nn.Linear(8, 2)

    def encode(self, rows):
        batch = as_teacher(Stranger()).encode(rows)  # units are words
        numbers = [[sum(map(ord, word)) % 64 for word in row.texts[0].split()] for row in rows]
        tokens = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in numbers], batch_first=True)
        assert tokens.shape == batch.tokens.shape
        return Batch(**{**vars(batch), "tokens": tokens})

    def embed(self, batch, *, at="word"):  # noqa: ARG002
        return self.table(batch.tokens)

    def run(self, embeddings, batch, *, at="word"):  # noqa: ARG002
        return Trace(self.head(torch.tanh((embeddings * batch.mask[..., None]).sum(1))))

    def predict(self, rows, *, batch_size=32):  # noqa: ARG002
        rows = as_rows(rows)
        with torch.no_grad():
            batch = self.encode(rows)
            logits = self.run(self.embed(batch), batch).logits
        return Outputs(self.task, tuple(row.id for row in rows), logits.double().numpy())


class TestWhatItCanDo:
    def test_protocols_ask_for_methods_not_for_classes(self):
        assert isinstance(Stranger(), Predictor)
        assert not isinstance(Stranger(), Differentiable)
        assert isinstance(OpenStranger(), Differentiable)
        assert not isinstance(OpenStranger(), Attentive)

    def test_what_is_missing_is_named(self):
        class Mute:
            name, task = "mute", CLASSIFICATION

        with pytest.raises(OptionError, match="Mute is no teacher: it lacks classes, predict.*Predictor"):
            as_teacher(Mute())

    def test_answers_must_be_outputs(self):
        class Bare(Stranger):
            def predict(self, rows, *, batch_size=32):
                return super().predict(rows, batch_size=batch_size).values

        with pytest.raises(ShapeError, match="'stranger' must return .*Outputs, got ndarray"):
            didact.explain(Bare(), TEXTS, "occlusion")


class TestAPredictor:
    @pytest.mark.parametrize("method", [None, "occlusion", "lime(samples=50)", "kernel_shap", "random", "trivial"])
    def test_is_explained_by_what_asks_it(self, method):
        maps = didact.explain(Stranger(), TEXTS, method)
        assert maps.teacher == "stranger"
        assert maps.targets == ("positive", "positive", "negative")
        if method in (None, "occlusion"):
            assert maps[0].scores.tolist() == [0.0, 1.0, 0.0]

    @pytest.mark.parametrize("method", ["integrated_gradients", "attention_all", "gradient_mix"])
    def test_what_needs_more_is_refused_before_it_is_asked(self, method):
        stranger = Stranger()
        with pytest.raises(
            UnsupportedError, match="needs gradients.*black box that shows only its answers. Choose.*occlusion"
        ):
            didact.explain(stranger, TEXTS, method)
        assert stranger.asked == 0

    def test_is_compared_and_measured(self, tmp_path):
        data = didact.load_data("planted/sentiment", teach=0, explain=0, train=60, dev=20, test=40)
        stranger = Stranger()
        stranger.classes = data.classes
        found = didact.compare(
            stranger, data, ["occlusion"], students=["pool/attention"], train_sizes=[20], seeds=2, out=tmp_path,
            workers=0, eval_rows=5, training={"epochs": 2}, skip_controls=["human", "trivial"],
        )  # fmt: skip
        assert {"none", "random", "occlusion"} <= set(found.explainers)
        assert not found.failed
        asked = stranger.asked
        didact.compare(
            stranger, data, ["occlusion"], students=["pool/attention"], train_sizes=[20], seeds=2, out=tmp_path,
            workers=0, eval_rows=5, training={"epochs": 2}, skip_controls=["human", "trivial"],
        )  # fmt: skip
        assert stranger.asked - asked < asked / 4, "what it answered is kept, and some of it asked again"
        maps = didact.explain(stranger, data["test"][:5], "occlusion")
        frame = didact.evaluate(maps, stranger, data, metrics="comprehensiveness")
        values = dict(zip(frame["method"], frame["value"], strict=True))
        assert values["occlusion"] >= values["random"]


class TestADifferentiable:
    def test_integrated_gradients_add_up_and_equal_occlusion_of_a_linear_sum(self):
        stranger = OpenStranger()
        before = {name: value.clone() for name, value in stranger.state_dict().items()}
        maps = didact.explain(stranger, TEXTS, "integrated_gradients")
        assert maps.residuals.max() < 0.01
        rows = [Row(str(index), (text,)) for index, text in enumerate(TEXTS)]
        batch = stranger.encode(rows)
        target = Target.predicted(CLASSIFICATION, torch.from_numpy(stranger.predict(rows).values).float())
        direct = IntegratedGradients()(stranger, batch, target).scores
        np.testing.assert_allclose(maps[1].scores, direct[1].double(), atol=1e-6)
        empty = stranger.run(torch.zeros_like(stranger.embed(batch)), batch).logits
        change = target.of(stranger.run(stranger.embed(batch), batch).logits) - target.of(empty)
        torch.testing.assert_close(direct.sum(-1), change.detach(), atol=5e-3, rtol=0)
        assert all(value.equal(before[name]) for name, value in stranger.state_dict().items())
        assert all(parameter.requires_grad for parameter in stranger.parameters())

    @pytest.mark.parametrize("method", [None, "gradient_input", "occlusion", "lrp", "blend"])
    def test_so_do_other_methods(self, method):
        assert np.isfinite(didact.explain(OpenStranger(), TEXTS, method)[0].scores).all()

    def test_attention_is_refused_with_what_would_work(self):
        with pytest.raises(UnsupportedError, match="'open stranger', which records none. Choose.*integrated_gradients"):
            didact.explain(OpenStranger(), TEXTS, "attention_all")

    def test_its_weights_are_its_fingerprint(self):
        first, second = OpenStranger(), OpenStranger()
        marks = [didact.explain(one, TEXTS, "gradient_input").fingerprints["teacher"] for one in (first, second)]
        assert marks[0] == marks[1]
        with torch.no_grad():
            second.head.bias += 1
        assert didact.explain(second, TEXTS, "gradient_input").fingerprints["teacher"] != marks[0]


class AttentiveStranger(OpenStranger):
    """It also says how much it looks at each word: at long ones most."""

    attention = ("mean",)

    def run(self, embeddings, batch, *, at="word", listen=(), zero_values_at=None):
        assert zero_values_at is None
        trace = super().run(embeddings, batch, at=at)
        lengths = (batch.offsets[..., 1] - batch.offsets[..., 0]).float()
        return replace(trace, mean=lengths[:, None, None] if "mean" in listen else None)


class TestAnAttentive:
    def test_what_it_records_is_an_explanation(self):
        assert isinstance(AttentiveStranger(), Attentive)
        (explained, *_) = didact.explain(AttentiveStranger(), TEXTS, "attention_all")
        np.testing.assert_allclose(explained.scores, torch.tensor([1.0, 4.0, 4.0]).softmax(0), atol=1e-6)

    def test_what_it_does_not_record_is_refused(self):
        with pytest.raises(UnsupportedError, match="'reading' was requested from .*, which records no other. Choose"):
            didact.explain(AttentiveStranger(), TEXTS, "attention_cls")
        with pytest.raises(UnsupportedError, match="no self-attention whose values could be zeroed"):
            didact.explain(AttentiveStranger(), TEXTS, "value_zeroing")
