"""What scores miss of what they promise to add up to, by its definition."""

import pytest
import torch

from didact.explainers.completeness import relative_residual

SCORES = torch.tensor([[3.0, -1.0, 0.0]], dtype=torch.float64)
EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize(
    ("explained", "size", "unit"),
    [
        (2.0, 1.0, 2.0),  # what was to be explained
        (-2.0, 1.0, 2.0),
        (0.001, 1.0, 0.04),  # 1 % of all scores, by their size
        (0.0, 1e9, EPS**0.5 * 1e9),  # rounding of large outputs
    ],
)
def test_the_largest_of_three_is_the_unit(explained, size, unit):
    missing = torch.tensor([-0.5], dtype=torch.float64)
    share = relative_residual(missing, torch.tensor([explained]).double(), SCORES, torch.tensor([size]).double())
    torch.testing.assert_close(share, torch.tensor([0.5 / unit]).double())


def test_nothing_missing_of_nothing_is_complete():
    zero = torch.zeros(1, dtype=torch.float64)
    assert relative_residual(zero, zero, torch.zeros(1, 3, dtype=torch.float64), zero).tolist() == [0.0]
