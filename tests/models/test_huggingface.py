"""The adapter against transformers itself: same numbers, padding or not, and the model left as it was found."""

import copy
import json

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForTokenClassification, BertModel

from didact.core.batch import Batch
from didact.core.row import Box, Row, Span
from didact.core.task import CLASSIFICATION, PAIR, READING, REGRESSION
from didact.errors import OptionError, ShapeError, UnsupportedError
from didact.models.huggingface import HuggingFaceModel
from didact.models.load import load_teacher
from tiny import (
    CAUSAL,
    IMAGE_ARCHITECTURES,
    TEXT_ARCHITECTURES,
    byte_tokenizer,
    huggingface,
    images,
    rows,
    wordpiece_tokenizer,
)

EVERYTHING = ("mean", "reading", "full", "hidden")


def adapter(architecture: str, head: str = "ForSequenceClassification", **changes):
    if architecture in IMAGE_ARCHITECTURES:
        head = "ForImageClassification"
    return HuggingFaceModel(*huggingface(architecture, head, **changes))


def inputs_of(batch: Batch) -> dict[str, torch.Tensor]:
    if batch.pixels is not None:
        return {"pixel_values": batch.pixels}
    types = {} if batch.types is None else {"token_type_ids": batch.types}
    return {"input_ids": batch.tokens, "attention_mask": batch.mask.long(), **types}


def eager(model: HuggingFaceModel, batch: Batch, **options: object):
    """What transformers' own eager path answers to the same token ids."""
    model.model.set_attn_implementation("eager")
    with torch.no_grad():
        return model.model(**inputs_of(batch), **options)


def some_rows(model: HuggingFaceModel) -> list[Row]:
    return rows() if model.task.is_text else images()


