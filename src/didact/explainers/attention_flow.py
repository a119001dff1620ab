"""Attention flow: the maximum flow from the pooling position to each input token, with attention as capacities."""

from typing import Any, Final, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from didact.core.explainer import Batch, Explainer, Explanation, Target, Teacher
from didact.core.model import require_model
from didact.core.normalise import share_over
from didact.explainers.attention_rollout import residual_attention, start_distribution

Sinks: TypeAlias = Int[np.ndarray, " block"]
Edges: TypeAlias = Bool[np.ndarray, "block middle token token"]
CutSide: TypeAlias = Bool[np.ndarray, "block level token"]
Flows: TypeAlias = Float[np.ndarray, " block"]
TOLERANCE: Final = 1e-9  # largest gap between a flow and the capacity of a cut, which bounds every flow
_MAX_CAPACITY: Final = 2**29  # scipy uses 32-bit integers, and sums both directions of an edge and all blocks
_MAX_NODES: Final = 4096  # in one call of scipy, whose overhead is that of about a thousand nodes
_EDGES_PER_NODE: Final = 4  # strongest edges of each node, in and out, in the initial subgraph
_HUB_SHARE: Final = 0.25  # a start position with this share keeps all its edges


class AttentionFlow(Explainer):
    """Maximum flow to each unit through the layers, whose capacities are those of `AttentionRollout`.

    Abnar and Zuidema (2020). Flow starts at the pooling position; where that is a mixture (mean, span), each position
    can send at most its share. Flows are exact to 1e-9 (see `maximum_flows`).
    """

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        model = require_model(teacher, "attention_flow")
        start = start_distribution(model, batch, target)
        flows = torch.zeros(batch.mask.shape, dtype=torch.float64)
        for rows, matrices in residual_attention(model, batch):
            for row, matrix in zip(rows.tolist(), matrices, strict=True):
                # Each row is cut to its own length, so that no flow passes through padding.
                length = int(batch.lengths[row])
                sinks = batch.units[row].nonzero()[:, 0]
                row_flows = maximum_flows(
                    matrix[:, :length, :length].cpu().double().numpy(),
                    start[row, :length].cpu().double().numpy(),
                    sinks.cpu().numpy(),
                )
                flows[row, sinks.cpu()] = torch.from_numpy(row_flows)
        scores = share_over(flows.to(start), batch.units)
        return Explanation(scores, batch.mask, batch.units, "distribution")


def maximum_flows(
    matrices: Float[np.ndarray, "layer token token"],
    start: Float[np.ndarray, " token"],
    sinks: Int[np.ndarray, " sink"],
) -> Float[np.ndarray, " sink"]:
    """The maximum flow from `start` at the top to each sink at the input, within `TOLERANCE`.

    `matrices` are capacities from the upper token (row) to the lower (column), input layer first; `start` is what
    each top token may send. A flow in a subgraph is a flow in the graph, and a cut of the graph bounds every flow. So
    each sink is solved in a sparse subgraph (its own rows and columns, those of the start, the strongest edges of all
    nodes), and the minimum cut of the subgraph is measured in the whole graph. If the two agree, both are optimal.
    Otherwise edges across the cut are added and the flow is increased, until they agree.

    One call of `scipy.sparse.csgraph.maximum_flow` per sink on the whole graph would be 130 lines shorter, but takes
    1.6 to 1.9 times as long with 12 layers and 64 tokens, 3.7 to 4 times with 128 (1.4 s instead of 0.4 s per row),
    and is only exact to 7e-8.
    """
    return FlowNetwork(matrices, start).flows_to(sinks)


