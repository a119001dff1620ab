"""The boundary to Hugging Face models checks itself: nothing is answered, recorded or pooled wrongly in silence."""

import copy

import numpy as np
import pytest
import torch
import transformers
from transformers import AttentionInterface

import didact
from didact.core.row import Row
from didact.data.load import load_data
from didact.errors import UnsupportedError
from didact.explaining.saved_teacher import TeacherSource
from didact.models import selfcheck
from didact.models.attention_function import IMPLEMENTATION, attend, split_mask
from didact.models.build import build_model
from didact.models.huggingface import HuggingFaceModel
from didact.models.load import load_teacher
from didact.students.build import build_strategy, parse_student
from tiny import byte_tokenizer, huggingface, images, rows, wordpiece_tokenizer

_SMALL = {
    "vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "pad_token_id": 1, "num_labels": 3,
}  # fmt: skip
_GROUPED = _SMALL | {"num_key_value_heads": 2, "head_dim": 4}
_SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "cls_token_id": 0, "sep_token_id": 1}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
_LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4}
_IMAGE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
    "num_labels": 3,
}  # fmt: skip
_CONFIGS = {
    "GptOss": _GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    "Qwen3Next": _GROUPED | _EXPERTS | _LINEAR | {"num_hidden_layers": 4, "shared_expert_intermediate_size": 8},
    "DiffLlama": _GROUPED,
    "Doge": _GROUPED,
    "ModernBertDecoder": _SMALL | _SPECIAL,
    "EuroBert": _GROUPED | {"mask_token_id": 2},
    "ConvBert": _SMALL | {"embedding_size": 16},
    "Esm": _SMALL | {"mask_token_id": 2, "token_dropout": True, "max_position_embeddings": 64},
    "CTRL": {"vocab_size": 300, "n_embd": 16, "dff": 24, "n_layer": 2, "n_head": 4, "num_labels": 3, "pad_token_id": 1},
    "FNet": _SMALL,
    "BigBird": _SMALL | {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1},
    "Reformer": {
        "vocab_size": 300,
        "hidden_size": 16,
        "attention_head_size": 4,
        "num_attention_heads": 4,
        "num_labels": 3,
        "feed_forward_size": 24,
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"],
        "num_buckets": 2,
    },
    "SqueezeBert": _SMALL | {"embedding_size": 16, "q_groups": 1, "k_groups": 1, "v_groups": 1, "output_groups": 1},
    "XLNet": {"vocab_size": 300, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 24, "num_labels": 3},
    "Bloom": {"vocab_size": 300, "hidden_size": 16, "n_layer": 2, "n_head": 4, "num_labels": 3, "pad_token_id": 1},
    "Beit": _IMAGE | {"intermediate_size": 24, "use_relative_position_bias": True},
    "IJepa": _IMAGE | {"intermediate_size": 24},
    "Dinov2": _IMAGE | {"mlp_ratio": 2},
}


def tiny(family: str, **changes):
    """A tiny random model that tests/tiny.py does not have, with its tokenizer or processor."""
    config = getattr(transformers, f"{family}Config")(**(_CONFIGS[family] | changes))
    is_image = "patch_size" in _CONFIGS[family]
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}For{'Image' if is_image else 'Sequence'}Classification")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    if is_image:
        return model, transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    return model, byte_tokenizer()


def alone(model: HuggingFaceModel, texts: list[Row]) -> torch.Tensor:
    """What transformers itself answers to each row's token ids."""
    with torch.no_grad():
        return torch.cat([model.model(input_ids=model.encode([row]).tokens).logits for row in texts])


@pytest.fixture(autouse=True)
def _nothing_is_known():
    """What another test measured must not hide what this one breaks."""
    for known in (selfcheck._POOLING_POSITIONS, selfcheck._ATTENTION_SOURCES, selfcheck._CHECKED):
        known.clear()


