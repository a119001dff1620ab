"""Seeds trained together in a comparison: groups that the plan decides, keys of their own, done whole or not at all."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import didact
from didact.errors import OptionError, TrainingError
from didact.experiment import group as module
from didact.experiment.group import BLOCK, run_group
from didact.experiment.plan import make_plan
from didact.records.store import Store
from didact.records.table import read_table

DATA = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"
NATIVE = "native(width=16, layers=1, heads=2)/attention"


def results(folder):
    return (folder / "results.parquet").read_bytes(), (folder / "comparison.json").read_bytes()


def lines(folder):
    table = read_table(folder / "results.parquet").columns
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


@pytest.fixture
def counted(monkeypatch):
    """The keys of the cells that are done together from now on, group by group."""
    found = []

    def watched(cells, classroom):
        found.append([cell.key for cell in cells])
        return run_group(cells, classroom)

    monkeypatch.setattr(module, "run_group", watched)
    return found


class TestAlone:
    def test_keys_are_as_they_were(self, compare, tmp_path):
        """Of a teacher, rows and students that no machine and no training changes. A changed key redoes all runs."""
        data = didact.load_data(DATA)

        def lengths(texts):
            return np.array([[0.7, 0.3] if len(text) % 2 else [0.2, 0.8] for text in texts])

        teacher = didact.teacher_from_function(lengths, classes=list(data.classes))
        compare(teacher, data, ["occlusion"], [NATIVE])
        keys = {(line["explainer"], line["seed"]): line["key"] for line in lines(tmp_path / "run")}
        assert keys["none", 0] == "216f1c0c10297c87"
        assert keys["none", 1] == "9564ca2d5c096700"
        assert keys["occlusion", 0] == "28bb54f58a5fee2e"
        assert keys["trivial", 1] == "f2187a15f67987c9"
        # The manifest describes every cell to the last option.
        assert [one.name for one in (tmp_path / "run" / "classroom").glob("cells-*")] == ["cells-4533e84a9dfc2fe8.json"]
        assert "together" not in (tmp_path / "run" / "plan.toml").read_text()

    def test_is_the_default(self):
        plan = make_plan({"model": "m", "data": DATA, "explainers": ["lime"], "together": True})
        assert plan.together
        assert "together = true" in plan.to_toml()
        assert not make_plan({"model": "m", "data": DATA, "explainers": ["lime"]}).together
        with pytest.raises(didact.errors.PlanError, match="together: true or false"):
            make_plan({"model": "m", "data": DATA, "explainers": ["lime"], "together": 5})


class TestTogether:
    def test_results_are_those_of_one_by_one_under_other_keys(self, compare, tmp_path, counted):
        """Random explanations are redrawn per seed: every seed is sent its own."""
        compare(out=tmp_path / "alone", seeds=3)
        assert not counted
        compare(out=tmp_path / "run", seeds=3, together=True)
        assert sorted(map(len, counted)) == [3] * 5  # none, gradient_norm, random, trivial, human
        alone, together = lines(tmp_path / "alone"), lines(tmp_path / "run")
        assert not {line["key"] for line in alone} & {line["key"] for line in together}
        by_name = {(line["explainer"], line["seed"]): line for line in alone}
        stores = {name: Store(tmp_path / name / "cells") for name in ("alone", "run")}
        for line in together:
            other = by_name[line["explainer"], line["seed"]]
            assert (line["status"], line["epoch"]) == ("done", other["epoch"])
            assert line["value"] == pytest.approx(other["value"], abs=0.07)  # a row on the fence may fall
            mine, theirs = stores["run"].load(line["key"]).payload, stores["alone"].load(other["key"]).payload
            assert mine["epochs"][0]["loss"] == pytest.approx(theirs["epochs"][0]["loss"], abs=1e-5)
            assert mine["epochs"][0]["dev_loss"] == pytest.approx(theirs["epochs"][0]["dev_loss"], abs=1e-5)
            assert line["key"] in mine["cell"]["together"]
            assert "together" not in theirs["cell"]

    @pytest.mark.slow
    def test_the_group_is_part_of_the_key(self, compare, tmp_path):
        compare(out=tmp_path / "two", together=True)
        compare(out=tmp_path / "three", seeds=3, together=True)
        assert not {line["key"] for line in lines(tmp_path / "two")} & {
            line["key"] for line in lines(tmp_path / "three")
        }

    @pytest.mark.slow
    def test_many_seeds_are_cut_into_blocks_by_the_plan(self, compare, counted):
        compare(seeds=BLOCK + 1, together=True, leave_out=["trivial", "human"])
        assert sorted(map(len, counted)) == [1, 1, 1, BLOCK, BLOCK, BLOCK]

    @pytest.mark.slow
    def test_trials_are_chosen_per_seed(self, compare, tmp_path):
        tune = {"temperature": [1.0, 0.25], "beta": [0.0, 5.0]}
        compare(out=tmp_path / "alone", tune=tune, leave_out=["trivial", "human"])
        compare(tune=tune, together=True, leave_out=["trivial", "human"])
        alone = {(one["explainer"], one["seed"]): one for one in lines(tmp_path / "alone")}
        for line in lines(tmp_path / "run"):
            other = alone[line["explainer"], line["seed"]]
            payload = Store(tmp_path / "run" / "cells").load(line["key"]).payload
            theirs = Store(tmp_path / "alone" / "cells").load(other["key"]).payload
            assert [one["options"] for one in payload["trials"]] == [one["options"] for one in theirs["trials"]]
            assert line["dev"] == max(one["dev"] for one in payload["trials"])
            assert [one["dev"] for one in payload["trials"]] == pytest.approx(
                [one["dev"] for one in theirs["trials"]], abs=0.13
            )  # one of eight rows

    @pytest.mark.slow
    def test_who_cannot_is_trained_alone_and_told(self, compare, counted):
        found = compare(students=["same/attention", "same/multitask", "bilstm(width=8)/multitask"], together=True)
        assert not found.failed
        told = "\n".join(found.notes)
        assert "bilstm(width=8)/multitask is trained seed by seed: only the architecture 'native'" in told
        assert "same/multitask is trained seed by seed: of the strategies" in told
        assert "same/attention is trained" not in told
        assert counted

    def test_nobody_who_can_is_refused(self, compare):
        with pytest.raises(OptionError, match=r"no student can be: bilstm\(width=8\)/multitask: only the architecture"):
            compare(students=["bilstm(width=8)/multitask"], together=True)

    @pytest.mark.slow
    def test_a_learned_explainer_is_trained_alone(self, compare, counted):
        found = compare(
            explainers=["smat"], together=True, sizes=[16], training={"epochs": 1, "batch_size": 8},
            leave_out=["trivial", "human", "sharpened", "flattened", "matched"],
        )  # fmt: skip
        assert not found.failed
        assert any("a learned explainer" in note for note in found.notes)
        assert all(len(one) == 2 for one in counted)

    def test_a_seed_that_fails_is_a_record_and_the_others_are_done(self, compare, tmp_path, monkeypatch):
        taught = module.teach_together

        def failing(*args, **options):
            found = taught(*args, **options)
            found.errors[1] = TrainingError("The loss became nan.")
            return found

        monkeypatch.setattr(module, "teach_together", failing)
        found = compare(seeds=3, together=True)
        assert {one["seed"] for one in found.failed} == {1}
        assert {one["error"] for one in found.failed} == {"The loss became nan."}
        assert {line["status"] for line in lines(tmp_path / "run") if line["seed"] != 1} == {"done"}


class TestDoneWhole:
    def test_a_missing_cell_has_its_group_done_again_to_the_same_bytes(self, compare, tmp_path, counted):
        compare(seeds=3, together=True)
        before, groups = results(tmp_path / "run"), list(counted)
        group = groups[1]
        kept = {key: Store(tmp_path / "run" / "cells").load(key).payload["outputs"] for key in group}
        for missing in group:  # whichever a kill left out, the first too
            counted.clear()
            (tmp_path / "run" / "cells" / f"{missing}.json").unlink()
            compare(seeds=3, together=True)
            assert counted == [group]
            assert results(tmp_path / "run") == before
            assert {key: Store(tmp_path / "run" / "cells").load(key).payload["outputs"] for key in group} == kept
        counted.clear()
        compare(seeds=3, together=True)
        assert not counted

    def test_damaged_answers_too(self, compare, tmp_path, counted):
        compare(together=True)
        before, group = results(tmp_path / "run"), counted[0]
        counted.clear()
        path = tmp_path / "run" / "cells" / f"{group[1]}.parquet"
        path.write_bytes(path.read_bytes()[:-20])
        compare(together=True)
        assert counted == [group]
        assert results(tmp_path / "run") == before

    def test_the_first_record_is_written_last(self, compare, monkeypatch):
        order = []
        save = module.save_cell
        monkeypatch.setattr(
            module, "save_cell", lambda store, cell, *rest: order.append(cell) or save(store, cell, *rest)
        )
        compare(seeds=3, together=True, leave_out=["trivial", "human"])
        assert [cell.seed for cell in order] == [2, 1, 0] * 3

    @pytest.mark.slow
    @pytest.mark.timeout(600)
    def test_killed_in_processes_of_its_own(self, folder, tmp_path):
        def command(out, workers):
            options = {
                "model": folder, "data": DATA, "explainers": "gradient_norm,lime(samples=30)", "sizes": "12,20",
                "seeds": 3, "epochs": 40, "workers": workers, "out": out,
            }  # fmt: skip
            flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
            return [sys.executable, "-m", "didact.cli.main", "compare", "--together", *flags]

        subprocess.run(command(tmp_path / "whole", 0), check=True, capture_output=True)
        out = tmp_path / "run"
        for cells in (1, 8):
            run = subprocess.Popen(command(out, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 240
            while time.monotonic() < end and run.poll() is None and len(list(out.glob("cells/*.json"))) < cells:
                time.sleep(0.005)
            assert run.poll() is None, "it was to be killed before its end"
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            assert not (out / "results.parquet").exists()
        # What a kill in the middle of a group leaves.
        first = sorted(out.glob("cells/*.json"))[0]
        first.unlink()
        subprocess.run(command(out, 2), check=True, capture_output=True)
        assert results(out) == results(tmp_path / "whole")


def test_the_command(folder, tmp_path):
    from typer.testing import CliRunner

    from didact.cli.main import app

    asked = [
        "compare", "--model", str(folder), "--data", DATA, "--explainers", "gradient_norm", "--sizes", "12", "--seeds",
        "2", "--epochs", "1", "--workers", "0", "--out", str(tmp_path / "run"), "--together",
    ]  # fmt: skip
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "together = true" in (tmp_path / "run" / "plan.toml").read_text()