class FlowNetwork:
    """The layers from the top down, and the subgraph of their edges that is in use.

    One call of scipy solves several sinks, each in its own copy of the graph (a block). Blocks share only the source
    and the sink. The nodes of a block are the tokens of every level above the input.
    """

    def __init__(self, matrices: Float[np.ndarray, "layer token token"], start: Float[np.ndarray, " token"]) -> None:
        self.start = start
        self.middle, self.bottom = matrices[:0:-1].copy(), matrices[0]
        self.levels, self.tokens = len(matrices), len(start)
        self.middle[:1, start == 0] = 0.0
        self.used = self._initial_edges()
        self.grown: set[int] = set()  # sinks that needed more than the initial subgraph

    def flows_to(self, sinks: Int[np.ndarray, " sink"]) -> Float[np.ndarray, " sink"]:
        size = max(1, _MAX_NODES // (self.levels * self.tokens))
        groups = [self._solve(sinks[begin : begin + size]) for begin in range(0, len(sinks), size)]
        return np.concatenate([np.zeros(0), *groups])

    def _initial_edges(self) -> Bool[np.ndarray, "middle token token"]:
        """Edges of each token to itself, to and from the start positions, and the strongest edges of each token."""
        used = np.zeros(self.middle.shape, dtype=bool)
        tokens = np.arange(self.tokens)
        used[:, tokens, tokens] = True
        hubs = np.flatnonzero(self.start >= _HUB_SHARE)
        used[:, hubs] = used[:, :, hubs] = True
        weak = self.tokens - min(_EDGES_PER_NODE, self.tokens)
        for axis in (1, 2):
            order = np.argpartition(self.middle, weak, axis=axis)
            np.put_along_axis(used, np.take(order, tokens[weak:], axis=axis), True, axis=axis)
        return used & (self.middle > 0)

    def _solve(self, sinks: Sinks) -> Flows:
        """For each sink the capacity of a cut that a flow attains.

        Capacities are rounded to integers, so the rest is solved again in smaller units: in the residual graph, with
        capacities up to the remaining gap.
        """
        used = np.repeat(self.used[None], len(sinks), axis=0)
        for block, sink in enumerate(sinks):
            used[block, :, sink] = self.middle[:, sink] > 0
            used[block, :, :, sink] = self.middle[:, :, sink] > 0
        graph = self._graph(used) + self._terminal_edges(sinks)
        source, sink = graph.shape[0] - 2, graph.shape[0] - 1
        units, max_edges = _MAX_CAPACITY // len(sinks), 4 * self.tokens
        cuts = np.minimum(self.start.sum(), self.bottom[:, sinks].sum(0))
        flows = np.zeros(len(sinks))
        while (cuts - flows > TOLERANCE).any():
            # A solved sink gets an infinite unit, so that its capacities are 0.
            unit = np.where(cuts - flows > TOLERANCE, (cuts - flows) / units, np.inf)
            edge_unit = unit[self._edge_blocks(graph)]
            capacities = _with_data(graph, np.minimum(graph.data / edge_unit, units).astype(np.int32))
            integer_flow = maximum_flow(capacities, source, sink).flow
            edge_unit = np.where(np.isfinite(unit), unit, 0.0)[self._edge_blocks(integer_flow)]
            flow = _with_data(integer_flow, integer_flow.data * edge_unit)
            leaving = slice(*flow.indptr[source : source + 2])
            flows += np.bincount(self._edge_blocks(flow)[leaving], flow.data[leaving], minlength=len(sinks))
            graph = graph - flow
            graph.data = np.maximum(graph.data, 0.0)
            rounding = np.bincount(self._edge_blocks(graph), minlength=len(sinks)) * unit
            if (cuts - flows > np.maximum(rounding, TOLERANCE)).any():
                sides = self._source_sides(capacities - integer_flow, source, sink)
                cuts = np.minimum(cuts, np.minimum(*(self._cut_capacities(side, sinks) for side in sides)))
                unsolved = np.flatnonzero(cuts - flows > np.maximum(rounding, TOLERANCE))
                missing = self._missing_edges(sides, used, unsolved, max_edges)
                graph = graph + self._graph(missing)
                used |= missing
                self.used |= missing.any(0)  # other sinks often need the same edges
                self.grown.update(sinks[unsolved].tolist())
                max_edges *= 2
        return cuts

    def _graph(self, edges: Edges) -> Any:
        """The marked edges of each block as a sparse matrix. Source and sink are the last two nodes."""
        above, lower = np.divmod(np.flatnonzero(edges), self.tokens)
        capacities = self.middle.reshape(-1, self.tokens)[above % (len(self.middle) * self.tokens), lower]
        # Every block has one more level than middle layers.
        above += above // (len(self.middle) * self.tokens) * self.tokens
        return self._sparse(capacities, above, (above // self.tokens + 1) * self.tokens + lower, len(edges))

    def _terminal_edges(self, sinks: Sinks) -> Any:
        """Edges from the source to the start positions of each block, and from its last level to the sink."""
        blocks = np.arange(len(sinks))[:, None] * self.levels
        tokens = np.arange(self.tokens)
        first, last = (
            (blocks * self.tokens + tokens).ravel(),
            ((blocks + self.levels - 1) * self.tokens + tokens).ravel(),
        )
        source = np.full(len(first), blocks.size * self.levels * self.tokens)
        begin = self._sparse(np.tile(self.start, len(sinks)), source, first, len(sinks))
        return begin + self._sparse(self.bottom[:, sinks].T.ravel(), last, source + 1, len(sinks))

    def _sparse(self, capacities: np.ndarray, upper: np.ndarray, lower: np.ndarray, blocks: int) -> Any:
        nodes = blocks * self.levels * self.tokens + 2
        index = (upper.astype(np.int32), lower.astype(np.int32))
        return csr_array((capacities, index), shape=(nodes, nodes))

    def _edge_blocks(self, graph: Any) -> Int[np.ndarray, " edge"]:
        """The block of each edge: that of its smaller node, because source and sink are the last nodes."""
        upper = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        return np.minimum(upper, graph.indices) // (self.levels * self.tokens)

    def _source_sides(self, residual: Any, source: int, sink: int) -> list[CutSide]:
        """The source side of two minimum cuts: all nodes it still reaches, and all nodes that do not reach the sink.

        No residual path connects two blocks: through the source it would continue to the sink, and no such path is
        left.
        """
        residual.eliminate_zeros()
        near, far = np.zeros(sink + 1, dtype=bool), np.ones(sink + 1, dtype=bool)
        near[breadth_first_order(residual, source, return_predecessors=False)] = True
        far[breadth_first_order(residual.T.tocsr(), sink, return_predecessors=False)] = False
        return [side[:source].reshape(-1, self.levels, self.tokens) for side in (near, far)]

    def _cut_capacities(self, side: CutSide, sinks: Sinks) -> Flows:
        """The capacity of each block's cut in the whole graph."""
        inside, outside = side.astype(np.float64), (~side).astype(np.float64)
        total = outside[:, 0] @ self.start + (inside[:, -1] * self.bottom[:, sinks].T).sum(-1)
        for layer, matrix in enumerate(self.middle):
            total += (inside[:, layer] @ matrix * outside[:, layer + 1]).sum(-1)
        return total

    def _missing_edges(
        self, sides: list[CutSide], used: Edges, blocks: Int[np.ndarray, " chosen"], max_edges: int
    ) -> Edges:
        """The largest unused edges across the cuts of these blocks."""
        missing = np.zeros_like(used)
        for block in blocks:
            for side in (block_sides[block] for block_sides in sides):
                across = side[:-1, :, None] & ~side[1:, None, :] & ~used[block] & (self.middle > 0)
                edges = np.flatnonzero(across)
                if len(edges) > max_edges:
                    sizes = self.middle.reshape(-1)[edges]
                    edges = edges[np.argpartition(sizes, len(edges) - max_edges)[len(edges) - max_edges :]]
                missing[block].reshape(-1)[edges] = True
        return missing


def _with_data(graph: Any, data: np.ndarray) -> Any:
    return csr_array((data, graph.indices, graph.indptr), shape=graph.shape)
