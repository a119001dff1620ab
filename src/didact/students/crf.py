"""A linear-chain conditional random field over unmasked tokens (Lafferty et al. 2001)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from didact.errors import ShapeError


class LinearChainCRF(nn.Module):
    """Exact likelihood, marginals and best path of tags, with learned start, end and transition scores.

    Any positions may be masked. The chain skips them: the tags before and after a gap are neighbours, and emissions and
    tags at masked positions are ignored. Sums are in log space, and the only loop is over steps, up to the longest row.
    Twice differentiable.
    """

    def __init__(self, tags: int = 2) -> None:
        super().__init__()
        self.tags = tags
        self.start = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))  # from row to column

    def log_likelihood(
        self,
        emissions: Float[Tensor, "batch token tag"],
        tags: Int[Tensor, "batch token"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """log p(tags | emissions); 0 for a row without unmasked positions."""
        chain, live, order = self._chain(emissions, mask)
        path = tags.masked_fill(~mask, 0).gather(1, order)
        return torch.where(live[:, 0], self._score(chain, path, live) - self._partition(chain, live), 0)

    def marginals(
        self, emissions: Float[Tensor, "batch token tag"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token tag"]:
        """p(tag of one position | emissions); 0 at masked positions."""
        chain, live, order = self._chain(emissions, mask)
        forward = torch.stack(self._forward(chain, live), 1)
        after = self.end.expand_as(chain[:, 0])
        backward = [after]
        for step in range(chain.shape[1] - 1, 0, -1):
            before = (self.transitions + (chain[:, step] + after)[:, None, :]).logsumexp(2)
            after = torch.where(live[:, step, None], before, after)
            backward.append(after)
        shares = (forward + torch.stack(backward[::-1], 1)).softmax(-1) * live[..., None]
        return torch.zeros_like(emissions).scatter(1, order[..., None].expand_as(shares), shares)

    @torch.no_grad()
    def decode(
        self, emissions: Float[Tensor, "batch token tag"], mask: Bool[Tensor, "batch token"]
    ) -> Int[Tensor, "batch token"]:
        """The most probable tags (Viterbi); −1 at masked positions."""
        chain, live, order = self._chain(emissions, mask)
        best = self.start + chain[:, 0]
        unchanged = torch.arange(self.tags, device=best.device).expand_as(best)
        origins = []
        for step in range(1, chain.shape[1]):
            scores, origin = (best[:, :, None] + self.transitions).max(1)
            best = torch.where(live[:, step, None], scores + chain[:, step], best)
            origins.append(torch.where(live[:, step, None], origin, unchanged))
        path = [(best + self.end).argmax(1)]
        for origin in reversed(origins):
            path.append(origin.gather(1, path[-1][:, None])[:, 0])
        decoded = torch.stack(path[::-1], 1).masked_fill(~live, -1)
        return torch.full_like(mask, -1, dtype=torch.long).scatter(1, order, decoded)

    def _chain(
        self, emissions: Float[Tensor, "batch token tag"], mask: Bool[Tensor, "batch token"]
    ) -> tuple[Float[Tensor, "batch step tag"], Bool[Tensor, "batch step"], Int[Tensor, "batch step"]]:
        """Move unmasked positions to the left: their emissions, which are real, and their original positions."""
        if emissions.shape[-1] != self.tags:
            raise ShapeError(f"This CRF has {self.tags} tags, but the emissions have {emissions.shape[-1]}.")
        if not emissions.shape[1]:
            raise ShapeError("A CRF needs at least one position. Pad and mask rows that have none.")
        longest = max(1, int(mask.sum(1).max())) if len(mask) else 1
        order = (~mask).long().argsort(dim=1, stable=True)[:, :longest]
        # Masked by filling, because 0 times an infinite or undefined emission is not 0.
        filled = emissions.masked_fill(~mask[..., None], 0)
        return filled.gather(1, order[..., None].expand(-1, -1, self.tags)), mask.gather(1, order), order

    def _forward(
        self, chain: Float[Tensor, "batch step tag"], live: Bool[Tensor, "batch step"]
    ) -> list[Float[Tensor, "batch tag"]]:
        """Forward log sums, per step and tag; constant after the end of a row."""
        sums = [self.start + chain[:, 0]]
        for step in range(1, chain.shape[1]):
            longer = (sums[-1][:, :, None] + self.transitions).logsumexp(1) + chain[:, step]
            sums.append(torch.where(live[:, step, None], longer, sums[-1]))
        return sums

    def _partition(
        self, chain: Float[Tensor, "batch step tag"], live: Bool[Tensor, "batch step"]
    ) -> Float[Tensor, " batch"]:
        return (self._forward(chain, live)[-1] + self.end).logsumexp(1)

    def _score(
        self,
        chain: Float[Tensor, "batch step tag"],
        path: Int[Tensor, "batch step"],
        live: Bool[Tensor, "batch step"],
    ) -> Float[Tensor, " batch"]:
        emitted = chain.gather(2, path[..., None])[..., 0] * live
        moved = self.transitions[path[:, :-1], path[:, 1:]] * live[:, 1:]
        last = path.gather(1, (live.sum(1, keepdim=True) - 1).clamp(min=0))[:, 0]
        return self.start[path[:, 0]] + emitted.sum(1) + moved.sum(1) + self.end[last]
