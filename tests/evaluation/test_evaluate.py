"""`evaluate`: every metric of every method in one frame, with its control, intervals, tests and reasons."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp

import didact
import teachers
from didact.core.dataset import Dataset, Split
from didact.core.row import Row, Span
from didact.errors import DataError, OptionError
from didact.evaluation.evaluate import run_evaluation
from didact.evaluation.metrics_frame import COLUMNS, metrics_frame
from didact.evaluation.metrics_job import metric_tests
from didact.explaining.explain import explain
from didact.metrics import METRICS, plausibility
from didact.metrics.plausibility import RocAuc


@pytest.fixture
def maps(school):
    teacher, data = school()
    return [explain(teacher, data["test"], method) for method in ("gradient_input", "gradient_norm", "human")]


def test_everything_at_once(school, maps):
    teacher, data = school()
    frame = didact.evaluate(maps, teacher, data)
    assert tuple(frame.columns) == COLUMNS
    default = {name for name, entry in METRICS.items() if entry.is_default}
    assert set(frame["metric"]) == default - {"truth_tau"}  # these data have no true scores
    assert set(frame["method"]) == {"gradient_input", "gradient_norm", "human", "random"}
    table = frame.set_index(["metric", "method"])
    assert table.loc[("roc_auc", "human"), "value"] == 1.0
    assert (table["rows"] + table["skipped"] == len(data["test"])).all()
    known = table[table["rows"] > 0]
    assert (known["low"] <= known["value"]).all()
    assert (known["value"] <= known["high"]).all()
    for metric in set(frame["metric"]):
        for column in ("value", "low", "high"):
            assert table.loc[metric, column].dropna().between(*METRICS[metric].bounds).all(), (metric, column)
    assert table.loc[("log_odds_positive", "gradient_norm"), "rows"] == 0  # it has no signs
    assert table.loc[("log_odds_positive", "random"), "rows"] > 0
    assert frame.attrs["heading"] == "plausibility"  # so small a teacher is not verified
    assert "not verified" in frame.attrs["notes"][-1]


def test_values_are_those_of_the_metric(school, maps):
    _, data = school()
    found = run_evaluation(maps, None, data, metrics="roc_auc", control=False)
    np.testing.assert_array_equal(found.values[0, 0], RocAuc()(maps[0].words(), data["test"].rows))
    assert found.summary()[0]["value"] == pytest.approx(np.nanmean(found.values[0, 0]))


def test_marks_are_found_once_for_all_metrics(school, maps, monkeypatch):
    """Each row of each set is held against its rationale once, and every metric says what it says alone."""
    _, data = school()
    asked = ["roc_auc", "average_precision(signed=true)", "f1(k=2)", "recall(segment=0)", "iou_f1(least=0.3)"]
    alone = [run_evaluation(maps, None, data, metrics=one, control=False).values[0] for one in asked]
    seen = []
    real = plausibility.marks_of
    monkeypatch.setattr(plausibility, "marks_of", lambda one, row: seen.append((one.method, row.id)) or real(one, row))
    together = run_evaluation(maps, None, data, metrics=asked, control=False).values
    np.testing.assert_array_equal(together, alone)
    assert sorted(seen) == sorted((one.method, name) for one in maps for name in one.ids)


def test_tests_between_methods(school, maps):
    teacher, data = school()
    found = run_evaluation(maps, teacher, data, metrics=["roc_auc", "comprehensiveness(k=0.3)"])
    tests = found.tests()
    assert len(tests) == 2 * 6
    assert tests[0]["difference"] == pytest.approx(np.nanmean(found.values[0, 0] - found.values[0, 1]))
    same = run_evaluation([maps[0], replace(maps[0], method="again")], None, data, metrics="roc_auc", control=False)
    assert (same.tests()[0]["p"], same.tests()[0]["claimed"]) == (1.0, False)  # nothing differs
    frame = metrics_frame(found)
    assert len(frame.attrs["tests"]) == len(tests)


def test_rounding_is_no_difference_between_methods():
    values = np.random.default_rng(0).random((2, 12))
    values[1] = np.nextafter(values[0], 2)
    (line,) = metric_tests("m", ("a", "b"), values)
    assert (line["difference"], line["p"], line["claimed"]) == (0.0, 1.0, False)


def test_pairs_of_a_metric_are_one_family_of_claims():
    """Student's t over rows as scipy has it, corrected by Holm; p and interval never contradict each other."""
    values = np.random.default_rng(12).normal(size=(3, 12)) + np.array([0.0, 0.3, 1.6])[:, None]
    values[0, 2] = np.nan
    found = list(metric_tests("m", ("first", "second", "third"), values))
    plain = []
    for one, two in ((0, 1), (0, 2), (1, 2)):
        gaps = values[one] - values[two]
        plain.append(ttest_1samp(gaps[np.isfinite(gaps)], 0).pvalue)
    wanted, most = [0.0] * 3, 0.0
    for step, place in enumerate(np.argsort(plain)):
        most = max(most, min(1.0, (3 - step) * plain[place]))
        wanted[place] = most
    assert [line["p"] for line in found] == pytest.approx(wanted)
    assert [line["rows"] for line in found] == [11, 11, 12]
    for line in found:
        assert line["claimed"] == (line["p"] < 0.05) == (line["low"] > 0 or line["high"] < 0)
    assert {line["claimed"] for line in found} == {True, False}


