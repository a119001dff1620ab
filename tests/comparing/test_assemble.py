"""Who takes part: what only the loaded teacher and data can refuse is refused at once, and nothing is computed."""

from dataclasses import replace

import numpy as np
import pytest

import tiny
from didact import Explanations, explain
from didact.comparing import runner
from didact.comparing.assemble import assemble
from didact.comparing.config import CompareConfig
from didact.comparing.setup import Setup
from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.data.load import load_data
from didact.errors import DidactError, OptionError, PlanError
from didact.learning.train import train_teacher

SIZES = "teach=40, explain=10, train=30, dev=8, test=16"


@pytest.fixture
def idle(monkeypatch):
    """No cell may be started, and the teacher labels nothing."""
    monkeypatch.setattr(runner.ComparisonRunner, "run", lambda *_: pytest.fail("the work began"))


def letters(texts: list[str]) -> np.ndarray:
    many = np.array([text.count("o") > 4 for text in texts])
    return np.stack([~many, many], 1).astype(float)


def faults(compare, *arguments, **options):
    with pytest.raises(PlanError) as caught:
        compare(*arguments, **options)
    return list(caught.value.faults)


def changed(data: Dataset, **splits) -> Dataset:
    return replace(data, splits={**data.splits, **{name: Split(name, rows) for name, rows in splits.items()}})


@pytest.mark.usefixtures("idle")
class TestFaults:
    def test_of_a_function_are_told_together(self, compare, school):
        _, data = school()
        teacher = FunctionTeacher(letters, ["few", "many"])
        found = faults(
            compare, teacher, data, ["gradient_norm", "attention_all"], ["same/attention", "bilstm/attention"],
            train_sizes=[12, 31, 400],
        )  # fmt: skip
        assert len(found) == 5
        text = "\n".join(found)
        assert "sizes: 400 rows were requested" in text
        assert "has only 30 to draw from" in text
        assert "students: same: Student 'same'" in text
        assert "explainers: gradient_norm:" in text
        assert "explainers: attention_all:" in text
        assert "students: bilstm/attention:" in text

    def test_attention_of_a_student_that_has_none(self, compare, school):
        found = faults(compare, *school(), students=["same/attention", "bilstm/attention", "bilstm/multitask"])
        assert len(found) == 1
        assert "bilstm/attention" in found[0]

    def test_one_fault_is_one(self, compare, school):
        with pytest.raises(PlanError, match="has 1 fault; nothing was computed"):
            compare(*school(), train_sizes=[31])

    def test_another_task(self, compare, school):
        teacher, data = school()[0], school("quality")[1]
        (found,) = faults(compare, teacher, data)
        assert "is regression, but the teacher does classification" in found

    def test_splits_without_rows(self, compare, school):
        teacher, data = school()
        found = faults(compare, teacher, changed(data, dev=(), test=()))
        assert ["'dev'" in found[0], "'test'" in found[1], len(found)] == [True, True, 2]

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_ids_that_are_there_twice(self, compare, school, split):
        teacher, data = school()
        rows = [*data[split][:-1], replace(data[split][-1], id=data[split][-2].id)]
        (found,) = faults(compare, teacher, changed(data, **{split: rows}))
        assert f"two rows in {split!r} share an id" in found

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_empty_texts(self, compare, school, split):
        teacher, data = school()
        rows = [*data[split][:-1], replace(data[split][-1], texts=(" ",))]
        (found,) = faults(compare, teacher, changed(data, **{split: rows}))
        assert f"1 rows in {split!r} have no text" in found

    def test_too_few_test_rows_for_an_interval(self, compare, school):
        teacher, data = school()
        (found,) = faults(compare, teacher, changed(data, test=data["test"][:1]))
        assert "'test' has 1 rows that the teacher can answer, but needs at least 2" in found
        bare = changed(data, dev=[replace(row, label=None) for row in data["dev"]])
        (found,) = faults(compare, "human", bare, ["random"], ["native/attention"])
        assert "'dev' has 0 rows that the teacher can answer" in found

    def test_what_a_made_teacher_cannot_be_asked(self, compare, school):
        with pytest.raises(OptionError, match="length, truncate cannot be changed on a teacher that is already loaded"):
            compare(*school(), length=9, truncate=True)
        with pytest.raises(OptionError, match="^revision cannot be changed"):
            compare(tiny.huggingface("bert", labels=2), school()[1], revision="v2")

    def test_people_where_nobody_marked_anything(self, compare, school):
        teacher, data = school()
        bare = changed(data, train=[replace(row, rationale=None) for row in data["train"]])
        assert "has only 0 to draw from" in faults(compare, teacher, bare, ["human"])[0]

    def test_explanations_that_lack_rows(self, compare, school, tmp_path):
        teacher, data = school()
        few = explain(teacher, data["train"][:10], "gradient_norm")
        few.save(tmp_path / "few.parquet")
        found = faults(compare, teacher, data, [few, str(tmp_path / "few.parquet"), "gradient_norm"])
        assert len(found) == 2
        for fault, name in zip(sorted(found), ("few", "gradient_norm#2"), strict=True):
            assert f"have no explanation in '{name}'" in fault
            assert "Explain the whole split 'train'" in fault

    def test_explanations_of_other_texts(self, compare, school):
        teacher, data = school()
        maps = explain(teacher, data["train"], "gradient_norm")
        other = changed(data, train=[replace(row, texts=(row.texts[0] + " x",)) for row in data["train"]])
        (found,) = faults(compare, teacher, other, [maps])
        assert "explain other texts than the rows have" in found

    def test_a_damaged_file(self, compare, school, tmp_path):
        teacher, data = school()
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
        (found,) = faults(compare, teacher, data, [str(tmp_path / "broken.parquet")])
        assert "explainers: broken:" in found

    def test_images_of_another_grid(self, compare, school):
        found = faults(compare, *school("shapes"), students=["native(patch=16, width=16)/attention"])
        assert found
        assert all("patches, and the student sees" in fault for fault in found)


