"""Explainers that change the scores of another, and the leak by count: names, needs, keys, cost, planted truth."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

import didact
from didact.comparing.config_checks import check_method
from didact.core.human import HumanTeacher
from didact.core.row import Row
from didact.core.words import touches
from didact.errors import DataError, DidactError, OptionError, PlanError, UnknownNameError, UnsupportedError
from didact.explainers.build import build_explainer
from didact.explainers.contract import explain_rows
from didact.explainers.gradients import GradientNorm
from didact.explaining.cache import ExplanationCache
from didact.explaining.explain import explain
from didact.explaining.job import ExplainJob
from didact.results import variants
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import to_parquet
from explainers.test_planted_truth import roc_auc
from teachers import black_box, examples, teacher

CHANGES = {
    "degraded(base={}, share=0.6, seed=2)": lambda maps: variants.degraded(maps, 0.6, seed=2),
    "degraded(base={}, share=0.6, by=rows)": lambda maps: variants.degraded(maps, 0.6, by="rows"),
    "tempered(base={}, t=0.25)": lambda maps: variants.tempered(maps, 0.25),
    "ranked(base={}, profile=linear)": lambda maps: variants.ranked(maps, "linear"),
    "scaled(base={}, factor=0.1)": lambda maps: variants.scaled(maps, 0.1),
    "blurred(base={})": variants.blurred,
    "top(base={}, k=0.4)": lambda maps: variants.top(maps, 0.4),
}


@lru_cache
def planted():
    return didact.load_data("planted/sentiment(teach=40, explain=10, train=200, dev=8, test=16)")


def cache_in(folder, subject, rows):
    return ExplanationCache(folder, subject, subject.fingerprint(rows), rows)


def job_of(spec, subject=None, **options):
    return ExplainJob.of(subject or teacher("hf", "classification"), spec, options)


class TestTheSameFunction:
    """`explain` and `forward` both call the functions on stored scores, which tests/results/test_variants.py checks."""

    @pytest.mark.parametrize("base", ["gradient_input", "human", "attention_all"])
    def test_explain(self, base):
        subject, rows = teacher("hf", "classification"), examples("classification")
        before = explain(subject, rows, base)
        for spec, change in CHANGES.items():
            after, expected = explain(subject, rows, spec.format(base)), change(before)
            np.testing.assert_array_equal(after.scores, expected.scores, err_msg=spec)
            assert (after.kind, after.method) == (expected.kind, spec.partition("(")[0])
            assert after.options["base"] == base
            assert np.isnan(after.residuals).all()

    @pytest.mark.parametrize(
        ("base", "level"),
        [("attention_all", "token"), ("human", "word"), ("gradient_norm", "word"), ("lime(samples=20)", "word")],
    )
    def test_forward(self, base, level):
        subject, rows = teacher("hf", "classification"), examples("classification")
        for spec in CHANGES:
            stored = explain(subject, rows, spec.format(base), level=level)
            made, batch = explain_rows(lambda _, spec=spec: build_explainer(spec.format(base), level=level).explainer,
                                       subject, rows)  # fmt: skip
            assert made.kind == stored.kind
            for row in range(len(rows)):
                scores = made.scores[row, batch.units[row]].numpy()
                if level == "word":
                    scores = scores[np.diff(batch.words[row, batch.units[row]].numpy(), prepend=-2) != 0]
                np.testing.assert_allclose(scores, stored[row].scores, atol=1e-12, err_msg=spec)

    def test_options_of_all_methods_change_the_result_not_the_base(self):
        subject, rows = teacher("native", "pair"), examples("pair")
        blurred = explain(subject, rows, "blurred(base=lrp)")
        sizes = explain(subject, rows, "blurred(base=lrp)", absolute=True)
        np.testing.assert_array_equal(sizes.scores, np.abs(blurred.scores))
        assert sizes.kind == "magnitude"
        marks = explain(subject, rows, "ranked(base=lrp)", normalise="top(k=0.3)")
        np.testing.assert_array_equal(marks.scores, explain(subject, rows, "lrp", normalise="top(k=0.3)").scores)
        gold = explain(subject, rows, "scaled(base=lrp, factor=1.0)", target="gold")
        np.testing.assert_array_equal(gold.scores, explain(subject, rows, "lrp", target="gold").scores)

    def test_words_are_swapped_alike_with_any_tokenizer(self):
        rows, where = examples("classification"), []
        for kind in ("hf", "native"):
            before, after = (
                explain(teacher(kind, "classification"), rows, method, level="word")
                for method in ("lrp", "degraded(base=lrp, share=0.5)")
            )
            where.append((before.scores != after.scores).tolist())
        assert where[0] == where[1]
        assert any(where[0])

    def test_into_a_file(self, tmp_path, monkeypatch):
        subject, rows = teacher("native", "classification"), examples("classification")
        monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 2)
        spec = "degraded(base=gradient_norm, share=0.7)"
        saved = explain(subject, rows, spec, out=tmp_path / "maps.parquet")
        assert to_parquet(Explanations.load(tmp_path / "maps.parquet")) == to_parquet(saved)
        np.testing.assert_array_equal(saved.scores, explain(subject, rows, spec).scores)
        with pytest.raises(OptionError, match="option share"):
            explain(subject, rows, "degraded(base=gradient_norm, share=0.8)", out=tmp_path / "maps.parquet")


class TestNames:
    @pytest.mark.parametrize(
        "spec",
        [
            "degraded(base=lrp, share=0.2, seed=1)", "tempered(base='lime(samples=50)', t=0.5)",
            "tempered(base=lime(samples=50, seed=3), t=0.5)",
            "ranked(base=degraded(base=\"lime(samples=50, replace='delete')\", share=0.2))",
            "scaled(base=top(base=tempered(base=lime(samples=50), t=2), k=0.5))",
        ],
    )  # fmt: skip
    def test_specs_nest(self, spec):
        written = check_method(spec)
        assert check_method(written) == written
        first, second = (build_explainer(text) for text in (spec, written))
        assert first.options == second.options
        assert first.is_reproducible

    def test_needs_are_those_of_the_base(self):
        for base, needs in (("lrp", "gradients"), ("human", "rationales"), ("ranked(base=attention_all)", "attention")):
            assert build_explainer(f"degraded(base={base})").needs == needs
        subject = black_box()
        with pytest.raises(UnsupportedError, match="occlusion, lime, kernel_shap"):
            explain(subject, examples("classification"), "degraded(base=lrp)")
        with pytest.raises(DataError, match="no rationale"):
            explain(subject, ["a film"], "ranked(base=human)")
        with pytest.raises((UnsupportedError, PlanError), match="too inexact"):
            check_method("tempered(base=lrp, precision=bfloat16)")
        assert check_method("tempered(base=lime, precision=bfloat16)")
        assert build_explainer("blurred(base=gradient_shap)").explainer.needs_background
        assert not build_explainer("blurred(base=lrp)").explainer.needs_background

    @pytest.mark.parametrize(
        ("spec", "error"),
        [
            ("degraded(base=ig)", "Did you mean 'integrated_gradients'"), ("degraded(base=lime(sample=3))", "samples"),
            ("degraded(base=occlusion(level=word))", "level=word beside base"), ("degraded(share=1.5)", "at most 1"),
            ("degraded(by=words)", "'units' or 'rows'"), ("tempered(t=0.0)", "above 0"), ("top(k=0)", "above 0"),
            ("ranked(profile=flat)", "'zipf' or 'linear'"), ("scaled(factor=-1.0)", "above 0"),
            ("blurred(base=maps.parquet)", r"variants\.degraded"), ("degraded(base=3)", "must be a string"),
            ("leak_count(marks=0)", "integer >= 1"), ("leak_position", "Did you mean 'trivial'"),
        ],
    )  # fmt: skip
    def test_refusals(self, spec, error):
        with pytest.raises((OptionError, UnknownNameError), match=error):
            check_method(spec)

    def test_draws_are_the_same_for_every_student(self):
        assert not build_explainer("degraded(base=random)").explainer.resample_per_seed
        assert not build_explainer("leak_count").explainer.resample_per_seed


class TestKeys:
    def test_keys_hold_what_decides_the_base(self, monkeypatch):
        settings = job_of("degraded(base=gradient_norm)").score_settings
        assert settings["base"] == job_of("gradient_norm").score_settings
        assert "base" not in job_of("gradient_norm").score_settings
        for other in ("degraded(base=lrp)", "degraded(base=gradient_norm, share=0.2)",
                      "degraded(base=gradient_norm, seed=1)"):  # fmt: skip
            assert job_of(other).score_settings != settings
        assert job_of("degraded(base=gradient_norm, batch_size=3)").score_settings == settings
        monkeypatch.setattr(GradientNorm, "version", 99)
        assert job_of("degraded(base=gradient_norm)").score_settings != settings

    @pytest.mark.parametrize(
        ("spec", "label"),
        [
            ("ranked(base=lrp)", "lrp"), ("ranked(base=lime(samples=50))", "lime(samples=50)"),
            ("ranked(base=lrp, level=word, normalise=softmax)", "lrp(level=word)"),
            ("ranked(base=top(base=lrp), target=gold)", "top(base=lrp, target=gold)"), ("lrp", ""),
        ],
    )  # fmt: skip
    def test_the_base_is_stored_as_a_row_of_the_table_would_be(self, spec, label):
        job = job_of(spec)
        assert job.base_label == label
        if label:
            assert job.base.score_settings == job_of(label).score_settings


class TestCost:
    @pytest.fixture
    def explained(self, monkeypatch):
        """The rows that the base has explained, in order."""
        rows, forward = [], GradientNorm.forward

        def count(self, subject, batch, target):
            rows.extend(batch.ids)
            return forward(self, subject, batch, target)

        monkeypatch.setattr(GradientNorm, "forward", count)
        return rows

    def test_variants_share_one_run_of_their_base(self, explained, tmp_path):
        subject, rows = teacher("native", "classification"), examples("classification")
        cache = cache_in(tmp_path, subject, rows)
        specs = [spec.format("gradient_norm") for spec in CHANGES][:4]
        specs += ["ranked(base=degraded(base=gradient_norm, share=0.6, seed=2))"]
        files = {spec: cache.explain(spec, rows, label=spec) for spec in specs}
        assert sorted(explained) == sorted(row.id for row in rows)
        cache.explain("gradient_norm", rows, label="gradient_norm")
        assert len(explained) == 3, "the base is stored under its own name"
        assert len({file.key for file in files.values()}) == len(specs)
        for spec, file in files.items():
            stored, made = Explanations.load(tmp_path / file.name), explain(subject, rows, spec)
            np.testing.assert_array_equal(stored.scores, made.scores)
            assert stored.options == made.options
            assert cache.lookup(spec, rows, label=spec).file == file
            assert cache.lookup(spec, rows, label=spec).missing_rows() == ()
        assert cache.file_labels(specs[-1], "mine") == ["mine", "degraded(base=gradient_norm, seed=2, share=0.6)",
                                                        "gradient_norm"]  # fmt: skip

    def test_a_grown_plan_explains_new_rows_alone(self, explained, tmp_path):
        subject, rows = teacher("native", "classification"), examples("classification")
        cache, spec = cache_in(tmp_path, subject, rows), "degraded(base=gradient_norm, share=0.9)"
        cache.explain(spec, rows[:2], label=spec)
        file = cache.explain(spec, rows, label=spec)
        assert explained == [row.id for row in sorted(rows[:2], key=lambda row: explained.index(row.id))] + [rows[2].id]
        stored = Explanations.load(tmp_path / file.name)
        np.testing.assert_allclose(stored.scores, explain(subject, rows, spec).scores, atol=1e-12)

    @pytest.mark.slow
    def test_compare(self, explained, compare, tmp_path):
        """Students of the base, its variants and the controls; the base explains each row once."""
        result = compare(
            explainers=["degraded(base=gradient_norm, share=0.2)", "gradient_norm", "scaled(base=gradient_norm)",
                        "leak_count"],
            skip_controls=["trivial", "human"], seeds=1,
        )  # fmt: skip
        assert result.explainers == ["none", "random", "degraded(base=gradient_norm, share=0.2)", "gradient_norm",
                                     "scaled(base=gradient_norm)", "leak_count"]  # fmt: skip
        assert len(explained) <= 12 + 3 * 2, "twelve rows once, and two rows of each method before the run"
        table = result.to_pandas().set_index("explainer")["median"]
        assert table["scaled(base=gradient_norm)"] == table["gradient_norm"]
        assert len(list((tmp_path / "run" / "explanations").glob("gradient_norm-*.parquet"))) == 1


class TestPlantedTruth:
    """The rationales of planted rows are the truth, and the rows' own labels the answers: no model is needed."""

    @property
    def data(self):
        return planted()

    def areas(self, rows, method):
        maps = explain(HumanTeacher(self.data.task, self.data.classes), rows, method)
        truths = [touches(row.rationale, one.segments, one.offsets) for row, one in zip(rows, maps, strict=True)]
        pairs = list(zip(truths, maps, strict=True))
        return np.array([roc_auc(one.scores, truth) for truth, one in pairs if 0 < truth.sum() < len(truth)])

    @pytest.mark.parametrize("by", ["units", "rows"])
    def test_damage_lowers_the_area_step_by_step(self, by):
        rows = self.data["train"].rows[:64]
        means = [self.areas(rows, f"degraded(base=human, share={share}, by={by})").mean() for share in (0, 0.1, 0.4, 1)]
        assert means[0] == 1
        assert all(before - after > 0.02 for before, after in pairwise(means))
        assert means[-1] == pytest.approx(0.5, abs=0.1)

    def test_marks_by_count_say_nothing_but_the_class(self):
        rows = self.data["train"].rows
        areas = self.areas(rows, "leak_count")
        assert abs(areas.mean() - 0.5) <= 3 * areas.std() / np.sqrt(len(areas))
        counts = [
            int(one.scores.sum())
            for one in explain(HumanTeacher(self.data.task, self.data.classes), rows, "leak_count")
        ]
        assert [count - 1 for count in counts] == [row.label for row in rows], "read off the count, without a student"

    def test_marks_by_count_stand_at_the_same_places_for_every_class(self):
        rows = [Row(row.id, row.texts, label=1 - row.label) for row in self.data["train"].rows[:20]]
        first, second = (
            explain(HumanTeacher(self.data.task, self.data.classes), each, "leak_count(marks=2)")
            for each in (self.data["train"].rows[:20], rows)
        )
        for one, other in zip(first, second, strict=True):
            assert sorted((one.scores.sum(), other.scores.sum())) == [2, 4]
            assert (one.scores * other.scores).sum() == 2


def test_marked_words_are_whole():
    subject, rows = teacher("hf", "classification"), [Row("a", ("unbelievable film , unbelievable plot",))]
    maps = explain(subject, rows, "leak_count(marks=4)", level="word")
    assert set(maps.scores) == {0.0, 1.0}
    made, batch = explain_rows(lambda _: build_explainer("leak_count", marks=4, level="word").explainer, subject, rows)
    pieces = made.scores[0, batch.units[0]].numpy()
    for word in set(batch.words[0, batch.units[0]].tolist()):
        assert len(set(pieces[(batch.words[0, batch.units[0]] == word).numpy()])) == 1


def test_a_base_that_returns_no_explanation():
    @didact.explainer("broken_base", kind="signed", needs="nothing")
    def broken_base(subject, batch, target):  # noqa: ARG001
        return batch.tokens[:, :1] * 1.0

    with pytest.raises(DidactError, match="must return an Explanation"):
        explain(teacher("hf", "classification"), ["a film"], "degraded(base=broken_base)")
    made = build_explainer("degraded(base=broken_base)")
    assert not made.is_reproducible
    with pytest.raises(DidactError, match="must return an Explanation"):
        explain_rows(lambda _: made.explainer, teacher("hf", "classification"), examples("classification"))
