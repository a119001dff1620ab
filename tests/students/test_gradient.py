"""Strategy `gradient`: against the explainer, finite differences and closed forms; and what it refuses."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

import teachers
from didact.errors import OptionError, UnsupportedError
from didact.explaining.explain import explain
from didact.learning.fit import Examples, Training
from didact.learning.teach import teach
from didact.registry import Spec, parse_spec
from didact.students.build import build_strategy, identifying_options, strategy_options
from didact.students.gradient import Gradient
from didact.students.lesson import Lesson

# Every kind of student: attention of transformers and of didact, recurrence, convolutions, bags of words, images.
KINDS = [
    ("hf", "classification"), ("native", "pair"), ("native", "image"), ("hf", "regression"), ("bilstm", "pair"),
    ("bilstm_attention", "regression"), ("pool", "classification"), ("cnn", "pair"), ("cnn", "classification"),
]  # fmt: skip


def setting(kind: str = "cnn", task: str = "classification", method: str = "contrast", loss="cosine", **options):
    """A tiny student, explanations of its own answers, the strategy attached, its batch and the lesson."""
    model = deepcopy(teachers.teacher(kind, task, torch.float64))
    level = {} if task == "image" else {"level": "token"}
    maps = (
        contrast_of(model, teachers.examples(task), level)
        if method == "contrast"
        else explain(model, teachers.examples(task), method, **level)
    )
    batch = model.encode(teachers.examples(task))
    strategy = Gradient(loss=loss, **options)
    strategy.attach(model, batch)
    lesson = strategy.lesson(maps, batch)
    return model, maps, strategy, batch, replace(lesson, scores=lesson.scores.double())


def contrast_of(model, rows, level):
    """`gradient_input` of the student itself, of the predicted class less its mean over the others (or of a score)."""
    maps = explain(model, rows, "gradient_input", **level)
    if not model.task.has_classes:
        return maps
    by_class = {name: explain(model, rows, "gradient_input", target=name, **level).scores for name in model.classes}
    counts = np.diff(maps.bounds)
    scores = np.zeros_like(maps.scores)
    for name, values in by_class.items():
        weights = [1.0 if target == name else -1 / (len(by_class) - 1) for target in maps.targets]
        scores += np.repeat(weights, counts) * values
    return replace(maps, scores=scores)


def loss_of(model, strategy, batch, lesson):
    return strategy(strategy.run(model, batch), batch, lesson)


@pytest.mark.parametrize(("kind", "task"), KINDS)
@pytest.mark.parametrize("loss", ["cosine", "mse"])
def test_a_student_whose_gradient_input_is_the_explanation_has_no_loss(kind, task, loss):
    """The explainer `gradient_input` of the student itself: an independent pass, on the teacher's side of didact."""
    model, maps, strategy, batch, lesson = setting(kind, task, loss=loss, beta=3.0)
    strategy.scale = np.sqrt(np.mean(np.add.reduceat(maps.scores**2, maps.bounds[:-1])))  # of the explanations
    torch.testing.assert_close(loss_of(model, strategy, batch, lesson), torch.zeros(3).double(), atol=1e-6, rtol=0)
    # Scores of the opposite sign are at the largest distance: 1 + 1, or twice the norm, squared.
    opposite = replace(lesson, scores=-lesson.scores)
    norms = lesson.scores.norm(dim=-1)
    expected = 3.0 * (torch.full((3,), 2.0).double() if loss == "cosine" else (2 * strategy.scale * norms).square())
    torch.testing.assert_close(loss_of(model, strategy, batch, opposite), expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_derivatives_are_those_of_finite_differences(kind, task):
    """Along a random direction of all parameters at once, in double precision: signed, unsigned and squared."""
    model, _, _, batch, lesson = setting(kind, task)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(lesson.scores.shape, generator=generator, dtype=torch.float64) * batch.units
    weights = {name: tensor.detach() for name, tensor in model.named_parameters()}
    direction = {name: torch.randn(w.shape, generator=generator, dtype=w.dtype) for name, w in weights.items()}
    for loss, is_signed in (("cosine", True), ("cosine", False), ("mse", True)):
        strategy = Gradient(loss=loss)
        sent = replace(
            lesson, scores=scores if is_signed else scores.abs(), is_signed=torch.full_like(lesson.is_signed, is_signed)
        )
        module = _Loss(model, strategy, batch, sent)

        def value(step, module=module):
            moved = {f"model.{name}": w + step * direction[name] for name, w in weights.items()}
            return functional_call(module, moved, ())

        step = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(value(step), step)
        h = 1e-6  # |s|, ReLU and |c1 − c2| have kinks
        numeric = (value(torch.tensor(h).double()) - value(torch.tensor(-h).double())).detach() / (2 * h)
        assert abs(slope) > 1e-3
        torch.testing.assert_close(slope, numeric, rtol=1e-5, atol=1e-7)


class _Loss(nn.Module):
    def __init__(self, model, strategy, batch, lesson):
        super().__init__()
        self.model, self.fixed = model, (strategy, batch, lesson)

    def forward(self):
        return loss_of(self.model, *self.fixed).sum()


@pytest.mark.parametrize("kind", ["signed", "magnitude"])
def test_the_loss_by_hand(kind):
    """1 − cosine of each row, in loops over words: of sums over dimensions, or without signs of norms over them."""
    model, maps, strategy, batch, _ = setting("cnn")
    products = elementwise(model, batch, [list(model.classes).index(name) for name in maps.targets])
    scores = np.random.default_rng(0).normal(size=len(maps.scores)) * 1e-3
    scores = scores if kind == "signed" else np.abs(scores)
    losses = loss_of(model, strategy, batch, strategy.lesson(replace(maps, kind=kind, scores=scores), batch))
    for row, loss in enumerate(losses.tolist()):
        sent = scores[maps.bounds[row] : maps.bounds[row + 1]]
        words = products[row][batch.units[row]]
        mine = [word.sum().item() if kind == "signed" else word.square().sum().sqrt().item() for word in words]
        dot = sum(a * b for a, b in zip(mine, sent, strict=True))
        cosine = dot / np.sqrt(sum(a * a for a in mine) * sum(b * b for b in sent))
        assert loss == pytest.approx(1 - cosine, abs=1e-6)


def elementwise(model, batch, classes):
    """Gradient ∘ input from a run of its own: of a class less the mean of the others."""
    inputs = model.embed(batch, at="embedding").detach().requires_grad_()
    logits = model.run(inputs, batch, at="embedding").logits
    total = 0.0
    for row, label in enumerate(classes):
        others = [index for index in range(logits.shape[1]) if index != label]
        total = total + logits[row, label] - logits[row, others].mean()
    return torch.autograd.grad(total, inputs)[0] * inputs


def test_cosine_knows_no_size_and_the_squared_distance_does():
    """Rows multiplied by 1, 10 and 100: each row alone is as it was; together the last row is the loudest."""
    model, maps, strategy, batch, _ = setting("bilstm")
    scores = np.random.default_rng(0).normal(size=len(maps.scores))
    factors = np.repeat([1.0, 10.0, 100.0], np.diff(maps.bounds))
    plain, louder = (replace(maps, scores=values) for values in (scores, scores * factors))
    losses = [loss_of(model, strategy, batch, strategy.lesson(which, batch)) for which in (plain, louder)]
    torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-7)
    norms = Gradient(loss="mse").lesson(louder, batch).scores.norm(dim=-1)
    assert norms.square().mean().item() == pytest.approx(1.0, rel=1e-6)
    rows = [np.linalg.norm(scores[a:b]) * factor for a, b, factor in
            zip(maps.bounds, maps.bounds[1:], (1, 10, 100), strict=False)]  # fmt: skip
    np.testing.assert_allclose(norms.numpy() / norms[0].item(), np.array(rows) / rows[0], rtol=1e-5)