def test_files_in_another_order(school, maps, tmp_path):
    """Rows are matched by their ids, sets are named by what tells them apart."""
    teacher, data = school()
    shuffled = maps[0].select(np.random.default_rng(0).permutation(len(maps[0])))
    for number, one in enumerate((maps[0], shuffled)):
        one.save(tmp_path / f"set{number}.parquet")
    found = run_evaluation(sorted(tmp_path.glob("*.parquet")), teacher, data, metrics=["roc_auc", "deletion_auc"])
    assert found.methods[0] != found.methods[1]
    np.testing.assert_allclose(found.values[:, 0], found.values[:, 1])


def test_files_of_other_tools(school, maps, tmp_path):
    """They are read onto the data, and measured beside ours."""
    _, data = school()
    didact.write_eraser(maps[0].words(), tmp_path / "theirs.jsonl")
    found = run_evaluation([maps[0], tmp_path / "theirs.jsonl"], None, data["test"], metrics="roc_auc")
    assert found.methods[:2] == ("gradient_input", "theirs")
    np.testing.assert_allclose(found.values[0, 0], found.values[0, 1], atol=1e-9)


def test_random_is_drawn_for_each_row(school, maps):
    _, data = school()
    ask = {"metrics": "roc_auc"}
    whole = run_evaluation(maps[0], None, data, **ask).values[0, 1]
    part = run_evaluation(maps[0].select([3, 5]), None, data, **ask).values[0, 1]
    np.testing.assert_array_equal(whole[[3, 5]], part)
    other = run_evaluation(maps[0], None, data, seed=1, **ask).values[0, 1]
    assert not np.array_equal(whole, other)


def test_what_is_not_given_is_not_measured(school, maps):
    teacher, data = school()
    alone = didact.evaluate(maps)
    assert set(alone["metric"]) == {"iou_lexical"}
    asked = didact.evaluate(maps, teacher)
    assert "roc_auc" not in set(asked["metric"])
    assert "deletion_auc" in set(asked["metric"])
    marked = didact.evaluate(maps, data=data)
    assert "roc_auc" in set(marked["metric"])
    assert "deletion_auc" not in set(marked["metric"])
    rows = didact.evaluate(maps, data=data["test"])
    assert rows.equals(marked)


def test_scores_and_images(school):
    for name, kept, left in (
        ("quality", "aopc_sufficiency", "flip_fraction"),
        ("shapes", "deletion_auc", "iou_lexical"),
    ):
        teacher, data = school(name)
        frame = didact.evaluate(explain(teacher, data["test"], "gradient_input"), teacher, data)
        assert kept in set(frame["metric"])
        assert left not in set(frame["metric"])


def test_black_box(school):
    _, data = school()
    box = teachers.black_box()
    frame = didact.evaluate(explain(box, data["test"][:4], "occlusion"), box, data, metrics=["sufficiency", "roc_auc"])
    assert set(frame["how"]) == {"units are deleted from the text", "words by size"}


def test_words(school, maps):
    teacher, data = school()
    found = run_evaluation(maps[0], teacher, data, metrics="sufficiency", level="word", preset="eraser")
    assert found.how["sufficiency"] == "units are deleted"


