"""Sparse weights: the values of their definition, and derivatives of any order."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from didact.core.simplex import NORMALISERS, entmax15, sparsemax
from references import simplex as reference

CASES = [torch.randn(9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in range(20)]


@pytest.mark.parametrize("scores", [*CASES, torch.zeros(5, dtype=torch.float64), torch.tensor([3.0, -1.0]).double()])
def test_values_are_those_of_the_definition(scores):
    torch.testing.assert_close(sparsemax(scores), reference.sparsemax(scores), atol=1e-12, rtol=0)
    torch.testing.assert_close(entmax15(scores), reference.entmax15(scores), atol=1e-12, rtol=0)


def test_ties_share_alike():
    torch.testing.assert_close(sparsemax(torch.zeros(4)), torch.full((4,), 0.25))
    torch.testing.assert_close(sparsemax(torch.tensor([1.0, 1.0, -5.0])), torch.tensor([0.5, 0.5, 0.0]))


@pytest.mark.parametrize("name", NORMALISERS)
def test_first_and_second_derivatives_of_both_modes(name):
    scores = torch.tensor([1.2, 0.7, 0.1, -0.4, -3.0, -2.0], dtype=torch.float64, requires_grad=True)
    found = NORMALISERS[name](scores)
    if name in ("sparsemax", "entmax15"):
        assert (found == 0).any(), "a weight that is exactly zero"
    gradcheck(NORMALISERS[name], scores, check_forward_ad=True)
    gradgradcheck(NORMALISERS[name], scores, check_fwd_over_rev=True)


@pytest.mark.parametrize("name", ["sparsemax", "softmax", "entmax15"])
def test_weights_sum_to_one(name):
    for scores in CASES:
        found = NORMALISERS[name](scores)
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(), torch.ones((), dtype=torch.float64))
