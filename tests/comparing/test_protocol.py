"""The protocol: paired and nested subsets, no gold labels, fair controls, equal tuning; explanations computed once."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import tiny
from didact import Explanations, explain
from didact.comparing import cell as cells_module
from didact.comparing import runner, training
from didact.comparing.cell import Cell, run_cell
from didact.comparing.run_inputs import RunInputs, read_rows
from didact.comparing.training import TrainingStage
from didact.core.dataset import Dataset, Split
from didact.core.explanation import Explanation
from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.task import CLASSIFICATION
from didact.data.subset import subset
from didact.explaining import cache
from didact.explaining.dataset import DatasetJob
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.registry import Spec


@pytest.fixture
def planned(monkeypatch):
    """The cells of every run, as they were planned."""
    found = []
    plain = runner.build_grid

    def recorded(*given):
        grid = plain(*given)
        found.append(list(grid.cells))
        return grid

    monkeypatch.setattr(runner, "build_grid", recorded)
    return found


@pytest.fixture
def done(monkeypatch):
    """The cells that were really done."""
    found = []

    def counted(cell, run_inputs):
        found.append(cell)
        return run_cell(cell, run_inputs)

    monkeypatch.setattr(training, "run_cell", counted)
    return found


@pytest.fixture
def asked(monkeypatch):
    """How many rows each method explained, for the run and not for the check before it."""
    found = Counter()

    def counted(job, rows, outputs):
        drawn = {"seed": job.method.options["seed"]} if job.method.name == "random" else {}
        found[str(Spec(job.method.name, drawn))] += len(rows)
        return DatasetJob(job, rows, outputs)

    monkeypatch.setattr(cache, "DatasetJob", counted)
    return found


class TestSubsets:
    ids = tuple(f"r{number}" for number in range(200))

    def test_larger_ones_hold_the_smaller_ones(self):
        small, large = (subset(self.ids, size=size, seed=3) for size in (20, 50))
        assert large[:20].tolist() == small.tolist()
        assert len(set(large.tolist())) == 50

    def test_do_not_depend_on_the_order_of_the_rows(self):
        order = np.random.default_rng(0).permutation(200)
        mixed = [self.ids[place] for place in order]
        found = [mixed[place] for place in subset(mixed, size=30, seed=1)]
        assert found == [self.ids[place] for place in subset(self.ids, size=30, seed=1)]

    def test_another_seed_is_another_draw(self):
        first, second = (set(subset(self.ids, size=100, seed=seed).tolist()) for seed in (0, 1))
        assert 25 < len(first & second) < 75

    def test_rows_beside_do_not_matter(self):
        """What is drawn from the rows in use is what was drawn from all rows."""
        whole = [self.ids[place] for place in subset(self.ids, size=30, seed=1)]
        fewer = sorted({*whole, *self.ids[:50]})
        assert [fewer[place] for place in subset(fewer, size=30, seed=1)] == whole

    def test_every_explainer_teaches_with_the_same_rows(self, compare, monkeypatch):
        seen = {}
        plain = cells_module.teach

        def watched(student, strategy, maps, train, dev, training, **options):
            seen.setdefault((training.seed, len(train)), []).append([row.id for row in train.rows])
            if maps is not None:
                assert list(maps.ids) == [row.id for row in train.rows]
            return plain(student, strategy, maps, train, dev, training, **options)

        monkeypatch.setattr(cells_module, "teach", watched)
        compare(train_sizes=[8, 12], seeds=[3])
        assert set(seen) == {(3, 8), (3, 12)}
        for rows in seen.values():
            assert len(rows) == 5
            assert all(one == rows[0] for one in rows)
        assert seen[3, 12][0][:8] == seen[3, 8][0]


class TestWhatStudentsSee:
    def test_no_gold_labels_and_no_rationales(self, compare, school, tmp_path):
        teacher, data = school()
        compare(seeds=1)
        (path,) = (tmp_path / "run" / "classroom").glob("rows-*.parquet")
        splits = read_rows(path)
        assert set(splits) == {"train", "dev", "test"}
        for split in splits.values():
            assert all((row.label, row.rationale, row.alignments) == (None, None, None) for row in split.rows)
        assert not {"label", "rationale", "gold"} & set(read_table(path).columns)
        answers = teacher.predict(data["test"].rows)
        np.testing.assert_allclose(splits["test"].outputs.values, answers.values, atol=1e-6)

    def test_the_teachers_labels_and_not_the_datas(self, compare, school):
        """Gold labels turned round change no result but the keys."""
        teacher, data = school()
        splits = {name: [replace(row, label=1 - row.label) for row in split] for name, split in data.items()}
        turned = replace(data, splits={name: Split(name, rows) for name, rows in splits.items()})
        first, second = compare(teacher, data, out=None, seeds=1), compare(teacher, turned, out=None, seeds=1)
        assert first.rows == second.rows

    def test_people_as_teachers_are_the_exception(self, compare, school, tmp_path):
        _, data = school()
        result = compare("human", data, ["human"], ["native(width=16, layers=1, heads=2)/attention"])
        assert result.explainers == ["none", "random", "trivial", "human"]
        (path,) = (tmp_path / "run" / "classroom").glob("rows-*.parquet")
        gold = [row.label for row in data["test"]]
        assert read_rows(path)["test"].outputs.labels.tolist() == gold

    def test_rows_that_people_did_not_label_are_left_out(self, compare, school):
        _, data = school()
        rows = [replace(row, label=None) if number < 3 else row for number, row in enumerate(data["test"])]
        some = replace(data, splits={**data.splits, "test": Split("test", rows)})
        result = compare("human", some, ["human"], ["pool(width=16)/attention"])
        assert {row["test_rows"] for row in result.rows} == {len(rows) - 3}


class TestControls:
    def test_are_always_in_the_table(self, compare):
        result = compare()
        assert result.explainers == ["none", "random", "trivial", "human", "gradient_norm"]
        assert all(row["seeds"] == 2 for row in result.rows)

    def test_random_is_drawn_anew_for_each_seed(self, compare, planned, tmp_path):
        compare(seeds=3)
        (cells,) = planned
        maps = {name: {cell.maps for cell in cells if cell.explainer == name} for name in ("random", "human")}
        assert (len(maps["random"]), len(maps["human"])) == (3, 1)
        kept = [Explanations.load(tmp_path / "run" / "explanations" / name) for name in sorted(maps["random"])]
        assert sorted(one.options["seed"] for one in kept) == [0, 1, 2]
        assert all(len(one) == 12 for one in kept), "only the rows of that seed"

    def test_none_is_shared_between_strategies(self, compare, planned, done):
        result = compare(students=["same/attention", "same/multitask", "same/none"], seeds=1)
        keys = {cell.student: cell.key for cell in planned[0] if cell.explainer == "none"}
        assert len(keys) == 3
        assert len(set(keys.values())) == 1
        assert len(done) == 1 + 2 * 4
        assert result.row("none", "same/attention")["mean"] == result.row("none", "same/multitask")["mean"]
        assert [row["explainer"] for row in result.rows if row["student"] == "same/none"] == ["none"]

    def test_other_optimisers_have_their_own(self, compare, planned):
        compare(students=["same/attention", "same/attention@sgd"], seeds=1)
        assert len({cell.key for cell in planned[0] if cell.explainer == "none"}) == 2


class TestExplanationsAreComputedOnce:
    def test_also_when_nothing_is_left_to_do(self, compare, asked, done):
        compare(students=["same/attention", "pool(width=16)/none"])
        first = dict(asked)
        assert first["gradient_norm"] == first["human"] <= 24
        assert first["random(seed=0)"] == first["random(seed=1)"] == 12
        asked.clear()
        done.clear()
        compare(students=["same/attention", "pool(width=16)/none"])
        assert (dict(asked), done) == ({}, [])

    def test_a_plan_that_grows_explains_what_it_adds(self, compare, asked, done, school):
        _, data = school()
        first = compare(seeds=1)
        assert asked["gradient_norm"] == 12
        asked.clear()
        done.clear()
        second = compare(seeds=2, train_sizes=[12, 14])
        used = {row for seed in range(2) for row in subset(data["train"].ids, size=14, seed=seed).tolist()}
        old = set(subset(data["train"].ids, size=12, seed=0).tolist())
        assert asked["gradient_norm"] == len(used - old)
        assert asked["random(seed=0)"] == 2
        assert len(done) == 5 * (2 * 2 - 1), "the first seed's cells are kept"
        assert first.scores["gradient_norm", "same/attention", 12][0].tolist() == (
            second.scores["gradient_norm", "same/attention", 12][0].tolist()
        )

    def test_explanations_are_those_of_the_method(self, compare, school, tmp_path):
        teacher, data = school()
        compare(seeds=1)
        compare(seeds=2)
        paths = sorted((tmp_path / "run" / "explanations").glob("gradient_norm-*.parquet"))
        maps = max((Explanations.load(path) for path in paths), key=len)
        alone = explain(teacher, [row for row in data["train"] if row.id in maps.ids], "gradient_norm")
        assert maps.ids == alone.ids
        np.testing.assert_allclose(maps.scores, alone.scores, rtol=1e-4)

    def test_given_explanations_keep_their_key_when_a_plan_grows(self, compare, school, done):
        teacher, data = school()
        maps = explain(teacher, data["train"], "gradient_norm")
        compare(teacher, data, [maps], seeds=1)
        done.clear()
        compare(teacher, data, [maps], seeds=2)
        assert {cell.seed for cell in done} == {1}

    def test_a_damaged_file_is_computed_anew(self, compare, asked, tmp_path):
        first = compare(seeds=1)
        (path,) = (tmp_path / "run" / "explanations").glob("gradient_norm-*.parquet")
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        asked.clear()
        assert compare(seeds=1).rows == first.rows
        assert set(asked) == {"gradient_norm"}
        assert path.read_bytes() == content


class TestTuning:
    def test_everybody_gets_as_many_trials(self, compare, planned, tmp_path):
        compare(search_space={"temperature": [1.0, 0.25], "beta": [1.0, 5.0]}, seeds=1)
        store = Store(tmp_path / "run" / "cells")
        for cell in planned[0]:
            payload = store.load(cell.key).payload
            assert len(payload["trials"]) == 4, cell.explainer
            found = [np.nan_to_num(one["dev"] or 0.0) for one in payload["trials"]]
            assert payload["dev"] == found[payload["trial"]] == max(found)
            wanted = {"start"} if cell.explainer == "none" else {"temperature", "beta"}
            assert all(set(one["options"]) == wanted for one in payload["trials"])

    def test_the_best_on_dev_is_chosen(self, compare, planned, tmp_path, monkeypatch):
        """The second of three trials is made the best; of equals the lower loss wins."""
        history = cells_module.best_epoch
        numbers = iter([0.2, 0.9, 0.4] * 100)

        def ranked(epochs):
            return replace(history(epochs), dev_measure=next(numbers))

        monkeypatch.setattr(cells_module, "best_epoch", ranked)
        compare(search_space={"beta": [1.0, 2.0, 3.0]}, seeds=1)
        store = Store(tmp_path / "run" / "cells")
        assert {store.load(cell.key).payload["trial"] for cell in planned[0]} == {1}

    def test_trials_of_none_start_from_other_weights(self, compare, monkeypatch):
        seeds = []
        plain = cells_module.seed_from
        monkeypatch.setattr(cells_module, "seed_from", lambda *parts: seeds.append(parts) or plain(*parts))
        compare(search_space={"beta": [1.0, 2.0]}, seeds=1)
        assert seeds[:2] == [(0, "student"), (0, "student", 1)]
        assert set(seeds[2:]) == {(0, "student")}


def letters(texts: list[str]) -> np.ndarray:
    many = np.array([sum(map(text.count, "aeo")) % 5 for text in texts]) / 5
    return np.stack([1 - many, many], 1)


class TestWhoCanBeCompared:
    @pytest.mark.parametrize("name", ["sentiment", "inference", "quality", "reading", "shapes"])
    def test_every_task(self, compare, school, name):
        result = compare(*school(name), seeds=1, soft=name in ("inference", "shapes"))
        assert not result.failed
        assert {"none", "random", "human", "gradient_norm"} <= set(result.explainers)
        assert all(row["mean"] is not None and np.isfinite(row["mean"]) for row in result.rows)

    def test_a_function_is_asked_once_about_each_row(self, compare, school):
        """Its answers may cost money."""
        _, data = school()
        asked = []

        def predict(texts):
            asked.extend(texts)
            chance = np.array([0.9 if "o" in text[:9] else 0.2 for text in texts])
            return np.stack([1 - chance, chance], 1)

        def even(_, batch, __):
            return Explanation(batch.units.double(), batch.mask, batch.units, "magnitude")

        teacher = FunctionTeacher(predict, list(data.classes))
        compare(teacher, data, [even], ["native(width=16, layers=1, heads=2)/attention"])
        times = Counter(asked)
        assert {times[row.texts[0]] for name in ("dev", "test") for row in data[name]} == {1}
        assert set(times.values()) == {1}

    def test_a_function(self, compare, school):
        teacher = FunctionTeacher(letters, ["few", "many"])
        result = compare(teacher, school()[1], ["occlusion"], ["bilstm_attention(width=8)/attention"], seeds=1)
        assert result.explainers == ["none", "random", "trivial", "human", "occlusion"]
        assert result.about["teacher"] == "letters"

    def test_the_units_of_a_score_do_not_matter(self, compare, school, tmp_path):
        """Pearson's r has none; what students learn by squared errors must not have them either."""
        _, data = school("quality")

        def rated(by: float, more: float):
            def score(pairs: list[tuple[str, str]]) -> np.ndarray:
                return np.array([[by * (len(second) - len(first)) / 10 + more] for first, second in pairs])

            return FunctionTeacher(score, task="regression")

        first, second = (
            compare(rated(*units), data, ["random"], ["native(width=16, heads=2)/attention"], out=tmp_path / name)
            for name, units in {"plain": (1.0, 0.0), "hundreds": (100.0, 1000.0)}.items()
        )
        for one, other in zip(first.rows, second.rows, strict=True):
            assert one["mean"] == pytest.approx(other["mean"], abs=1e-3)
        answers = [run.scores["none", first.columns[0][0], 12][0] for run in (first, second)]
        np.testing.assert_allclose(100 * answers[0] + 1000, answers[1], rtol=1e-3)

    def test_the_rules_of_planted_reading(self, compare, school):
        """A teacher that is no model, no function and no people: it answers in spans, and has no logits."""
        _, data = school("reading")
        student = "native(width=16, layers=1, heads=2)/attention"
        result = compare(data.oracle(), data, ["random(seed=1)"], [student], seeds=1)
        assert not result.failed
        assert result.explainers == ["none", "random", "human", "random(seed=1)"]

    def test_the_default_student_of_a_function(self, compare, school):
        result = compare(FunctionTeacher(letters, ["few", "many"]), school()[1], ["random"], None, seeds=1)
        assert {row["student"] for row in result.rows} == {"pool/attention"}

    @pytest.mark.parametrize(
        "student", ["bilstm(width=8)/multitask", "bilstm_attention(width=8)/attention", "pool(width=8)/attention"]
    )
    def test_small_students(self, compare, student):
        result = compare(students=[student], seeds=1)
        assert result.columns == [(student, 12)]
        assert not result.failed

    def test_aligned_spans(self, compare, school):
        methods = ["human", "attention_alignment", "gradient_norm"]
        result = compare(*school("reading"), methods, ["same/alignment"], seeds=1)
        assert not result.failed
        assert {"none", "human", "attention_alignment"} <= set(result.explainers)
        assert "gradient_norm" not in result.explainers
        assert "needs aligned spans and is left out for methods without them: gradient_norm" in "\n".join(result.notes)

    def test_explanations_files_and_callables(self, compare, school, tmp_path):
        """The same scores teach the same, however they are handed over."""
        teacher, data = school()
        maps = explain(teacher, data["train"], "gradient_norm")
        maps.save(tmp_path / "own.parquet")
        own = _as_callable("gradient_norm")
        result = compare(teacher, data, ["gradient_norm", maps, tmp_path / "own.parquet", own], seeds=1)
        names = ["gradient_norm", "own", "gradient_norm#2", "by_hand"]
        assert sorted(result.explainers[4:]) == sorted(names)
        for name in names[1:]:
            np.testing.assert_array_equal(
                result.scores[name, "same/attention", 12][0], result.scores["gradient_norm", "same/attention", 12][0]
            )
        text = (result.folder / "plan.toml").read_text()
        assert "also compared, as objects: gradient_norm#2, by_hand" in text

    def test_a_word_piece_teacher_with_a_word_student(self, compare):
        model, tokenizer = tiny.huggingface("bert", labels=2, id2label={0: "no", 1: "yes"})
        words = ["unbelievable film", "a good unbelievable plot", "bad music", "the plot is not very good"]
        rows = {
            name: [replace(tiny.rows()[0], id=f"{name}{n}", texts=(f"{words[n % 4]} {words[(n + 1) % 3]} {'a ' * n}",))
                   for n in range(count)]
            for name, count in (("train", 14), ("dev", 6), ("test", 9))
        }  # fmt: skip
        data = Dataset("own", CLASSIFICATION, {n: Split(n, part) for n, part in rows.items()}, ("no", "yes"))
        student = "bilstm_attention(width=8)/attention"
        result = compare((model, tokenizer), data, ["gradient_norm"], [student, "same/attention"], seeds=1)
        assert not result.failed
        assert len(result.columns) == 2
        assert result.explainers == ["none", "random", "trivial", "gradient_norm"]


