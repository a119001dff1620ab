"""Learning explainers: what is sent while learning, resuming, and every way it can go wrong."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import TASKS
from didact.errors import OptionError, TrainingError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.explainers.combine import combine_components
from didact.explaining.component_scores import compute_component_scores
from didact.learning.differentiable_lessons import DifferentiableLessons
from didact.learning.fit import Examples, Training
from didact.learning.outer_adam import OuterAdam
from didact.learning.smat import SmatLoop, run_smat
from didact.learning.smat_options import SmatOptions
from didact.models import MODELS
from didact.models.tokenizer import WordTokenizer
from didact.registry import Spec
from didact.students.attention import Attention
from didact.students.build import build_strategy
from didact.students.lesson import distribution_lesson
from teachers import teacher

TRAINING = Training(
    epochs=3, batch_size=6, rate=0.02, weight_decay=0.0, warmup=0.0, clip=5.0, patience=99, optimiser="adam",
    schedule="constant",
)  # fmt: skip
WORDS = ["good", "bad", "film", "plot", "music", "not", "very", "great", "unbelievable", "anna", "the", "a"]


def rows(count: int = 24) -> list[Row]:
    draw = np.random.default_rng(0)
    return [Row(f"r{n}", (" ".join(draw.choice(WORDS, draw.integers(3, 9))),)) for n in range(count)]


class Setting:
    """A teacher's parts and a student of another tokenizer."""

    def __init__(self, *, kind="native", student="native", count=24, values=None, **options):
        self.given = rows(count)
        subject = teacher(kind, "classification", torch.float32)
        self.explainer = build_explainer("attention_mix", **options).explainer
        self.parts = compute_component_scores(subject, self.given, self.explainer)
        torch.manual_seed(1)
        reader = WordTokenizer.from_rows(self.given)
        width = {"width": 8} | ({"heads": 2, "dropout": 0.3} if student == "native" else {})
        self.student = MODELS.load(student)(TASKS["classification"], ("a", "b", "c"), reader, **width)
        if values is None:
            values = np.random.default_rng(3).normal(size=(count, 3))
        outputs = Outputs(TASKS["classification"], tuple(row.id for row in self.given), values)
        self.train = Examples.of(self.student, tuple(self.given), outputs)

    def learn(self, smat=None, training=TRAINING, strategy=None, **more):
        return run_smat(
            self.student, strategy or Attention(), self.explainer, self.parts, self.train, self.train, training,
            smat or SmatOptions(), **more,
        )  # fmt: skip

    def loop(self, smat=None, strategy=None):
        return SmatLoop(
            self.student, strategy or Attention(), self.explainer, self.parts, self.train, self.train, TRAINING,
            smat or SmatOptions(), None,
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["native", "hf"])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_what_is_sent_while_learning_is_what_is_sent_afterwards(kind, temperature):
    setting = Setting(kind=kind)
    with torch.no_grad():
        setting.explainer.coefficients += torch.linspace(0, 0.3, len(setting.explainer.names))
    maps = combine_components(setting.explainer, setting.parts)
    expected = distribution_lesson(maps, setting.train.batch, temperature=temperature).mass
    lessons = DifferentiableLessons(
        setting.parts, setting.train.batch, temperature=temperature, device=torch.device("cpu")
    )
    chosen = torch.tensor([5, 0, 17])
    length = int(setting.train.batch.lengths[chosen].max())
    found = lessons(setting.explainer, chosen, length).mass
    torch.testing.assert_close(found, expected[chosen, :length], atol=1e-6, rtol=1e-5)
    assert found.requires_grad


def test_learning_moves_the_mix_and_logs_it():
    setting = Setting()
    done = setting.learn()
    assert [one.number for one in done.history] == [1, 2, 3]
    assert done.route == "double"
    assert done.kept_epoch in done.history
    assert 0 < done.kept_epoch.entropy <= np.log(8) + 1e-6
    assert setting.explainer.weights.detach().std() > 0, "it has learned"
    assert setting.explainer.weights.sum().item() == pytest.approx(1.0, abs=1e-5)
    again = Setting()
    again.learn()
    assert torch.equal(setting.explainer.coefficients, again.explainer.coefficients), "same seed, same bytes"
    other = Setting()
    other.learn(training=replace(TRAINING, seed=1))
    assert not torch.equal(setting.explainer.coefficients, other.explainer.coefficients)


def test_the_teacher_is_not_asked_while_learning(monkeypatch):
    setting = Setting()
    subject = teacher("native", "classification", torch.float32)
    run, asked = type(subject).run, []

    def watched(self, *given, **more):
        asked.append(self)
        return run(self, *given, **more)

    monkeypatch.setattr(type(subject), "run", watched)
    setting.learn()
    assert setting.student in asked
    assert subject not in asked, "its scores are known"


