"""Keys of cells: whoever resumes a run of an older didact finds its records."""

import numpy as np

import didact
from didact.files.table_io import read_table

DATA = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"
NATIVE = "native(width=16, layers=1, heads=2)/attention"


def test_keys_are_as_they_were(compare, tmp_path):
    """Of a teacher, rows and students that no machine and no training changes. A changed key redoes all runs."""
    data = didact.load_data(DATA)

    def lengths(texts):
        return np.array([[0.7, 0.3] if len(text) % 2 else [0.2, 0.8] for text in texts])

    teacher = didact.teacher_from_function(lengths, classes=list(data.classes))
    compare(teacher, data, ["occlusion"], [NATIVE])
    table = read_table(tmp_path / "run" / "results.parquet").columns
    keys = dict(zip(zip(table["explainer"], table["seed"], strict=True), table["key"], strict=True))
    assert keys["none", 0] == "216f1c0c10297c87"
    assert keys["none", 1] == "9564ca2d5c096700"
    assert keys["occlusion", 0] == "90ecba9048019fd7"  # since it masks (docs/decisions/030-one-perturbation-engine.md)
    assert keys["trivial", 1] == "f2187a15f67987c9"
    # The manifest describes every cell to the last option.
    assert [one.name for one in (tmp_path / "run" / "classroom").glob("cells-*")] == ["cells-d573f7e38defa7c4.json"]


def test_seeds_that_were_to_be_trained_together_are_trained_one_by_one(compare, tmp_path, caplog):
    """The option of an older didact changes no key, no result and no plan."""
    small = {"skip_controls": ["trivial", "human"]}
    compare(out=tmp_path / "plain", **small)
    assert not caplog.text
    compare(out=tmp_path / "run", together=True, **small)
    assert "together is no longer an option" in caplog.text
    for name in ("results.parquet", "comparison.json", "plan.toml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