def assembled(teacher, data, methods=(), **said) -> Setup:
    named = {"model": "m", "data": "planted/sentiment", "train_sizes": [12], "seeds": 2, "students": ["same/attention"]}
    return assemble(CompareConfig.of(named | said), teacher, data, methods)


class TestMethods:
    def test_controls_are_always_there(self, school):
        found = assembled(*school(), explainers=["gradient_norm"])
        assert [one.label for one in found.methods] == ["none", "random", "trivial", "human", "gradient_norm"]
        assert [one.is_control for one in found.methods] == [True] * 4 + [False]
        assert [one.resample_per_seed for one in found.methods] == [False, True, False, False, False]

    def test_controls_asked_for_by_name_are_there_once(self, school):
        found = assembled(*school(), explainers=["human", "random", "none", "lime(samples=5)", "random(seed=3)"])
        labels = [one.label for one in found.methods]
        assert labels == ["none", "trivial", "human", "random", "lime(samples=5)", "random(seed=3)"]
        assert [one.label for one in found.methods if one.is_control] == ["none", "trivial", "human", "random"]
        assert [one.label for one in found.methods if one.resample_per_seed] == ["random"], (
            "a seed that is said is kept"
        )

    def test_rows_that_the_plan_leaves_out_are_told(self, school):
        found = assembled(*school(), explainers=["gradient_norm", "human"], skip_controls=["trivial", "human"])
        assert [one.label for one in found.methods] == ["none", "random", "gradient_norm", "human"]
        assert found.notes == ("Left out by skip_controls: trivial.",), "what is asked for by name stays"

    @pytest.mark.parametrize("name", ["quality", "reading"])
    def test_trivial_needs_classes(self, school, name):
        found = assembled(*school(name), explainers=["gradient_norm"])
        assert [one.label for one in found.methods] == ["none", "random", "human", "gradient_norm"]
        assert len(found.notes) == 1
        assert "'trivial' is left out: it leaks the class" in found.notes[0]

    def test_human_needs_rationales_of_all_rows(self, school):
        teacher, data = school()
        rows = [replace(row, rationale=None) if number < 5 else row for number, row in enumerate(data["train"])]
        some = assembled(teacher, changed(data, train=rows), explainers=["gradient_norm"])
        assert "human" not in [one.label for one in some.methods]
        assert "25 of 30 train rows have a rationale" in "\n".join(some.notes)
        assert len(some.pool) == 30
        asked = assembled(teacher, changed(data, train=rows), explainers=["human"])
        assert len(asked.pool) == 25
        assert "5 of 30 train rows have no rationale: left out" in "\n".join(asked.notes)
        none = assembled(
            teacher, changed(data, train=[replace(row, rationale=None) for row in rows]), explainers=["gradient_norm"]
        )
        assert none.notes == (), "data without rationales are nothing to remark"

    def test_no_two_rows_have_one_name(self, school, tmp_path):
        """A file may be called as it likes: it is neither a control nor another method."""
        teacher, data = school()
        maps = explain(teacher, data["train"], "gradient_norm")
        names = ["a/human", "b/human", "a/gradient_norm", "a/scores", "b/scores"]
        for name in names:
            maps.save(tmp_path / f"{name}.parquet")
        files = [str(tmp_path / f"{name}.parquet") for name in names]
        found = assembled(teacher, data, explainers=[*files, "gradient_norm"], methods=[maps])
        labels = [one.label for one in found.methods]
        assert labels == [
            "none", "random", "trivial", "human", "human#2", "human#3", "gradient_norm#2", "scores", "scores#2",
            "gradient_norm", "gradient_norm#3",
        ]  # fmt: skip
        assert [one.label for one in found.methods if one.is_control] == ["none", "random", "trivial", "human"]

    def test_a_file_called_human_leaves_no_rows_out(self, school, tmp_path):
        teacher, data = school()
        bare = changed(data, train=[replace(row, rationale=None) for row in data["train"]])
        explain(teacher, bare["train"], "gradient_norm").save(tmp_path / "human.parquet")
        found = assembled(teacher, bare, explainers=[str(tmp_path / "human.parquet")])
        assert len(found.pool.rows) == 30

    @pytest.mark.slow
    def test_transformers_is_not_imported_for_a_native_teacher(self):
        """It takes seconds, and a run that is done should say so at once."""
        import subprocess
        import sys

        code = "import sys, didact.comparing.compare; sys.exit('transformers' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_unmarked_methods_are_told_by_their_errors(self, school):
        def broken(model, batch, target):  # noqa: ARG001
            raise DidactError("this explainer is not ready")

        with pytest.raises(PlanError, match="explainers: broken: this explainer is not ready"):
            assembled(*school(), methods=[broken])

    def test_explanations_object(self, school):
        teacher, data = school()
        maps = explain(teacher, data["train"], "gradient_norm")
        assert isinstance(maps, Explanations)
        assert assembled(teacher, data, methods=[maps]).methods[-1].label == "gradient_norm"


