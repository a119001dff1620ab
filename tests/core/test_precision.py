"""Half precision: where it is used, what stays single, and what is refused."""

import copy
from dataclasses import asdict

import numpy as np
import pytest
import torch

import didact
from didact.comparing.config import CompareConfig
from didact.core.precision import autocast, in_precision, to_single
from didact.errors import OptionError, PlanError, UnsupportedError
from didact.evaluation.cost import cost_of
from didact.explainers import EXPLAINERS
from didact.explaining.explain import explain
from didact.explaining.method_options import COMMON
from didact.learning.fit import Examples, Training, fit, training_step
from didact.learning.teach import teach
from didact.models.build import build_model
from didact.registry import parse_spec
from didact.students.build import build_strategy
from teachers import black_box, examples, teacher

DATA = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"
FORWARD = ["attention_all", "attention_cls", "attention_rollout", "value_zeroing", "occlusion", "lime", "attention_mix"]
BACKWARD = [name for name, entry in EXPLAINERS.items() if entry.needs == "gradients"]


@pytest.fixture(scope="module")
def data():
    return didact.load_data(DATA)


class TestForwardPasses:
    @pytest.mark.parametrize("precision", ["bfloat16", "float16"])
    def test_products_are_coarse_and_answers_single(self, precision):
        model = teacher("hf", "classification", torch.float32)
        batch = model.encode(examples("classification"))
        with torch.no_grad():
            exact = model(batch, listen=["mean", "hidden"])
            with autocast(batch.device, precision):
                coarse = model(batch, listen=["mean", "hidden"])
        wide = to_single(coarse)
        assert coarse.logits.dtype == getattr(torch, precision)
        assert wide.logits.dtype == wide.mean.dtype == wide.hidden[-1].dtype == torch.float32
        assert not torch.equal(wide.logits, exact.logits)
        torch.testing.assert_close(wide.logits, exact.logits, atol=0.1, rtol=0.1)

    @pytest.mark.parametrize("method", FORWARD)
    def test_methods_without_gradients(self, method):
        model, rows = teacher("hf", "classification", torch.float32), examples("classification")
        exact = explain(model, rows, method)
        coarse = explain(model, rows, method, precision="bfloat16")
        assert coarse.options["precision"] == "bfloat16"
        assert "precision" not in exact.options
        assert coarse.scores.dtype == exact.scores.dtype
        assert not np.array_equal(coarse.scores, exact.scores)
        np.testing.assert_allclose(coarse.scores, exact.scores, atol=0.1)
        assert "run" not in vars(model)  # as it was
        np.testing.assert_array_equal(explain(model, rows, method, precision="single").scores, exact.scores)

    @pytest.mark.parametrize("method", BACKWARD)
    def test_methods_with_gradients_are_refused_by_name(self, method):
        with pytest.raises(UnsupportedError, match=f"'{method}' takes gradients"):
            explain(
                teacher("hf", "classification", torch.float32), examples("classification"), method, precision="bfloat16"
            )

    @pytest.mark.parametrize("method", ["attention_gradient", "blend(members='occlusion + gradient_norm')"])
    def test_so_are_those_that_take_them_on_the_way(self, method):
        with pytest.raises(UnsupportedError, match="takes gradients"):
            explain(
                teacher("hf", "classification", torch.float32), examples("classification"), method, precision="bfloat16"
            )

    def test_other_teachers_and_other_words(self):
        with pytest.raises(UnsupportedError, match="needs a model, and teacher"):
            explain(black_box(), examples("classification"), "occlusion", precision="bfloat16")
        with pytest.raises(OptionError, match="one of 'single', 'bfloat16', 'float16', got 'half'"):
            explain(black_box(), examples("classification"), "occlusion", precision="half")

    def test_it_stands_inside_other_watchers(self):
        model, rows = teacher("hf", "classification", torch.float32), examples("classification")
        in_precision(in_precision(model, "bfloat16", method="a"), "float16", method="b")
        assert "run" not in vars(model)
        assert cost_of(model, rows, ["occlusion(precision=bfloat16)"])[0].forward > 0

    def test_it_is_part_of_the_facts(self, tmp_path):
        model, rows = teacher("hf", "classification", torch.float32), examples("classification")
        explain(model, rows, "occlusion", out=tmp_path / "maps.parquet", precision="bfloat16")
        assert didact.Explanations.load(tmp_path / "maps.parquet").options["precision"] == "bfloat16"
        assert "precision" in COMMON


