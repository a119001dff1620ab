"""From students' answers to the verdict: how often methods that differ are told apart, and equal ones are.

Reduced from benchmarks/bench_claims.py, whose results lie beside it.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_claims", BENCHMARKS / "bench_claims.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_claims"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["bench_claims"]


def test_three_points_are_told_although_the_intervals_of_the_gains_overlap(bench, tmp_path):
    scores = bench.simulate(np.random.default_rng(0), {"a": 0.18, "b": 0.15})
    found = bench.verdict(scores, tmp_path)
    low, high = (
        next(row for row in json.loads((tmp_path / "comparison.json").read_text())["rows"] if row["explainer"] == name)
        for name in ("a", "b")
    )
    assert low["low"] < high["high"], "by overlap they could not be told apart"
    assert (found.level, found.best) == ("clear", "a")
    assert bench.share(10, {"a": 0.18, "b": 0.15}, seed=5)["clear_and_right"] >= 0.9


def test_equal_methods_are_seldom_told_apart(bench):
    assert bench.share(25, {"a": 0.15, "b": 0.15}, seed=6, rows=300)["clear"] <= 0.15


def test_the_results_that_are_kept_show_it():
    kept = json.loads((BENCHMARKS / "claims.json").read_text())
    different, equal = kept["two methods, 3 points apart"], kept["two equal methods"]
    assert (different["repetitions"], equal["repetitions"]) == (200, 500)
    assert different["clear_and_right"] >= 0.9
    assert equal["clear"] <= 0.08
    assert kept["six equal methods"]["any"] <= 0.08