def test_stability_and_plausibility_are_of_whole_words():
    """Whatever units are scored: of the pieces of `unbelievable` none is the largest of the first row alone."""
    teacher = teachers.teacher("hf", "classification")
    rows = [Row(name, ("an unbelievable film",), rationale=(Span(0, 3, 15),)) for name in "ab"]
    maps = explain(teacher, rows, "gradient_input")
    scores = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    asked = ["iou_lexical(k=1, side=top)", "roc_auc"]
    found = run_evaluation(replace(maps, scores=scores), data=rows, metrics=asked, control=False)
    assert found.values.tolist() == [[[1.0, 1.0]], [[1.0, 1.0]]]


def test_truth_is_said_only_of_a_verified_teacher(school):
    _, data = school()
    oracle = data.oracle()
    found = run_evaluation(explain(oracle, data["test"], "occlusion"), oracle, data, metrics="roc_auc")
    assert found.heading == "truth"
    assert "the truth about this teacher" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"metrics": "rocauc"}, "roc_auc"),
        ({"metrics": "roc_auc(k=2)"}, "option of roc_auc"),
        ({"metrics": "f1(k=many)"}, "'k' of f1"),
        ({"metrics": "sufficiency"}, "give it"),
        ({"metrics": ["roc_auc", "iou_semantic", "flip_fraction"], "data": None}, "3 of 3 metrics"),
        ({"metrics": []}, "Name at least one metric"),
        ({"replace": "burn", "metrics": "sufficiency", "teacher": True}, "'replace'"),
        ({"replace": "zero", "remove": "mask"}, "now called 'replace'"),
        ({"preset": "lime"}, "preset"),
        ({"preset": "eraser", "replace": "mask"}, "replace=delete"),
        ({"level": "sentence"}, "level"),
    ],
)
def test_wrong_requests(school, maps, options, reason):
    teacher, data = school()
    given = {"data": data} | options | {"teacher": teacher if options.get("teacher") else None}
    with pytest.raises((OptionError, didact.errors.DidactError), match=reason):
        didact.evaluate(maps, **given)


def test_the_old_name_of_replace_is_understood(school, maps):
    teacher, _ = school()
    new, old = (
        didact.evaluate(maps, teacher, metrics="sufficiency", control=False, **{name: "delete"})
        for name in ("replace", "remove")
    )
    assert new.equals(old)
    assert "deleted" in new["how"].iloc[0]


def test_wrong_rows(school, maps):
    _, data = school()
    with pytest.raises(DataError, match="same rows"):
        didact.evaluate([maps[0], maps[1][:3]], data=data)
    with pytest.raises(DataError, match="not in the data"):
        didact.evaluate(maps, data=data["train"])
    moved = replace(data["test"][0], texts=("something else",))
    with pytest.raises(DataError, match="other texts"):
        didact.evaluate(
            maps, data=Dataset("d", data.task, {"test": Split("test", [moved, *data["test"][1:]])}, data.classes)
        )
    with pytest.raises(OptionError, match="nothing to score"):
        didact.evaluate([])
    for given in ([object()], 5, [maps[0], 5]):
        with pytest.raises(OptionError, match="read_explanations"):
            didact.evaluate(given, data=data)


