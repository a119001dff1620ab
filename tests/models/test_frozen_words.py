"""Word embeddings of a base: how its pieces are read, what the frozen table holds, and how both are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION, IMAGE, REGRESSION
from didact.errors import OptionError, RecordError, UnknownNameError, UnsupportedError
from didact.models.bilstm import BiLSTM, BiLSTMAttention, _run_each_direction, _run_packed, _run_step_by_step
from didact.models.build import native_model
from didact.models.frozen_words import FrozenWordEmbeddings, base_reader, standardised_embeddings
from didact.models.native import load_native
from didact.models.pool import PoolModel
from didact.models.tokenizer import PatchReader, PieceReader, WordTokenizer, reader_from
from didact.models.transformer import TransformerModel
from tiny import byte_tokenizer, huggingface, rows, wordpiece_tokenizer

CLASSES = ("a", "b")
KINDS = [BiLSTM, BiLSTMAttention, PoolModel, TransformerModel]
TRICKY = ["unbelievable  film, un-good!", "  The MUSIC\twas great ", "naïve 電影 a—b", "bad", "[SEP] good [MASK]"]


@pytest.fixture
def base(tmp_path) -> str:
    folder = tmp_path / "base"
    for part in huggingface("bert"):
        part.save_pretrained(folder)
    return str(folder)


def build(kind, base: str, **options):
    torch.manual_seed(0)
    return kind(CLASSIFICATION, CLASSES, base_reader(base), width=16, embeddings=base, **options)


class TestPieceReader:
    @pytest.mark.parametrize("make", [wordpiece_tokenizer, byte_tokenizer])
    def test_cuts_as_the_tokenizer_does(self, make):
        tokenizer = make()
        reader = PieceReader.from_tokenizer(tokenizer, special=False)
        for text in TRICKY:
            encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            pieces = reader.pieces(Row("x", (text,)))
            assert pieces.tokens.tolist() == encoded["input_ids"]
            for (start, end), (first, last) in zip(pieces.offsets.tolist(), encoded["offset_mapping"], strict=True):
                assert text[start:end] == text[first:last].strip()

    def test_reads_as_the_model_itself_does(self):
        """With special tokens, one text and two: what BERT's own tokenizer makes of them."""
        tokenizer = wordpiece_tokenizer()
        reader = PieceReader.from_tokenizer(tokenizer)
        for row in (*rows(1), *rows(2)):
            encoded = tokenizer(*row.texts, return_offsets_mapping=True)
            batch = reader.encode([row])
            assert batch.tokens[0].tolist() == encoded["input_ids"]
            assert batch.offsets[0].tolist() == [list(pair) for pair in encoded["offset_mapping"]]
            assert batch.segments[0].tolist() == [-1 if one is None else one for one in encoded.sequence_ids(0)]

    def test_batches_words_and_rationales(self):
        row = Row("x", ("unbelievable film", "bad"), rationale=(Span(0, 0, 12),))
        reader = PieceReader.from_tokenizer(wordpiece_tokenizer(), special=False)
        batch = reader.encode([row, *rows(2)])
        assert batch.words[0, :5].tolist() == [0, 0, 0, 1, 0]
        assert batch.rationale[0, :5].tolist() == [True, True, True, False, False]
        assert (batch.tokens[~batch.mask] == 0).all()
        for index, one in enumerate([row, *rows(2)]):
            pieces = reader.pieces(one)
            assert np.array_equal(batch.tokens[index, : len(pieces.tokens)], pieces.tokens)

    def test_truncation_takes_from_the_longest_text(self):
        row = Row("x", ("a good film is not very good", "a film"))
        reader = PieceReader.from_tokenizer(wordpiece_tokenizer())
        assert reader.encode([row], max_length=7).segments[0].tolist() == [-1, 0, 0, -1, 1, 1, -1]
        bare = replace(reader, special=False)
        assert bare.encode([row], max_length=5).segments[0].tolist() == [0, 0, 0, 1, 1]
        with pytest.raises(OptionError, match="length of 3 leaves no room"):
            reader.encode([row], max_length=3)

    def test_how_the_tokenizer_was_called_last_is_nothing(self):
        tokenizer = wordpiece_tokenizer()
        plain = PieceReader.from_tokenizer(tokenizer)
        tokenizer(["a good film"], truncation=True, max_length=2, padding="max_length")
        assert PieceReader.from_tokenizer(tokenizer) == plain
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()

    @pytest.mark.parametrize("make", [wordpiece_tokenizer, byte_tokenizer])
    def test_facts_are_all_there_is(self, make):
        reader = PieceReader.from_tokenizer(make(), special=False)
        again = reader_from(reader.facts())
        assert again == reader
        assert len(again) == len(reader) == len(make())
        row = Row("x", (TRICKY[0],))
        assert np.array_equal(again.pieces(row).tokens, reader.pieces(row).tokens)

    def test_tokens_by_name(self, base):
        model = build(PoolModel, base)
        assert (model.special_token_id("pad"), model.special_token_id("mask")) == (0, 4)
        assert model.token_name(5) == "a"
        bytes_only = PieceReader.from_tokenizer(byte_tokenizer())
        assert (bytes_only.cls, bytes_only.sep) == (0, 1), "the tokens it begins and ends with"
        with pytest.raises(
            UnsupportedError, match="'mask' needs a token that model .* does not have. Choose baseline 'zero'"
        ):
            PoolModel(CLASSIFICATION, CLASSES, bytes_only).special_token_id("mask")


