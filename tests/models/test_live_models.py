"""Live models as their users have them: half precision, int8, compiled, with adapters, as next-token classifiers."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import didact
import tiny
from didact.core.precision import weights_precision
from didact.errors import UnsupportedError
from didact.explainers import EXPLAINERS
from didact.explainers.default import default_method

GRADIENTS = [name for name, entry in EXPLAINERS.items() if entry.needs == "gradients"]


def half(dtype=torch.bfloat16):
    model, tokenizer = tiny.huggingface("bert")
    return didact.load_teacher((model.to(dtype), tokenizer))


@pytest.fixture(scope="module")
def int8():
    model, tokenizer = tiny.huggingface("bert")
    return didact.load_teacher((quantised(model), tokenizer))


def quantised(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch moves it to torchao
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


class TestHalfPrecision:
    @pytest.mark.parametrize("method", GRADIENTS)
    def test_gradients_are_refused_as_by_precision(self, method):
        with pytest.raises(UnsupportedError, match=f"'{method}' takes gradients, .* are bfloat16.*model.float"):
            didact.explain(half(), tiny.rows(), method)

    @pytest.mark.parametrize("method", ["attention_gradient", "blend(members='occlusion + gradient_norm')"])
    def test_so_are_those_that_take_them_on_the_way(self, method):
        with pytest.raises(UnsupportedError, match="takes gradients, .* are float16"):
            didact.explain(half(torch.float16), tiny.rows(), method)

    @pytest.mark.parametrize("method", ["occlusion", "attention_all", "attention_rollout", "kernel_shap"])
    def test_others_stay_near_the_single_ones(self, method):
        model, tokenizer = tiny.huggingface("bert")
        exact = didact.explain(didact.load_teacher((model, tokenizer)), tiny.rows(), method)
        coarse = didact.explain(half(), tiny.rows(), method)
        assert coarse.scores.dtype == exact.scores.dtype
        np.testing.assert_allclose(coarse.scores, exact.scores, atol=0.1)

    def test_the_default_method_takes_none(self):
        assert weights_precision(half()) == "bfloat16"
        assert default_method(half()) == "occlusion"


class TestInt8:
    @pytest.mark.parametrize("method", ["integrated_gradients", "lrp", "attention_gradient"])
    def test_gradients_are_refused(self, int8, method):
        with pytest.raises(UnsupportedError, match=f"'{method}' takes gradients, .* are int8.*without quantisation"):
            didact.explain(int8, tiny.rows(), method)

    @pytest.mark.parametrize("method", ["occlusion", "kernel_shap"])
    def test_predictions_are_enough(self, int8, method):
        maps = didact.explain(int8, tiny.rows(), method)
        assert np.isfinite(maps.scores).all()
        assert maps.scores.any()

    def test_its_fingerprint_sees_the_weights(self, int8):
        model, tokenizer = tiny.huggingface("bert")
        with torch.no_grad():
            model.classifier.weight.mul_(2)
        other = quantised(model)
        assert int8.fingerprint() == int8.fingerprint()
        assert didact.load_teacher((other, tokenizer)).fingerprint() != int8.fingerprint()


class TestWrapped:
    def test_a_compiled_model_is_the_one_inside(self):
        model, tokenizer = tiny.huggingface("bert")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, on the first call
            compiled = torch.compile(model)
        teacher = didact.load_teacher((compiled, tokenizer))
        assert teacher.model is model
        assert didact.explain(teacher, tiny.rows(), "integrated_gradients").residuals.max() < 0.01

    def test_adapters_inside_change_nothing(self):
        model, tokenizer = tiny.huggingface("bert")
        for layer in model.bert.encoder.layer:
            layer.attention.self.query = _Adapter(layer.attention.self.query)
        teacher = didact.load_teacher((model, tokenizer))
        for method in ("lrp", "deeplift"):
            assert didact.explain(teacher, tiny.rows(), method).residuals.max() < 1e-4, method

    @pytest.mark.parametrize("task", [None, "classification"])
    def test_several_labels_at_once_are_refused_whatever_is_asked(self, task):
        model, tokenizer = tiny.huggingface("bert", problem_type="multi_label_classification")
        with pytest.raises(UnsupportedError, match="problem_type.*multi_label_classification.*teacher_from_function"):
            didact.load_teacher((model, tokenizer), task=task)


class TestNextToken:
    def test_a_causal_language_model_as_a_classifier_of_the_next_token(self):
        from transformers import LlamaForCausalLM

        twin, tokenizer = tiny.huggingface("llama", labels=300)
        torch.manual_seed(1)
        language = LlamaForCausalLM(twin.config).eval()
        twin.model, twin.score = language.model, language.lm_head
        teacher = didact.load_teacher((twin, tokenizer), classes=[f"token {index}" for index in range(300)])
        texts = ["the plot is not", "a good"]
        expected = []
        with torch.no_grad():
            for text in texts:
                expected.append(int(language(**tokenizer(text, return_tensors="pt")).logits[0, -1].argmax()))
        assert teacher.predict(texts).labels.tolist() == expected
        maps = didact.explain(teacher, texts, "lrp", target="contrast")
        assert maps.residuals.max() < 1e-3


class _Adapter(nn.Module):
    """What peft puts in place of a linear layer."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base_layer = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, states):
        return self.base_layer(states) + self.up(self.down(states))
