"""Native models: the contract every one keeps on every task it does, and closed forms for their parts."""

import atexit
import shutil
import tempfile
from functools import lru_cache

import numpy as np
import pytest
import torch

from didact.core.batch import Batch
from didact.core.model import Model
from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION, IMAGE, READING, REGRESSION, TASKS
from didact.errors import OptionError, ShapeError, UnsupportedError
from didact.models import MODELS
from didact.models.bilstm import BiLSTM, BiLSTMAttention
from didact.models.frozen_words import base_reader
from didact.models.native import _check_option, load_native
from didact.models.scalar_mix import ScalarMix
from didact.models.tokenizer import UNKNOWN, PatchReader, WordTokenizer
from didact.models.transformer import TransformerModel
from tiny import huggingface, images, rows

OPTIONS = {
    "native": [{}, {"mix": True}, {"pool": "first", "layers": 1}, {"attention": "uniform"}],
    "bilstm": [{}, {"mix": True, "layers": 2}],
    "bilstm_attention": [{}, {"mix": True}, {"attention": "uniform"}],
    "pool": [{}, {"pool": "mean"}, {"pool": "mean", "layers": 2}],
    "cnn": [{}, {"pool": "mean"}],
}
CASES = [
    (name, task, options)
    for name, entry in MODELS.items()
    for task in entry.tasks
    for options in (*OPTIONS[name], *([{"embeddings": "tiny"}] if task != "image" else []))
]


def examples(task: str) -> list[Row]:
    return images() if task == "image" else rows(1 if task == "classification" else 2)


