"""A copy of a model has the same weights, in the same memory, and everything else to itself."""

import torch
from torch import nn

from didact.core.shared_weights import shared_copy


def test_weights_are_the_same_memory_and_changes_are_seen():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    copy = shared_copy(model)
    assert copy is not model
    pairs = list(zip(model.state_dict().values(), copy.state_dict().values(), strict=True))
    assert len(pairs) == 7
    assert all(ours.data_ptr() == theirs.data_ptr() for theirs, ours in pairs)
    with torch.no_grad():
        model[0].weight.add_(1.0)
    assert torch.equal(copy[0].weight, model[0].weight)


def test_modes_hooks_and_gradients_are_its_own():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    copy = shared_copy(model).eval()
    copy[0].weight.requires_grad_(False)
    calls = []
    copy[0].register_forward_hook(lambda *_: calls.append("copy"))
    model(torch.ones(1, 3)).sum().backward()
    assert model.training
    assert calls == []
    assert model[0].weight.grad is not None
    assert copy[0].weight.grad is None


def test_a_copy_is_returned_as_it_is():
    copy = shared_copy(nn.Linear(2, 2))
    assert shared_copy(copy) is copy
