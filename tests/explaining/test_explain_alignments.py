"""Aligned spans from the rows to the file, by one call."""

from dataclasses import replace

import pytest

from didact.core.row import Span
from didact.explaining.explain import explain
from didact.results.explanations import Explanations
from teachers import examples, teacher

PAIRS = {"p0": ((Span(0, 4, 9), Span(1, 25, 30)),), "p2": ((Span(0, 12, 16), Span(1, 9, 13)),)}


def rows():
    return [replace(row, alignments=PAIRS.get(row.id)) for row in examples("reading")]


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("level", ["token", "word"])
def test_people(tmp_path, batch_size, level):
    """Also where a batch holds no row that anybody aligned."""
    path = tmp_path / "maps.parquet"
    maps = explain(teacher("hf", "reading"), rows(), "human", batch_size=batch_size, level=level, out=path)
    assert maps.alignments == (PAIRS["p0"], (), PAIRS["p2"])
    assert Explanations.load(path).alignments == maps.alignments
    assert maps.options["noise"] == 0.0
    assert (maps[0].texts[0][4:9], maps[0].texts[1][25:30]) == ("sings", "sings")


@pytest.mark.parametrize("method", ["random", "attention_alignment", "human(noise=0.5, how=swap)"])
def test_batches_decide_nothing(method):
    found = [explain(teacher("hf", "reading"), rows(), method, batch_size=size, seed=3) for size in (1, 3)]
    assert found[0].alignments == found[1].alignments
    assert any(found[0].alignments)


def test_other_methods_and_tasks_align_nothing():
    assert explain(teacher("hf", "reading"), rows(), "gradient_norm").alignments is None
    assert explain(teacher("hf", "reading"), examples("reading"), "human").alignments is None
    assert explain(teacher("hf", "pair"), examples("pair"), "random").alignments is None