class TestAttentionFunction:
    def test_attention_sinks_are_computed(self):
        model = load_teacher(tiny("GptOss"))
        batch = model.encode(rows())
        with torch.no_grad():
            recorded = model(batch, listen=("full", "weights"))
            plain = model(batch)
        expected = alone(model, rows())
        torch.testing.assert_close(recorded.logits, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(plain.logits, expected, atol=1e-5, rtol=0)
        assert (recorded.weights[0].sum(-1)[batch.mask[:, None].expand(-1, 4, -1)] < 0.999).any(), "sinks take a share"

    def test_an_unknown_argument_is_refused_by_name(self):
        model, _ = huggingface("bert")
        module = model.bert.encoder.layer[0].attention.self
        query = torch.randn(1, 4, 3, 4)
        attend(module, query, query, query, None, sliding_window=2, is_causal=True, new_argument=None)
        with pytest.raises(UnsupportedError, match="'bert'.*'new_argument'"):
            attend(module, query, query, query, None, new_argument=torch.ones(1))

    def test_a_finite_bias_is_no_mask(self):
        logits = torch.randn(1, 2, 3, 3)
        for dtype, least in ((torch.float32, torch.float32), (torch.float64, torch.float32), (torch.float16,) * 2):
            mask = torch.tensor([0.5, -3.0, torch.finfo(least).min], dtype=dtype).expand(1, 1, 3, 3)
            heard, allowed = split_mask(logits.to(dtype), mask)
            assert allowed[0, 0, 0].tolist() == [True, True, False]
            added = torch.tensor([0.5, -3.0, 0.0], dtype=dtype)
            torch.testing.assert_close(heard, logits.to(dtype) + added)
        boolean = torch.tensor([True, False, True]).expand(1, 1, 3, 3)
        heard, allowed = split_mask(logits, boolean)
        assert heard is logits
        assert allowed is boolean

    def test_boolean_masks_hide(self):
        model, _ = huggingface("bert")
        query = torch.randn(1, 4, 3, 4)
        mask = torch.tensor([True, False, True]).expand(1, 1, 3, 3)
        _, weights = attend(model.bert.encoder.layer[0].attention.self, query, query, query, mask)
        assert (weights[..., 1] == 0).all()

    @pytest.mark.parametrize("family", ["Doge", "Beit"])
    def test_models_that_add_a_bias_have_attention(self, family):
        model = load_teacher(tiny(family))
        given = images() if family == "Beit" else rows()
        for method in ("attention_all", "attention_cls", "attention_rollout"):
            scores = didact.explain(model, given, method)[0].scores
            assert len(set(scores.round(6).tolist())) > len(scores) / 2
            assert scores.sum() == pytest.approx(1)

    def test_own_attention_runs_where_nobody_records(self, monkeypatch):
        calls = []
        registered = AttentionInterface._global_mapping[IMPLEMENTATION]
        monkeypatch.setitem(
            AttentionInterface._global_mapping,
            IMPLEMENTATION,
            lambda *args, **kw: calls.append(1) or registered(*args, **kw),
        )
        model = HuggingFaceModel(*huggingface("bert"))
        model(model.encode(rows()), listen=("mean",))
        batch = model.encode(rows())
        calls.clear()
        with torch.no_grad():
            plain = model(batch)
        assert not calls
        with torch.no_grad():
            recorded = model(batch, listen=("mean",))
        assert len(calls) == 2
        model(batch)
        assert len(calls) == 4, "sdpa has no second derivative"
        torch.testing.assert_close(plain.logits, recorded.logits, atol=1e-5, rtol=0)


class TestPooledPositions:
    @pytest.mark.parametrize(
        ("family", "changes", "reading"),
        [
            ("ModernBertDecoder", {}, "last"),
            ("EuroBert", {"classifier_pooling": "late"}, "measured"),
            ("EuroBert", {"classifier_pooling": "mean"}, "mean"),
            ("EuroBert", {"classifier_pooling": "bos"}, "first"),
            ("Beit", {}, "measured"),
            ("IJepa", {}, "mean"),
            ("Dinov2", {}, "measured"),
        ],
    )
    def test_are_measured(self, family, changes, reading):
        model = load_teacher(tiny(family, **changes))
        assert model.pooling_position == reading
        batch = model.encode(rows() if model.task.is_text else images())
        weights = model.pooling_weights(batch)
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(batch)))
        assert (weights[~batch.mask] == 0).all()
        if family == "Beit":  # the mean of its patches, without [CLS]
            torch.testing.assert_close(weights, torch.tensor([0.0] + [1 / 16] * 16).expand(3, -1))
        if family == "Dinov2":  # [CLS] beside the mean of its patches
            assert (weights[:, 0] > 2 * weights[:, 1]).all()
            assert (weights[:, 1:] > 0).all()
        trace = model(batch, listen=("reading", "full"))
        chances = trace.full.masked_fill(~batch.mask[:, None, None, :, None], 0.0).softmax(-1)
        expected = torch.einsum("bq,blhqk->blhk", weights, chances)
        torch.testing.assert_close(trace.reading.exp(), expected, atol=1e-6, rtol=0)

    @pytest.mark.parametrize("family", ["ModernBertDecoder", "EuroBert", "IJepa", "Dinov2"])
    @pytest.mark.parametrize("method", ["attention_cls", "attention_rollout", "attention_flow", "value_zeroing"])
    def test_methods_start_from_them(self, family, method):
        model = load_teacher(tiny(family))
        for explanation in didact.explain(model, rows() if model.task.is_text else images(1), method):
            assert explanation.scores.sum() == pytest.approx(1)

    def test_a_causal_classifier_never_reads_padding_whatever_its_head_is_called(self):
        model = load_teacher(tiny("ModernBertDecoder"))
        batch = model.encode(rows())
        expected = alone(model, rows())
        with torch.no_grad():
            torch.testing.assert_close(model(batch).logits, expected, atol=1e-5, rtol=0)
            lower = model.run(model.embed(batch, at="embedding"), batch, at="embedding").logits
        torch.testing.assert_close(lower, expected, atol=1e-5, rtol=0)
        assert model.predict(rows()).labels.tolist() == expected.argmax(-1).tolist()

    def test_a_causal_classifier_without_a_padding_token(self):
        network, tokenizer = huggingface("llama")
        network.config.pad_token_id = None
        model = load_teacher((network, tokenizer))
        with torch.no_grad():
            logits = model(model.encode(rows())).logits
        torch.testing.assert_close(logits, alone(model, rows()), atol=1e-5, rtol=0)
        assert network.config.pad_token_id is None

    def test_transformers_does_not_warn_of_padding_that_is_not_read(self, caplog, monkeypatch):
        monkeypatch.setattr(transformers.utils.logging._get_library_root_logger(), "propagate", True)
        load_teacher(huggingface("llama")).predict(rows())
        assert "padding" not in caplog.text