@pytest.mark.parametrize("architecture", [*TEXT_ARCHITECTURES, *IMAGE_ARCHITECTURES])
class TestEqualsEager:
    def test_outputs_on_a_padded_batch(self, architecture):
        model = adapter(architecture)
        batch = model.encode(some_rows(model))
        assert not model.task.is_text or not batch.mask.all(), "the batch must be ragged to test padding"
        with torch.no_grad():
            trace = model(batch, listen=EVERYTHING)
            lower = model.run(model.embed(batch, at="embedding"), batch, at="embedding")
        reference = eager(model, batch, output_hidden_states=True)
        torch.testing.assert_close(trace.logits, reference.logits, atol=1e-6, rtol=0)
        torch.testing.assert_close(lower.logits, reference.logits, atol=1e-6, rtol=0)
        # On padding RoBERTa counts positions differently when given ids; nobody reads those states.
        hidden = torch.stack(trace.hidden, 1)
        real = batch.mask[:, None, :].expand(hidden.shape[:3])
        expected = torch.stack(reference.hidden_states, 1)
        torch.testing.assert_close(hidden[real], expected[real], atol=1e-6, rtol=0)

    def test_attention_logits_softmax_to_the_models_own_probabilities(self, architecture):
        model = adapter(architecture)
        batch = model.encode(some_rows(model))
        with torch.no_grad():
            trace = model(batch, listen=EVERYTHING)
        reference = torch.stack(eager(model, batch, output_attentions=True).attentions, 1)
        real = batch.mask[:, None, None, :].expand(reference.shape[:4])  # queries that are not padding
        assert trace.full.shape == reference.shape
        torch.testing.assert_close(trace.full.softmax(-1)[real], reference[real], atol=1e-6, rtol=0)

        # The positions that the head pools.
        expected = torch.einsum("bq,blhqk->blhk", model.pooling_weights(batch), reference)
        chances = trace.reading.exp()
        torch.testing.assert_close(chances, expected, atol=1e-6, rtol=0)

    def test_mean_logit_of_a_key_is_over_the_queries_that_see_it(self, architecture):
        """Written out literally, query by query, from the full matrix."""
        model = adapter(architecture)
        batch = model.encode(some_rows(model))
        with torch.no_grad():
            trace = model(batch, listen=("mean", "full"))
        for row in range(len(batch)):
            for key in range(batch.tokens.shape[1]):
                column = trace.full[row, :, :, :, key]
                for layer in range(column.shape[0]):
                    seen = torch.isfinite(column[layer, 0])
                    expected = column[layer, :, seen].mean(-1) if seen.any() else torch.zeros(column.shape[1])
                    torch.testing.assert_close(trace.mean[row, layer, :, key], expected, atol=1e-5, rtol=1e-5)

    def test_a_row_alone_and_in_a_batch(self, architecture):
        model = adapter(architecture)
        batch = model.encode(some_rows(model))
        with torch.no_grad():
            together = model(batch, listen=EVERYTHING)
            for index, row in enumerate(some_rows(model)):
                alone = model(model.encode([row]), listen=EVERYTHING)
                length = alone.mean.shape[-1]
                torch.testing.assert_close(together.logits[index], alone.logits[0], atol=1e-5, rtol=0)
                torch.testing.assert_close(together.mean[index, ..., :length], alone.mean[0], atol=1e-5, rtol=0)
                torch.testing.assert_close(together.reading[index, ..., :length], alone.reading[0], atol=1e-5, rtol=0)

    @pytest.mark.parametrize("at", ["word", "embedding"])
    def test_first_and_second_derivatives(self, architecture, at):
        """Against a five-point stencil in float64, through the logits and through the attention.

        Some architectures compute their norms or rotations in float32 whatever they are given: wider steps for them.
        """
        model = adapter(architecture).double()
        batch = model.encode(some_rows(model)[:2])
        batch = Batch(**{**vars(batch), "pixels": None if batch.pixels is None else batch.pixels.double()})
        start = model.embed(batch, at=at).detach()
        direction = torch.randn_like(start) * batch.mask[..., None]

        def scalar(step: torch.Tensor) -> torch.Tensor:
            trace = model.run(start + step * direction, batch, at=at, listen=("mean",))
            return trace.logits[:, 0].sum() + (trace.mean**2).sum() / 10

        step = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(scalar(step), step, create_graph=True)
        (bend,) = torch.autograd.grad(slope, step)
        single = architecture in ("modernbert", "llama", "qwen2")
        h, near = (1e-2, 1e-2) if single else (1e-3, 1e-5)
        with torch.no_grad():
            lower, low, here, high, higher = (scalar(torch.tensor(x * h).double()) for x in (-2, -1, 0, 1, 2))
        torch.testing.assert_close(slope, (lower - 8 * low + 8 * high - higher) / (12 * h), rtol=near, atol=near)
        expected = (-lower + 16 * low - 30 * here + 16 * high - higher) / (12 * h**2)
        torch.testing.assert_close(bend, expected, rtol=10 * near, atol=10 * near)

    def test_the_live_model_is_left_as_it_was_found(self, architecture):
        head = "ForImageClassification" if architecture in IMAGE_ARCHITECTURES else "ForSequenceClassification"
        network, tokenizer = huggingface(architecture, head)
        network.train()
        network.base_model.eval()
        before = copy.deepcopy(network.state_dict())
        modes = [module.training for module in network.modules()]
        implementation = network.config._attn_implementation
        model = HuggingFaceModel(network, tokenizer)
        outputs = model.predict(some_rows(model))
        assert len(outputs) == 3
        assert network.config._attn_implementation == implementation
        assert [module.training for module in network.modules()] == modes
        assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
        assert all(parameter.grad is None for parameter in network.parameters())
        assert not any(module._forward_pre_hooks or module._forward_hooks for module in [model._first_layer])