@pytest.mark.parametrize(
    ("smat", "optimiser"),
    [
        (SmatOptions(), "adam"),
        (SmatOptions(), "sgd"),
        (SmatOptions(pilot=False), "adam"),
        (SmatOptions(reset=1), "sgd"),
        (SmatOptions(route="difference"), "adamw"),
        (SmatOptions(outer="dev", keep="last"), "adam"),
    ],
)
def test_stopped_and_resumed_it_ends_in_the_same_bytes(tmp_path, smat, optimiser):
    training = replace(TRAINING, optimiser=optimiser)
    whole = Setting(learn_temperature=True)
    done = whole.learn(smat, training)
    stopped = Setting(learn_temperature=True)

    def stop(epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.learn(smat, training, checkpoint=tmp_path / "at", on_epoch_end=stop)
    resumed = Setting(learn_temperature=True)
    again = resumed.learn(smat, training, checkpoint=tmp_path / "at")
    assert torch.equal(resumed.explainer.coefficients, whole.explainer.coefficients)
    assert torch.equal(resumed.explainer.log_temperature, whole.explainer.log_temperature)
    for one, other in zip(resumed.student.parameters(), whole.student.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.history == done.history
    assert again.kept_epoch == done.kept_epoch


def test_a_damaged_checkpoint_is_started_over(tmp_path):
    (tmp_path / "at").write_bytes(b"not this")
    setting, whole = Setting(), Setting()
    done = setting.learn(checkpoint=tmp_path / "at")
    whole.learn()
    assert "starts again from the first epoch" in done.notes[0]
    assert torch.equal(setting.explainer.coefficients, whole.explainer.coefficients)


def test_all_passes_of_a_step_draw_the_same_dropout():
    setting = Setting()
    loop = setting.loop()
    setting.student.train()
    taught, judging = np.arange(6), np.arange(6, 12)
    loop._student_step(loop._student_gradients(loop._inner_batch(taught, judging), 0))
    told = loop._inner_batch(taught, judging)
    double, difference = (
        loop._hypergradient(loop._inner_batch(taught, judging), 3, route) for route in ("double", "difference")
    )
    gap = (double.explainer_gradients[0] - difference.explainer_gradients[0]).norm() / double.explainer_gradients[
        0
    ].norm()
    assert gap < 1e-2
    other = loop._hypergradient(told, 4, "double")
    assert (double.explainer_gradients[0] - other.explainer_gradients[0]).norm() / double.explainer_gradients[
        0
    ].norm() > 0.1, "another step draws another one"


@pytest.mark.parametrize("outer", ["train", "dev"])
def test_every_row_judges_and_none_in_the_step_that_teaches_it(monkeypatch, outer):
    loop = Setting().loop(SmatOptions(outer=outer))
    step, seen = loop._hypergradient, []

    def watched(inner, number, route, **more):
        rows, judging = inner.batch.ids, loop._outer_batch(inner.outer_rows)[0].ids
        assert outer == "dev" or not set(rows) & set(judging)
        if not more:  # the trial before the first step is no step
            seen.extend(judging)
        return step(inner, number, route, **more)

    monkeypatch.setattr(loop, "_hypergradient", watched)
    loop.run(False, lambda _: None)
    count = {row.id: seen.count(row.id) for row in loop.train.rows}
    if outer == "dev":  # three epochs are three passes
        assert set(count.values()) == {3}
    assert min(count.values()) >= 1
    assert max(count.values()) <= 5


def test_the_outer_step_is_adam_with_a_floor_in_the_root():
    one = torch.zeros(3, requires_grad=True)
    adam = OuterAdam([one], [0.1], clip=5.0)
    gradients = [torch.tensor([1e-7, 1e-3, -2.0]), torch.tensor([2e-7, -1e-3, 1.0])]
    mean = square = np.zeros(3)
    expected = np.zeros(3)
    for step, gradient in enumerate(gradients, 1):
        adam.step([gradient])
        g = gradient.double().numpy()
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        under = np.sqrt(square / (1 - 0.999**step) + 1e-8) + 1e-8
        expected -= 0.1 * mean / (1 - 0.9**step) / under
    np.testing.assert_allclose(one.detach().numpy(), expected, rtol=1e-5)
    assert abs(expected[0]) < 1e-2 * abs(expected[2]), "a tiny gradient is no full step"


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):  # noqa: ARG004
        return tensor.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # noqa: ARG004
        return gradient


class Detached(torch.autograd.Function):
    """A backward pass that nobody marked, and that leaves the graph."""

    @staticmethod
    def forward(ctx, tensor):  # noqa: ARG004
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):  # noqa: ARG004
        return gradient.detach()


@pytest.mark.parametrize("function", [Once, Detached])
def test_a_student_that_cannot_be_differentiated_twice(monkeypatch, function):
    setting = Setting()
    layer = type(setting.student.layers[0])
    run = layer.forward
    monkeypatch.setattr(layer, "forward", lambda self, states, ear: function.apply(run(self, states, ear)))
    fallback = copy.deepcopy(setting)
    with pytest.raises(UnsupportedError, match="cannot be differentiated .*route='difference'"):
        setting.learn(SmatOptions(route="double"))
    done = fallback.learn()
    assert done.route == "difference"
    assert "cannot be differentiated twice" in done.notes[0]


