"""What a distilled explainer is asked for: losses equal to their definitions, written out."""

import math

import numpy as np
import pytest
import torch

from didact.learning import l2e_losses
from didact.learning.l2e_losses import (
    label_values,
    labelling_loss,
    mean_ranks,
    ranking_loss,
    regression_loss,
    unit_labels,
)


def written_out(scores: list[float], weights: list[float]) -> float:
    """The mean over pairs of −log(e^winner / (e^i + e^j)); a tie is half of either."""
    terms = []
    for i in range(len(scores)):
        for j in range(i + 1, len(scores)):
            both = math.log(math.exp(scores[i]) + math.exp(scores[j]))
            chances = {i: both - scores[i], j: both - scores[j]}
            if weights[i] == weights[j]:
                terms.append((chances[i] + chances[j]) / 2)
            else:
                terms.append(chances[i if weights[i] > weights[j] else j])
    return float(np.mean(terms)) if terms else 0.0


def ragged(seed: int = 0, rows: int = 4, units: int = 7):
    """Scores, weights with ties, and which are real: gaps, padding, one unit alone."""
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, units, generator=draw, dtype=torch.float64) * 3
    weights = torch.randint(-2, 3, (rows, units), generator=draw).double()
    real = torch.rand(rows, units, generator=draw) < 0.7
    real[0], real[1] = True, False
    real[1, 2] = True
    return scores, weights, real


class TestRanking:
    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_double_loop(self, seed):
        scores, weights, real = ragged(seed)
        found = ranking_loss(scores, weights, real)
        for row in range(len(scores)):
            own = real[row]
            assert found[row].item() == pytest.approx(
                written_out(scores[row, own].tolist(), weights[row, own].tolist())
            )
        assert found[1] == 0, "one unit has no pair"

    def test_in_blocks_it_is_the_same(self, monkeypatch):
        scores, weights, real = ragged(rows=3, units=11)
        scores.requires_grad_()
        whole = ranking_loss(scores, weights, real)
        (slope,) = torch.autograd.grad(whole.sum(), scores)
        for cells in (1, 40, 100):
            monkeypatch.setattr(l2e_losses, "_MAX_PAIRS", cells)
            part = ranking_loss(scores, weights, real)
            torch.testing.assert_close(part, whole)
            torch.testing.assert_close(torch.autograd.grad(part.sum(), scores)[0], slope)

    def test_its_gradient(self):
        scores, weights, real = ragged()
        assert torch.autograd.gradcheck(lambda one: ranking_loss(one, weights, real), scores.requires_grad_())

    def test_ties_are_symmetric(self):
        """Two equal weights pull equally, whichever comes first; at equal scores they do not pull at all."""
        scores = torch.tensor([[1.0, -1.0]], dtype=torch.float64, requires_grad=True)
        weights, real = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool)
        loss = ranking_loss(scores, weights, real)
        turned = ranking_loss(scores.flip(1), weights, real)
        assert loss.item() == turned.item()
        (slope,) = torch.autograd.grad(loss, scores)
        assert slope[0, 0] > 0
        assert slope.sum().abs() < 1e-12
        level = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
        assert not torch.autograd.grad(ranking_loss(level, weights, real).sum(), level)[0].any()

    def test_what_is_not_real_changes_nothing(self):
        scores, weights, real = ragged()
        other = torch.where(real, scores, 1e6)
        heavy = torch.where(real, weights, -100.0)
        torch.testing.assert_close(ranking_loss(other, heavy, real), ranking_loss(scores, weights, real))

    def test_extreme_scores_stay_finite(self):
        scores = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
        loss = ranking_loss(scores, torch.tensor([[0.0, 1.0, 2.0]]), torch.ones(1, 3, dtype=torch.bool))
        assert loss.isfinite()
        assert torch.autograd.grad(loss.sum(), scores)[0].isfinite().all()


