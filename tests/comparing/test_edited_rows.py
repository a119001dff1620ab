"""Edited rows in a comparison: who is tested on which, that nothing else changes, and what is refused."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import didact
from didact.comparing import training
from didact.comparing.assemble import assemble
from didact.comparing.cell import load_outputs, run_cell
from didact.comparing.config import CompareConfig
from didact.comparing.costs import Costs, StudentCost
from didact.comparing.forecast import Workload, stages
from didact.comparing.run_inputs import read_rows
from didact.data.subset import draw_subset
from didact.errors import PlanError
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.reports.build import report_sections
from didact.results.comparison import Comparison
from didact.results.edited import EditedResults
from didact.results.training_record import TrainingRecord
from school import planted, taught

TRAINING = {"epochs": 4, "learning_rate": 0.02}
SAME = {"train_sizes": [4, 12], "seeds": 3, "training": TRAINING}
BOTH = {"test_sets": ["new", "edited"], "skip_controls": ["trivial"]}
NATIVE = "native(width=16, layers=1, heads=2)/attention"


def rows_of(folder):
    """The labelled rows of a run with edited rows."""
    (splits,) = [
        splits for path in (folder / "classroom").glob("rows-*") if "edited" in (splits := read_rows(path))
    ]  # fmt: skip
    return splits


def edited_cells(folder):
    """The records of cells with edited rows, and their answers to them, by id."""
    store = Store(folder / "cells")
    test = len(rows_of(folder)["test"])
    for path in sorted((folder / "cells").glob("*.json")):
        record = TrainingRecord.load(store, path.stem)
        if "edited_rows" in record.cell:
            table = load_outputs(store, record).columns
            yield record, dict(zip(table["row"][test:], table["values"][test:], strict=True))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run with edited rows, at two sizes. 5 training rows per student are edited."""
    folder = tmp_path_factory.mktemp("edited") / "run"
    return didact.compare(
        taught("sentiment"), planted("sentiment"), ["gradient_norm"], ["same/attention"], workers=0, eval_rows=0,
         balance=False, out=folder, edited_rows=5, **SAME, **BOTH,
    )  # fmt: skip


class TestWhichRows:
    def test_students_are_tested_on_edits_of_the_first_rows_they_saw(self, run):
        splits, cells = rows_of(run.folder), list(edited_cells(run.folder))
        assert len(cells) == 4 * 2 * 3
        source_of = dict(zip((row.id for row in splits["edited"].rows), splits["edited"].sources, strict=True))
        ids = splits["train"].outputs.ids
        for record, answers in cells:
            seen = [ids[index] for index in draw_subset(ids, size=record.cell["size"], seed=record.cell["seed"])]
            assert {source_of[row_id] for row_id in answers} == set(seen[:5])
            assert len(answers) == 2 * min(5, record.cell["size"])
        assert {source_of[row_id] for _, answers in cells for row_id in answers} == set(source_of.values())

    def test_the_gains_are_means_over_students(self, run):
        """Literally, from the files of the run: per student, then over students; flips and stays count the same."""
        splits = rows_of(run.folder)
        labels = dict(zip(splits["edited"].outputs.ids, splits["edited"].outputs.labels, strict=True))
        source_labels = dict(zip(splits["train"].outputs.ids, splits["train"].outputs.labels, strict=True))
        flips = {
            row.id: labels[row.id] != source_labels[source]
            for row, source in zip(splits["edited"].rows, splits["edited"].sources, strict=True)
        }
        assert (run.edited.flips, run.edited.stays) == (sum(flips.values()), len(flips) - sum(flips.values()))
        means = {}
        for record, answers in edited_cells(run.folder):
            right = {row_id: np.argmax(values) == labels[row_id] for row_id, values in answers.items()}
            by_flip = [[right[row_id] for row_id in right if flips[row_id] == is_flip] for is_flip in (True, False)]
            assert all(by_flip)
            arm = (record.cell["explainer"], record.cell["size"])
            values = [np.mean(group) for group in by_flip]
            means.setdefault(arm, []).append([*values, np.mean(values)])
        for explainer, size in means:
            column = ("same/attention", size)
            for name, value in zip(("flips", "stays", "edited"), np.mean(means[explainer, size], axis=0), strict=True):
                row = run.edited.subset(name).find(explainer, column)
                assert row.mean == pytest.approx(value)
                if explainer != "none":
                    assert row.gain == pytest.approx(value - run.edited.subset(name).find("none", column).mean)
        assert len({tuple(value) for values in means.values() for value in values}) > 4  # students differ

    def test_every_pair_is_contrasted(self, run):
        names = ["none", "random", "human", "gradient_norm"]
        for first, second in combinations(names, 2):
            for subset in ("edited", "flips", "stays"):
                column = ("same/attention", 12)
                contrast = run.edited.contrast(first, second, column, subset)
                rows = [run.edited.subset(subset).find(name, column) for name in (first, second)]
                assert contrast.difference == pytest.approx(rows[0].mean - rows[1].mean)
                assert contrast.seeds == 3