def test_a_refused_comparison_leaves_no_folder(compare, school, tmp_path):
    with pytest.raises(PlanError):
        compare(*school(), train_sizes=[31], out=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    (tmp_path / "kept").mkdir()
    with pytest.raises(PlanError):
        compare(*school(), train_sizes=[31], out=tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()


class TestChosenMethods:
    def test_suit_the_teacher(self, school):
        named = {"model": "m", "data": "planted/sentiment"}
        white = assemble(CompareConfig.of(named), *school(), [])
        assert white.config.explainers == (
            "gradient_norm", "attention_all", "gradient_input", "lrp", "occlusion", "integrated_gradients",
        )  # fmt: skip
        black = assemble(CompareConfig.of(named), FunctionTeacher(letters, ["few", "many"]), school()[1], [])
        assert black.config.explainers == ("occlusion", "lime", "kernel_shap", "shapley_sampling")
        assert str(black.students[0]) == "pool/attention"

    def test_what_a_model_cannot_serve_is_left_out_and_said(self):
        data = load_data(f"planted/sentiment({SIZES})")
        teacher = train_teacher(data, "bilstm(width=16)", epochs=1, progress=False)
        found = assemble(CompareConfig.of({"model": "m", "data": "planted/sentiment"}), teacher, data, [])
        assert "attention_all" not in found.config.explainers
        assert any(
            note.startswith("attention_all is left out, since this model does not support it") for note in found.notes
        )

    def test_what_was_asked_for_is_a_fault(self):
        data = load_data(f"planted/sentiment({SIZES})")
        teacher = train_teacher(data, "bilstm(width=16)", epochs=1, progress=False)
        with pytest.raises(PlanError, match="1 fault"):
            assemble(
                CompareConfig.of({"model": "m", "data": "planted/sentiment", "explainers": ["attention_all"]}),
                teacher,
                data,
                [],
            )

    def test_people_have_none(self, school):
        _, data = school()
        with pytest.raises(PlanError) as caught:
            assemble(CompareConfig.of({"model": "human", "data": "planted/sentiment"}), "human", data, [])
        assert "explainers: name at least one" in caught.value.faults[0]

    def test_the_truth_is_a_control_where_it_is_known(self, school):
        named = {"model": "m", "data": "planted/graded", "explainers": ["truth", "occlusion"]}
        data = load_data(f"planted/graded({SIZES})")
        found = assemble(CompareConfig.of(named), data.oracle(), data, [])
        assert found.controls == ["none", "random", "trivial", "human", "truth"]
        with pytest.raises(PlanError) as caught:
            assemble(CompareConfig.of(named), *school(), [])
        (fault,) = caught.value.faults
        assert fault.startswith("explainers: truth: The true scores of 2 of 2 rows are unknown")
        assert "'human'" in fault

    def test_sizes_are_what_there_is(self, school):
        found = assemble(CompareConfig.of({"model": "m", "data": "planted/sentiment"}), *school(), [])
        assert found.config.train_sizes == (30,)