@pytest.mark.parametrize("architecture", [a for a in TEXT_ARCHITECTURES if a != "gpt2"])
def test_question_answering(architecture):
    model = adapter(architecture, "ForQuestionAnswering", labels=2)
    assert model.task is READING
    batch = model.encode(rows(2))
    with torch.no_grad():
        logits = model(batch).logits
    reference = eager(model, batch)
    inside = batch.segments == 1
    for side, expected in enumerate((reference.start_logits, reference.end_logits)):
        torch.testing.assert_close(logits[:, side][inside], expected[inside], atol=1e-5, rtol=0)
        assert (logits[:, side][~inside] == -torch.inf).all(), "an answer must lie in the passage"
    outputs = model.predict(rows(2))
    for row, span, (answer,) in zip(rows(2), outputs.spans, outputs.answers, strict=True):
        assert answer == row.text_of(span)
        assert answer
        assert answer == answer.strip()


class TestTasks:
    def test_one_output_is_regression(self):
        assert adapter("bert", labels=1).task is REGRESSION

    def test_pair_is_told_by_its_classes(self):
        names = {0: "entailment", 1: "neutral", 2: "contradiction"}
        assert adapter("bert", id2label=names).task is PAIR
        assert adapter("bert").task is CLASSIFICATION

    def test_pairs_need_the_task_where_the_classes_do_not_tell(self):
        network, tokenizer = huggingface("bert")
        with pytest.raises(ShapeError, match=r"the rows have 2 texts.*task='pair'"):
            HuggingFaceModel(network, tokenizer).encode(rows(2))
        pair = HuggingFaceModel(network, tokenizer, task=PAIR)
        batch = pair.encode(rows(2))
        assert batch.types is not None
        assert batch.types.max() == 1, "BERT's segment ids must not be dropped"
        torch.testing.assert_close(pair(batch).logits, eager(pair, batch).logits, atol=1e-6, rtol=0)

    def test_multi_label_is_refused_with_the_reason(self):
        with pytest.raises(UnsupportedError, match="no single predicted class"):
            adapter("bert", problem_type="multi_label_classification")

    def test_a_task_the_head_cannot_do(self):
        network, tokenizer = huggingface("bert")
        for task in (READING, REGRESSION):
            with pytest.raises(OptionError, match=f"has a head for classification and does not support {task}"):
                HuggingFaceModel(network, tokenizer, task=task)
        with pytest.raises(UnsupportedError, match="is a regression with 3 outputs"):
            adapter("bert", problem_type="regression")

    def test_other_heads_are_refused_by_name(self):
        config = BertConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
        )
        tokenizer = wordpiece_tokenizer()
        with pytest.raises(UnsupportedError, match="one label per token"):
            HuggingFaceModel(BertForTokenClassification(config), tokenizer)
        for headless in (BertModel(config), BertForMaskedLM(config)):
            with pytest.raises(UnsupportedError, match="no head for a task.*didact train"):
                HuggingFaceModel(headless, tokenizer)

    def test_wrong_number_of_class_names(self):
        with pytest.raises(OptionError, match="Got 2 class names, but the model has 3 outputs"):
            HuggingFaceModel(*huggingface("bert"), classes=["a", "b"])


class TestArchitecturesThatPassTheInterfaceBy:
    @pytest.mark.parametrize("architecture", ["deberta-v2", "mpnet"])
    def test_fall_back_to_the_probabilities_they_return(self, architecture):
        model = adapter(architecture)
        batch = model.encode(rows())
        with torch.no_grad():
            trace = model(batch, listen=("reading", "full"))
        reference = eager(model, batch, output_attentions=True)
        torch.testing.assert_close(trace.logits, reference.logits, atol=1e-6, rtol=0)
        expected = torch.stack(reference.attentions, 1)
        real = batch.mask[:, None, None, :].expand(expected.shape[:4])
        torch.testing.assert_close(trace.full.softmax(-1)[real], expected[real], atol=1e-5, rtol=0)


