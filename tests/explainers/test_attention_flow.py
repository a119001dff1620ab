"""Maximum flows against networkx on the same graph, and the parts of the search that could go wrong unseen."""

import networkx
import numpy as np
import pytest
import torch

from didact.core.target import Target
from didact.explainers import attention_flow
from didact.explainers.attention_flow import AttentionFlow, FlowNetwork, maximum_flows
from didact.models.huggingface import HuggingFaceModel
from tiny import huggingface, rows


def attention(tokens: int, layers: int, scale: float, seed: int, *, causal: bool = False) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(layers, tokens, tokens)) * scale
    if causal:
        logits[:, np.triu(np.ones((tokens, tokens), dtype=bool), 1)] = -np.inf
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return 0.5 * weights / weights.sum(-1, keepdims=True) + 0.5 * np.eye(tokens)


def start(kind: str, tokens: int) -> np.ndarray:
    share = np.zeros(tokens)
    if kind == "mean":
        share[:] = 1 / tokens
    elif kind == "span":
        share[[1, tokens - 1]] = 0.5
    else:
        share[0 if kind == "first" else -1] = 1.0
    return share


def by_networkx(matrices: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The graph edge by edge, input layer first, and a maximum flow for each input token."""
    graph = networkx.DiGraph()
    top = len(matrices)
    for token, capacity in enumerate(share):
        graph.add_edge("source", (top, token), capacity=capacity)
    for layer, matrix in enumerate(matrices):
        for upper, row in enumerate(matrix):
            for lower, capacity in enumerate(row):
                graph.add_edge((layer + 1, upper), (layer, lower), capacity=capacity)
    return np.array([networkx.maximum_flow_value(graph, "source", (0, token)) for token in range(len(share))])


@pytest.mark.parametrize("kind", ["first", "last", "mean", "span"])
@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0, 10.0])
@pytest.mark.parametrize(("tokens", "layers"), [(3, 1), (8, 2), (6, 3), (8, 4)])
def test_equals_networkx(tokens, layers, scale, kind):
    matrices = attention(tokens, layers, scale, seed=tokens + int(scale), causal=kind == "last")
    flows = maximum_flows(matrices, start(kind, tokens), np.arange(tokens))
    np.testing.assert_allclose(flows, by_networkx(matrices, start(kind, tokens)), atol=1e-8, rtol=0)


@pytest.mark.parametrize("nodes", [1, 4096])
@pytest.mark.parametrize(("seed", "kind"), [(0, "first"), (1, "span"), (2, "mean")])
def test_a_graph_too_thin_grows_until_a_cut_proves_it(seed, kind, nodes, monkeypatch):
    """Only diagonals and the sink's own edges at first: most flows need more. Sinks alone, and all in one graph."""
    monkeypatch.setattr(attention_flow, "_MAX_NODES", nodes)
    monkeypatch.setattr(attention_flow, "_EDGES_PER_NODE", 1)
    monkeypatch.setattr(attention_flow, "_HUB_SHARE", 2.0)
    matrices = attention(14, 4, 6.0, seed)
    network = FlowNetwork(matrices, start(kind, 14))
    flows = network.flows_to(np.arange(14))
    assert len(network.grown) > 3
    np.testing.assert_allclose(flows, by_networkx(matrices, start(kind, 14)), atol=1e-8, rtol=0)


def test_flow_is_finer_than_the_integers_it_is_counted_in(monkeypatch):
    """With a thousand units for each sink, the first flow alone would be wrong in the third digit."""
    monkeypatch.setattr(attention_flow, "_MAX_CAPACITY", 2**13)
    matrices = attention(8, 3, 3.0, 0)
    flows = maximum_flows(matrices, start("first", 8), np.arange(8))
    np.testing.assert_allclose(flows, by_networkx(matrices, start("first", 8)), atol=1e-8, rtol=0)


def test_two_layers_in_closed_form():
    """Through two layers every path has a middle of its own: the smaller of its two edges."""
    matrices = attention(7, 2, 2.0, 3)
    expected = np.minimum(matrices[1, 0][:, None], matrices[0]).sum(0)
    np.testing.assert_allclose(maximum_flows(matrices, start("first", 7), np.arange(7)), expected, atol=1e-9, rtol=0)


def test_leaves_its_matrices_alone():
    matrices = attention(5, 2, 2.0, 0)
    before = matrices.copy()
    assert maximum_flows(matrices, start("first", 5), np.array([3, 1])).shape == (2,)
    assert np.array_equal(matrices, before)


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForQuestionAnswering"])
def test_scores_of_a_model(head):
    is_reading = head == "ForQuestionAnswering"
    model = HuggingFaceModel(*huggingface("bert", head, labels=2)).double().eval()
    batch = model.encode(rows(2 if is_reading else 1))
    with torch.no_grad():
        trace = model(batch, listen=["full"])
    target = Target.predicted(model.task, trace.logits)
    scores = AttentionFlow()(model, batch, target).scores
    for row in range(len(batch)):
        length, units = int(batch.lengths[row]), batch.units[row].numpy()
        weights = trace.full[row, :, :, :length, :length].softmax(-1).mean(1).numpy()
        share = start("first", length)
        if is_reading:
            share = np.zeros(length)
            share[target.first[row]] += 0.5
            share[target.second[row]] += 0.5
        flows = by_networkx(0.5 * weights + 0.5 * np.eye(length), share)[units[:length]]
        np.testing.assert_allclose(scores[row].numpy()[units], flows / flows.sum(), atol=1e-8, rtol=0)
        assert (scores[row].numpy()[~units] == 0).all()
