"""One call explains rows, texts, pairs and images; its options do what they say; a stopped run goes on."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from didact import Explanations
from didact.core.explanation import Explanation
from didact.core.human import HumanTeacher
from didact.core.row import Row, Span
from didact.core.task import CLASSIFICATION
from didact.errors import DataError, DidactError, OptionError, ShapeError, UnknownNameError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.explainers.presets import PRESETS
from didact.explaining import job as module
from didact.explaining.explain import explain
from didact.explaining.shard_store import ShardStore
from teachers import black_box, examples, teacher

TEXTS = ["a good film", "the plot is not very good, but the music was great!", "bad"]


class TestWhatCanBeExplained:
    def test_texts(self):
        maps = explain(teacher("hf", "classification"), TEXTS, "gradient_norm")
        assert len(set(maps.ids)) == 3
        assert maps[0].tokens == ("a", "good", "film")
        assert maps[1].tokens[-1] == "!"
        assert maps.kind == "magnitude"
        assert maps[0].prediction == maps[0].target

    def test_one_text_is_a_row(self):
        assert len(explain(teacher("hf", "classification"), "a good film", "gradient_norm")) == 1

    def test_rows_come_back_in_their_order(self):
        model = teacher("native", "classification")
        rows = [Row(f"n{index}", (" ".join(["good"] * (1 + index * 7 % 5)),)) for index in range(20)]
        maps = explain(model, rows, "gradient_input", batch_size=3)
        assert maps.ids == tuple(row.id for row in rows)
        for index in (0, 7, 19):
            alone = explain(model, [rows[index]], "gradient_input")
            np.testing.assert_allclose(maps[index].scores, alone[0].scores, atol=1e-12)

    def test_pairs(self):
        maps = explain(teacher("hf", "pair"), [("a film", "bad"), ("good", "not good")], "occlusion")
        assert maps[0].tokens == ("a", "film", "bad")
        assert maps[0].segments.tolist() == [0, 0, 1]

    def test_images(self):
        rows = examples("image")
        maps = explain(teacher("hf", "image"), [row.image for row in rows], "gradient_norm")
        assert maps[0].offsets.shape[1] == 4
        assert maps[0].offsets[:2].tolist() == [[0, 0, 8, 8], [0, 8, 8, 16]]
        assert maps[0].offsets[-1].tolist() == [24, 24, 32, 32]
        assert maps.images is not None

    def test_patches_follow_images_of_another_size(self):
        large = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
        maps = explain(teacher("hf", "image"), large, "gradient_norm")
        assert maps[0].offsets[0].tolist() == [0, 0, 16, 24]
        assert maps[0].offsets[-1].tolist() == [48, 72, 64, 96]

    def test_functions(self):
        maps = explain(black_box(), ["no more of that"], "kernel_shap", samples=16)
        assert maps[0].tokens == ("no", "more", "of", "that")
        assert maps.options["scale"] == "probability", "a function that gives probabilities has no logits"

    def test_people(self):
        people = HumanTeacher(CLASSIFICATION, ["no", "yes"])
        maps = explain(people, [Row("a", ("good film",), label=1, rationale=(Span(0, 0, 4),))], "human")
        assert maps[0].scores.tolist() == [1.0, 0.0]
        assert maps[0].target == "yes"
        with pytest.raises(UnsupportedError, match="human"):
            explain(people, [Row("a", ("good film",), label=1)], "lime")

    def test_reading(self):
        maps = explain(teacher("hf", "reading"), examples("reading"), "gradient_norm")
        for row, one in zip(examples("reading"), maps, strict=True):
            assert one.target == one.prediction
            assert one.target in row.texts[1]


class TestWhatIsKnownOfRows:
    @pytest.mark.parametrize("kind", ["hf", "native"])
    def test_the_probability_of_the_prediction_and_the_label(self, kind, tmp_path):
        model, rows = teacher(kind, "classification"), examples("classification")
        rows = [replace(rows[0], label=99), *rows[1:], Row("bare", ("good",))]
        maps = explain(model, rows, "gradient_norm", target="predicted", out=tmp_path / "m.parquet", batch_size=2)
        outputs = model.predict(rows)
        np.testing.assert_allclose(maps.probabilities, outputs.probabilities.max(1), atol=1e-9)
        assert maps.labels == (None, *(model.classes[row.label] for row in rows[1:-1]), None)
        assert [row.is_right for row in maps][1:-1] == [
            row.label == label for row, label in zip(rows[1:-1], outputs.labels[1:-1], strict=True)
        ]
        back = Explanations.load(tmp_path / "m.parquet")
        assert back.labels == maps.labels
        np.testing.assert_array_equal(back.probabilities, maps.probabilities)

    def test_known_outputs_give_the_same(self):
        model, rows = teacher("hf", "classification"), examples("classification")
        asked = explain(model, rows, "gradient_norm")
        np.testing.assert_allclose(
            explain(model, rows, "gradient_norm", outputs=model.predict(rows)).probabilities, asked.probabilities
        )

    def test_a_label_that_changed_is_not_taken_from_an_older_file(self, tmp_path):
        from didact.explaining.cache import ExplanationCache

        model, rows = teacher("native", "classification"), [Row("a", ("good",), label=0), Row("b", ("bad",), label=1)]
        mark = model.fingerprint(rows)
        for some in (rows[:1], [replace(rows[0], label=1), rows[1]]):
            file = ExplanationCache(tmp_path, model, mark, rows).explain("gradient_norm", some, label="norm")
            labels = Explanations.load(tmp_path / file.name).labels
            assert labels == tuple(model.classes[row.label] for row in some)

    def test_functions_numbers_and_people(self):
        maps = explain(black_box(), ["no more of that"], "occlusion")
        assert maps[0].probability == pytest.approx(black_box().predict(["no more of that"]).probabilities.max())
        assert np.isnan(
            explain(teacher("hf", "regression"), examples("regression"), "gradient_norm").probabilities
        ).all()
        people = HumanTeacher(CLASSIFICATION, ["no", "yes"])
        maps = explain(people, [Row("a", ("good film",), label=1, rationale=(Span(0, 0, 4),))], "human")
        assert np.isnan(maps[0].probability)
        assert maps[0].label == "yes"


class TestEveryClass:
    def test_each_class_as_if_it_were_asked_for_alone(self):
        model = teacher("hf", "classification")
        found = explain(model, TEXTS, "gradient_input", target="all")
        assert tuple(found) == model.classes
        for name, maps in found.items():
            assert set(maps.targets) == {name}
            np.testing.assert_array_equal(maps.scores, explain(model, TEXTS, "gradient_input", target=name).scores)
        assert [row["target"] for row in found.to_documents()] == [name for name in model.classes for _ in TEXTS]
        assert len(found.to_pandas()) == len(model.classes) * 3
        assert found.summary().targets == model.classes
        with pytest.raises(UnknownNameError, match="class"):
            found["angry"]

    def test_shown_side_by_side(self, capsys, tmp_path):
        model = teacher("hf", "classification")
        found = explain(model, TEXTS, "gradient_input", target="all")
        found.show(rows=1)
        shown = capsys.readouterr().out
        assert shown.count("prediction") == 1
        assert "target" not in shown.replace("for the target", "").replace("against the target", "")
        assert all(f"{name} " in shown for name in model.classes)
        found.to_html(tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text().count('<p class="name">') == 3 * len(model.classes)
        assert "… and" not in found._repr_html_()
        assert repr(found).startswith("ByClass('gradient_input', 3 rows, classes: ")

    def test_classes_that_are_called_like_targets(self):
        def answers(texts):
            return np.array([[0.1, 0.2, 0.7]] * len(texts))

        from didact.core.function import FunctionTeacher

        model = FunctionTeacher(answers, ["0", "gold", "1"])
        found = explain(model, ["a film"], "occlusion", target="all")
        assert [maps.targets for maps in found.values()] == [("0",), ("gold",), ("1",)]
        named = FunctionTeacher(answers, ["all", "some", "none"])
        assert explain(named, ["a film"], "occlusion", target="all").targets == ("all",)

    def test_what_is_refused(self, tmp_path):
        with pytest.raises(OptionError, match="task regression has none"):
            explain(teacher("hf", "regression"), examples("regression"), "occlusion", target="all")
        with pytest.raises(OptionError, match="a file holds one"):
            explain(teacher("hf", "classification"), TEXTS, "occlusion", target="all", out=tmp_path / "m.parquet")
        with pytest.raises(OptionError, match="one target is explained"):
            explain(teacher("hf", "classification"), TEXTS, "occlusion(target=all)")


class TestWhatIsRefused:
    def test_nothing(self):
        with pytest.raises(DataError, match="nothing to explain"):
            explain(teacher("hf", "classification"), [], "lime")

    def test_empty_texts(self):
        with pytest.raises(DataError, match="1 of 2 rows are empty"):
            explain(teacher("hf", "classification"), ["good", "  "], "lime")

    def test_long_texts_are_counted_before_any_work(self):
        model = teacher("hf", "classification")
        long = "good " * 600
        with pytest.raises(UnsupportedError, match="2 of 3 rows are longer than the 512 tokens.*truncate"):
            explain(model, ["good", long, long], "gradient_norm")

    def test_images_for_a_model_of_texts_and_the_other_way_round(self):
        with pytest.raises(ShapeError, match="reads texts"):
            explain(teacher("hf", "classification"), examples("image"), "lime")
        with pytest.raises(ShapeError, match="reads images"):
            explain(teacher("hf", "image"), ["good"], "lime")

    def test_things_that_are_no_rows(self):
        with pytest.raises(DataError, match="Item 1 is a int"):
            explain(teacher("hf", "classification"), ["good", 3], "lime")

    def test_rows_that_share_an_id(self):
        with pytest.raises(DataError, match="share an id"):
            explain(teacher("hf", "classification"), [Row("a", ("good",)), Row("a", ("bad",))], "lime")

    def test_names_and_options(self):
        model = teacher("hf", "classification")
        with pytest.raises(UnknownNameError, match="Did you mean 'lime'"):
            explain(model, TEXTS, "limes")
        with pytest.raises(OptionError, match="no option of 'lime' named 'sample'. Did you mean 'samples'"):
            explain(model, TEXTS, "lime", sample=3)
        with pytest.raises(OptionError, match="is set twice"):
            explain(model, TEXTS, "lime(samples=5)", samples=6)
        with pytest.raises(OptionError, match="level"):
            explain(model, TEXTS, "lime", level="sentence")
        with pytest.raises(OptionError, match="normalise"):
            explain(model, TEXTS, "lime", normalise="log")
        with pytest.raises(OptionError, match="at most 1"):
            explain(model, TEXTS, "lime", normalise="top(k=3)")
        with pytest.raises(OptionError, match="scale"):
            explain(model, TEXTS, "lime", scale="odds")
        with pytest.raises(UnknownNameError, match="no preset named 'prut'"):
            explain(model, TEXTS, "lime", preset="prut")
        with pytest.raises(UnknownNameError, match="no target or class named 'LABEL_9'"):
            explain(model, TEXTS, "gradient_norm", target="LABEL_9")
        with pytest.raises(OptionError, match="batch_size"):
            explain(model, TEXTS, "lime", batch_size=0)

    def test_rows_without_rationales_for_people(self):
        with pytest.raises(DataError, match="3 of 3 rows have no rationale"):
            explain(teacher("hf", "classification"), TEXTS, "human")

    def test_scores_that_are_not_finite(self):
        def broken(_, batch, __):
            return Explanation(torch.full(batch.tokens.shape, torch.nan), batch.mask, batch.units, "signed")

        with pytest.raises(DidactError, match="not finite for rows "):
            explain(teacher("hf", "classification"), TEXTS[:1], broken)
        with pytest.raises(ShapeError, match="must return an Explanation, not float"):
            explain(teacher("hf", "classification"), TEXTS[:1], lambda *_: 1.0)

    def test_a_whole_data_set(self):
        from didact.data.load import load_data

        with pytest.raises(OptionError, match=r"Choose a split.*data\['test'\]"):
            explain(
                teacher("hf", "classification"),
                load_data("planted/sentiment(teach=20, explain=5, train=5, dev=5, test=5)"),
                "lime",
            )


class TestCommonOptions:
    model = teacher("hf", "classification")

    def test_targets(self):
        rows = [replace(row, label=index % 3) for index, row in enumerate(examples("classification"))]
        logits = torch.from_numpy(self.model.predict(rows).values)
        found = {
            target: explain(self.model, rows, "gradient_input", target=target)
            for target in ("predicted", "gold", "contrast", "LABEL_1", 1, "LABEL_0", "LABEL_2")
        }
        by_class = {0: found["LABEL_0"], 1: found["LABEL_1"], 2: found["LABEL_2"]}
        np.testing.assert_array_equal(found["LABEL_1"].scores, found[1].scores)
        order = logits.argsort(descending=True)
        for index in range(3):
            best, second = int(order[index, 0]), int(order[index, 1])
            np.testing.assert_allclose(found["predicted"][index].scores, by_class[best][index].scores)
            np.testing.assert_allclose(found["gold"][index].scores, by_class[index][index].scores)
            difference = by_class[best][index].scores - by_class[second][index].scores
            np.testing.assert_allclose(found["contrast"][index].scores, difference, atol=1e-12)
            assert found["contrast"].targets[index] == f"LABEL_{best} against LABEL_{second}"

    def test_scales(self):
        """The chain rule ties them together: d log p = dp / p."""
        probability = explain(self.model, TEXTS, "gradient_input", scale="probability")
        log = explain(self.model, TEXTS, "gradient_input", scale="log_probability")
        outputs = self.model.predict([Row(str(index), (text,)) for index, text in enumerate(TEXTS)])
        for index in range(3):
            chance = outputs.probabilities[index].max()
            np.testing.assert_allclose(probability[index].scores, log[index].scores * chance, atol=1e-12)

    def test_gold_answers_of_reading(self):
        rows = examples("reading")
        maps = explain(teacher("hf", "reading"), rows, "gradient_norm", target="gold")
        assert maps.targets == tuple(row.text_of(row.label[0]) for row in rows)

    def test_special_tokens(self):
        maps = explain(self.model, TEXTS, "gradient_norm", special=True)
        assert maps[0].tokens == ("[CLS]", "a", "good", "film", "[SEP]")
        assert maps[0].segments.tolist() == [-1, 0, 0, 0, -1]
        plain = explain(self.model, TEXTS, "gradient_norm")
        np.testing.assert_allclose(maps[0].scores[1:-1], plain[0].scores)
        assert (maps[0].scores > 0).all()

    @pytest.mark.parametrize(
        ("method", "join"), [("gradient_input", np.sum), ("gradient_norm", lambda x: (x**2).sum() ** 0.5)]
    )
    def test_words(self, method, join):
        text = "unbelievable film"
        pieces = explain(self.model, text, method)
        words = explain(self.model, text, method, level="word")
        assert pieces[0].tokens == ("un", "believ", "able", "film")
        assert words[0].tokens == ("unbelievable", "film")
        np.testing.assert_allclose(words[0].scores, [join(pieces[0].scores[:3]), join(pieces[0].scores[3:])])

    def test_perturbations_take_away_whole_words(self):
        words = explain(self.model, "unbelievable film", "occlusion", level="word")
        pieces = explain(self.model, "unbelievable film", "occlusion").words()
        assert words[0].tokens == pieces[0].tokens
        assert words.options["level"] == "word"
        assert abs(words[0].scores[0] - pieces[0].scores[0]) > 1e-6, "a word is more than the sum of its pieces"

    def test_signs(self):
        signed = explain(self.model, TEXTS, "gradient_input")
        plain = explain(self.model, TEXTS, "gradient_input", absolute=True)
        assert plain.kind == "magnitude"
        np.testing.assert_array_equal(plain.scores, abs(signed.scores))

    def test_normalisation(self):
        raw = explain(self.model, TEXTS, "gradient_input")
        soft = explain(self.model, TEXTS, "gradient_input", normalise="softmax(temperature=0.5)")
        top = explain(self.model, TEXTS, "gradient_input", normalise="top(k=0.2)")
        assert (soft.kind, top.kind) == ("distribution", "binary")
        for index in range(3):
            expected = np.exp(raw[index].scores / 0.5)
            np.testing.assert_allclose(soft[index].scores, expected / expected.sum())
            count = int(np.ceil(0.2 * len(raw[index])))
            marked = set(np.flatnonzero(top[index].scores))
            assert marked == set(np.argsort(-abs(raw[index].scores))[:count])

    def test_all_options_are_recorded(self):
        maps = explain(self.model, TEXTS, "lime(samples=20)", seed=3)
        assert maps.options == {
            "target": "predicted", "scale": "logit", "level": "token", "special": False, "absolute": False,
            "normalise": "raw", "samples": 20, "kernel_width": 0.25, "ridge": 1.0, "replace": "mask", "seed": 3,
        }  # fmt: skip


class TestPresets:
    @pytest.mark.parametrize(
        ("preset", "method", "wanted"),
        [
            # Written out from what the papers say and their code does, not from the table under test.
            ("pruthi", "gradient_norm", {"scale": "log_probability", "special": True, "at": "word"}),
            ("pruthi", "integrated_gradients", {"steps": 50, "baseline": "pad", "at": "embedding"}),
            ("smat", "gradient_input", {"scale": "logit", "normalise": "softmax(temperature=0.1)", "at": "embedding"}),
            ("smat", "integrated_gradients", {"steps": 10, "baseline": "zero", "special": True}),
            ("l2e", "lime", {"samples": 1000, "replace": "mask", "level": "word", "target": "gold", "special": False}),
            ("l2e", "gradient_input", {"scale": "logit", "target": "gold", "at": "word"}),
            ("pruthi", "gradient_input", {"scale": "log_probability", "at": "word"}),
            ("neely", "lime", {"samples": 1000, "kernel_width": 1.0, "replace": "pad", "absolute": True}),
            (
                "neely",
                "integrated_gradients",
                {"scale": "probability", "steps": 50, "at": "embedding", "special": True},
            ),
            ("neely", "gradient_shap", {"samples": 5, "scale": "probability"}),
        ],
    )
    @pytest.mark.filterwarnings("ignore:gradient_shap. scores do not add up")  # five samples, as Neely et al. had
    def test_set_what_the_papers_used(self, preset, method, wanted):
        maps = explain(teacher("hf", "classification"), examples("classification"), method, preset=preset)
        assert {name: maps.options[name] for name in wanted} == wanted

    def test_what_a_caller_says_wins(self):
        maps = explain(teacher("hf", "classification"), TEXTS, "integrated_gradients", preset="neely", steps=3)
        assert maps.options["steps"] == 3
        assert maps.options["at"] == "embedding"
        assert maps.kind == "magnitude"

    @pytest.mark.parametrize("preset", PRESETS)
    def test_name_methods_and_options_that_exist(self, preset):
        from didact.explainers.build import knows_option
        from didact.explaining.method_options import CommonOptions as Asked

        for method, options in PRESETS[preset].methods.items():
            assert method in EXPLAINERS
            for name in options:
                assert name in Asked.__dataclass_fields__ or knows_option(method, name), (method, name)


class TestKeeping:
    def test_what_is_kept_is_what_is_returned(self, tmp_path):
        path = tmp_path / "deep" / "maps.parquet"
        maps = explain(teacher("native", "classification"), TEXTS, "lime", samples=20, out=path)
        loaded = Explanations.load(path)
        np.testing.assert_array_equal(loaded.scores, maps.scores)
        assert loaded.options == maps.options
        assert set(loaded.fingerprints) == {"teacher", "data"}
        assert list(path.parent.iterdir()) == [path], "nothing else is left behind"

    def test_of_slow_methods_few_rows_are_kept_together(self, monkeypatch):
        """A thousand questions a row: 256 rows would be half an hour that a stop loses."""
        monkeypatch.setattr(module, "_SHARD_CALLS", 160)
        parts, plain = [], module.ExplainJob.explain
        monkeypatch.setattr(
            module.ExplainJob,
            "explain",
            lambda self, shard, *more: parts.append(len(shard)) or plain(self, shard, *more),
        )
        rows = [Row(f"n{index}", (text,)) for index, text in enumerate(TEXTS * 3)]
        few = explain(teacher("native", "classification"), rows, "lime", samples=20)
        assert parts == [8, 1]
        monkeypatch.setattr(module, "_SHARD_CALLS", 16_384)
        np.testing.assert_allclose(
            few.scores, explain(teacher("native", "classification"), rows, "lime", samples=20).scores
        )
        assert parts == [8, 1, 9]

    def test_a_stopped_run_goes_on_and_ends_in_the_same_bytes(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "SHARD_ROWS", 2)
        rows = [Row(f"n{index}", (text,)) for index, text in enumerate(TEXTS * 2)]
        model = teacher("native", "classification")
        asked = {"samples": 20, "seed": 1}
        explain(model, rows, "lime", out=tmp_path / "whole.parquet", **asked)
        calls = []
        plain = module.ExplainJob.explain

        def stopped(self, shard, *more):
            if len(calls) == 2:
                raise KeyboardInterrupt
            calls.append(shard[0].id)
            return plain(self, shard, *more)

        monkeypatch.setattr(module.ExplainJob, "explain", stopped)
        with pytest.raises(KeyboardInterrupt):
            explain(model, rows, "lime", out=tmp_path / "halves.parquet", **asked)
        assert not (tmp_path / "halves.parquet").exists()
        with pytest.raises(KeyboardInterrupt):  # other options: nothing that was kept fits
            explain(model, rows, "lime", out=tmp_path / "halves.parquet", samples=21, seed=1)
        calls.clear()
        explain(model, rows, "lime", out=tmp_path / "halves.parquet", **asked)
        assert calls == ["n4"], "two of three parts were done"
        assert (tmp_path / "halves.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()

    def test_a_damaged_part_is_computed_anew(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "SHARD_ROWS", 2)
        model = teacher("native", "classification")
        whole = explain(model, TEXTS, "lime", samples=20)
        clear = ShardStore.clear
        monkeypatch.setattr(ShardStore, "clear", lambda *_: None)
        explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet")
        part = sorted((tmp_path / "maps.parquet.shards").iterdir())[0]
        part.write_bytes(part.read_bytes()[:-100])
        monkeypatch.setattr(ShardStore, "clear", clear)
        maps = explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet")
        np.testing.assert_array_equal(maps.scores, whole.scores)

    @pytest.mark.parametrize("moment", ["load", "save"])
    def test_another_run_of_the_same_clears_up_first(self, moment, tmp_path, monkeypatch):
        """Two runs share the folder of finished parts; the first to finish removes it under the other's hands."""
        monkeypatch.setattr(module, "SHARD_ROWS", 2)
        model = teacher("native", "classification")
        clear = ShardStore.clear
        monkeypatch.setattr(ShardStore, "clear", lambda *_: None)
        whole = explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet")
        monkeypatch.setattr(ShardStore, "clear", clear)
        folder = tmp_path / "maps.parquet.shards"
        cleared = []

        def clearing(work):
            def before(*args):
                if not cleared:
                    cleared.append(moment)
                    shutil.rmtree(folder)
                return work(*args)

            return before

        if moment == "load":
            monkeypatch.setattr(Explanations, "load", clearing(Explanations.load))
        else:
            next(iter(sorted(folder.iterdir()))).unlink()
            monkeypatch.setattr(Path, "replace", clearing(Path.replace))
        maps = explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet")
        assert cleared == [moment]
        np.testing.assert_array_equal(maps.scores, whole.scores)
        assert not folder.exists()

    def test_another_model_or_other_rows_are_another_run(self, tmp_path, monkeypatch):
        """The key hashes what decides the scores; the weights of the model are part of it."""
        names = []
        save = ShardStore.save
        monkeypatch.setattr(
            ShardStore, "save", lambda self, file, shard: names.append(file.name) or save(self, file, shard)
        )
        for kind, texts, options in [
            ("native", TEXTS, {}), ("native", TEXTS, {}), ("native", TEXTS[:2], {}), ("bilstm", TEXTS, {}),
            ("native", TEXTS, {"samples": 11}), ("native", TEXTS, {"target": "gold"}),
        ]:  # fmt: skip
            rows = [Row(str(index), (text,), label=0) for index, text in enumerate(texts)]
            explain(
                teacher(kind, "classification"), rows, "lime", out=tmp_path / "m.parquet", overwrite=True,
                **{"samples": 10} | options,
            )  # fmt: skip
        assert len(names) == 6
        assert len(set(names)) == 5

    def test_a_function_that_replaces_words_otherwise_is_another_run(self):
        rows = examples("classification")
        plain = black_box()
        assert plain.fingerprint(rows) == black_box().fingerprint(rows)
        assert plain.fingerprint(rows) != black_box(absent="X").fingerprint(rows)

    def test_a_model_that_reads_less_is_another_model(self, tmp_path):
        from didact.learning.train import save_teacher
        from didact.models.load import load_teacher

        model = teacher("native", "classification")
        model.record = {"kind": "native"}
        save_teacher(model, tmp_path / "kept")
        cut = [load_teacher(tmp_path / "kept", max_length=n, truncate=True).fingerprint() for n in (4, 4, 5)]
        assert cut[0] == cut[1] != cut[2]

    def test_parts_of_a_teacher_that_was_moved_are_still_good(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "SHARD_ROWS", 2)
        model = teacher("native", "classification")
        clear = ShardStore.clear
        monkeypatch.setattr(ShardStore, "clear", lambda *_: None)
        explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet")
        monkeypatch.setattr(ShardStore, "clear", clear)
        sorted((tmp_path / "maps.parquet.shards").iterdir())[0].unlink()
        monkeypatch.setattr(model, "name", "elsewhere")
        assert explain(model, TEXTS, "lime", samples=20, out=tmp_path / "maps.parquet").teacher == "elsewhere"

    def test_shards_that_do_not_name_the_teacher_s_hash_are_still_good(self, tmp_path, monkeypatch):
        """As an older didact wrote them, while its workers wrote the hash."""
        monkeypatch.setattr(module, "SHARD_ROWS", 2)
        model, out = teacher("native", "classification"), tmp_path / "maps.parquet"
        clear = ShardStore.clear
        monkeypatch.setattr(ShardStore, "clear", lambda *_: None)
        explain(model, TEXTS, "lime", samples=20, out=out)
        whole = out.read_bytes()
        monkeypatch.setattr(ShardStore, "clear", clear)
        first, *_ = sorted((tmp_path / "maps.parquet.shards").iterdir())
        shard = Explanations.load(first)
        assert shard.fingerprints == {"teacher": model.fingerprint()}
        replace(shard, fingerprints={}).save(first)
        monkeypatch.setattr(module.ExplainJob, "explain", lambda *_: pytest.fail("a shard on disk was computed again"))
        explain(model, TEXTS, "lime", samples=20, out=out)
        assert out.read_bytes() == whole

    @pytest.mark.parametrize("place", [".", "", "folder"])
    def test_a_place_where_no_file_can_be_is_refused_before_the_work(self, tmp_path, monkeypatch, place):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        monkeypatch.setattr(module.ExplainJob, "explain", lambda *_: pytest.fail("work began"))
        with pytest.raises(OptionError, match="is a folder"):
            explain(teacher("native", "classification"), TEXTS, "lime", out=place)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]

    def test_fingerprints_are_there_without_a_file(self):
        model = teacher("native", "classification")
        maps = explain(model, TEXTS, "gradient_norm")
        assert maps.fingerprints["teacher"] == model.fingerprint()
        with torch.no_grad():
            model.head.bias.add_(1.0)
        try:
            assert explain(model, TEXTS, "gradient_norm").fingerprints["teacher"] == model.fingerprint()
            assert maps.fingerprints["teacher"] != model.fingerprint()
        finally:
            with torch.no_grad():
                model.head.bias.sub_(1.0)