def test_what_has_no_sign_is_compared_without():
    """Magnitudes and the control `signed=absolute` ask for sizes alone; signed scores ask for the signs too."""
    model, maps, strategy, batch, _ = setting("cnn")
    control = Gradient(signed="absolute", loss="cosine")
    flipped = replace(maps, scores=maps.scores * np.where(np.arange(len(maps.scores)) % 2, 1, -1))
    sizes = replace(maps, kind="magnitude", scores=np.abs(maps.scores))
    lessons = [control.lesson(maps, batch), control.lesson(flipped, batch), strategy.lesson(sizes, batch)]
    for lesson in lessons:
        assert torch.equal(lesson.scores, lessons[0].scores)
        assert (lesson.scores >= 0).all()
        assert not lesson.is_signed.any()
    assert (loss_of(model, strategy, batch, strategy.lesson(flipped, batch)) > 0.1).all()
    # Marks speak for the class that they explain, or only say where.
    marked = replace(maps, kind="binary", scores=(maps.scores > 0).astype(float))
    assert strategy.lesson(marked, batch).is_signed.all()
    assert not Gradient(marks="size").lesson(marked, batch).is_signed.any()
    assert torch.equal(
        strategy.lesson(marked, batch).scores > 0, Gradient(marks="size").lesson(marked, batch).scores > 0
    )
    # A student whose norms are the sizes has no loss, whatever the signs of its words.
    products = elementwise(model, batch, [list(model.classes).index(name) for name in maps.targets])
    own = replace(maps, kind="magnitude", scores=products.norm(dim=-1)[batch.units].detach().numpy())
    losses = loss_of(model, strategy, batch, strategy.lesson(own, batch))
    torch.testing.assert_close(losses, torch.zeros_like(losses), atol=1e-6, rtol=0)