def _as_callable(method):
    from didact.explainers.build import build_explainer

    explainer = build_explainer(method).explainer

    def by_hand(model, batch, target) -> Explanation:
        return explainer(model, batch, target)

    return by_hand


KEYS = {
    "explainer option": {"explainers": ["lime(samples=9)"]},
    "strategy option": {"students": ["same/attention(beta=2)"]},
    "architecture": {"students": ["pool(width=8)/attention"]},
    "optimiser": {"students": ["same/attention@sgd"]},
    "training": {"training": {"epochs": 2}},
    "size": {"train_sizes": [11]},
    "seed": {"seeds": [7]},
    "threads": {"threads": 2},
    "soft": {"soft": True},
    "tune": {"tune": {"beta": [1.0, 2.0]}},
}


class TestKeys:
    def keys(self, compare, monkeypatch, *arguments, **options) -> dict[str, str]:
        """The keys of a plan's cells by explainer; nothing is taught."""
        found = {}

        def planned(self, cells, *_, **__):  # noqa: ARG001
            found.update({cell.explainer.partition("(")[0]: cell.key for cell in cells})
            raise _PlannedError

        monkeypatch.setattr(TrainingStage, "run", planned)
        with pytest.raises(_PlannedError):
            compare(*arguments, **{"explainers": ["lime(samples=8)"], "seeds": [0]} | options)
        return found

    @pytest.mark.parametrize("change", KEYS)
    def test_every_part_of_a_plan_changes_them(self, compare, monkeypatch, change):
        before = self.keys(compare, monkeypatch)
        after = self.keys(compare, monkeypatch, **KEYS[change])
        assert before["lime"] != after["lime"]
        alone = change in ("explainer option", "strategy option")
        assert (before["none"] == after["none"]) == alone, "what none does not see leaves it as it was"
        assert (before["human"] == after["human"]) == (change == "explainer option")

    @pytest.mark.parametrize("change", [{"workers": 3}, {"out": None}, {"progress": True}])
    def test_what_decides_no_result_changes_none(self, compare, monkeypatch, change):
        assert self.keys(compare, monkeypatch) == self.keys(compare, monkeypatch, **change)

    def test_whole_numbers_are_numbers(self, compare, monkeypatch):
        """1 and 1.0 are the same choice, in an option and in a grid."""
        spelled = [
            self.keys(
                compare, monkeypatch, students=[f"same/attention(beta={beta})"], search_space={"temperature": choices}
            )
            for beta, choices in (("5", [1, 0.5]), ("5.0", [1.0, 0.5]))
        ]
        assert sorted(spelled[0].values()) == sorted(spelled[1].values())

    def test_the_teachers_weights_do(self, compare, monkeypatch, school):
        import torch

        teacher, data = school()
        before = self.keys(compare, monkeypatch, teacher, data)
        with torch.no_grad():
            teacher.head.bias.add_(0.5)
        try:
            after = self.keys(compare, monkeypatch, teacher, data)
        finally:
            with torch.no_grad():
                teacher.head.bias.sub_(0.5)
        assert not set(before.values()) & set(after.values())

    def test_weights_changed_where_torch_does_not_count_do(self, compare, monkeypatch, school):
        teacher, data = school()
        before = self.keys(compare, monkeypatch, teacher, data)
        teacher.head.bias.data.add_(0.5)
        try:
            after = self.keys(compare, monkeypatch, teacher, data)
        finally:
            teacher.head.bias.data.sub_(0.5)
        assert not set(before.values()) & set(after.values())

    def test_what_any_other_teacher_answers_does(self, compare, monkeypatch, school, tmp_path):
        """Whatever answers rows is a teacher, and two of one name may answer otherwise."""
        _, data = school()
        said = {"explainers": ["random(seed=1)"], "students": ["native(width=16, layers=1, heads=2)/attention"]}
        before, after = (
            self.keys(compare, monkeypatch, _Contrary(data, turn), data, out=tmp_path / str(turn), **said)
            for turn in (0, 1)
        )
        assert not set(before.values()) & set(after.values())

    def test_labels_that_people_change_are_given_away_anew(self, compare, school, tmp_path):
        """`trivial` codes the teacher's answer: what it coded for the old labels, the same texts, is no more true."""
        _, data = school()
        turned = Split("train", [replace(row, label=1 - row.label) for row in data["train"]])
        for one in (data, replace(data, splits={**data.splits, "train": turned})):
            compare("human", one, ["random(seed=1)"], ["native(width=16, layers=1, heads=2)/attention"], seeds=1)
        files = [Explanations.load(path) for path in (tmp_path / "run" / "explanations").glob("trivial-*.parquet")]
        first, second = (dict(zip(one.ids, one.targets, strict=True)) for one in files)
        assert first.keys() == second.keys()
        assert all(first[name] != second[name] for name in first)

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_the_texts_do(self, compare, monkeypatch, school, split):
        teacher, data = school()
        place = subset(data["train"].ids, size=1, seed=0)[0] if split == "train" else 0
        rows = list(data[split])
        rows[place] = replace(rows[place], texts=(rows[place].texts[0] + " film",))
        other = replace(data, splits={**data.splits, split: Split(split, rows)})
        before = self.keys(compare, monkeypatch, teacher, data)
        after = self.keys(compare, monkeypatch, teacher, other)
        assert not set(before.values()) & set(after.values())

    def test_a_row_that_nobody_sees_does_not(self, compare, monkeypatch, school):
        teacher, data = school()
        last = subset(data["train"].ids, size=30, seed=0)[-1]
        rows = list(data["train"])
        rows[last] = replace(rows[last], texts=("another film",))
        other = replace(data, splits={**data.splits, "train": Split("train", rows)})
        assert self.keys(compare, monkeypatch, teacher, data) == self.keys(compare, monkeypatch, teacher, other)

    def test_a_row_that_moves_to_another_split_is_found_there(self, compare, school, tmp_path):
        """The rows of all splits in one line are the same: where one ends must count too."""
        teacher, data = school()
        rows = [*data["train"][:12], *data["dev"]]
        for cut in (12, 14):
            splits = {**data.splits, "train": Split("train", rows[:cut]), "dev": Split("dev", rows[cut:])}
            compare(teacher, replace(data, splits=splits), train_sizes=[cut], seeds=1)
        kept = [read_rows(path) for path in (tmp_path / "run" / "classroom").glob("rows-*.parquet")]
        assert sorted(len(one["train"].rows) for one in kept) == [12, 14]


class _PlannedError(Exception):
    pass


class _Contrary:
    """People's labels, or the opposite of them."""

    name = "one name"

    def __init__(self, data, turn):
        self.task, self.classes, self.turn = data.task, data.classes, turn

    def predict(self, rows, *, batch_size=32):  # noqa: ARG002
        people = HumanTeacher(self.task, self.classes)
        return people.predict([replace(row, label=abs(row.label - self.turn)) for row in rows])


def test_a_cell_is_a_pure_function_of_its_description(compare, planned, tmp_path):
    compare(seeds=1)
    store = Store(tmp_path / "run" / "cells")
    (path,) = (tmp_path / "run" / "classroom").glob("rows-*.parquet")
    for cell in planned[0]:
        again = Cell(**store.load(cell.key).payload["cell"])
        record, outputs = run_cell(again, RunInputs(path.parent, path.name))
        kept = read_table(tmp_path / "run" / "cells" / f"{cell.key}.parquet")
        assert kept.columns["values"] == outputs.values.tolist()
        assert record.value == store.load(cell.key).payload["value"]