class TestNothingElseChanges:
    def test_results_on_new_rows_are_those_of_a_run_without(self, run, compare):
        plain = compare(**SAME, skip_controls=["trivial"])
        assert plain.edited is None
        assert [dict(row) for row in run.rows] == [dict(row) for row in plain.rows]
        assert "edited" not in plain.to_document()
        assert "test_sets" not in (plain.folder / "plan.toml").read_text()
        tables = [read_table(result.folder / "results.parquet").columns for result in (run, plain)]
        values = [
            sorted(zip(table["explainer"], table["size"], table["seed"], table["value"], strict=True))
            for table in tables
        ]
        assert values[0] == values[1]
        assert not set(tables[0]["key"]) & set(tables[1]["key"])  # an extended run trains again

    def test_a_run_resumes_and_is_stored_whole(self, run, compare, monkeypatch):
        monkeypatch.setattr(training, "run_cell", lambda *_: pytest.fail("a cell was trained again"))
        before = (run.folder / "comparison.json").read_bytes()
        again = compare(**SAME, out=run.folder, edited_rows=5, **BOTH)
        assert (run.folder / "comparison.json").read_bytes() == before
        assert Comparison.load(run.folder).to_document() == again.to_document()

    @pytest.mark.slow
    def test_workers_give_the_same_bytes(self, run, compare):
        other = compare(**SAME, edited_rows=5, workers=2, **BOTH)
        for name in ("comparison.json", "results.parquet"):
            assert (other.folder / name).read_bytes() == (run.folder / name).read_bytes()


class TestWhatIsShown:
    def test_a_second_table_and_a_section(self, run):
        text = run.table()
        first, second = text.split("\n\n", 1) if text.count("\n\n") == 1 else text.split("\n\n\n", 1)
        assert "flips" not in first
        assert second.count("flips") >= 2
        assert f"On {run.edited.flips} the model's answer flips, on {run.edited.stays} it stays." in second
        assert "flips" in run._repr_html_()
        (section,) = [section for section in report_sections(run) if section.id == "edited"]
        for table, column in zip(section.tables, run.columns, strict=True):
            human = next(line for line in table.text_rows if line[0] == "human")
            row = run.edited.subset("flips").find("human", column)
            assert human[2].startswith(run.format.signed(row.gain))

    def test_a_damaged_entry_is_reported(self, run):
        document = json.loads((run.folder / "comparison.json").read_text())
        del document["edited"]["subsets"]["flips"]
        with pytest.raises(KeyError, match="flips"):
            EditedResults.from_document(document["edited"])
        with pytest.raises(didact.errors.OptionError, match="no subset 'swaps'"):
            run.edited.subset("swaps")