class TestAttentionThatIsMissing:
    @pytest.mark.parametrize(
        ("family", "reason"), [("Qwen3Next", "only 1 of its 4 layers"), ("DiffLlama", "4 attention maps are recorded")]
    )
    def test_hybrids_lose_attention_and_keep_the_rest(self, family, reason):
        model = load_teacher(tiny(family))
        for method in ("attention_all", "attention_cls", "attention_rollout", "value_zeroing"):
            with pytest.raises(UnsupportedError, match=f"{reason}.*gradients or predictions"):
                didact.explain(model, rows(), method)
        for method in ("gradient_norm", "occlusion"):
            assert np.isfinite(didact.explain(model, rows(), method)[0].scores).all()

    def test_wrong_weights_are_found_out(self, monkeypatch):
        scale = AttentionInterface._global_mapping[IMPLEMENTATION]
        monkeypatch.setattr(
            "didact.models.attention_recorder.AttentionRecorder.record_logits",
            lambda self, logits, allowed, record_logits=selfcheck.AttentionRecorder.record_logits: record_logits(
                self, logits * 1.1, allowed
            ),
        )
        assert scale is attend
        model = load_teacher(huggingface("bert"))
        with pytest.raises(UnsupportedError, match="recorded weights differ from those the model returns by 0"):
            didact.explain(model, rows(), "attention_all")

    def test_means_come_from_probabilities(self, monkeypatch):
        """BERT, made to return probabilities only, against its recorded logits: equal up to a constant per head."""
        model = HuggingFaceModel(*huggingface("bert"))
        batch = model.encode(rows())
        with torch.no_grad():
            expected = model(batch, listen=("mean",)).mean
            model.model.set_attn_implementation("eager")
            monkeypatch.setattr("didact.models.huggingface.recording", lambda *_: torch.no_grad())
            model._measured_attention_source = selfcheck.AttentionSource(is_returned=True)
            found = model(batch, listen=("mean",)).mean
        for row, length in enumerate(batch.lengths.tolist()):
            difference = (found - expected)[row, ..., :length]
            torch.testing.assert_close(difference, difference[..., :1].expand_as(difference), atol=1e-5, rtol=0)

    @pytest.mark.parametrize("architecture", ["deberta-v2", "mpnet"])
    def test_methods_on_models_that_return_probabilities(self, architecture):
        model = load_teacher(huggingface(architecture))
        for method in ("attention_all", "attention_last", "attention_mix", "attention_cls"):
            for explanation in didact.explain(model, rows(), method):
                assert explanation.scores.sum() == pytest.approx(1)
        strategy = build_strategy(parse_student("same/attention").strategy)
        strategy.attach(model, model.encode(rows()))
        with pytest.raises(UnsupportedError, match="value vectors cannot be changed"):
            didact.explain(model, rows(), "value_zeroing")

    def test_means_of_causal_probabilities_are_refused(self):
        model = load_teacher(tiny("Bloom"))
        assert didact.explain(model, rows(), "attention_rollout")[0].scores.sum() == pytest.approx(1)
        with pytest.raises(UnsupportedError, match="after the softmax.*causal.*attention_rollout"):
            didact.explain(model, rows(), "attention_all")


