"""Scores that do not add up, or are rounding errors, are warned of once, with what helps."""

import warnings

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import didact
from didact.cli import main
from didact.core.batch import Batch
from didact.core.explainer import Explainer
from didact.core.explanation import Explanation
from didact.core.target import Target
from didact.core.teacher import Teacher
from didact.errors import ExplanationWarning
from didact.explainers import EXPLAINERS
from didact.explaining.score_checks import ignore_score_warnings
from didact.explaining.stream import explain_stream
from didact.models.huggingface import HuggingFaceModel
from teachers import black_box
from tiny import huggingface, rows


class Careless(Explainer):
    """Leaves over what it is told to."""

    remedy = "Take more care."

    def __init__(self, left: list[float]) -> None:
        super().__init__()
        self.left = left

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:  # noqa: ARG002
        scores: Float[Tensor, "batch token"] = torch.ones(batch.mask.shape) * batch.units
        left = torch.tensor(self.left)[: len(batch)]
        return Explanation(scores, batch.mask, batch.units, "signed", left)


def warned(method: object, **options: object) -> list[str]:
    model = HuggingFaceModel(*huggingface("bert"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        didact.explain(model, rows(), method, **options)
    return [str(one.message) for one in found if issubclass(one.category, ExplanationWarning)]


def test_a_median_above_five_percent_is_warned_of_once():
    (told,) = warned(Careless([0.01, 0.4, 3.0]))
    assert "40 %" in told
    assert "300 %" in told
    assert "Take more care." in told


def test_streamed_scores_are_judged_over_all_shards(tmp_path):
    model = HuggingFaceModel(*huggingface("bert"))
    data = [row.texts[0] for row in rows()] * 2
    with pytest.warns(ExplanationWarning, match=f"40 % .* {len(data)} rows") as found:
        explain_stream(model, data, Careless([0.4, 0.4, 0.4]), out=tmp_path / "scores.parquet", shard=3)
    assert len(found) == 1


def test_a_few_rows_that_are_off_are_not():
    assert warned(Careless([0.01, 0.04, 3.0])) == []


def test_methods_that_promise_nothing_are_not_judged():
    assert warned("gradient_norm") == []
    assert warned(Careless([float("nan")] * 3)) == []


def test_trials_are_not_judged():
    with ignore_score_warnings():
        assert warned(Careless([1.0] * 3)) != []  # recorded anew inside: the caller's own filter wins
    model = HuggingFaceModel(*huggingface("bert"))
    with warnings.catch_warnings(), ignore_score_warnings():
        didact.explain(model, rows(), Careless([1.0] * 3))


def test_every_method_with_residuals_says_what_helps():
    for name in ("integrated_gradients", "deeplift", "deep_shap", "gradient_shap", "lrp"):
        assert EXPLAINERS.load(name).remedy != Explainer.remedy, name


def test_scores_at_rounding_level_are_warned_of():
    """DeBERTa-v3 has a LayerNorm right behind its words: gradient × input is 0 there but for rounding."""
    model = HuggingFaceModel(*huggingface("deberta-v2", position_biased_input=False, type_vocab_size=0))
    with pytest.warns(ExplanationWarning, match="rounding level; the ranking is noise"):
        found = didact.explain(model, rows(), "gradient_input", at="word")
    assert np.abs(found.scores).max() < 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExplanationWarning)
        didact.explain(model, rows(), "gradient_input")
        didact.explain(HuggingFaceModel(*huggingface("bert")), rows(), "gradient_input", at="word")


def test_too_few_samples_for_kernel_shap_are_warned_of():
    teacher = black_box()
    text = " ".join(f"word{number}" for number in range(30))
    with pytest.warns(ExplanationWarning, match=r"50 samples do not determine .* more than 25 units"):
        didact.explain(teacher, [text], "kernel_shap", samples=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExplanationWarning)
        didact.explain(teacher, [text], "kernel_shap", samples=60)
        didact.explain(teacher, [text], "kernel_shap")


def test_the_command_line_says_it_in_one_line(monkeypatch):
    """No file and line of ours: who gives a command does not look there."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(main, "app", lambda: None)
    main.main()
    assert warnings.formatwarning("lrp: off.", ExplanationWarning, "a.py", 3) == "didact: warning: lrp: off.\n"
    assert "a.py:3: UserWarning: other" in warnings.formatwarning("other", UserWarning, "a.py", 3)