class TestFailuresAndForecast:
    def test_a_failed_student_leaves_its_seed_out(self, compare, monkeypatch):
        def broken(cell, run_inputs):
            if cell.explainer == "gradient_norm" and cell.seed == 1:
                raise ValueError("broken")
            return run_cell(cell, run_inputs)

        monkeypatch.setattr(training, "run_cell", broken)
        result = compare(seeds=3, edited_rows=4, **BOTH)
        column = ("same/attention", 12)
        assert len(result.failed) == 1
        assert result.edited.contrast("gradient_norm", "none", column, "stays").seeds == 2
        assert result.edited.contrast("human", "none", column, "stays").seeds == 3

    def test_the_forecast_counts_edited_rows(self):
        config = {"explainers": ["random"], "students": ["same/attention"], "train_sizes": [12], "seeds": 2}
        costs = Costs(1.0, {}, {"same/attention": StudentCost(0.0, 1.0)}, 0.0, 0.0)
        found = []
        for options in ({}, {"test_sets": ["new", "edited"], "edited_rows": 5}):
            plan = CompareConfig(**config, **options)
            setup = assemble(plan, taught("sentiment"), planted("sentiment"), probe=False)
            labelling, *_, students, _report = stages(setup, costs, Workload.of(setup, workers=1, eval_rows=0))
            found.append((labelling.count, students.seconds, students.count))
        assert found[1][0] - found[0][0] == 2 * 5 * 2
        assert found[1][1] - found[0][1] == pytest.approx(2 * 5 * found[0][2])


class TestOwnData:
    def test_word_swaps_of_a_black_box_are_asked_once(self, compare, tmp_path):
        calls = []

        def lengths(texts):
            calls.extend(texts)
            return np.array([[0.7, 0.3] if len(text) % 2 else [0.2, 0.8] for text in texts])

        rows = [f"the {word} film is number {number}" for number, word in enumerate(["good", "bad", "long"] * 20)]
        lines = [f'"{text}",{["yes", "no"][index % 2]}' for index, text in enumerate(rows)]
        (tmp_path / "own.csv").write_text("\n".join(["comment,label", *lines]) + "\n")
        data = didact.load_data(tmp_path / "own.csv", columns={"text": "comment"})
        teacher = didact.teacher_from_function(lengths, classes=["no", "yes"])
        options = {"recheck": 0, "train_sizes": [10], **BOTH}
        result = compare(teacher, data, ["random"], [NATIVE], **options)
        assert result.edited.kind == "swapped"
        texts = {row.texts[0] for row in rows_of(result.folder)["edited"].rows}
        assert texts <= set(calls)
        calls.clear()
        assert compare(teacher, data, ["random"], [NATIVE], **options).to_document() == result.to_document()
        assert not texts & set(calls)

    def test_counterfactual_pairs_and_people_as_teachers(self, compare, tmp_path):
        lines = [f"{n} fine film,yes,{n} poor film,no" if n % 2 else f"{n} poor film,no,," for n in range(60)]
        (tmp_path / "own.csv").write_text("\n".join(["text,label,changed,then", *lines]) + "\n")
        columns = {"revised_text": "changed", "revised_label": "then"}
        data = didact.load_data(tmp_path / "own.csv", columns=columns)
        result = compare("human", data, ["trivial"], [NATIVE], train_sizes=[10], test_sets=["new", "edited"])
        assert (result.edited.kind, result.edited.stays) == ("revised", 0)
        assert result.edited.flips == result.edited.sources > 0
        assert "There are no stays, so there is no mean of the two." in result.table()
        assert result.edited.subset("flips").rows
        assert result.edited.subset("edited").rows == result.edited.subset("stays").rows == ()


class TestRefusals:
    def test_of_options(self):
        with pytest.raises(PlanError, match="test_sets: new rows are always tested. Name new or new,edited."):
            CompareConfig(test_sets=["edited"])
        with pytest.raises(PlanError, match="'editd'"):
            CompareConfig(test_sets=["new", "editd"])
        assert CompareConfig(test_sets=["edited", "new"]).test_sets == ("new", "edited")

    def test_all_at_once(self, compare):
        with pytest.raises(PlanError, match="edited_rows: applies to the test set 'edited' only"):
            compare(edited_rows=5)
        with pytest.raises(PlanError, match="regression, which has no classes"):
            compare(taught("quality"), planted("quality"), students=[NATIVE], **BOTH)
        rows = [f"film {number} is fine" for number in range(60)]
        data = didact.load_data(pd.DataFrame({"text": rows, "label": ["yes", "no"] * 30}))
        with pytest.raises(PlanError, match="answers with labels, and edited rows have none"):
            compare("human", data, ["random"], students=[NATIVE], **BOTH)


def test_an_old_run_opens_without_them(pytestconfig):
    assert Comparison.load(pytestconfig.rootpath / "tests" / "golden" / "old_run").edited is None
