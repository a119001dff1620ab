"""The method that explains when none is named."""

import logging

import pytest
import torch

import tiny
from didact.core.trace import Trace
from didact.errors import OptionError
from didact.explainers import default
from didact.explainers.default import default_method
from didact.explaining.explain import explain
from didact.models.huggingface import HuggingFaceModel
from teachers import KINDS, black_box, examples, teacher


@pytest.mark.parametrize("task", KINDS["hf"])
def test_is_lrp_for_transformers_of_every_task(task):
    model, rows = teacher("hf", task), examples(task)
    assert default_method(model, rows) == "lrp"
    assert explain(model, rows).method == "lrp"


@pytest.mark.parametrize("task", ["classification", "regression", "image"])
def test_is_occlusion_for_functions(task):
    function = black_box(task)
    maps = explain(function, examples(task))
    assert maps.method == "occlusion"
    assert maps.scores.any()


class Twice(HuggingFaceModel):
    """Its answer holds a product that no rule sees, so that scores of LRP do not add up."""

    def run(self, embeddings, batch, **options):
        found = super().run(embeddings, batch, **options)
        return Trace(_Squared.apply(found.logits))


class _Squared(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values**2

    @staticmethod
    def backward(context, gradient):
        return 2 * context.saved_tensors[0] * gradient


class Refused(HuggingFaceModel):
    def run(self, embeddings, batch, **options):
        if torch.overrides._get_current_function_mode() is not None:
            raise RuntimeError("no rules here")
        return super().run(embeddings, batch, **options)


@pytest.mark.parametrize(("kind", "reason"), [(Twice, "do not add up"), (Refused, "no rules here")])
def test_is_integrated_gradients_where_lrp_fails(kind, reason, caplog):
    model = kind(*tiny.huggingface("bert"))
    with caplog.at_level(logging.INFO, "didact"):
        assert explain(model, ["good film"]).method == "integrated_gradients"
    assert reason in caplog.text


def test_is_tried_once(monkeypatch):
    model = HuggingFaceModel(*tiny.huggingface("bert"))
    tries = []
    monkeypatch.setattr(default, "_find_obstacle", lambda *_: tries.append(1))
    assert [default_method(model) for _ in range(3)] == ["lrp"] * 3
    assert len(tries) == 1


def test_the_trial_leaves_the_model_as_it_was():
    model = HuggingFaceModel(*tiny.huggingface("bert")).train()
    default_method(model)
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_an_option_of_another_method_is_answered_with_what_was_taken():
    with pytest.raises(OptionError, match=r"Without a method, .* with 'lrp', which has no option 'steps'"):
        explain(teacher("hf", "classification"), ["good film"], steps=20)
    assert explain(teacher("hf", "classification"), ["good film"], at="embedding").options["at"] == "embedding"