class TestErrorsWhileAttentionIsChecked:
    @pytest.mark.parametrize("only_returned", [False, True])
    def test_an_unexpected_one_is_raised_and_the_next_call_checks_again(self, only_returned):
        network, tokenizer = huggingface("bert")
        load_teacher((network, tokenizer))
        selfcheck._ATTENTION_SOURCES.clear()

        def fail(_, __, options):
            if options.get("output_attentions") or not only_returned:
                raise torch.OutOfMemoryError("CUDA out of memory")

        model = load_teacher((network, tokenizer), check=False)
        hook = network.register_forward_pre_hook(fail, with_kwargs=True)
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            didact.explain(model, rows(), "attention_all")
        assert not selfcheck._ATTENTION_SOURCES
        hook.remove()
        assert np.isfinite(didact.explain(model, rows(), "attention_all").scores).all()

    def test_an_argument_that_is_not_known_is_a_reason_and_is_cached(self, monkeypatch):
        network, tokenizer = huggingface("bert")
        load_teacher((network, tokenizer))
        selfcheck._ATTENTION_SOURCES.clear()
        with monkeypatch.context() as patched:
            patched.setattr("didact.models.attention_function._IGNORED", frozenset())
            model = load_teacher((network, tokenizer), check=False)
            with pytest.raises(UnsupportedError, match="cannot be used: Models of type 'bert' call attention with"):
                didact.explain(model, rows(), "attention_all")
        (source,) = selfcheck._ATTENTION_SOURCES.values()
        assert source.fault is not None
        selfcheck._ATTENTION_SOURCES.clear()


class TestRefusals:
    @pytest.mark.parametrize(
        ("family", "reason"),
        [
            ("ConvBert", r"from word embeddings, in a padded batch, differ .* by \d.*values up to"),
            ("Esm", r"from word embeddings, in a padded batch, differ"),
            ("CTRL", r"attention function, in a padded batch, differ"),
            ("FNet", r"in a padded batch, differ"),
            ("BigBird", "block_sparse"),
            ("Reformer", "local_attn_chunk_length"),
        ],
    )
    def test_with_figures_and_the_way_out(self, family, reason):
        with pytest.raises(UnsupportedError, match=f"{reason}.*teacher_from_function.*check=False"):
            load_teacher(tiny(family))

    def test_logits_that_never_change_hide_nothing(self):
        model, tokenizer = tiny("ConvBert")
        with torch.no_grad():
            model.classifier.out_proj.weight.zero_()
        with pytest.raises(UnsupportedError, match=r"states in the last layer .* differ"):
            load_teacher((model, tokenizer))

    def test_a_crash_inside_the_model_is_quoted(self):
        with pytest.raises(UnsupportedError, match="'Longformer.*raises TypeError: zeros_like.*teacher_from_function"):
            load_teacher(huggingface("longformer"))

    def test_a_model_whose_layers_are_not_called_is_refused(self):
        with pytest.raises(UnsupportedError, match="squeezebert.*does not call its first layer.*teacher_from_function"):
            load_teacher(tiny("SqueezeBert"))

    def test_one_that_was_refused_by_name_and_answers_right(self):
        model = load_teacher(tiny("XLNet"))
        with torch.no_grad():
            logits = model(model.encode(rows())).logits
        torch.testing.assert_close(logits, alone(model, rows()), atol=1e-5, rtol=0)

    def test_can_be_skipped(self):
        assert len(load_teacher(tiny("ConvBert"), check=False).predict(rows())) == 3

    def test_a_folder_is_checked_too(self, tmp_path):
        model, tokenizer = tiny("ConvBert")
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        with pytest.raises(UnsupportedError, match="cannot be a white box"):
            load_teacher(tmp_path)
        assert load_teacher(tmp_path, check=False).name == str(tmp_path)