def test_sizes_can_speak_for_the_class():
    """With `unsigned=for`, magnitudes are what signed scores without a negative one would be; signs stay signs."""
    model, maps, strategy, batch, _ = setting("cnn")
    speaking = Gradient(unsigned="for", loss="cosine")
    sizes = replace(maps, kind="magnitude", scores=np.abs(maps.scores))
    as_signed = strategy.lesson(replace(sizes, kind="signed"), batch)
    control = Gradient(unsigned="for", signed="absolute", loss="cosine")
    for lesson in (speaking.lesson(sizes, batch), control.lesson(maps, batch), control.lesson(sizes, batch)):
        assert lesson.is_signed.all()
        assert torch.equal(lesson.scores, as_signed.scores)
        torch.testing.assert_close(
            loss_of(model, speaking, batch, lesson), loss_of(model, strategy, batch, as_signed), rtol=0, atol=0
        )
    assert torch.equal(speaking.lesson(maps, batch).scores, strategy.lesson(maps, batch).scores)
    marked = replace(maps, kind="binary", scores=(maps.scores > 0).astype(float))
    assert not Gradient(marks="size", unsigned="for").lesson(marked, batch).is_signed.any()
    with pytest.raises(OptionError, match="Option 'unsigned' of strategy 'gradient' must be 'norm' or 'for'"):
        Gradient(unsigned="sign")


def test_rows_without_scores_and_students_without_gradients():
    model, _, strategy, batch, lesson = setting("pool")
    empty = replace(lesson, scores=lesson.scores * torch.tensor([0.0, 1.0, 1.0])[:, None].double())
    losses = loss_of(model, strategy, batch, empty)
    assert losses[0] == 0
    torch.testing.assert_close(losses, torch.zeros_like(losses), atol=1e-6, rtol=0)
    with torch.no_grad():  # the student answers whatever it reads
        for parameter in model.head.parameters():
            parameter.zero_()
    losses = loss_of(model, strategy, batch, lesson)
    torch.testing.assert_close(losses, torch.ones_like(losses))
    losses.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model.head.weight.grad.any(), "and it is told where to look"


def test_the_number_that_is_explained():
    """A class against the mean of the others, or against one: as the explanations say, not as the student answers."""
    model, maps, strategy, batch, _ = setting("cnn")
    rows = teachers.examples("classification")
    scores = {name: explain(model, rows, "gradient_input", target=name).scores for name in model.classes}
    for target, theirs, indices in (
        ("b", scores["b"] - (scores["a"] + scores["c"]) / 2, [1, -1]),
        ("c against a", scores["c"] - scores["a"], [2, 0]),
    ):
        lesson = strategy.lesson(replace(maps, targets=(target,) * 3, scores=theirs), batch)
        assert lesson.targets.tolist() == [indices] * 3
        losses = loss_of(model, strategy, batch, lesson)
        torch.testing.assert_close(losses, torch.zeros_like(losses), atol=1e-6, rtol=0)
    mixed = replace(maps, targets=("b", "c against a", "a"))
    assert strategy.lesson(mixed, batch).targets.tolist() == [[1, -1], [2, 0], [0, -1]]
    with pytest.raises(OptionError, match="has the target 'good', which is none of a, b, c"):
        strategy.lesson(replace(maps, targets=("good",) * 3), batch)