class TestWhatAReaderMustKnow:
    """Figures that would be wrong, or read wrongly, without a word."""

    def test_special_tokens_are_left_out(self, school):
        teacher, data = school()
        rows, ask = (
            data["test"][:6],
            {"metrics": ["roc_auc", "comprehensiveness(k=1)", "iou_lexical"], "control": False},
        )
        plain = run_evaluation(explain(teacher, rows, "gradient_norm"), teacher, data, **ask)
        special = run_evaluation(explain(teacher, rows, "gradient_norm", special=True), teacher, data, **ask)
        np.testing.assert_allclose(plain.values, special.values)
        assert any("special tokens" in note for note in special.notes)

    def test_another_teacher(self, school, maps):
        _, data = school()
        other = school("sentiment")[0]
        from copy import deepcopy

        moved = deepcopy(other)
        with torch.no_grad():
            next(moved.parameters()).add_(1)
        found = run_evaluation(maps[0], moved, data, metrics="sufficiency")
        assert "another teacher" in found.notes[0]

    def test_tokens_without_a_score(self, school, maps):
        teacher, data = school()
        cut = maps[0].select([0])
        last = len(cut[0]) - 2
        cut = replace(
            cut, bounds=np.array([0, last]), tokens=cut.tokens[:last], segments=cut.segments[:last],
            word_index=cut.word_index[:last], offsets=cut.offsets[:last], scores=cut.scores[:last],
        )  # fmt: skip
        found = run_evaluation(cut, teacher, data, metrics=["sufficiency", "roc_auc"])
        assert any("2 tokens" in note for note in found.notes), found.notes

    def test_a_score_has_no_upper_end(self):
        box = didact.teacher_from_function(
            lambda pairs: np.array([[10.0 * sum(len(text.split()) for text in pair)] for pair in pairs]),
            task="regression",
        )
        maps = explain(box, [("one two three", "four five"), ("six seven", "eight")], "occlusion")
        line = run_evaluation(maps, box, metrics="sufficiency(k=1)", control=False).summary()[0]
        assert line["value"] > 1
        assert line["low"] <= line["value"] <= line["high"]

    def test_classes_by_number_and_by_no_name(self, school, maps):
        teacher, data = school()
        ask = {"metrics": "comprehensiveness", "control": False}
        named = run_evaluation(replace(maps[0], targets=(teacher.classes[1],) * len(maps[0])), teacher, data, **ask)
        numbered = run_evaluation(replace(maps[0], targets=("1",) * len(maps[0])), teacher, data, **ask)
        np.testing.assert_array_equal(named.values, numbered.values)
        with pytest.raises(DataError, match="banana"):
            run_evaluation(replace(maps[0], targets=("banana",) * len(maps[0])), teacher, data, **ask)

    def test_class_numbers_of_other_tools_are_the_teachers(self, school, maps, tmp_path):
        """What they call class 1 is its output 1, though the data count otherwise; and that is told."""
        teacher, data = school()
        turned = Dataset(data.name, data.task, {"test": data["test"]}, data.classes[::-1])
        rows = [
            {"id": one.id, "tokens": list(one.tokens), "attributions": one.scores.tolist(), "predictions": [0.0, 1.0]}
            for one in maps[0]
        ]
        (tmp_path / "theirs.jsonl").write_text("\n".join(map(json.dumps, rows)))
        ask = {"metrics": "comprehensiveness", "control": False}
        ours = run_evaluation(replace(maps[0], targets=(teacher.classes[1],) * len(maps[0])), teacher, data, **ask)
        for about, told in ((data, 0), (turned, 1)):
            found = run_evaluation(tmp_path / "theirs.jsonl", teacher, about, **ask)
            np.testing.assert_allclose(found.values, ours.values)
            assert (
                sum("theirs.jsonl: class numbers are read as the teacher's classes" in note for note in found.notes)
                == told
            )

    def test_one_row(self, school, maps):
        _, data = school()
        line = run_evaluation(maps[0][:1], None, data, metrics="roc_auc", control=False).summary()[0]
        assert line["rows"] + line["skipped"] == 1
        assert np.isnan(line["low"])

    def test_the_order_of_sets_changes_nothing(self, school, maps):
        """Neighbours are of the teacher's class, also where a set tells no predictions."""
        teacher, data = school()
        silent = replace(maps[1], predictions=("",) * len(maps[1]))
        ask = {"metrics": "iou_lexical", "control": False}
        first, second = (
            run_evaluation([maps[0], silent], teacher, data, **ask),
            run_evaluation([silent, maps[0]], teacher, data, **ask),
        )
        np.testing.assert_array_equal(first.values[:, ::-1], second.values)

    def test_no_set_is_lost(self, school, maps, tmp_path):
        _, data = school()
        for name, one in (("gradient_norm", maps[0]), ("other", maps[0]), ("third", maps[1])):
            one.save(tmp_path / f"{name}.parquet")
        found = run_evaluation(sorted(tmp_path.glob("*")), None, data, metrics="roc_auc", control=False)
        assert len(found.methods) == 3

    def test_texts_are_data(self, school):
        teacher, data = school()
        texts = [row.texts[0] for row in data["test"][:3]]
        frame = didact.evaluate(explain(teacher, texts, "gradient_input"), teacher, texts, metrics="sufficiency")
        assert len(frame) == 2

    def test_a_file_of_another_tool_wants_data(self, maps, tmp_path):
        didact.write_eraser(maps[0].words(), tmp_path / "theirs.jsonl")
        with pytest.raises(OptionError, match="--data"):
            didact.evaluate(tmp_path / "theirs.jsonl")
        with pytest.raises(OptionError, match="encoder"):
            didact.evaluate(maps[0], metrics="iou_semantic", encoder=3)
