"""Students without attention in a comparison: taught by signed scores, resumed, and the same in workers."""

import pytest

STUDENTS = ("bilstm(width=8)/gradient", "cnn(width=9)/gradient(loss=cosine)", "pool(layers=1, pool=mean)/gradient")


def test_students_without_attention_are_taught_and_resumed(compare, tmp_path):
    found = compare(explainers=["gradient_input"], students=STUDENTS)
    assert not found.failed
    assert {row.student for row in found.rows if row.explainer == "gradient_input"} == set(STUDENTS)
    table = tmp_path / "run" / "results.parquet"
    before = table.read_bytes()
    cells = sorted((tmp_path / "run" / "cells").glob("*.json"))
    times = {path: path.stat().st_mtime_ns for path in cells[1:]}
    cells[0].unlink()
    compare(explainers=["gradient_input"], students=STUDENTS)
    assert table.read_bytes() == before
    assert cells[0].is_file()
    assert {path: path.stat().st_mtime_ns for path in cells[1:]} == times, "nothing else is trained again"


@pytest.mark.slow
def test_workers_give_the_same_bytes(compare, tmp_path):
    for name, workers in (("here", 0), ("there", 1)):
        found = compare(explainers=["gradient_input"], students=STUDENTS[:2], workers=workers, out=tmp_path / name)
        assert not found.failed
    assert (tmp_path / "here" / "results.parquet").read_bytes() == (tmp_path / "there" / "results.parquet").read_bytes()


def test_half_precision_is_refused_before_anything_is_loaded(compare):
    from didact.errors import PlanError

    with pytest.raises(PlanError, match="precision: bilstm/gradient needs second derivatives"):
        compare(students=["bilstm/gradient"], precision="bfloat16")


def test_a_value_that_only_another_strategy_takes_is_a_fault(compare):
    """`signed` is an option of two strategies with other values."""
    from didact.errors import PlanError

    with pytest.raises(PlanError, match="'keep' or 'absolute', got 'split'"):
        compare(students=["bilstm/gradient"], search_space={"signed": ["split"]})
    with pytest.raises(PlanError, match="Option 'signed' of strategy 'attention'"):
        compare(students=["same/attention"], search_space={"signed": ["keep"]})