def test_embeddings_that_are_frozen_stay_and_all_else_learns():
    model, _, strategy, batch, lesson = setting("native")
    model.words.requires_grad_(False)
    strategy.attach(model, batch)
    loss_of(model, strategy, batch, replace(lesson, scores=lesson.scores.flip(0))).sum().backward()
    assert model.words.weight.grad is None
    assert model.layers[0].query_key_value.weight.grad.any()
    learned = setting("native")
    loss_of(learned[0], learned[2], batch, replace(lesson, scores=lesson.scores.flip(0))).sum().backward()
    assert learned[0].words.weight.grad.any()


class _OnceDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(_, value):
        return value * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(_, gradient):
        return gradient * 2


def test_refusals():
    reader = teachers.teacher("hf", "reading")
    with pytest.raises(UnsupportedError, match="task reading has logits for every token.*'alignment'"):
        Gradient().attach(reader, reader.encode(teachers.examples("reading")))
    model = deepcopy(teachers.teacher("pool", "classification"))
    batch = model.encode(teachers.examples("classification"))
    model.layers[0].register_forward_hook(lambda _, __, output: _OnceDifferentiable.apply(output))
    with pytest.raises(
        UnsupportedError,
        match="differentiates the student twice.*'pool' does not allow it: its operation _OnceDiff.* has a backward",
    ):
        Gradient().attach(model, batch)
    for text, message in (
        ("gradient(beta=-1)", "beta"), ("gradient(loss=l2)", "'cosine' or 'mse'"), ("gradient(signed=split)", "'keep'"),
        ("gradient(scale=0)", "scale"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=message):
            build_strategy(parse_spec(text))
    rows = tuple(teachers.examples("classification"))
    model = deepcopy(teachers.teacher("pool", "classification", torch.float32))
    examples = Examples.of(model, rows, model.predict(rows))
    maps = explain(model, rows, "gradient_input")
    with pytest.raises(UnsupportedError, match="bfloat16 is not precise enough"):
        teach(model, Gradient(), maps, examples, examples, Training(epochs=1, precision="bfloat16"))


def test_later_options_are_not_in_keys():
    assert identifying_options(Spec("multitask")) == {"beta": 1.0, "k": 0.1, "per": "unit"}
    assert identifying_options(parse_spec("multitask(signs=true)"))["signs"] is True
    assert "unsigned" not in identifying_options(Spec("gradient"))
    assert identifying_options(parse_spec("gradient(unsigned=for)"))["unsigned"] == "for"
    for name in ("attention", "none"):
        assert identifying_options(Spec(name)) == strategy_options(Spec(name))


@pytest.mark.parametrize("student", ["bilstm", "cnn", "hf"])
def test_students_are_taught(student):
    """In single precision the loss falls, and the same seed gives the same weights."""

    def taught():
        model = deepcopy(teachers.teacher(student, "classification", torch.float32))
        rows = tuple(teachers.examples("classification"))
        examples = Examples.of(model, rows, model.predict(rows))
        training = Training(epochs=3, batch_size=2, optimiser="adam", warmup=0.0)
        strategy = Gradient(beta=2.0)
        result = teach(model, strategy, explain(model, rows, "occlusion"), examples, examples, training)
        return result.history, model.fingerprint()

    (first, weights), (second, again) = taught(), taught()
    assert first[-1].loss < first[0].loss
    assert first == second
    assert weights == again


def test_a_lesson_is_cut_by_rows_and_length():
    _, _, _, _, lesson = setting("cnn")
    chosen = lesson.select(torch.tensor([2, 0]), 1)
    assert isinstance(chosen, Lesson)
    assert chosen.scores.shape == (2, 1)
    assert torch.equal(chosen.targets, lesson.targets[[2, 0]])
    assert torch.equal(chosen.is_signed, lesson.is_signed[[2, 0]])