class TestTable:
    def test_is_standardised(self, base):
        weight = huggingface("bert")[0].get_input_embeddings().weight.detach().double().numpy()
        expected = (weight - weight.mean(0)) / np.sqrt(((weight - weight.mean(0)) ** 2).mean(0))
        np.testing.assert_allclose(standardised_embeddings(base)[0].numpy(), expected, atol=1e-6)

    def test_a_dimension_that_never_changes_is_zero(self, tmp_path):
        model, tokenizer = huggingface("bert")
        with torch.no_grad():
            model.get_input_embeddings().weight[:, 3] = 0.5
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        table, _ = standardised_embeddings(str(tmp_path))
        assert table.isfinite().all()
        assert (table[:, 3] == 0).all()

    @pytest.mark.parametrize("kind", KINDS)
    def test_is_frozen_shared_and_no_part_of_the_state(self, kind, base):
        model, other = build(kind, base), build(kind, base)
        assert isinstance(model.words, FrozenWordEmbeddings)
        assert not any("table" in name for name in model.state_dict())
        assert not any("table" in name for name, _ in model.named_parameters())
        assert model.words.table.data_ptr() == other.words.table.data_ptr()
        model(model.encode(rows())).logits.sum().backward()
        assert model.words.project.weight.grad.abs().sum() > 0
        assert model.words.table.grad is None
        assert not model.words.table.requires_grad
        moved = model.double()
        assert moved.words.table.dtype == torch.float64
        assert other.words.table.dtype == torch.float32

    def test_embed_looks_up_and_projects(self, base):
        model = build(BiLSTM, base)
        batch = model.encode(rows())
        expected = model.words.project(standardised_embeddings(base)[0][batch.tokens])
        torch.testing.assert_close(model.embed(batch), expected)
        assert model.embed(batch).shape[-1] == 16

    def test_loading_it_draws_nothing_and_serves_training(self, base):
        torch.manual_seed(3)
        expected = torch.rand(())
        torch.manual_seed(3)
        with torch.inference_mode():
            standardised_embeddings(base)
        assert torch.equal(torch.rand(()), expected)
        model = build(PoolModel, base)
        model(model.encode(rows())).logits.sum().backward()

    def test_learned_embeddings_are_as_before(self):
        """The option changes no weight of a model that does not use it."""
        reader = WordTokenizer.from_rows(rows())
        torch.manual_seed(0)
        model = BiLSTMAttention(CLASSIFICATION, CLASSES, reader, width=8)
        torch.manual_seed(0)
        words = torch.nn.Embedding(len(reader), 8)
        torch.nn.init.normal_(words.weight, std=8**-0.5)
        assert torch.equal(model.words.weight, words.weight)
        assert torch.equal(model.layers[0].weight_ih_l0, torch.nn.LSTM(8, 4, bidirectional=True).weight_ih_l0)