class TestTheCheckItself:
    @pytest.mark.parametrize("architecture", ["bert", "llama", "deberta-v2", "vit"])
    def test_leaves_everything_as_it_was(self, architecture):
        head = "ForImageClassification" if architecture == "vit" else "ForSequenceClassification"
        network, tokenizer = huggingface(architecture, head)
        network.train()
        network.base_model.eval()
        next(network.parameters()).requires_grad_(False)
        modes = [module.training for module in network.modules()]
        asking = [parameter.requires_grad for parameter in network.parameters()]
        config, weights = network.config.to_dict(), copy.deepcopy(network.state_dict())
        implementation = network.config._attn_implementation
        states = torch.get_rng_state(), np.random.get_state()[1].tolist()
        load_teacher((network, tokenizer))
        assert torch.equal(torch.get_rng_state(), states[0])
        assert np.random.get_state()[1].tolist() == states[1]
        assert [module.training for module in network.modules()] == modes
        assert [parameter.requires_grad for parameter in network.parameters()] == asking
        assert network.config.to_dict() == config
        assert network.config._attn_implementation == implementation
        assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
        assert all(parameter.grad is None for parameter in network.parameters())
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())

    def test_runs_once_per_configuration_and_weights(self, monkeypatch):
        network, tokenizer = huggingface("bert")
        load_teacher((network, tokenizer))
        passes = []
        hook = network.register_forward_pre_hook(lambda *_: passes.append(1))
        load_teacher((network, tokenizer))
        assert not passes
        with torch.no_grad():
            network.classifier.weight += 1.0
        load_teacher((network, tokenizer))
        assert passes
        hook.remove()
        monkeypatch.setattr(selfcheck, "check_model", lambda _: pytest.fail("a check was made"))
        load_teacher((network, tokenizer), check=False)

    @pytest.mark.parametrize("architecture", ["bert", "llama"])
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_other_precisions_pass(self, architecture, dtype):
        network, tokenizer = huggingface(architecture)
        model = load_teacher((network.to(dtype), tokenizer))
        assert model.pooling_position == ("first" if architecture == "bert" else "last")

    @pytest.mark.filterwarnings("ignore")  # torch says that its quantisation will move elsewhere
    @pytest.mark.parametrize("architecture", ["bert", "llama"])
    def test_quantised_models_pass(self, architecture):
        network, tokenizer = huggingface(architecture)
        small = torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
        model = load_teacher((small, tokenizer))
        with torch.no_grad():
            logits = model(model.encode(rows())).logits
        torch.testing.assert_close(logits, alone(model, rows()), atol=0.2, rtol=0.1)
        if architecture == "bert":
            with pytest.raises(UnsupportedError, match="head has no gradient"):
                didact.explain(model, rows(), "attention_cls")

    def test_measures_before_a_method_hooks_into_the_model(self):
        """A worker loads without a check; value zeroing replaces the outputs of layers, and of the probe's, too."""
        network, tokenizer = huggingface("albert")
        unchecked = load_teacher((network, tokenizer), check=False)
        found = didact.explain(unchecked, rows(), "value_zeroing")[0].scores
        selfcheck._POOLING_POSITIONS.clear()
        selfcheck._ATTENTION_SOURCES.clear()
        expected = didact.explain(load_teacher((network, tokenizer)), rows(), "value_zeroing")[0].scores
        np.testing.assert_array_equal(found, expected)
        assert unchecked._attention_source.fault is None

    def test_a_base_is_checked_before_it_is_trained(self, tmp_path):
        model, tokenizer = tiny("ConvBert")
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        data = load_data("planted/sentiment(test=4,dev=4,train=4,teach=4,explain=4)")
        with pytest.raises(UnsupportedError, match="cannot be a white box"):
            build_model(str(tmp_path), data)

    def test_workers_skip_it(self, tmp_path, monkeypatch):
        model, tokenizer = huggingface("bert")
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        monkeypatch.setattr(selfcheck, "check_model", lambda _: pytest.fail("a worker checked"))
        loading = {"task": "classification", "device": "cpu"}
        assert TeacherSource(".", loading, name="teacher").open(tmp_path).name == "teacher"
        assert TeacherSource(str(tmp_path), loading).open(tmp_path / "unused").name == str(tmp_path)

    def test_two_ragged_rows_whatever_the_tokenizer_and_the_task(self):
        network, tokenizer = huggingface("bert")
        for task, limit in (("classification", None), ("pair", None), ("classification", 6)):
            model = load_teacher((network, tokenizer), task=task, max_length=limit)
            assert len(set(selfcheck.probe_batch(model).lengths.tolist())) == 2
        reading = load_teacher((huggingface("bert", "ForQuestionAnswering", labels=2)[0], wordpiece_tokenizer()))
        assert len(set(selfcheck.probe_batch(reading).lengths.tolist())) == 2