class TestLengths:
    def test_too_long_is_an_error_with_the_number_of_rows(self):
        model = adapter("roberta")  # 66 positions, two of them reserved
        assert model.max_length == 64
        long = Row("long", ("good " * 80,))
        with pytest.raises(
            UnsupportedError, match=r"1 of 4 rows are longer than the 64 tokens.*longest has 82.*truncate"
        ):
            model.encode([*rows(), long])
        assert model.encode([Row("fits", ("good " * 62,))]).tokens.shape == (1, 64)

    def test_truncates_when_asked(self):
        model = HuggingFaceModel(*huggingface("roberta"), truncate=True, max_length=16)
        batch = model.encode([Row("long", ("good " * 80,))])
        assert batch.tokens.shape == (1, 16)
        assert not batch.units[0, -1], "the closing special token is kept"

    def test_reading_truncates_the_passage_only(self):
        model = HuggingFaceModel(*huggingface("bert", "ForQuestionAnswering", labels=2), truncate=True, max_length=12)
        batch = model.encode([Row("r", ("who sings", "good " * 40), label=(Span(1, 0, 4),))])
        assert (batch.segments == 0).sum() == 2
        assert batch.tokens.shape == (1, 12)

    def test_more_than_the_model_reads_cannot_be_asked_for(self):
        with pytest.raises(OptionError, match="max_length is 100, but the model reads at most 64"):
            HuggingFaceModel(*huggingface("roberta"), max_length=100)

    def test_predicting_counts_all_rows_not_those_of_a_batch(self):
        model = adapter("roberta")
        data = [Row(f"long-{number}", ("good " * 80,)) for number in range(70)] + rows()
        with pytest.raises(UnsupportedError, match="70 of 73 rows are longer than the 64 tokens"):
            model.predict(data)

    def test_a_length_without_room_for_words(self):
        with pytest.raises(OptionError, match="no room for words next to 3 special tokens"):
            HuggingFaceModel(*huggingface("bert"), truncate=True, max_length=2)

    def test_a_question_longer_than_the_model(self):
        model = HuggingFaceModel(*huggingface("bert", "ForQuestionAnswering", labels=2), truncate=True, max_length=8)
        with pytest.raises(UnsupportedError, match="A question alone is longer than the 8 tokens"):
            model.encode([Row("r", ("good " * 30, "bad film"), label=(Span(1, 0, 3),))])

    def test_texts_of_nothing_are_named(self):
        model = HuggingFaceModel(huggingface("llama")[0], byte_tokenizer(begin=False))
        with pytest.raises(ShapeError, match="1 of 4 rows hold nothing.*no words.*: blank"):
            model.encode([*rows(), Row("blank", ("",))])

    def test_slow_tokenizers_are_refused(self):
        network, _ = huggingface("bert")
        with pytest.raises(UnsupportedError, match="needs a fast tokenizer"):
            HuggingFaceModel(network, tokenizer=object())


class TestPositions:
    @pytest.mark.parametrize("architecture", ["bert", "llama"])
    def test_words_offsets_and_rationales(self, architecture):
        """WordPiece splits words, bytes split letters and keep spaces; both must tell the same words."""
        model = adapter(architecture)
        text = "an unbelievable film"
        row = Row("r", (text,), rationale=(Span(0, 3, 15),))
        batch = model.encode([row])
        for token in range(batch.tokens.shape[1]):
            start, end = batch.offsets[0, token].tolist()
            word = int(batch.words[0, token])
            piece = text[start:end]
            if word >= 0:
                assert piece
                assert piece in text.split()[word]
            assert bool(batch.rationale[0, token]) == (word == 1)
        assert set(batch.words[0].tolist()) == {-1, 0, 1, 2}

    def test_words_of_two_texts_are_kept_apart(self):
        network, tokenizer = huggingface("bert")
        batch = HuggingFaceModel(network, tokenizer, task=PAIR).encode([Row("r", ("good film", "good film"))])
        keys = [(int(s), int(w)) for s, w in zip(batch.segments[0], batch.words[0], strict=True) if s >= 0]
        assert keys == [(0, 0), (0, 1), (1, 0), (1, 1)]

    def test_patches_and_boxes(self):
        model = adapter("vit")
        row = Row("i", image=images(1)[0].image, rationale=(Box(8, 16, 16, 24),))
        batch = model.encode([row])
        assert batch.tokens.shape == (1, 17)
        assert not batch.units[0, 0]
        assert batch.rationale[0].nonzero().flatten().tolist() == [1 + 4 * 1 + 2]

    def test_boxes_follow_a_resized_image(self):
        model = adapter("vit")
        row = Row("i", image=images(1, size=64)[0].image, rationale=(Box(16, 32, 32, 48),))
        batch = model.encode([row])
        assert batch.rationale[0].nonzero().flatten().tolist() == [1 + 4 * 1 + 2]