class TestKeeping:
    @pytest.mark.parametrize("kind", KINDS)
    def test_saved_and_opened_again(self, kind, base, tmp_path):
        model = build(kind, base).eval()
        model.save(tmp_path)
        again = load_native(tmp_path)
        assert again.fingerprint() == model.fingerprint()
        assert np.array_equal(again.predict(rows()).values, model.predict(rows()).values)

    def test_another_table_is_another_model(self, base, tmp_path):
        model = build(PoolModel, base)
        model.save(tmp_path)
        network, _ = huggingface("bert")
        with torch.no_grad():
            network.get_input_embeddings().weight[5] += 1
        network.save_pretrained(base)
        other = build(PoolModel, base)
        assert all(torch.equal(one, other.state_dict()[name]) for name, one in model.state_dict().items())
        assert other.fingerprint() != model.fingerprint()
        with pytest.raises(RecordError, match="'pool' was trained with the word embeddings of .* changed since"):
            load_native(tmp_path)

    def test_by_spec(self, base):
        spec = f"bilstm_attention(embeddings='{base}', width=8)"
        model = native_model(spec, task=CLASSIFICATION, classes=CLASSES, rows=rows(), source="x", split="teach")
        assert isinstance(model.reader, PieceReader)
        assert not model.reader.special
        assert model.options["embeddings"] == base


class TestRefusals:
    @pytest.mark.parametrize("spec", ["pool(embeddings=base)", "pool(embeddings='')"])
    def test_values_that_are_no_base(self, spec):
        with pytest.raises(OptionError, match="'embeddings' of (model )?'pool'"):
            native_model(spec, task=CLASSIFICATION, classes=CLASSES, rows=rows(), source="x", split="teach")
        with pytest.raises(
            OptionError, match="must be 'learned', 'teacher' for a student, or the base model.*minilm.*not 'base'"
        ):
            PoolModel(CLASSIFICATION, CLASSES, WordTokenizer.from_rows(rows()), embeddings="base")

    def test_readers_that_do_not_fit(self, base):
        with pytest.raises(OptionError, match=r"reads words of its own vocabulary.*base_reader"):
            PoolModel(CLASSIFICATION, CLASSES, WordTokenizer.from_rows(rows()), embeddings=base)
        with pytest.raises(OptionError, match="but the model reads images"):
            TransformerModel(IMAGE, CLASSES, PatchReader(32, 32), embeddings=base)
        with pytest.raises(OptionError, match="has 258 tokens.*has embeddings of only 40"):
            PoolModel(REGRESSION, None, PieceReader.from_tokenizer(byte_tokenizer()), embeddings=base)

    def test_a_base_nobody_knows(self):
        with pytest.raises(UnknownNameError, match="no model named 'minilmm'.*Did you mean 'minilm'"):
            base_reader("minilmm")


class TestLSTM:
    def test_three_ways_to_run_it(self):
        """Rows turned round, packed, and step by step: values and slopes, with an empty row and a full one."""
        torch.manual_seed(0)
        lstm = torch.nn.LSTM(8, 4, batch_first=True, bidirectional=True).double()
        inputs = torch.randn(4, 7, 8, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([7, 3, 0, 1])
        part = torch.arange(7) < lengths[:, None]
        found = []
        for run in (_run_each_direction, _run_packed):
            outputs = run(lstm, inputs, lengths) * part[..., None]
            found.append((outputs, *torch.autograd.grad(outputs.square().sum(), [inputs, *lstm.parameters()])))
        outputs = _run_step_by_step(lstm, inputs, part)
        found.append((outputs, *torch.autograd.grad(outputs.square().sum(), [inputs, *lstm.parameters()])))
        for way in found[1:]:
            for one, other in zip(found[0], way, strict=True):
                torch.testing.assert_close(one, other)

    def test_second_derivatives_in_single_precision(self):
        """There torch may run a kernel of its own: the slopes of slopes are those of double precision."""
        bends = []
        for dtype in (torch.float32, torch.float64):
            torch.manual_seed(0)
            lstm = torch.nn.LSTM(8, 4, batch_first=True, bidirectional=True).to(dtype)
            torch.manual_seed(1)
            inputs = torch.randn(3, 7, 8).to(dtype).requires_grad_()
            outputs = _run_each_direction(lstm, inputs, torch.tensor([7, 3, 5]))
            slopes = torch.autograd.grad(outputs.square().sum(), list(lstm.parameters()), create_graph=True)
            (bend,) = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), inputs)
            bends.append(bend.double())
        torch.testing.assert_close(*bends, rtol=1e-3, atol=1e-4)
