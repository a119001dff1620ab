"""Shards of explanations as jobs: what a worker explains from files is what this process explains, to the last bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from didact import teacher_from_function
from didact.core.row import Box, Row, Span, fingerprint_of
from didact.errors import DataError, DidactError, OptionError, UnsupportedError
from didact.execution.in_process import InProcess
from didact.explainers import EXPLAINERS
from didact.explainers.build import build_explainer
from didact.explainers.lime import Lime
from didact.explainers.mix import AttentionMix
from didact.explaining.dataset import DatasetJob
from didact.explaining.explain import explain
from didact.explaining.job import ExplainJob
from didact.explaining.method_options import resolve_method
from didact.explaining.row_io import load_rows, read_answers, save_rows
from didact.explaining.saved_teacher import save_copy
from didact.explaining.shard_jobs import ShardDistributor
from didact.explaining.shard_store import ShardStore
from didact.files.checksummed import read_json, write_json
from didact.models.load import load_teacher
from didact.results.explanations_parquet import to_parquet


class Elsewhere(InProcess):
    """An executor that reads and writes files alone, as a cluster does. It takes jobs in another order."""

    runs_elsewhere = shares_explaining = True

    def max_concurrency(self):
        return 2

    def run(self, manifest, jobs):
        jobs = list(jobs)
        for job in jobs:
            assert all((manifest.root / name).is_file() for name in job.inputs)
            assert len(set(job.inputs)) == len(job.inputs)
        for result in super().run(manifest, jobs[::-1]):
            (job,) = (job for job in jobs if job.key == result.key)
            if result.status == "done":
                assert all((manifest.root / name).is_file() for name in job.outputs)
            yield result


class Sharing:
    """Explains as `compare` does on a cluster, and counts the shards that were jobs."""

    def __init__(self, root):
        self.root, self.shared = root, []
        self.jobs = ShardDistributor(Elsewhere(), root)

    def explain(self, teacher, rows, method, *, background=None, outputs=None, batch_size=None, **options):
        background = rows if background is None else background
        job = ExplainJob.of(teacher, method, options, background=background, batch_size=batch_size)
        work = DatasetJob(job, rows, outputs)
        work.check()
        store = work.store(self.root / "explanations" / "maps.parquet")
        maps = work.explain(store, explain_shards=self._explain_shards)
        store.clear()
        return maps

    def _explain_shards(self, work, store, progress):
        self.shared.append(self.jobs.explain_shards(work, store, progress))
        return self.shared[-1]


@pytest.fixture
def sharing(tmp_path, monkeypatch):
    monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 8)
    found = Sharing(tmp_path / "run")
    with found.jobs:
        yield found
    assert not list((tmp_path / "run").rglob("jobs*"))


@pytest.fixture
def teacher(school):
    return school()[0]


@pytest.fixture
def rows(school):
    return school()[1]["train"].rows


class TestRows:
    def test_keep_all_that_rows_hold(self, tmp_path):
        image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
        rows = [
            Row("a", ("x", "über"), label=1, rationale=(Span(0, 0, 1),), alignments=((Span(0, 0, 1), Span(1, 0, 2)),)),
            Row("b", ("y",), label=0.1, rationale=()),
            Row("c", ("q", "p"), label=(Span(1, 0, 1), Span(1, 2, 3))),
            Row("d", image=image, label=2, rationale=(Box(0, 0, 1, 1),)),
            Row("e", ("z",)),
        ]
        save_rows(tmp_path / "rows.parquet", rows)
        found = load_rows(tmp_path / "rows.parquet")
        assert fingerprint_of(found) == fingerprint_of(rows)
        for one, other in zip(rows, found, strict=True):
            for name in ("label", "rationale", "alignments"):
                assert repr(getattr(one, name)) == repr(getattr(other, name))
        np.testing.assert_array_equal(found[3].image, image)

    def test_keep_known_answers(self, tmp_path):
        save_rows(tmp_path / "rows.parquet", [Row("a", ("x",)), Row("b", ("y",))], np.array([[0.1, 2.0], [3.0, 4.0]]))
        np.testing.assert_array_equal(read_answers(tmp_path / "rows.parquet"), [[0.1, 2.0], [3.0, 4.0]])
        save_rows(tmp_path / "rows.parquet", [Row("a", ("x",))])
        assert read_answers(tmp_path / "rows.parquet") is None


class TestSameNumbers:
    @pytest.mark.parametrize(
        "method",
        ["gradient_norm", "integrated_gradients", "deep_shap", "gradient_shap(samples=16, background=4, seed=3)",
         "lime(samples=30, seed=5)", "kernel_shap(samples=64)", "occlusion", "attention_all", "attention_mix"],
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed
    def test_as_here(self, sharing, method, school):
        teacher, data = school()
        rows, background = data["train"].rows, data["explain"].rows
        outputs = teacher.predict(rows)
        here = explain(teacher, rows, method, background_rows=background, outputs=outputs)
        there = sharing.explain(teacher, rows, method, background=background, outputs=outputs)
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)

    @pytest.mark.parametrize(
        ("task", "options"),
        [("sentiment", {"target": "gold", "level": "word"}), ("sentiment", {"absolute": True, "normalise": "softmax"}),
         ("inference", {"special": True}), ("quality", {}), ("reading", {}), ("shapes", {})],
    )  # fmt: skip
    def test_with_options_and_tasks(self, sharing, task, options, school):
        teacher, data = school(task)
        rows, background = data["train"].rows, data["explain"].rows
        here = explain(teacher, rows, "gradient_input", background_rows=background, batch_size=3, **options)
        there = sharing.explain(teacher, rows, "gradient_input", background=background, batch_size=3, **options)
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)
        assert (there.images is None) == (here.images is None)

    def test_known_answers_are_used(self, sharing, teacher, rows):
        """Answers that the teacher would not give tell whether it was asked."""
        other = teacher.predict(rows)
        other = replace(other, values=other.values[:, ::-1].copy())
        here = explain(teacher, rows, "gradient_input", outputs=other)
        there = sharing.explain(teacher, rows, "gradient_input", outputs=other)
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)
        assert to_parquet(there) != to_parquet(explain(teacher, rows, "gradient_input"))

    def test_a_learned_explainer_in_its_folder(self, sharing, tmp_path, teacher, rows):
        mix = AttentionMix()
        mix.restore(mix.component_names(teacher, rows[0]), torch.tensor([0.7, -0.3]), torch.tensor(0.2))
        mix.save_pretrained(tmp_path / "mix")
        here = explain(teacher, rows, str(tmp_path / "mix"))
        there = sharing.explain(teacher, rows, str(tmp_path / "mix"))
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)

    def test_only_missing_shards_are_jobs(self, sharing, teacher, rows, monkeypatch):
        stopped, done, plain = [], [], Elsewhere.run

        def half(self, manifest, jobs):
            for result in plain(self, manifest, jobs):
                done.append(result.key)
                if len(done) == 2 and not stopped:
                    stopped.append(True)
                    raise KeyboardInterrupt
                yield result

        monkeypatch.setattr(Elsewhere, "run", half)
        with pytest.raises(KeyboardInterrupt):
            sharing.explain(teacher, rows, "gradient_input")
        first, done[:] = list(done), []
        there = sharing.explain(teacher, rows, "gradient_input")
        assert (len(first), len(done), set(first) & set(done)) == (2, 2, set())
        assert to_parquet(there) == to_parquet(explain(teacher, rows, "gradient_input"))

    def test_the_teacher_is_saved_once(self, sharing, teacher, rows, monkeypatch):
        saved, plain = [], save_copy
        monkeypatch.setattr(
            "didact.explaining.shard_jobs.save_copy", lambda *args: saved.append(args[1]) or plain(*args)
        )
        for method in ("gradient_input", "gradient_norm"):
            sharing.explain(teacher, rows, method)
        assert (sharing.shared, len(saved)) == ([True, True], 1)


def test_the_last_shard_of_a_stopped_run_is_explained_here(sharing, teacher, rows, tmp_path, monkeypatch):
    """One shard is not worth a worker; it joins those that workers made."""
    clear = ShardStore.clear
    monkeypatch.setattr(ShardStore, "clear", lambda *_: None)
    whole = sharing.explain(teacher, rows, "occlusion")
    monkeypatch.setattr(ShardStore, "clear", clear)
    *_, last = sorted(tmp_path.rglob("*.shards/*.parquet"))
    last.unlink()
    again = sharing.explain(teacher, rows, "occlusion")
    assert sharing.shared == [True, False]
    assert to_parquet(again) == to_parquet(whole)


class TestErrors:
    def test_are_those_of_this_process(self, sharing, teacher, rows):
        """Of the kind and in the words of a local run; the teacher goes by its own name."""
        rows = [*rows[:12], replace(rows[12], label=None), *rows[13:]]
        said = []
        for explained in (explain, sharing.explain):
            with pytest.raises((DataError, OptionError, UnsupportedError)) as caught:
                explained(teacher, rows, "gradient_input", target="gold")
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]

    def test_of_a_method_name_its_rows(self, sharing, teacher, rows, monkeypatch):
        monkeypatch.setattr(ExplainJob, "explain", lambda *_: 1 / 0)
        with pytest.raises(
            DidactError,
            match=r"'occlusion' could not explain the 6 rows from .* ZeroDivisionError: (.|\n)*again to resume",
        ):
            sharing.explain(teacher, rows, "occlusion")

    def test_a_worker_that_reads_the_teacher_otherwise(self, sharing, teacher, rows, monkeypatch):
        plain = Elsewhere.run

        def run(self, manifest, jobs):
            write_json(manifest.path, read_json(manifest.path, advice="") | {"settings": "others"})
            return plain(self, manifest, jobs)

        monkeypatch.setattr(Elsewhere, "run", run)
        with pytest.raises(
            DidactError, match="teacher .* differs from that of the calling process.*other versions of torch"
        ):
            sharing.explain(teacher, rows, "occlusion")


class TestWhatStays:
    @pytest.mark.parametrize("name", ["random", "trivial", "leak_count", "human", "lexicon"])
    def test_methods_that_cost_nothing(self, sharing, teacher, rows, name):
        sharing.explain(teacher, rows, name)
        assert sharing.shared == [False]

    def test_methods_that_are_objects(self, sharing, teacher, rows):
        own = type("Own", (AttentionMix,), {})()  # of a class that nobody registered
        own.restore(own.component_names(teacher, rows[0]), torch.tensor([0.7, -0.3]), torch.tensor(0.2))
        for method in (own, Lime(samples=20)):
            sharing.explain(teacher, rows, method)
        assert sharing.shared == [False, False]

    def test_one_shard(self, sharing, teacher, rows):
        sharing.explain(teacher, rows[:8], "occlusion")
        assert sharing.shared == [False]

    def test_where_one_job_runs_at_a_time(self, sharing, teacher, rows, monkeypatch):
        monkeypatch.setattr(Elsewhere, "max_concurrency", lambda _: 1)
        sharing.explain(teacher, rows, "occlusion")
        assert sharing.shared == [False]

    def test_teachers_that_are_functions(self, sharing, rows):
        teacher = teacher_from_function(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
        sharing.explain(teacher, rows, "occlusion")
        assert sharing.shared == [False]

    def test_teachers_whose_copy_answers_otherwise(self, sharing, folder, rows):
        """A hook is no part of a fingerprint, and would be left behind."""
        teacher = load_teacher(folder)
        teacher.layers_in_order[0].register_forward_hook(lambda _, __, out: out * 2)
        sharing.explain(teacher, rows, "occlusion")
        assert sharing.shared == [False]

    def test_teachers_of_a_class_of_their_own(self, sharing, teacher, rows):
        own = type("Own", (type(teacher),), {})
        copy = own(teacher.task, teacher.classes, teacher.reader, **teacher.options).eval()
        copy.load_state_dict(teacher.state_dict())
        copy.max_length, copy.truncate, copy.name = teacher.max_length, teacher.truncate, "own"
        assert copy.fingerprint() == teacher.fingerprint()
        sharing.explain(copy, rows, "occlusion")
        assert sharing.shared == [False]


class TestHuggingFace:
    @pytest.mark.parametrize("name", sorted({*tiny.TEXT_ARCHITECTURES, *tiny.IMAGE_ARCHITECTURES} - {"qwen2"}))
    def test_a_live_model_is_copied_and_left_as_it_was(self, sharing, name, monkeypatch):
        monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 1)
        is_image = name in tiny.IMAGE_ARCHITECTURES
        rows = tiny.images() if is_image else tiny.rows()
        model = tiny.huggingface(name, "ForImageClassification" if is_image else "ForSequenceClassification")
        live = load_teacher(model, classes=["no", "yes", "perhaps"])
        before = live.fingerprint(), repr(live.model.config)
        here, there = (explained(live, rows, "gradient_input") for explained in (explain, sharing.explain))
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)
        assert (live.fingerprint(), repr(live.model.config)) == before

    def test_one_whose_tokenizer_is_read_back_as_another_stays(self, tmp_path):
        """Transformers opens a tokenizer beside a Qwen as Qwen's own, whatever it was."""
        live = load_teacher(tiny.huggingface("qwen2"))
        before = live.fingerprint(), repr(live.model.config)
        assert save_copy(live, before[0], tmp_path, tiny.rows()) is None
        assert (live.fingerprint(), repr(live.model.config)) == before
        assert list(tmp_path.iterdir()) == []

    def test_one_in_a_folder(self, sharing, tmp_path, monkeypatch):
        monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 1)
        load_teacher(tiny.huggingface("bert")).save(tmp_path)
        teacher = load_teacher(tmp_path, truncate=True, max_length=8)
        rows = tiny.rows()
        here, there = (explained(teacher, rows, "lime(samples=20)") for explained in (explain, sharing.explain))
        assert sharing.shared == [True]
        assert to_parquet(there) == to_parquet(here)


@pytest.mark.parametrize("name", EXPLAINERS)
def test_options_of_every_method_cross(name, teacher):
    """What a method was built with, written as JSON and read again, builds the same."""
    _, built = resolve_method(teacher, name, {})
    options = json.loads(json.dumps(dict(built.options)))
    assert dict(build_explainer(name, **options).options) == dict(built.options)