class TestTraining:
    @pytest.mark.parametrize("model", ["native(width=8, heads=2)", "bilstm_attention(width=8)", "pool(width=8)"])
    @pytest.mark.parametrize("strategy", ["attention", "multitask"])
    def test_students(self, data, model, strategy):
        """Weights and losses stay single; another precision gives other weights, but not far away."""
        rows = tuple(data["train"].rows[:16])
        student = build_model(model, data, seed=0)
        train = Examples.of(student, rows, student.predict(rows))
        maps = explain(student, list(rows), "occlusion")
        ends = []
        for precision in ("single", "bfloat16"):
            one = copy.deepcopy(student)
            taught = teach(
                one, build_strategy(parse_spec(strategy)), maps, train, train,
                Training(epochs=1, batch_size=4, precision=precision),
            )  # fmt: skip
            assert {weight.dtype for weight in one.parameters()} == {torch.float32}
            ends.append((torch.cat([weight.flatten() for weight in one.parameters()]), taught.history[-1].loss))
        assert not torch.equal(ends[0][0], ends[1][0])
        torch.testing.assert_close(*(end[0] for end in ends), atol=0.02, rtol=0.1)
        assert ends[0][1] == pytest.approx(ends[1][1], rel=0.05)

    def test_float16_on_the_cpu_is_refused(self, data, tmp_path):
        student = build_model("native(width=8, heads=2)", data, seed=0)
        train = Examples.of(student, tuple(data["dev"].rows), student.predict(data["dev"].rows))
        with pytest.raises(OptionError, match="Choose precision 'bfloat16'"):
            fit(student, train, train, Training(epochs=1, precision="float16"))
        with pytest.raises(OptionError, match="bfloat16"):
            didact.train_teacher(data, precision="float16")
        with pytest.raises(OptionError, match="bfloat16"):
            didact.compare(student, data, ["occlusion"], precision="float16", out=tmp_path / "run")

    def test_small_gradients_are_scaled(self):
        """A scaler's step is the plain one where nothing overflows, and is left out where something does."""
        ends = {}
        for name, slope in (("plain", 2.0), ("scaled", 2.0), ("overflow", float("inf"))):
            weight = torch.nn.Parameter(torch.ones(1))
            optimiser = torch.optim.SGD([weight], lr=0.1)
            scaler = None if name == "plain" else torch.amp.GradScaler("cpu", init_scale=4.0)
            loss = (weight * 2.0).sum()
            if name == "overflow":
                weight.register_hook(lambda found, slope=slope: found * slope)
            training_step(loss, optimiser, [weight], Training(clip=100.0), 1, scaler)
            ends[name] = weight.item()
        assert ends["scaled"] == pytest.approx(ends["plain"]) == pytest.approx(0.8)
        assert ends["overflow"] == 1.0

    def test_what_is_recorded(self, data):
        single = didact.train_teacher(data, "native(width=8, heads=2)", epochs=1, progress=False)
        half = didact.train_teacher(data, "native(width=8, heads=2)", epochs=1, progress=False, precision="bfloat16")
        assert "precision" not in single.record["training"]
        assert half.record["training"]["precision"] == "bfloat16"
        assert half.fingerprint() != single.fingerprint()

    def test_facts_are_those_of_before_unless_it_is_used(self):
        later = ("precision", "balanced")
        assert Training().facts() == {name: value for name, value in asdict(Training()).items() if name not in later}
        assert Training(precision="bfloat16").facts()["precision"] == "bfloat16"


SAID = {"model": "m", "data": DATA, "explainers": ["random"]}


class TestPlans:
    def test_what_was_not_asked_for_is_not_said(self):
        assert "precision" not in CompareConfig.of(SAID).to_toml()
        assert 'precision = "bfloat16"' in CompareConfig.of(SAID | {"precision": "bfloat16"}).to_toml()

    def test_what_needs_single_precision_is_told_at_once(self):
        with pytest.raises(PlanError) as told:
            CompareConfig.of(SAID | {"precision": "bfloat16", "explainers": ["smat", "random"]})
        assert "second derivatives" in str(told.value)
        with pytest.raises(PlanError, match="got 'half'"):
            CompareConfig.of(SAID | {"precision": "half"})

    def test_cells_have_keys_of_their_own(self, data, tmp_path):
        model = didact.train_teacher(data, "native(width=8, heads=2)", epochs=1, progress=False)
        small = {
            "students": ["same/attention"], "train_sizes": [8], "seeds": 1, "workers": 0,
            "training": {"epochs": 1},
            "skip_controls": ["trivial", "human", "flattened", "matched", "sharpened", "extra"],
            "balance": False, "eval_rows": 0,
        }  # fmt: skip
        keys = []
        for precision in ("single", "bfloat16"):
            result = didact.compare(model, data, ["random"], out=tmp_path / precision, precision=precision, **small)
            assert not result.failed, result.failed[0]["error"]
            keys.append({path.stem for path in (tmp_path / precision / "cells").glob("*.json")})
        assert keys[0]
        assert not keys[0] & keys[1]
