"""The derivative through a student's step: routes against each other, a numeric derivative and a closed form."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.task import TASKS
from didact.explainers.build import build_explainer
from didact.explaining.component_scores import compute_component_scores
from didact.learning.fit import Examples, Training, make_optimiser
from didact.learning.hypergradient import Step, hypergradient, preview
from didact.learning.smat import SmatLoop
from didact.learning.smat_options import SmatOptions
from didact.models import MODELS
from didact.models.tokenizer import WordTokenizer
from didact.students.attention import Attention
from teachers import teacher

PLAIN = Training(rate=0.1, weight_decay=0.01, clip=1e6, warmup=0.0, schedule="constant", optimiser="sgd", momentum=0.0)
OPTIMISERS = {
    "sgd": PLAIN,
    "momentum": replace(PLAIN, momentum=0.9),
    "clipped": replace(PLAIN, clip=0.05),
    "adam": replace(PLAIN, optimiser="adam", rate=0.01),
    "adamw": replace(PLAIN, optimiser="adamw", rate=0.01, clip=0.05),
}
WORDS = [*"abcdefghijkl", "red", "blue", "green", "one", "two", "three", "four", "five", "six", "seven", "eight"]

OUTER = np.arange(18, 24)  # rows that judge


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def rows(count: int, seed: int = 0) -> list[Row]:
    draw = np.random.default_rng(seed)
    return [Row(f"r{n}", (" ".join(draw.choice(WORDS[:12], draw.integers(3, 8))),)) for n in range(count)]


def loop(training, family="attention_mix", *, kind="native", student="native", smat=None, strategy=None, **options):
    """A run of learning, its student far from its start, so that the optimiser has a past."""
    subject = teacher(kind, "classification")
    explainer = build_explainer(family, **options).explainer
    given = rows(24)
    parts = compute_component_scores(subject, given, explainer)
    torch.manual_seed(1)
    reader = WordTokenizer.from_rows([*given, Row("more", (" ".join(WORDS) + " words that no batch has",))])
    width = {"width": 8} | ({"heads": 2} if student == "native" else {})
    model = MODELS.load(student)(TASKS["classification"], ("a", "b", "c"), reader, **width).double()
    values = np.random.default_rng(3).normal(size=(len(given), 3))
    examples = Examples.of(model, tuple(given), Outputs(TASKS["classification"], tuple(r.id for r in given), values))
    found = SmatLoop(
        model, strategy or Attention(), explainer, parts, examples, examples, replace(training, batch_size=6),
        smat or SmatOptions(), None,
    )  # fmt: skip
    found.explainer.double()
    found.explainer_parameters = [
        one for one in (explainer.coefficients, explainer.log_temperature) if one.requires_grad
    ]
    with torch.no_grad():
        draw = torch.randn(len(explainer.names), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        explainer.coefficients += 0.1 * draw / len(draw)
    model.train()
    for step in range(3):
        found._student_step(found._student_gradients(found._inner_batch(np.arange(6) + 6 * step, OUTER), step))
    return found


def derivative(found, route):
    return found._hypergradient(found._inner_batch(np.arange(6), OUTER), 7, route)


def numeric(found, stride=1e-5):
    """dF/dφ by central differences of the loss on the outer rows."""
    values = []
    for parameter in found.explainer_parameters:
        for place in range(parameter.numel()):
            sides = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * stride
                sides.append(float(derivative(found, "difference").outer_loss))
                with torch.no_grad():
                    parameter.view(-1)[place] -= sign * stride
            values.append((sides[0] - sides[1]) / (2 * stride))
    return torch.tensor(values)


def flat(found):
    return torch.cat([one.reshape(-1) for one in found.explainer_gradients])


def gap(one, other):
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("family", ["attention_mix", "gradient_mix", "blend"])
def test_routes_agree_and_equal_a_numeric_derivative(name, family):
    options = {"members": "gradient_norm + gradient_input + occlusion"} if family == "blend" else {}
    found = loop(OPTIMISERS[name], family, **options)
    double, forward, difference = (flat(derivative(found, route)) for route in ("double", "forward", "difference"))
    assert double.norm() > 0
    assert gap(forward, double) <= 1e-10
    assert gap(difference, double) <= 1e-5
    assert gap(numeric(found), double) <= 1e-5
    if name == "clipped":
        inner = torch.cat([one.reshape(-1) for one in derivative(found, "double").student_gradients])
        assert inner.norm() > OPTIMISERS[name].clip, "clipping is at work"


@pytest.mark.parametrize("options", [{"normaliser": "softmax"}, {"normaliser": "entmax15"}, {"normaliser": "none"},
                                     {"learn_temperature": True, "temperature": 0.5}])  # fmt: skip
def test_every_normaliser_and_a_learned_temperature(options):
    found = loop(OPTIMISERS["adam"], **options)
    double, forward = flat(derivative(found, "double")), flat(derivative(found, "forward"))
    assert gap(forward, double) <= 1e-10
    assert gap(numeric(found), double) <= 1e-5


@pytest.mark.parametrize("strategy", [{"direction": "reverse"}, {"temperature": 0.5}, {"side": "cls"}])
def test_every_way_of_sending(strategy):
    found = loop(OPTIMISERS["sgd"], strategy=Attention(**strategy))
    double, forward = flat(derivative(found, "double")), flat(derivative(found, "forward"))
    assert gap(forward, double) <= 1e-10
    assert gap(numeric(found), double) <= 1e-5


@pytest.mark.parametrize("student", ["pool", "bilstm_attention"])
def test_students_that_pool_by_attention(student):
    found = loop(OPTIMISERS["adam"], student=student)
    double, difference = flat(derivative(found, "double")), flat(derivative(found, "difference"))
    assert gap(difference, double) <= 1e-5
    assert gap(numeric(found), double) <= 1e-5


def test_a_hugging_face_teacher_with_other_pieces_than_the_student():
    found = loop(OPTIMISERS["adam"], kind="hf")
    double, forward = flat(derivative(found, "double")), flat(derivative(found, "forward"))
    assert gap(forward, double) <= 1e-10
    assert gap(numeric(found), double) <= 1e-5


def test_words_that_no_batch_holds_do_not_become_nan():
    found = loop(replace(OPTIMISERS["adam"], weight_decay=0.0))
    seen = set(found.train.batch.tokens.unique().tolist())
    table = found.student_weights["student.words.weight"]
    assert len(seen) < len(table) / 2, "the batch misses most of the vocabulary"
    gradients = found._student_gradients(found._inner_batch(np.arange(6), OUTER), 7)
    step = preview(found.optimiser, found.student_weights, gradients, clip=1e6)
    pulled = dict(zip(found.student_weights, step.vjp([torch.ones_like(one) for one in gradients]), strict=True))
    unseen = [place for place in range(len(table)) if place not in seen]
    assert (pulled["student.words.weight"][unseen] == 0).all()
    assert all(one.isfinite().all() for one in pulled.values())


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_previewed_step_is_the_step_that_torch_takes(name):
    torch.manual_seed(0)
    training = OPTIMISERS[name]
    weights = {"a": torch.nn.Parameter(torch.randn(4, 3)), "b": torch.nn.Parameter(torch.randn(5))}
    optimiser = make_optimiser(list(weights.values()), training)
    for _ in range(4):
        gradients = [torch.randn_like(one) for one in weights.values()]
        gradients[0][1] = 0.0
        expected = preview(optimiser, weights, gradients, clip=training.clip).weights
        for one, gradient in zip(weights.values(), gradients, strict=True):
            one.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), training.clip)
        optimiser.step()
        for key, one in weights.items():
            torch.testing.assert_close(one.detach(), expected[key], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_vjp_is_the_transposed_jacobian_of_the_step(name):
    torch.manual_seed(0)
    training = OPTIMISERS[name]
    weights = {"a": torch.nn.Parameter(torch.randn(3, 2)), "b": torch.nn.Parameter(torch.randn(4))}
    optimiser = make_optimiser(list(weights.values()), training)
    for one in weights.values():
        one.grad = torch.randn_like(one)
    optimiser.step()
    gradients = [torch.randn_like(one) for one in weights.values()]
    vector = [torch.randn_like(one) for one in weights.values()]

    def value(changed):
        new = preview(optimiser, weights, changed, clip=training.clip).weights
        return sum(float((one * v).sum()) for one, v in zip(new.values(), vector, strict=True))

    pulled = preview(optimiser, weights, gradients, clip=training.clip).vjp([one.clone() for one in vector])
    for place, gradient in enumerate(gradients):
        for at in range(gradient.numel()):
            sides = []
            for sign in (1, -1):
                changed = copy.deepcopy(gradients)
                changed[place].view(-1)[at] += sign * 1e-6
                sides.append(value(changed))
            slope = -(sides[0] - sides[1]) / 2e-6  # θ' = θ − Δ
            assert slope == pytest.approx(float(pulled[place].reshape(-1)[at]), rel=1e-5, abs=1e-9)


def test_the_first_step_of_adam_is_exact_in_single_precision():
    """lr g / (|g| + ε): its slope lr ε / (|g| + ε)² is what is left of two numbers that are equal to eight digits."""
    weight = torch.nn.Parameter(torch.zeros(3, dtype=torch.float32))
    optimiser = make_optimiser([weight], replace(OPTIMISERS["adam"], weight_decay=0.0))
    gradient = torch.tensor([1e-3, -0.5, 2.0], dtype=torch.float32)
    step = preview(optimiser, {"w": weight}, [gradient], clip=1e6)
    expected = 0.01 * 1e-8 / (gradient.double().abs() + 1e-8) ** 2
    torch.testing.assert_close(step.vjp([torch.ones(3)])[0].double(), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("route", ["double", "forward", "difference"])
def test_a_quadratic_has_a_closed_form(route):
    torch.manual_seed(0)
    theta, phi = torch.nn.Parameter(torch.randn(5)), torch.nn.Parameter(torch.randn(3))
    matrix, goal, rate, beta = torch.randn(5, 3), torch.randn(5), 0.2, 1.7

    def taught(weights, _):
        sent = matrix @ phi
        return ((weights["t"] - goal) ** 2).sum() / 2, beta * ((weights["t"] - sent) ** 2).sum() / 2

    def step(gradients):
        return Step({"t": theta.detach() - rate * gradients[0]}, lambda vector: [rate * vector[0]])

    found = hypergradient(
        {"t": theta}, [phi], inner_losses=taught, outer_loss=lambda weights: ((weights["t"] - goal) ** 2).sum() / 2,
        step=step, route=route,
    )  # fmt: skip
    with torch.no_grad():
        later = theta - rate * ((theta - goal) + beta * (theta - matrix @ phi))
        expected = rate * beta * matrix.T @ (later - goal)
    assert gap(found.explainer_gradients[0], expected) <= (1e-9 if route == "difference" else 1e-12)