def test_causal_classifiers_answer_from_the_last_real_token():
    for architecture in CAUSAL:
        assert adapter(architecture).pooling_position == "last"


def test_the_live_tokenizer_is_left_as_it_was_found():
    network, tokenizer = huggingface("bert")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.backend_tokenizer.enable_truncation(6)
    tokenizer.backend_tokenizer.enable_padding(length=20)
    before = tokenizer.backend_tokenizer.to_str()
    model = HuggingFaceModel(network, tokenizer, truncate=True, max_length=8)
    printed = model.fingerprint()
    model.predict(rows())
    assert tokenizer.backend_tokenizer.to_str() == before
    assert model.fingerprint() == printed


def test_grey_images_are_read_in_colour_and_others_refused():
    model = adapter("vit")
    grey = images(1)[0].image[:, :, :1]
    both = [Row("grey", image=grey), Row("same", image=grey.repeat(3, axis=2))]
    batch = model.encode(both)
    assert torch.equal(batch.pixels[0], batch.pixels[1])
    with pytest.raises(ShapeError, match="models read height × width × 3"):
        model.encode([Row("odd", image=grey.repeat(4, axis=2))])


def test_fingerprint_follows_weights_and_tokenizer():
    one, two = adapter("bert"), adapter("bert")
    assert one.fingerprint() == two.fingerprint()
    with torch.no_grad():
        two.model.classifier.bias[0] += 1e-3
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() != HuggingFaceModel(*huggingface("bert"), truncate=True).fingerprint()


OWN = """
from transformers import BertConfig, BertForSequenceClassification


class OwnConfig(BertConfig):
    model_type = "own-bert"


class OwnForSequenceClassification(BertForSequenceClassification):
    config_class = OwnConfig
"""


def test_a_model_with_code_of_its_own_is_opened_when_told_to(tmp_path):
    model, tokenizer = huggingface("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "own_model.py").write_text(OWN)
    about = json.loads((tmp_path / "config.json").read_text())
    name = "OwnForSequenceClassification"
    places = {"AutoConfig": "own_model.OwnConfig", "AutoModelForSequenceClassification": f"own_model.{name}"}
    about |= {"model_type": "own-bert", "architectures": [name], "auto_map": places}
    (tmp_path / "config.json").write_text(json.dumps(about))
    with pytest.raises(UnsupportedError, match="includes its own code.*--trust-remote-code"):
        load_teacher(tmp_path)
    teacher, twin = load_teacher(tmp_path, trust_remote_code=True), load_teacher((model, tokenizer))
    assert type(teacher.model).__name__ == name
    texts = [Row("a", ("good one",)), Row("b", ("a bad film",))]
    assert torch.equal(teacher(teacher.encode(texts)).logits, twin(twin.encode(texts)).logits)


def test_a_teacher_that_is_open_stays_where_it_is():
    teacher = adapter("bert")
    assert load_teacher(teacher) is teacher
    with pytest.raises(OptionError, match="is already loaded"):
        load_teacher(teacher, device="cpu")