def labelled(*weights: float, is_signed: bool = True) -> list[int]:
    row = torch.tensor([weights])
    return unit_labels(row, torch.ones_like(row, dtype=torch.bool), is_signed=is_signed)[0].tolist()


class TestLabels:
    @pytest.mark.parametrize(
        ("weights", "labels"),
        [
            ((3.0, 1.0, 0.0, -1.0, -5.0), [4, 3, 2, 1, 0]),  # means 2 and -3
            ((0.0, 0.0), [2, 2]),
            ((0.5,), [3]),  # the mean itself is low
            ((-0.5,), [1]),
            ((1.0, 2.0, 3.0), [3, 3, 4]),
            ((0.1, 0.1, 0.1), [3, 3, 3]),  # whose mean is rounded
            ((0.1, 0.1, 0.1, -0.3, -0.3, -0.3), [3, 3, 3, 1, 1, 1]),
            ((1e-9, 3e-9), [3, 4]),
        ],
    )
    def test_by_definition(self, weights, labels):
        assert labelled(*weights) == labels

    @pytest.mark.parametrize(
        ("weights", "labels"), [((0.0, 1.0, 5.0), [0, 1, 2]), ((0.0, 0.0), [0, 0]), ((2.0, 2.0), [1, 1])]
    )
    def test_without_signs(self, weights, labels):
        assert labelled(*weights, is_signed=False) == labels

    def test_means_are_of_the_real_units_of_a_row(self):
        weights = torch.tensor([[1.0, 3.0, 100.0], [10.0, 30.0, 31.0]])
        real = torch.tensor([[True, True, False], [True, True, True]])
        assert unit_labels(weights, real, is_signed=True).tolist() == [[3, 4, -1], [3, 4, 4]]

    def test_scale_does_not_matter(self):
        assert labelled(3.0, 1.0, -2.0, 0.0) == labelled(3e-6, 1e-6, -2e-6, 0.0)

    def test_what_labels_are_worth(self):
        """Sizes with a row's largest as 1: low ones .5, .25 and .5, high ones 1, 1 and .75."""
        weights = torch.tensor([[2.0, 4.0, 100.0, 0.0], [-10.0, -40.0, 20.0, 30.0]])
        labels = torch.tensor([[3, 4, -1, 2], [1, 0, 3, 4]])
        found = label_values(weights, labels, is_signed=True).tolist()
        low, high = (0.5 + 0.25 + 0.5) / 3, (1 + 1 + 0.75) / 3
        assert found == pytest.approx([-high, -low, 0.0, low, high])
        plain = label_values(weights[:1], torch.tensor([[1, 2, -1, 0]]), is_signed=False).tolist()
        assert plain == pytest.approx([0.0, 0.5, 1.0])
        assert label_values(weights * 0, torch.full_like(labels, 2), is_signed=True).tolist() == [0.0] * 5


def test_labelling_is_the_mean_over_units():
    said = torch.randn(2, 3, 5, dtype=torch.float64)
    labels = torch.tensor([[0, 4, -1], [2, -1, -1]])
    chances = said.log_softmax(-1)
    expected = [-(chances[0, 0, 0] + chances[0, 1, 4]) / 2, -chances[1, 0, 2]]
    torch.testing.assert_close(labelling_loss(said, labels), torch.stack(expected))


def test_regression_is_of_scaled_weights():
    real = torch.tensor([[True, True, False]])
    found = regression_loss(torch.tensor([[0.5, 1.0, 9.0]]), torch.tensor([[-2.0, 4.0, 100.0]]), real)
    assert found.item() == pytest.approx((1.0**2 + 0.0) / 2)


def test_mean_ranks():
    weights = np.array([[1.0, -3.0], [0.0, 2.0], [-5.0, 2.0], [2.0, 0.0]])
    first, second = [0.5, 0.0, -1.0, 0.75], [-1.0, 0.625, 0.625, 0.0]
    np.testing.assert_allclose(mean_ranks(weights), (np.array(first) + np.array(second)) / 2)
