"""Seeds trained together end as each would alone: the same weights, answers and epochs, but for rounding."""

from copy import deepcopy
from functools import lru_cache

import numpy as np
import pytest
import torch

from didact.core.seeds import seed_from
from didact.data.load import load_data
from didact.errors import TrainingError
from didact.experiment.explain import explain
from didact.experiment.subset import subset
from didact.learning.fit import Examples, Training, answers
from didact.learning.teach import FROM_SCRATCH, teach
from didact.learning.together import Questions, stacked, teach_together, why_not_together
from didact.models.build import build_model
from didact.registry import parse_spec
from didact.students.build import build_strategy

SEEDS = (0, 1, 5)
SIZE = 22  # three batches of 8, the last of them smaller
SMALL = "teach=30, explain=10, train=40, dev=12, test=20"
TRAINING = {"epochs": 1, "batch_size": 8, "rate": 5e-3, "warmup": 0.0, "patience": 1000, "optimiser": "adam"}


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=[False, True], ids=["seed after seed", "at once"])
def at_once(request, monkeypatch):
    """As on a CPU, and as on other devices."""
    monkeypatch.setattr(Class, "at_once", request.param)
    return request.param


@lru_cache
def planted(name: str):
    return load_data(f"planted/{name}({SMALL})")


@lru_cache
def lesson(task: str, model: str, strategy: str, soft: bool, seeds: tuple[int, ...]):
    """What does not change by teaching: untaught students, rows and explanations."""
    data = planted(task)
    spec = f"native(width=8, layers=2, heads=2{model})"
    teacher = build_model(spec, data, seed=3)
    students = [build_model(spec, data, seed=seed_from(seed, "student")) for seed in seeds]
    sets = {
        name: Examples.of(teacher, tuple(data[name].rows), teacher.predict(data[name].rows), soft=soft)
        for name in ("train", "dev", "test")
    }
    trains = [sets["train"].select(subset(sets["train"].outputs.ids, size=SIZE, seed=seed)) for seed in seeds]
    maps = None if strategy == "none" else [explain(teacher, list(one.rows), "gradient_norm") for one in trains]
    return students, trains, sets["dev"], sets["test"], maps


class Class:
    """Students of several seeds, untaught, with what they will be taught."""

    at_once = None

    def __init__(
        self, task="sentiment", model="", strategy="attention", soft=False, seeds=SEEDS, sharp=1.0, **training
    ):
        students, self.trains, self.dev, self.test, self.maps = lesson(task, model, strategy, soft, seeds)
        self.students = deepcopy(students)
        with torch.no_grad():
            for student in self.students:
                for layer in student.layers:
                    layer.query_key_value.weight *= sharp
        self.strategies = [build_strategy(parse_spec(strategy)) for _ in seeds]
        self.trainings = [Training(**{**TRAINING, **training}, seed=seed) for seed in seeds]

    def alone(self, keep="best"):
        found = []
        for number, student in enumerate(self.students):
            maps = None if self.maps is None else self.maps[number]
            parts = (self.strategies[number], maps, self.trains[number], self.dev, self.trainings[number])
            found.append(teach(student, *parts, keep=keep))
        return found

    def together(self, keep="best"):
        devs = [self.dev] * len(self.students)
        parts = (self.students, self.strategies, self.maps, self.trains, devs, self.trainings)
        return teach_together(*parts, keep=keep, at_once=self.at_once)


def in_order(outputs):
    return outputs.select(np.argsort(outputs.ids))


