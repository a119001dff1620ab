"""Explanations made by hand, for tests that want scores and no model."""

import numpy as np

from didact.results.explanations import Explanations


def maps_of(*rows, method="lime", kind="signed", **changes):
    """Explanations of texts of one-letter words, one list of scores per row."""
    counts = [len(row) for row in rows]
    inside = [place for count in counts for place in range(count)]
    facts = {
        "method": method,
        "kind": kind,
        "options": {},
        "task": "classification",
        "classes": ("no", "yes"),
        "teacher": "t",
        "fingerprints": {"teacher": "ab"},
        "ids": tuple(f"r{number}" for number in range(len(rows))),
        "texts": tuple((" ".join("x" * count),) for count in counts),
        "bounds": np.cumsum([0, *counts]),
        "tokens": ("x",) * sum(counts),
        "segments": np.zeros(sum(counts), dtype=np.int64),
        "word_index": np.array(inside, dtype=np.int64),
        "offsets": np.array([[2 * place, 2 * place + 1] for place in inside], dtype=np.int64).reshape(-1, 2),
        "scores": np.array([score for row in rows for score in row], dtype=float),
        "targets": ("yes",) * len(rows),
        "predictions": ("yes",) * len(rows),
        "residuals": np.full(len(rows), np.nan),
    }
    return Explanations(**(facts | changes))