class TestDraws:
    @pytest.mark.parametrize("method", ["lime", "kernel_shap", "random", "smooth_gradient", "shapley_sampling"])
    def test_a_text_is_explained_alike_wherever_it_stands(self, method):
        model = teacher("native", "classification")
        few = {"lime": {"samples": 16}, "kernel_shap": {"samples": 40}}.get(method, {})
        first = explain(model, [TEXTS[1]], method, **few)
        last = explain(model, ["bad", TEXTS[0], TEXTS[1]], method, **few)
        assert first.ids[0] == last.ids[2]
        np.testing.assert_allclose(first[0].scores, last[2].scores, atol=1e-10)

    def test_the_same_text_twice_has_two_names(self):
        ids = explain(teacher("native", "classification"), ["bad", "bad"], "random").ids
        assert ids[1] == f"{ids[0]}-2"


class TestOptionsThatMustNotPassSilently:
    model = teacher("native", "classification")

    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            ("lime(samples=many)", {}, "'samples' of 'lime' must be an integer, got 'many'"),
            ("lime", {"samples": 20.5}, "must be an integer"),
            ("lime", {"kernel_width": "x"}, "'kernel_width' of 'lime' must be a number"),
            ("layer_conductance", {"steps": 2.5}, "must be an integer"),
            ("integrated_gradients", {"steps": True}, "an integer or a string"),
            ("integrated_gradients(batch_size=0)", {}, "from 1 to 1,000,000"),
            ("lime", {"batch_size": 0}, "from 1 to 1,000,000"),
            ("attention_all", {"temperature": "hot"}, "must be a number"),
            ("lime", {"special": "no"}, "true or false"),
            ("lime", {"normalise": None}, "must be a string"),
            ("lime(seed=5)", {"seed": 3}, "is set twice"),
        ],
    )
    def test_values_of_the_wrong_kind(self, method, options, message):
        with pytest.raises(OptionError, match=message):
            explain(self.model, TEXTS, method, **options)

    def test_a_class_is_no_explainer(self):
        from didact.explainers.lime import Lime

        with pytest.raises(OptionError, match="not Lime|callable"):
            explain(self.model, TEXTS, Lime)

    def test_numbers_of_numpy_are_numbers(self):
        maps = explain(self.model, TEXTS, "lime", samples=np.int64(20), target=np.int64(1))
        assert (maps.options["samples"], maps.options["target"]) == (20, 1)

    def test_an_explainer_keeps_its_own_options_and_says_so(self):
        from didact.explainers.occlusion import Occlusion

        hf = teacher("hf", "classification")
        named = explain(hf, "unbelievable film", "occlusion", level="word")
        made = explain(hf, "unbelievable film", Occlusion(level="word"))
        np.testing.assert_array_equal(made.scores, named.scores)
        assert (made.method, made.options["level"]) == ("occlusion", "word")
        with pytest.raises(OptionError, match="made with level='token'"):
            explain(hf, "unbelievable film", Occlusion(), level="word")
        with pytest.raises(OptionError, match="already exists"):
            explain(hf, "unbelievable film", Occlusion(), preset="neely")

    def test_what_a_function_cannot_do(self):
        with pytest.raises(OptionError, match="absent="):
            explain(black_box(), TEXTS, "occlusion", replace="mask")
        with pytest.raises(OptionError, match="log_probability"):
            explain(black_box(), TEXTS, "occlusion", scale="logit")
        maps = explain(black_box(), TEXTS, "occlusion", preset="smat")
        assert (maps.options["scale"], maps.options["replace"]) == ("probability", "absent")

    def test_a_regression_has_no_probabilities(self):
        rated = teacher("native", "regression")
        with pytest.raises(OptionError, match="no probabilities"):
            explain(rated, examples("regression"), "occlusion", scale="probability")
        assert explain(rated, examples("regression"), "occlusion", preset="neely").options["scale"] is None

    def test_gold_needs_labels(self):
        with pytest.raises(DataError, match="preset l2e.*needs labels.*target='predicted'"):
            explain(self.model, TEXTS, "gradient_norm", target="gold")

    def test_a_row_is_not_compared_with_itself(self):
        with pytest.raises(UnsupportedError, match="compared with itself.*background_rows"):
            explain(self.model, TEXTS[:1], "deep_shap")
        with pytest.raises(DataError, match="nothing to explain"):
            explain(self.model, TEXTS[:1], "deep_shap", background_rows=[])
        assert len(explain(self.model, TEXTS[:1], "deep_shap", background_rows=TEXTS)) == 1

    def test_data_that_are_none(self):
        with pytest.raises(DataError, match="got NoneType"):
            explain(self.model, None, "lime")
        with pytest.raises(DataError, match="cannot be encoded"):
            explain(self.model, ["good \ud800"], "lime")

    def test_scores_of_the_wrong_shape(self):
        def short(_, batch, __):
            return Explanation(torch.zeros(1, 1), batch.mask[:1, :1], batch.units[:1, :1], "signed")

        with pytest.raises(ShapeError, match="must score the positions of its batch"):
            explain(self.model, TEXTS, short)

    def test_inside_inference_mode(self):
        with torch.inference_mode():
            inside = explain(self.model, TEXTS, "gradient_norm")
        np.testing.assert_array_equal(inside.scores, explain(self.model, TEXTS, "gradient_norm").scores)


class TestBoxes:
    def test_squares_of_a_function_are_the_images_own(self):
        image = np.random.default_rng(0).integers(0, 256, (30, 30, 3), dtype=np.uint8)
        subject = black_box("image", patch=8)
        maps = explain(subject, image, "occlusion")
        units = subject.units(Row("a", image=image))
        assert [tuple(box) for box in maps[0].offsets.tolist()] == [tuple(box) for box in units]
        with pytest.raises(ShapeError, match="smaller than a square"):
            explain(black_box("image", patch=64), image, "occlusion")

    def test_boxes_follow_a_crop(self, monkeypatch):
        """Only the middle of a wide image is read, and only there are patches."""
        model = teacher("hf", "image")
        for name, value in {
            "do_center_crop": True, "size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32},
        }.items():  # fmt: skip
            monkeypatch.setattr(model.tokenizer, name, value)
        wide = np.random.default_rng(0).integers(0, 256, (64, 128, 3), dtype=np.uint8)
        maps = explain(model, wide, "gradient_norm")
        assert maps[0].offsets[0].tolist() == [0, 32, 16, 48]
        assert maps[0].offsets[-1].tolist() == [48, 80, 64, 96]