@lru_cache
def tiny_base() -> str:
    """A folder with a tiny BERT, for as long as the tests run."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    for part in huggingface("bert"):
        part.save_pretrained(folder)
    return folder


def build(name: str, task: str, **options: object) -> Model:
    torch.manual_seed(0)
    kind = TASKS[task]
    reader = PatchReader(32, 32) if kind is IMAGE else WordTokenizer.from_rows(examples(task)[1:])
    if options.get("embeddings") == "tiny":
        options = {**options, "embeddings": tiny_base()}
        reader = base_reader(tiny_base())
    options = {"width": 16, **({"heads": 4} if name == "native" else {}), **options}
    model = MODELS.load(name)(kind, ("a", "b", "c") if kind.has_classes else None, reader, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def test_every_registered_model_is_in_the_suite():
    assert set(OPTIONS) == set(MODELS)


@pytest.mark.parametrize(("name", "task", "options"), CASES, ids=lambda value: str(value))
class TestEveryModel:
    def test_a_row_alone_and_in_a_batch(self, name, task, options):
        model = build(name, task, **options)
        attends = name in ("bilstm_attention", "native") or (name == "pool" and options.get("pool") != "mean")
        heard = ("mean", "reading") if attends else ()
        batch = model.encode(examples(task))
        assert task == "image" or not batch.mask.all()
        with torch.no_grad():
            together = model(batch, listen=(*heard, "hidden"))
            for index, row in enumerate(examples(task)):
                alone = model(model.encode([row]), listen=(*heard, "hidden"))
                length = alone.hidden[0].shape[1]
                logits = together.logits[index, ..., :length] if task == "reading" else together.logits[index]
                torch.testing.assert_close(logits, alone.logits[0], atol=1e-5, rtol=0)
                for state, own in zip(together.hidden, alone.hidden, strict=True):
                    torch.testing.assert_close(state[index, :length], own[0], atol=1e-5, rtol=0)
                for part in heard:
                    ours = getattr(together, part)[index, ..., :length]
                    torch.testing.assert_close(ours, getattr(alone, part)[0], atol=1e-5, rtol=0)

    def test_padding_changes_nothing(self, name, task, options):
        if task == "image":
            pytest.skip("images have no padding")
        model = build(name, task, **options)
        batch = model.encode(examples(task))
        noisy = Batch(**{**vars(batch), "tokens": torch.where(batch.mask, batch.tokens, 7)})
        with torch.no_grad():
            assert torch.equal(model(batch).logits, model(noisy).logits)

    def test_runs_from_both_kinds_of_embedding(self, name, task, options):
        model = build(name, task, **options)
        batch = model.encode(examples(task))
        with torch.no_grad():
            reference = model(batch).logits
            for at in ("word", "embedding"):
                logits = model.run(model.embed(batch, at=at), batch, at=at).logits
                torch.testing.assert_close(logits, reference, atol=1e-6, rtol=0)

    def test_second_derivatives(self, name, task, options):
        model = build(name, task, **options).double()
        batch = model.encode(examples(task)[:2])
        start = model.embed(batch).detach()
        start += torch.randn_like(start)  # two texts of unknown words are alike, where |c1 − c2| has its kink
        direction = torch.randn_like(start)

        def scalar(step: torch.Tensor) -> torch.Tensor:
            logits = model.run(start + step * direction, batch).logits
            return torch.where(torch.isfinite(logits), logits, 0.0).square().sum()

        step = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(scalar(step), step, create_graph=True)
        (bend,) = torch.autograd.grad(slope, step)
        with torch.no_grad():
            h = 1e-4  # small: |c1 − c2| has kinks
            lower, low, here, high, higher = (scalar(torch.tensor(x * h).double()) for x in (-2, -1, 0, 1, 2))
        torch.testing.assert_close(slope, (lower - 8 * low + 8 * high - higher) / (12 * h), rtol=1e-5, atol=1e-6)
        expected = (-lower + 16 * low - 30 * here + 16 * high - higher) / (12 * h**2)
        torch.testing.assert_close(bend, expected, rtol=1e-4, atol=1e-4)

    def test_saved_and_opened_again(self, name, task, options, tmp_path):
        model = build(name, task, **options)
        model.save(tmp_path)
        again = load_native(tmp_path)
        assert again.fingerprint() == model.fingerprint()
        ours, theirs = model.predict(examples(task)), again.predict(examples(task))
        assert np.array_equal(ours.values, theirs.values)
        assert ours.answers == theirs.answers


class TestAttention:
    def test_transformer_attention_is_what_it_mixes_values_with(self):
        """The first layer, written out head by head."""
        model = build("native", "classification", layers=1)
        batch = model.encode(rows())
        with torch.no_grad():
            trace = model(batch, listen=("full", "hidden", "mean", "reading"))
            layer = model.layers[0]
            states = layer.before_attention(trace.hidden[0])
            query, key, value = layer.query_key_value(states).chunk(3, -1)
            attended = torch.zeros_like(value)
            for row in range(len(batch)):
                length = int(batch.lengths[row])
                for head in range(4):
                    part = slice(4 * head, 4 * head + 4)
                    logits = query[row, :length, part] @ key[row, :length, part].T / 2.0
                    torch.testing.assert_close(trace.full[row, 0, head, :length, :length], logits)
                    torch.testing.assert_close(trace.mean[row, 0, head, :length], logits.mean(0))
                    mixed = logits.softmax(-1).mean(0).log()
                    torch.testing.assert_close(trace.reading[row, 0, head, :length], mixed)
                    attended[row, :length, part] = logits.softmax(-1) @ value[row, :length, part]
            after = trace.hidden[0] + layer.out(attended)
            after = after + layer.down(torch.nn.functional.gelu(layer.up(layer.before_feed(after))))
        torch.testing.assert_close(trace.hidden[1][batch.mask], after[batch.mask])

    def test_additive_attention_pools_the_states(self):
        model = build("bilstm_attention", "classification")
        batch = model.encode(rows())
        with torch.no_grad():
            trace = model(batch, listen=("mean", "reading", "hidden"))
            weights = trace.mean[:, 0, 0].masked_fill(~batch.mask, -torch.inf).softmax(-1)
            torch.testing.assert_close(trace.reading[:, 0, 0].exp(), weights)
            pooled = (weights[..., None] * trace.hidden[-1]).sum(1)
            torch.testing.assert_close(trace.logits, model.head(pooled))

    def test_two_texts_share_the_weight(self):
        model = build("bilstm_attention", "pair")
        batch = model.encode(rows(2))
        with torch.no_grad():
            chances = model(batch, listen=("reading",)).reading[:, 0, 0].exp()
        for segment in (0, 1):
            mass = (chances * (batch.segments == segment)).sum(-1)
            torch.testing.assert_close(mass, torch.full((3,), 0.5))

    def test_a_model_without_attention_says_so(self):
        model = build("bilstm", "classification")
        with pytest.raises(
            UnsupportedError, match="'mean' was requested from model 'bilstm', which has none.*bilstm_attention"
        ):
            model(model.encode(rows()), listen=("mean",))
        model = build("bilstm_attention", "classification")
        with pytest.raises(UnsupportedError, match="'full'.*only pooling attention"):
            model(model.encode(rows()), listen=("full",))


class TestUniformAttention:
    """Every real position weighs the same, whatever it says; in all else the model is as it was."""

    @pytest.mark.parametrize("pool", ["mean", "first"])
    def test_transformer(self, pool):
        model = build("native", "classification", attention="uniform", pool=pool)
        batch = model.encode(rows())
        assert not batch.mask.all()
        trace = model(batch, listen=("full", "mean", "reading", "weights"))
        share = batch.mask / batch.lengths[:, None]
        for weights in trace.weights:
            torch.testing.assert_close(weights, share[:, None, None].expand_as(weights))
        torch.testing.assert_close(trace.reading.exp(), share[:, None, None].expand_as(trace.reading))
        assert (trace.mean == 0).all()
        assert (trace.full[torch.isfinite(trace.full)] == 0).all()

    def test_pooling(self):
        model = build("bilstm_attention", "classification", attention="uniform")
        batch = model.encode(rows())
        trace = model(batch, listen=("mean", "reading", "weights", "hidden"))
        share = batch.mask / batch.lengths[:, None]
        torch.testing.assert_close(trace.weights[0][:, 0, 0], share)
        torch.testing.assert_close(trace.reading[:, 0, 0].exp(), share)
        assert (trace.mean == 0).all()
        torch.testing.assert_close(trace.logits, model.head((share[..., None] * trace.hidden[-1]).sum(1)))

    def test_pooling_two_texts(self):
        model = build("bilstm_attention", "pair", attention="uniform")
        batch = model.encode(rows(2))
        (weights,) = model(batch, listen=("weights",)).weights
        for segment in (0, 1):
            here = batch.segments == segment
            torch.testing.assert_close(weights[:, 0, segment], here / here.sum(-1, keepdim=True))

    @pytest.mark.parametrize("name", ["native", "bilstm_attention"])
    def test_gradients(self, name):
        """What reads the words learns; what would have weighed them gets zeros, not nothing."""
        model = build(name, "classification", attention="uniform")
        batch = model.encode(rows())
        inputs = model.embed(batch).detach().requires_grad_()
        model.run(inputs, batch).logits.square().sum().backward()
        assert (inputs.grad[batch.mask].abs().sum(-1) > 0).all()
        assert (inputs.grad[~batch.mask] == 0).all()
        slopes = {part: one.grad for part, one in model.named_parameters() if not part.startswith("words")}
        for part, slope in slopes.items():
            read = slope.chunk(3)[2] if "query_key_value" in part else slope
            idle = slope.chunk(3)[:2] if "query_key_value" in part else [slope] if part.startswith("score") else []
            assert all((one == 0).all() for one in idle), part
            assert part.startswith("score") or read.abs().sum() > 0, part

    @pytest.mark.parametrize("name", ["native", "bilstm_attention"])
    def test_by_spec_and_as_it_is_told(self, name):
        from didact.models.build import native_model

        told = {"task": CLASSIFICATION, "classes": ("a", "b"), "rows": rows(), "source": "rows", "split": "teach"}
        uniform, learned, plain = (
            native_model(f"{name}{inside}", **told) for inside in ("(attention=uniform)", "(attention=learned)", "")
        )
        assert uniform.facts()["options"]["attention"] == "uniform"
        assert learned.facts() == plain.facts(), "what goes without saying leaves older fingerprints as they were"
        assert "attention" not in plain.options
        uniform.load_state_dict(plain.state_dict())
        assert uniform.fingerprint() != plain.fingerprint()
        with pytest.raises(OptionError, match="'attention' of '.*' must be 'learned' or 'uniform', not 'flat'"):
            native_model(f"{name}(attention=flat)", **told)

    def test_models_without_the_choice(self):
        from didact.models.build import native_model

        for name in ("bilstm", "pool"):
            with pytest.raises(OptionError, match="no option of model .* named 'attention'"):
                native_model(
                    f"{name}(attention=uniform)", task=CLASSIFICATION, classes=("a", "b"), rows=rows(), source="rows",
                    split="teach",
                )  # fmt: skip


class TestBiLSTM:
    def test_equals_torch_lstm_on_each_text_apart(self):
        model = build("bilstm", "pair")
        row = rows(2)[0]
        batch = model.encode([row])
        with torch.no_grad():
            states = model.words(batch.tokens)
            first, second = (model.layers[0](states[:, batch.segments[0] == part])[0].mean(1) for part in (0, 1))
            both = torch.cat([first, second, (first - second).abs(), first * second], -1)
            torch.testing.assert_close(model(batch).logits, model.head(both))

    def test_regression_of_a_single_text(self):
        model = build("bilstm", "regression")
        assert model.predict(rows(1)).values.shape == (3, 1)


def test_scalar_mix_starts_as_the_mean_and_weighs_by_softmax():
    hidden = torch.randn(2, 3, 4, 5)
    mix = ScalarMix(3)
    torch.testing.assert_close(mix(hidden), hidden.mean(1))
    with torch.no_grad():
        mix.coefficients.copy_(torch.tensor([0.0, 1.0, 2.0]).log().nan_to_num(neginf=-1e9))
        mix.scale.fill_(3.0)
    torch.testing.assert_close(mix(hidden), hidden[:, 1] + 2 * hidden[:, 2])


class TestWordTokenizer:
    def test_numbers_words_by_frequency_then_spelling(self):
        tokenizer = WordTokenizer.from_rows([Row("a", ("b b a c",)), Row("b", ("c! B",))])
        assert tokenizer.vocabulary[5:] == ("b", "c", "!", "a")
        batch = tokenizer.encode([Row("x", ("A unknown b",))])
        assert batch.tokens[0].tolist() == [2, 8, UNKNOWN, 5, 3]

    def test_rare_words_and_a_full_vocabulary_are_left_out(self):
        rows = [Row("a", ("b b b a a c",))]
        assert WordTokenizer.from_rows(rows, min_count=2).vocabulary[5:] == ("b", "a")
        assert WordTokenizer.from_rows(rows, max_words=1).vocabulary[5:] == ("b",)

    def test_pairs_and_rationales(self):
        row = Row("x", ("a b", "a"), rationale=(Span(1, 0, 1),))
        batch = WordTokenizer.from_rows([row]).encode([row])
        assert batch.segments[0].tolist() == [-1, 0, 0, -1, 1, -1]
        assert batch.words[0].tolist() == [-1, 0, 1, -1, 0, -1]
        assert batch.rationale[0].tolist() == [False, False, False, False, True, False]

    def test_truncation_takes_from_the_longest_text(self):
        row = Row("x", ("a b c d e f", "a b"))
        tokenizer = WordTokenizer.from_rows([row])
        batch = tokenizer.encode([row], max_length=7)
        assert batch.segments[0].tolist() == [-1, 0, 0, -1, 1, 1, -1]

    def test_no_words_is_an_error(self):
        with pytest.raises(OptionError, match="have no words"):
            WordTokenizer.from_rows([Row("x", ("  ",))])


class TestRefusals:
    def test_tasks_a_model_cannot_do(self):
        with pytest.raises(
            UnsupportedError, match="'bilstm_attention' does not support reading. Choose 'native' or 'bilstm'"
        ):
            BiLSTMAttention(READING, None, WordTokenizer.from_rows(rows()))
        with pytest.raises(UnsupportedError, match="'bilstm' does not support image. Choose 'native'"):
            BiLSTM(IMAGE, ("a", "b"), PatchReader(32, 32))

    def test_options_that_do_not_fit(self):
        reader = WordTokenizer.from_rows(rows())
        with pytest.raises(
            OptionError, match="'width' must be a multiple of the number of heads, got width=10 and heads=4"
        ):
            TransformerModel(CLASSIFICATION, ("a", "b"), reader, width=10)
        with pytest.raises(OptionError, match="'layers' of 'native' must be at least 1, not 0"):
            TransformerModel(CLASSIFICATION, ("a", "b"), reader, layers=0)
        with pytest.raises(OptionError, match="'pool' of 'native' must be 'mean' or 'first', not 'max'"):
            TransformerModel(CLASSIFICATION, ("a", "b"), reader, pool="max")
        with pytest.raises(OptionError, match="must be even"):
            BiLSTM(REGRESSION, None, reader, width=7)
        with pytest.raises(OptionError, match="Patches of 8 pixels do not tile an image of 30 x 32"):
            PatchReader(30, 32)

    def test_more_options_that_do_not_fit(self):
        reader = WordTokenizer.from_rows(rows())
        assert TransformerModel(CLASSIFICATION, ("a", "b"), reader, dropout=0).options["dropout"] == 0
        for options, wanted in (
            ({"dropout": 1.0}, "from 0 to below 1"),
            ({"mix": "maybe"}, "true or false"),
            ({"layers": 1.5}, "at least 1"),
        ):
            with pytest.raises(OptionError, match=wanted):
                _check_option("native", *next(iter(options.items())))
        with pytest.raises(OptionError, match="'patch' must be an integer >= 1, got 0"):
            PatchReader(32, 32, patch=0)

    @pytest.mark.parametrize("name", MODELS)
    def test_texts_of_nothing_are_named(self, name):
        with pytest.raises(ShapeError, match="1 of 1 rows hold nothing.*no words.*: blank"):
            build(name, "classification").predict([Row("blank", ("  ",))])

    def test_too_long(self):
        model = build("native", "classification", length=8)
        with pytest.raises(UnsupportedError, match=r"1 of 3 rows are longer than the 8 words.*longest has 15"):
            model.encode(rows())
        model.truncate = True
        assert model.encode(rows()).tokens.shape == (3, 8)

    def test_rows_of_another_kind(self):
        with pytest.raises(ShapeError, match="is classification, which reads text; row 'p0' has 2 texts"):
            build("native", "classification").encode(rows(2))
        with pytest.raises(ShapeError, match="row 'r0' has 1 texts"):
            build("native", "pair").encode(rows(1))
        with pytest.raises(ShapeError, match="Row 'i0' has 16 x 16 x 3, but the model reads images of 32 x 32 x 3"):
            build("native", "image").encode(images(1, size=16))
        with pytest.raises(ShapeError, match="Row 'r0' has no image"):
            build("native", "image").encode(rows(1))


def test_prediction_leaves_mode_and_gradients():
    model = build("native", "classification", dropout=0.5).train()
    first = model.predict(rows())
    assert model.training
    assert np.array_equal(first.values, model.predict(rows()).values), "dropout must be off while predicting"
    assert all(parameter.grad is None for parameter in model.parameters())
