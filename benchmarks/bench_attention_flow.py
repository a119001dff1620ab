"""What exact attention flow costs: against networkx on a short text, and in seconds on a long one. One thread, and
processor time: another process on the same machine changes neither.

Attention is that of MiniLM on an English text if it is installed, and softmax of random logits, flat to peaky. Thin
is the share of tokens whose flow a cut proves maximal in the thin graph, before any edge is added.
"""

import time
from collections.abc import Iterator

import networkx
import numpy as np
import torch

import didact
import didact.errors
from didact.core.row import Row
from didact.explainers.attention_flow import FlowNetwork
from didact.explainers.attention_rollout import residual_attention
from didact.models.build import build_model

TEXT = (
    "The film opens on a quiet street, where a woman we will not meet again waits for a bus that never comes. It is "
    "a small scene, badly lit and almost without sound, and yet everything that follows is already in it. "
)


def random_attention(tokens: int, layers: int, scale: float) -> np.ndarray:
    logits = np.random.default_rng(0).normal(size=(layers, tokens, tokens)) * scale
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return 0.5 * weights / weights.sum(-1, keepdims=True) + 0.5 * np.eye(tokens)


def minilm(tokens: int) -> np.ndarray | None:
    """The capacities of MiniLM's six layers on a text of this many tokens."""
    data = didact.load_data("planted/sentiment", teach=8, explain=1, train=1, dev=1, test=1)
    try:
        model = build_model("minilm", data).eval()
    except didact.errors.MissingExtraError as error:
        print(f"minilm: skipped. {error}")
        return None
    model.truncate, model.max_length = True, tokens
    batch = model.encode([Row("text", (TEXT * (tokens // 30),))])
    ((_, matrices),) = residual_attention(model, batch)
    return matrices[0].double().numpy()


def start_at(kind: str, tokens: int) -> np.ndarray:
    return np.full(tokens, 1 / tokens) if kind == "mean" else np.eye(tokens)[0]


def ours(matrices: np.ndarray, start: np.ndarray) -> tuple[float, np.ndarray, float]:
    began = time.process_time()
    network = FlowNetwork(matrices, start)
    flows = network.flows_to(np.arange(len(start)))
    return time.process_time() - began, flows, 1 - len(network.grown) / len(start)


def by_networkx(matrices: np.ndarray, start: np.ndarray) -> tuple[float, np.ndarray]:
    began = time.process_time()
    graph = networkx.DiGraph()
    for token, capacity in enumerate(start):
        graph.add_edge("source", (len(matrices), token), capacity=capacity)
    for layer, matrix in enumerate(matrices):
        edges = (((layer + 1, i), (layer, j), capacity) for (i, j), capacity in np.ndenumerate(matrix))
        graph.add_weighted_edges_from(edges, weight="capacity")
    flows = [networkx.maximum_flow_value(graph, "source", (0, token)) for token in range(len(start))]
    return time.process_time() - began, np.array(flows)


def short() -> Iterator[str]:
    cases = {f"random, scale {scale}": random_attention(48, 6, scale) for scale in (0.5, 2.0, 5.0)}
    ours(random_attention(4, 2, 1.0), start_at("first", 4))  # what is slow only once: imports
    real = minilm(48)
    if real is not None:
        cases["minilm"] = real
    for name, matrices in cases.items():
        start = start_at("first", 48)
        seconds, flows, thin = ours(matrices, start)
        theirs, expected = by_networkx(matrices, start)
        yield (
            f"48 tokens, 6 layers, {name:18} {seconds:6.3f} s, networkx {theirs:6.1f} s: {theirs / seconds:5.0f} x, "
            f"differs by {abs(flows - expected).max():.0e}, thin {thin:.0%}"
        )


def long() -> Iterator[str]:
    cases = {f"random, scale {scale}": random_attention(512, 12, scale) for scale in (0.5, 2.0, 5.0)}
    real = minilm(512)
    if real is not None:
        cases["minilm"] = real
        cases["minilm, twice"] = np.concatenate([real, real])
    for name, matrices in cases.items():
        for kind in ("first", "mean"):
            seconds, _, thin = ours(matrices, start_at(kind, matrices.shape[1]))
            size = f"{matrices.shape[1]} tokens, {len(matrices):2} layers"
            yield f"{size}, {name:18} from {kind:5} {seconds:6.1f} s, thin {thin:.0%}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in (short, long):
        for line in part():
            print(line, flush=True)