def test_recurrent_students_take_the_route_that_needs_no_second_derivatives():
    assert Setting(student="bilstm_attention").learn(training=replace(TRAINING, epochs=1)).route == "difference"


@pytest.mark.parametrize(
    ("smat", "training", "strategy", "error", "message"),
    [
        ({"outer_batch": 19}, {}, {}, OptionError, "6 rows for each step and 19 others .* there are 24"),
        ({}, {"batch_size": 30}, {}, OptionError, "there are 24"),
        ({"outer": "dev", "outer_batch": 25}, {}, {}, OptionError, "25 rows of dev, and there are 24"),
        ({"outer": "test", "reset": -1}, {}, {}, OptionError, "outer must be train or dev, not test; reset"),
        ({"route": "triple"}, {}, {}, OptionError, "'auto' or one of"),
        ({}, {}, {"send": "top"}, UnsupportedError, "uses the whole distribution"),
        ({}, {}, {"beta": 0.0}, TrainingError, "exactly 0"),
        ({}, {"optimiser": "sgd", "rate": 1e30, "clip": 1e30}, {}, TrainingError, "rate .*too high"),
    ],
)
def test_what_cannot_be_learned_is_refused(smat, training, strategy, error, message):
    setting = Setting()
    with pytest.raises(error, match=message):
        setting.learn(SmatOptions(**smat), replace(TRAINING, **training), Attention(**strategy))


def test_numbers_that_break_on_the_way_name_the_step(monkeypatch):
    setting = Setting()
    loop = setting.loop()
    step = loop._hypergradient

    def broken(inner, number, route, **more):
        found = step(inner, number, route, **more)
        return (
            replace(found, explainer_gradients=[one * float("nan") for one in found.explainer_gradients])
            if number == 5
            else found
        )

    monkeypatch.setattr(loop, "_hypergradient", broken)
    with pytest.raises(TrainingError, match=r"NaN or infinite in step 6 \(epoch 2\)"):
        loop.run(False, lambda _: None)


def test_other_strategies_are_refused():
    with pytest.raises(UnsupportedError, match="Choose the strategy 'attention'"):
        Setting().learn(strategy=build_strategy(Spec("multitask")))


def test_one_class_only_is_refused():
    values = np.tile([3.0, 1.0, 0.0], (24, 1))
    with pytest.raises(TrainingError, match="the same answer to all 24 rows"):
        Setting(values=values).learn()


def test_components_with_the_same_scores_are_refused():
    setting = Setting()
    even = np.repeat(setting.parts.values.mean(1, keepdims=True), 8, axis=1)
    setting.parts = replace(setting.parts, values=even.astype(np.float32))
    with pytest.raises(TrainingError, match="all have the same scores"):
        setting.learn()


def test_a_mix_that_collapses_in_the_first_epoch_is_kept_and_says_so():
    """One part may be the answer on easy data: the run ends, and its result carries a note."""
    setting = Setting()
    done = setting.learn(SmatOptions(outer_rate=5.0))
    assert len(done.history) == TRAINING.epochs
    (note,) = done.notes
    assert "(epoch 1) on, all weight is on one component" in note
    assert "outer rate (5) may be too high" in note
    assert done.history[-1].active == 1


def test_a_mix_of_one_part_later_on_learns_no_more_and_says_so(tmp_path, monkeypatch):
    setting = Setting()
    loop = setting.loop()
    with torch.no_grad():
        setting.explainer.coefficients.copy_(torch.eye(8)[3])
    loop._note_collapse(2, 9)
    assert loop.notes == [
        "From step 10 (epoch 2) on, all weight is on one component (0.3); it gets no gradient any more, so the mix no "
        "longer changes."
    ]
    loop._note_collapse(2, 10)
    assert len(loop.notes) == 1, "said once"
    old = ["From step 10 (epoch 2) on the mix has one part (0.3) and learns no more."]
    loop.notes = list(old)
    loop._note_collapse(2, 10)
    assert loop.notes == old, "the note in a checkpoint of an older version counts, too"
    # Stopped after that, it goes on: what gets no gradient any more is no reason to refuse.
    stopped = Setting()
    with torch.no_grad():
        stopped.explainer.coefficients.copy_(torch.eye(8)[3])
    monkeypatch.setattr(SmatLoop, "_checked_route", lambda _: "double")
    training = replace(TRAINING, epochs=1)
    stopped.learn(training=training, checkpoint=tmp_path / "at")
    monkeypatch.undo()
    stopped.learn(training=replace(TRAINING, epochs=2), checkpoint=tmp_path / "at")
    assert stopped.explainer.weights[3] == 1.0
