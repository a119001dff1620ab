"""`compare(measure=…)`: the methods of a comparison by all other measures, kept for its report."""

import json
from dataclasses import replace

import numpy as np
import pytest

import didact
from didact.comparing import evaluation as module
from didact.comparing.evaluation import load_measured
from didact.core.dataset import Split
from didact.errors import PlanError
from didact.evaluation.evaluate import run_evaluation
from didact.results.explanations import Explanations


def documents(found):
    return json.loads((found.folder / "measured.json").read_text())


class TestWhatIsKept:
    @pytest.mark.slow
    def test_every_method_explains_the_same_rows_of_test(self, compare, school):
        _, data = school()
        found = compare(explainers=["gradient_norm", "lime(samples=10)", "smat"], eval_rows=10, seeds=1,
                        training={"epochs": 1, "batch_size": 4})  # fmt: skip
        kept = documents(found)
        labels = [one["label"] for one in kept["methods"]]
        assert labels == ["random", "trivial", "human", "gradient_norm", "lime(samples=10)", "smat", "attention_all"]
        assert [one["is_control"] for one in kept["methods"]] == [True, True, True, False, False, False, True]
        ids = tuple(one["id"] for one in kept["rows"])
        order = [row.id for row in data["test"]]
        assert len(ids) == 10
        assert list(ids) == [one for one in order if one in ids], "in the order of the data"
        assert ids != tuple(order[:10]), "drawn, since some sets are sorted"
        assert all(Explanations.load(found.folder / one["file"]).ids == ids for one in kept["methods"])

    def test_what_is_said_of_a_row(self, compare, school):
        teacher, data = school()
        found = compare(eval_rows=16)
        told = {one["id"]: one for one in documents(found)["rows"]}
        said = teacher.predict(data["test"].rows)
        assert len(told) == 16
        for place, row in enumerate(data["test"]):
            one = told[row.id]
            assert one["gold"] == data.classes[row.label]
            assert one["prediction"] == data.classes[said.labels[place]]
            assert one["is_right"] == (row.label == said.labels[place])
            assert one["sureness"] == pytest.approx(said.probabilities[place].max())
            assert one["rationale"] == [list(span) for span in row.rationale]
            assert one["agreement"] is None, "one method agrees with nobody"

    @pytest.mark.slow
    def test_class_names_of_another_case_and_order(self, compare, school):
        teacher, data = school()
        splits = {
            name: Split(name, [replace(row, label=1 - row.label) for row in rows]) for name, rows in data.splits.items()
        }
        other = replace(data, splits=splits, classes=tuple(name.upper() for name in data.classes[::-1]), all_rows=None)
        found = compare(teacher, other, explainers=["lime(samples=10, target=gold)"], eval_rows=16)
        kept = documents(found)
        rows = {row.id: row for row in data["test"]}
        said = dict(zip(rows, teacher.predict(data["test"].rows).labels, strict=True))
        assert [one["is_right"] for one in kept["rows"]] == [
            rows[one["id"]].label == said[one["id"]] for one in kept["rows"]
        ]
        assert {one["gold"] for one in kept["rows"]} == set(teacher.classes)
        file = next(one["file"] for one in kept["methods"] if one["label"].startswith("lime"))
        targets = Explanations.load(found.folder / file).targets
        assert targets == tuple(data.classes[rows[one["id"]].label] for one in kept["rows"])

    @pytest.mark.slow
    def test_agreement_of_a_row_leaves_controls_out(self, compare):
        found = compare(explainers=["gradient_norm", "occlusion", "gradient_input"], eval_rows=6)
        kept = documents(found)
        own = [found.folder / one["file"] for one in kept["methods"] if not one["is_control"]]
        matrix = didact.agree(own)
        first, second = np.triu_indices(3, 1)
        expected = matrix.values[:, first, second].mean(1)
        np.testing.assert_allclose([one["agreement"] for one in kept["rows"]], expected)

    @pytest.mark.slow
    def test_metrics_are_those_of_evaluate(self, compare, school):
        teacher, data = school()
        kept = documents(compare(eval_rows=8))
        sets = [Explanations.load(compare().folder / one["file"]) for one in kept["methods"]]
        expected = run_evaluation(sets, teacher, data).to_document()
        assert len(kept["metrics"]["rows"]) == len(expected["rows"]) > 40
        for mine, theirs in zip(kept["metrics"]["rows"], expected["rows"], strict=True):
            assert (mine["method"], mine["metric"]) == (theirs["method"], theirs["metric"])
            assert mine["value"] == (None if theirs["value"] is None else pytest.approx(theirs["value"]))

    @pytest.mark.slow
    def test_cost_of_what_explains_by_itself(self, compare):
        kept = documents(compare(explainers=["gradient_norm", "occlusion"], eval_rows=4))
        assert [one["method"] for one in kept["cost"]] == ["gradient_norm", "occlusion"]
        assert kept["cost"][0]["backward"] == 1
        assert kept["cost"][1]["forward"] > 5

    def test_a_regression(self, compare, school):
        teacher, data = school("quality")
        kept = documents(compare(teacher, data, eval_rows=4))
        row = kept["rows"][0]
        assert (row["is_right"], row["sureness"]) == (None, None)
        assert float(row["prediction"]) == pytest.approx(
            teacher.predict([one for one in data["test"] if one.id == row["id"]]).values[0, 0], abs=1e-3
        )

    def test_pictures(self, compare, school):
        from PIL import Image

        teacher, data = school("shapes")
        found = compare(teacher, data, explainers=["gradient_norm"], eval_rows=3)
        rows = documents(found)["rows"]
        by_id = {row.id: row for row in data["test"]}
        for one in rows:
            pixels = np.asarray(Image.open(found.folder / one["picture"]))
            np.testing.assert_array_equal(pixels.reshape(by_id[one["id"]].image.shape), by_id[one["id"]].image)


