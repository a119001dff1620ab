"""The CRF against every sequence of tags, written out."""

from itertools import product

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from didact.errors import ShapeError
from didact.students.crf import LinearChainCRF

MASKS = torch.tensor(
    [
        [1, 1, 1, 1, 1],
        [0, 1, 1, 1, 1],
        [1, 0, 0, 1, 1],
        [1, 1, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ],
    dtype=torch.bool,
)


def crf_and_batch(tags, seed=0):
    torch.manual_seed(seed)
    crf = LinearChainCRF(tags).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_()
    extra = torch.rand(5, 5) < 0.6
    mask = torch.cat([MASKS, extra])
    emissions = torch.randn(*mask.shape, tags, dtype=torch.float64)
    return crf, emissions, torch.randint(tags, mask.shape), mask


def path_score(crf, emissions, path):
    """Score of one sequence: start, emissions and transitions one after the other, end. 0 for the empty one."""
    if not path:
        return torch.zeros((), dtype=torch.float64)
    total = crf.start[path[0]] + crf.end[path[-1]]
    for place, tag in enumerate(path):
        total = total + emissions[place, tag]
        if place:
            total = total + crf.transitions[path[place - 1], tag]
    return total


def written_out(crf, emissions):
    """Every sequence over positions that count, with its score."""
    paths = list(product(range(crf.tags), repeat=len(emissions)))
    return paths, torch.stack([path_score(crf, emissions, path) for path in paths])


@pytest.mark.parametrize("tags", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_of_every_sequence(tags, seed):
    crf, emissions, chosen, mask = crf_and_batch(tags, seed)
    found = crf.log_likelihood(emissions, chosen, mask)
    for row, live in enumerate(mask):
        _, scores = written_out(crf, emissions[row, live])
        expected = path_score(crf, emissions[row, live], chosen[row, live].tolist()) - scores.logsumexp(0)
        torch.testing.assert_close(found[row], expected)
    assert found[6] == 0


@pytest.mark.parametrize("tags", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_marginals_of_every_sequence(tags, seed):
    crf, emissions, _, mask = crf_and_batch(tags, seed)
    found = crf.marginals(emissions, mask)
    expected = torch.zeros_like(emissions)
    for row, live in enumerate(mask):
        paths, scores = written_out(crf, emissions[row, live])
        for path, share in zip(paths, scores.softmax(0), strict=True):
            for place, tag in zip(live.nonzero()[:, 0].tolist(), path, strict=True):
                expected[row, place, tag] += share
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("tags", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_best_of_every_sequence(tags, seed):
    crf, emissions, _, mask = crf_and_batch(tags, seed)
    found = crf.decode(emissions, mask)
    assert (found[~mask] == -1).all()
    for row, live in enumerate(mask):
        paths, scores = written_out(crf, emissions[row, live])
        decoded = tuple(found[row, live].tolist())
        torch.testing.assert_close(path_score(crf, emissions[row, live], decoded), scores.max())
        assert decoded == paths[scores.argmax()]


def test_equally_good_sequences():
    crf = LinearChainCRF()
    for parameter in crf.parameters():
        torch.nn.init.zeros_(parameter)
    found = crf.decode(torch.zeros(1, 4, 2), torch.ones(1, 4, dtype=torch.bool))
    assert ((found == 0) | (found == 1)).all()


def test_gradients():
    crf, emissions, chosen, mask = crf_and_batch(3)
    some = [2, 4, 6]  # a gap, a masked first and last position, nothing
    emissions, chosen, mask = emissions[some], chosen[some], mask[some]
    names = [name for name, _ in crf.named_parameters()]

    def called(method, *rest):
        def function(emissions, *values):
            wrapped = _Method(crf, method)
            return torch.func.functional_call(
                wrapped, {f"crf.{n}": v for n, v in zip(names, values, strict=True)}, (emissions, *rest)
            )

        return function

    inputs = (emissions.requires_grad_(), *(parameter.detach().requires_grad_() for parameter in crf.parameters()))
    for function in (called("log_likelihood", chosen, mask), called("marginals", mask)):
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)


class _Method(torch.nn.Module):
    """A method of the CRF as `forward`, which is what functional_call calls."""

    def __init__(self, crf, method):
        super().__init__()
        self.crf, self.method = crf, method

    def forward(self, *values):
        return getattr(self.crf, self.method)(*values)


def test_marginals_are_the_slopes_of_the_partition():
    """log Z is a path's score less its likelihood; its gradient by emissions is the marginals."""
    crf, emissions, chosen, mask = crf_and_batch(3)
    emissions.requires_grad_()
    likelihood = crf.log_likelihood(emissions, chosen, mask).sum()
    (slope,) = torch.autograd.grad(likelihood, emissions)
    taken = torch.nn.functional.one_hot(chosen, 3) * mask[..., None]
    torch.testing.assert_close(taken - slope, crf.marginals(emissions, mask))


def test_rows_alone_and_what_is_masked_do_not_matter():
    crf, emissions, chosen, mask = crf_and_batch(3)
    spoilt = emissions.masked_fill(~mask[..., None], float("nan")).requires_grad_()
    unread = chosen.masked_fill(~mask, -100)
    batched = crf.log_likelihood(spoilt, unread, mask), crf.marginals(spoilt, mask), crf.decode(spoilt, mask)
    for row, live in enumerate(mask):
        if not live.any():
            continue
        alone, whole = emissions[row, live][None], torch.ones(1, int(live.sum()), dtype=torch.bool)
        torch.testing.assert_close(crf.log_likelihood(alone, chosen[row, live][None], whole)[0], batched[0][row])
        torch.testing.assert_close(crf.marginals(alone, whole)[0], batched[1][row, live])
        assert torch.equal(crf.decode(alone, whole)[0], batched[2][row, live])
    batched[0].sum().backward()
    assert (spoilt.grad[~mask] == 0).all()
    assert spoilt.grad.isfinite().all()


def test_rows_without_anything():
    crf = LinearChainCRF()
    emissions, mask = torch.randn(2, 3, 2, requires_grad=True), torch.zeros(2, 3, dtype=torch.bool)
    likelihood = crf.log_likelihood(emissions, torch.zeros(2, 3, dtype=torch.long), mask)
    likelihood.sum().backward()
    assert (likelihood == 0).all()
    assert (emissions.grad == 0).all()
    assert all((parameter.grad == 0).all() for parameter in crf.parameters())
    assert (crf.marginals(emissions, mask) == 0).all()
    assert (crf.decode(emissions, mask) == -1).all()
    assert crf.log_likelihood(emissions[:0], torch.zeros(0, 3, dtype=torch.long), mask[:0]).shape == (0,)


def test_long_rows_stay_finite():
    torch.manual_seed(0)
    crf = LinearChainCRF()
    emissions, mask = 50 * torch.randn(2, 1000, 2), torch.ones(2, 1000, dtype=torch.bool)
    best = crf.decode(emissions, mask)
    likelihood = crf.log_likelihood(emissions, best, mask)
    assert likelihood.isfinite().all()
    assert (likelihood <= 0).all()
    torch.testing.assert_close(crf.marginals(emissions, mask).sum(-1), torch.ones(2, 1000))


def test_starts_near_no_preference():
    assert all(parameter.abs().max() <= 0.1 and parameter.std() > 0 for parameter in LinearChainCRF(4).parameters())


def test_shapes_that_do_not_fit():
    crf, mask = LinearChainCRF(2), torch.ones(1, 4, dtype=torch.bool)
    with pytest.raises(ShapeError, match="2 tags"):
        crf.decode(torch.zeros(1, 4, 3), mask)
    with pytest.raises(ShapeError, match="at least one position"):
        crf.decode(torch.zeros(1, 0, 2), mask[:, :0])