def check_equal(*args, keep="best", idle=(), **options):
    """Weights, epochs and answers of every seed, one by one and together; `idle` weights change no answer."""
    one, other = Class(*args, **options), Class(*args, **options)
    alone, together = one.alone(keep), other.together(keep)
    start = Class(*args, **options)
    stack = stacked(other.students, at_once=other.at_once)
    said = Questions(stack, [other.test] * len(other.students)).answers()
    assert together.errors == [None] * len(one.students)
    for seed, (mine, theirs, first) in enumerate(zip(one.students, other.students, start.students, strict=True)):
        assert not theirs.training
        for name, weight in mine.state_dict().items():
            if name not in idle:
                torch.testing.assert_close(theirs.state_dict()[name], weight, rtol=0, atol=1e-5, msg=name)
        moved = max((a - b).abs().max() for a, b in zip(mine.parameters(), first.parameters(), strict=True))
        assert moved > 1e-3, "a student that stayed where it was proves nothing"
        for ours, epoch in zip(together.histories[seed], alone[seed].history, strict=True):
            assert ours.number == epoch.number
            assert ours.loss == pytest.approx(epoch.loss, abs=1e-6)
            assert ours.dev_loss == pytest.approx(epoch.dev_loss, abs=1e-6)
            assert ours.dev_measure == pytest.approx(epoch.dev_measure, abs=1e-6, nan_ok=True)
        assert together.lost_rows[seed] == alone[seed].lost_rows
        expected = in_order(answers(mine, one.test.parts(7)))
        np.testing.assert_allclose(in_order(said[seed]).values, expected.values, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("at_once")
class TestEqual:
    @pytest.mark.parametrize("strategy", ["none", "attention", "attention(side=cls, send=top)"])
    def test_with_and_without_explanations(self, strategy):
        check_equal(strategy=strategy)

    @pytest.mark.parametrize("strategy", ["attention", "attention(side=cls)"])
    def test_with_attention_that_gives_some_words_next_to_nothing(self, strategy):
        """Log-probabilities go below -30, where the loss still has a gradient."""
        check_equal(strategy=strategy, sharp=20.0)

    def test_with_dropout(self):
        check_equal(model=", dropout=0.3")

    def test_as_students_are_trained_by_default(self):
        defaults = {"rate": FROM_SCRATCH.rate, "clip": FROM_SCRATCH.clip, "weight_decay": 0.0, "schedule": "constant"}
        check_equal(**defaults)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "model",
        [
            ", pool=first", ", mix=true", ", attention=uniform", ", dropout=0.2, pool=first, mix=true",
        ],
    )  # fmt: skip
    def test_of_every_kind(self, model):
        check_equal(model=model, strategy="attention(direction=reverse)")

    @pytest.mark.slow
    @pytest.mark.parametrize("task", ["inference", "quality"])
    def test_of_two_texts(self, task):
        check_equal(task, model=", dropout=0.1")

    @pytest.mark.slow
    def test_of_marked_answers(self):
        check_equal("reading", optimiser="sgd")
        # A shift of all states moves start and end logits alike: its slope is rounding, which Adam makes a step of.
        check_equal("reading", model=", dropout=0.1", idle=("norm.bias",))

    @pytest.mark.slow
    def test_attention_from_where_it_answers_and_dropout(self):
        check_equal(model=", dropout=0.3", strategy="attention(side=cls, direction=reverse)")

    @pytest.mark.slow
    def test_soft_answers(self):
        check_equal(soft=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
    def test_for_every_optimiser_with_decay_and_schedule(self, optimiser):
        check_equal(optimiser=optimiser, weight_decay=0.1, warmup=0.2, schedule="linear", rate=2e-2)

    def test_the_best_epoch_and_the_last(self):
        check_equal(epochs=3, rate=1e-2)
        check_equal(epochs=3, rate=1e-2, keep="last")

    def test_one_seed_is_a_group_too(self):
        check_equal(seeds=(4,))

    def test_in_single_precision_as_far_as_it_goes(self):
        torch.set_default_dtype(torch.float32)
        one, other = Class(), Class()
        one.alone()
        other.together()
        for mine, theirs in zip(one.students, other.students, strict=True):
            for name, weight in mine.state_dict().items():
                # Adam's first steps are as large for the smallest slopes as for the largest.
                assert (theirs.state_dict()[name] - weight).abs().median() < 1e-5, name


@pytest.mark.usefixtures("at_once")
class TestClipping:
    def test_goes_by_each_seeds_own_norm(self):
        check_equal(clip=0.05)
        tight, loose = Class(clip=0.05, optimiser="sgd"), Class(clip=50.0, optimiser="sgd")
        tight.together()
        loose.together()
        gaps = [
            (a.head.weight - b.head.weight).abs().max() for a, b in zip(tight.students, loose.students, strict=True)
        ]
        assert min(gaps) > 1e-4, "clipping was not at work"

    def test_a_seed_with_large_slopes_changes_nobody_else(self):
        one, other = Class(clip=0.5, optimiser="sgd"), Class(clip=0.5, optimiser="sgd")
        with torch.no_grad():
            other.students[1].head.weight.mul_(100.0)
        one.together()
        other.together()
        for seed in (0, 2):
            for name, weight in one.students[seed].state_dict().items():
                torch.testing.assert_close(other.students[seed].state_dict()[name], weight, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("at_once")
class TestSeparate:
    def test_other_seeds_in_the_group_change_nothing(self):
        few, many = Class(model=", dropout=0.3", seeds=(0, 5)), Class(model=", dropout=0.3")
        few.together()
        many.together()
        for mine, theirs in zip(few.students, (many.students[0], many.students[2]), strict=True):
            for name, weight in mine.state_dict().items():
                torch.testing.assert_close(theirs.state_dict()[name], weight, rtol=0, atol=1e-9)

    def test_a_seed_that_fails_fails_alone(self):
        one, other = Class(epochs=2), Class(epochs=2)
        with torch.no_grad():
            other.students[1].head.bias.fill_(torch.nan)
        one.together()
        found = other.together()
        assert [type(error) for error in found.errors] == [type(None), TrainingError, type(None)]
        assert "epoch 1" in str(found.errors[1])
        assert "lower it" in str(found.errors[1])
        for seed in (0, 2):
            assert len(found.histories[seed]) == 2
            for name, weight in one.students[seed].state_dict().items():
                torch.testing.assert_close(other.students[seed].state_dict()[name], weight, rtol=0, atol=1e-9)

    def test_the_global_generator_is_left_alone(self):
        pupils = Class(model=", dropout=0.3")
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        pupils.together()
        assert torch.equal(torch.rand(2), expected)

    def test_twice_the_same_bytes(self):
        one, other = Class(), Class()
        assert torch.equal(one.together().weights, other.together().weights)


class TestWhoCan:
    def test_reasons_are_given(self):
        data = planted("sentiment")
        native, bilstm = build_model("native(width=8, heads=2)", data), build_model("bilstm(width=8)", data)
        attention, multitask = (build_strategy(parse_spec(name)) for name in ("attention", "multitask"))
        assert why_not_together(native, attention, FROM_SCRATCH) is None
        assert why_not_together(native, None, FROM_SCRATCH) is None
        assert "only the architecture 'native'" in str(why_not_together(bilstm, None, FROM_SCRATCH))
        assert "only 'attention' and 'none'" in str(why_not_together(native, multitask, FROM_SCRATCH))
        assert "stop early" in str(why_not_together(native, None, Training(epochs=5, patience=2)))
        images = build_model("native(width=8, heads=2)", planted("shapes"))
        assert "images" in str(why_not_together(images, None, FROM_SCRATCH))