@pytest.mark.slow
class TestAgain:
    def test_nothing_is_measured_twice(self, compare, monkeypatch):
        first = documents(compare(eval_rows=6))
        monkeypatch.setattr(module, "run_evaluation", lambda *_, **__: pytest.fail("measured again"))
        assert documents(compare(eval_rows=6)) == first

    def test_more_rows_are(self, compare):
        compare(eval_rows=4)
        assert len(documents(compare(eval_rows=6))["rows"]) == 6

    def test_a_damaged_file_is_made_anew(self, compare):
        found = compare(eval_rows=4)
        whole = documents(found)
        (found.folder / "measured.json").write_text("{")
        assert load_measured(found.folder) is None
        again = documents(compare(eval_rows=4))
        assert again["rows"] == whole["rows"]
        assert again["metrics"] == whole["metrics"]

    def test_without_it_nothing_is_kept(self, compare):
        found = compare()
        assert not (found.folder / "measured.json").exists()
        assert "eval_rows = 0" in (found.folder / "plan.toml").read_text()


class TestWhatCannotBeMeasured:
    def test_a_method_without_these_rows_is_told(self, compare, school):
        teacher, data = school()
        train = didact.explain(teacher, data["train"], "occlusion")
        kept = documents(compare(explainers=["gradient_norm", train], eval_rows=4))
        assert [one["label"] for one in kept["skipped"]] == ["occlusion"]
        assert "no explanation" in kept["skipped"][0]["reason"]
        assert "occlusion" not in {one["method"] for one in kept["cost"]}

    def test_rationales_that_are_missing(self, compare, school):
        from dataclasses import replace

        teacher, data = school()
        rows = tuple(replace(row, rationale=None) for row in data["test"])
        bare = replace(data, splits={**data.splits, "test": Split("test", rows)})
        kept = documents(compare(teacher, bare, eval_rows=4))
        assert {one["label"] for one in kept["skipped"]} == {"human"}
        assert "roc_auc" not in {one["metric"] for one in kept["metrics"]["rows"]}
        assert kept["rows"][0]["rationale"] == []

    def test_a_number_that_is_none(self, compare):
        with pytest.raises(PlanError, match="eval_rows: must be an integer from 0 to 10,000,000, got -3"):
            compare(eval_rows=-3)
