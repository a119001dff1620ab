"""One teacher explained by several threads while its user calls the model: nobody disturbs anybody."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import didact
import tiny

METHODS = ("gradient_norm", "attention_all", "lrp", "integrated_gradients", "value_zeroing", "occlusion")
ROUNDS = {"fast": 3, "slow": 12}  # of all methods, in each of two threads


def bert(implementation="sdpa"):
    return tiny.huggingface("bert", attn_implementation=implementation)


def facts_of(model):
    """What a user sees of a model beside its answers."""
    modules = list(model.modules())
    return {
        "attention": model.config._attn_implementation,
        "config": model.config.to_dict(),
        "modes": [module.training for module in modules],
        "hooks": [(list(module._forward_hooks), list(module._forward_pre_hooks)) for module in modules],
        "attributes": [sorted(vars(module)) for module in modules],
        "parameters": [(id(weight), weight.requires_grad, weight._version) for weight in model.parameters()],
        "gradients": [weight.grad for weight in model.parameters()],
    }


class UsersCode:
    """Calls the model as its user would, over and over, and keeps everything that is not as it was."""

    def __init__(self, model, inputs, **options):
        self.model, self.inputs, self.options = model, inputs, options
        self.calls, self.faults = 0, []
        self.stops = threading.Event()
        self.alone, self.facts = self.answers(), facts_of(model)

    def answers(self):
        output = self.model(**self.inputs, **self.options)
        weight = self.model.classifier.weight
        (gradient,) = torch.autograd.grad(output.logits.square().sum(), weight)
        return [output.logits.detach(), gradient, *(part.detach() for part in output.attentions or ())]

    def __call__(self):
        while not self.stops.is_set() or not self.calls:
            try:
                answers = self.answers()
                if len(answers) != len(self.alone):
                    self.faults.append(f"{len(answers)} tensors instead of {len(self.alone)}")
                elif not all(map(torch.equal, answers, self.alone)):
                    self.faults.append("other numbers")
                self.faults += [name for name, value in facts_of(self.model).items() if value != self.facts[name]]
            except Exception as error:
                self.faults.append(repr(error))
            self.calls += 1


def explained(teacher, method):
    options = {"steps": 8} if method == "integrated_gradients" else {}
    return didact.explain(teacher, tiny.rows(), method, **options).scores


def in_threads(teacher, user, rounds):
    """Faults of two threads, each of which explains with all methods, in opposite order, beside the user's code."""
    alone = {method: explained(teacher, method) for method in METHODS}

    def work(methods):
        for _ in range(rounds):
            for method in methods:
                try:
                    if not np.array_equal(explained(teacher, method), alone[method]):
                        yield f"{method}: other scores"
                except Exception as error:
                    yield f"{method}: {error!r}"

    with ThreadPoolExecutor(3) as pool:
        calling = pool.submit(user)
        workers = [pool.submit(lambda order=order: list(work(order))) for order in (METHODS, METHODS[::-1])]
        faults = [fault for worker in workers for fault in worker.result()]
        user.stops.set()
        calling.result()
    return faults


@pytest.fixture(autouse=True)
def one_torch_thread():
    """Sums of several torch threads may differ in their last digit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("implementation", "options", "rounds"),
    [
        ("eager", {"output_attentions": True}, "fast"),
        ("sdpa", {}, "fast"),
        pytest.param("eager", {"output_attentions": True}, "slow", marks=SLOW),
        pytest.param("sdpa", {}, "slow", marks=SLOW),
        pytest.param("eager", {}, "slow", marks=SLOW),
    ],
)
def test_threads_explain_while_the_user_calls_the_model(implementation, options, rounds):
    model, tokenizer = bert(implementation)
    teacher = didact.load_teacher((model, tokenizer))
    inputs = tokenizer(list(tiny.TEXTS[:2]), padding=True, return_tensors="pt")
    user = UsersCode(model, inputs, **options)
    assert in_threads(teacher, user, ROUNDS[rounds]) == []
    assert user.faults == []
    assert user.calls > 1
