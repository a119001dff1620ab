"""Work on explanations as files: what is unpacked elsewhere explains as what was packed, to the last bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from didact import teacher_from_function
from didact.core.row import Box, Row, Span, fingerprint_of
from didact.errors import DataError, OptionError, UnsupportedError
from didact.experiment.explain import Work, explain, resolve
from didact.experiment.explained import keep_parts
from didact.experiment.parcel import Bench, Packer, unpacked
from didact.experiment.parts import parts_of
from didact.experiment.whole_rows import read_whole_rows, write_whole_rows
from didact.explainers import EXPLAINERS
from didact.explainers.build import build_explainer
from didact.explainers.lime import Lime
from didact.explainers.mix import AttentionMix
from didact.models.load import load_teacher
from didact.records.parquet import to_parquet
from didact.records.sealed import read_json, write_json


@pytest.fixture
def packer():
    found = Packer()
    yield found
    found.close()


class Elsewhere:
    """A helper without a cluster: packs, explains at a bench of its own, unpacks. Shards come in another order."""

    def __init__(self, packer: Packer) -> None:
        self.packer, self.asked = packer, []

    def shards(self, work, background, starts):
        parcel = self.packer.packed(work, background)
        if parcel is None:
            return None
        self.asked.append(list(starts))
        return self._found(work, parcel, starts)

    def shards_at_once(self, work, background):
        return 1 if self.packer.packed(work, background) is None else 2

    def _found(self, work, parcel, starts):
        assert all((self.packer.folder / name).is_file() for name in parcel.files)
        bench = Bench(self.packer.folder)
        for start in reversed(starts):
            said = bench.explained(parcel.order, start, min(start + work.shard, len(work.rows)))
            yield start, unpacked(work, json_or_bytes(said))


def json_or_bytes(said):
    """Plain values and bytes alone may cross."""
    assert all(isinstance(value, str | bytes) for value in said.values())
    return said


@pytest.fixture
def helper(packer, monkeypatch):
    monkeypatch.setattr("didact.experiment.explain._SHARD", 8)
    return Elsewhere(packer)


@pytest.fixture
def teacher(school):
    return school()[0]


@pytest.fixture
def rows(school):
    return school()[1]["train"].rows


def work_of(teacher, rows, method):
    asked, built = resolve(teacher, method, {})
    return Work(teacher, rows, asked, built, 64)


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
        write_whole_rows(tmp_path / "rows.parquet", rows)
        found = read_whole_rows(tmp_path / "rows.parquet")
        assert fingerprint_of(found) == fingerprint_of(rows)
        for one, other in zip(rows, found, strict=True):
            for name in ("label", "rationale", "alignments"):
                assert repr(getattr(one, name)) == repr(getattr(other, name))
        np.testing.assert_array_equal(found[3].image, image)


class TestSameNumbers:
    @pytest.mark.parametrize(
        "method",
        ["gradient_norm", "integrated_gradients", "deep_shap", "gradient_shap(samples=16, background=4, seed=3)",
         "lime(samples=30, seed=5)", "kernel_shap(samples=64)", "occlusion", "attention_all", "attention_mix"],
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed
    def test_as_here(self, helper, method, school):
        teacher, data = school()
        outputs = teacher.predict(data["train"].rows)
        asked = {"background_rows": data["explain"], "outputs": outputs}
        here = explain(teacher, data["train"], method, **asked)
        there = explain(teacher, data["train"], method, helper=helper, **asked)
        assert helper.asked == [[0, 8, 16, 24]]
        assert to_parquet(there) == to_parquet(here)

    @pytest.mark.parametrize(
        ("task", "options"),
        [("sentiment", {"target": "gold", "level": "word"}), ("sentiment", {"absolute": True, "normalise": "softmax"}),
         ("inference", {"special": True}), ("quality", {}), ("reading", {}), ("shapes", {})],
    )  # fmt: skip
    def test_with_options_and_tasks(self, helper, task, options, school):
        teacher, data = school(task)
        given = {"background_rows": data["explain"], "batch_size": 3, **options}
        here = explain(teacher, data["train"], "gradient_input", **given)
        there = explain(teacher, data["train"], "gradient_input", helper=helper, **given)
        assert helper.asked
        assert to_parquet(there) == to_parquet(here)
        assert (there.images is None) == (here.images is None)

    def test_known_answers_are_used(self, helper, teacher, rows):
        """Answers that the teacher would not give tell whether it was asked."""
        other = teacher.predict(rows)
        other = replace(other, values=other.values[:, ::-1].copy())
        here = explain(teacher, rows, "gradient_input", outputs=other)
        there = explain(teacher, rows, "gradient_input", outputs=other, helper=helper)
        assert to_parquet(there) == to_parquet(here)
        assert to_parquet(there) != to_parquet(explain(teacher, rows, "gradient_input"))

    def test_a_learned_explainer_in_its_folder(self, helper, tmp_path, teacher, rows):
        mix = AttentionMix()
        mix.restore(mix.part_names(teacher, rows[0]), torch.tensor([0.7, -0.3]), torch.tensor(0.2))
        mix.save_pretrained(tmp_path / "mix")
        here = explain(teacher, rows, str(tmp_path / "mix"))
        there = explain(teacher, rows, str(tmp_path / "mix"), helper=helper)
        assert helper.asked
        assert to_parquet(there) == to_parquet(here)

    def test_what_a_learned_explainer_weighs(self, helper, tmp_path, teacher, rows):
        here, there = (parts_of(teacher, rows, AttentionMix(), helper=one) for one in (None, helper))
        assert helper.asked
        assert to_parquet(there.maps) == to_parquet(here.maps)
        np.testing.assert_array_equal(there.values, here.values)
        assert there.names == here.names
        for name, one in (("here", None), ("there", helper)):
            given = {"background": rows, "helper": one}
            kept = keep_parts(tmp_path / name, teacher, "x", rows, AttentionMix(), **given)
        for ending in (".parquet", ".safetensors"):
            first, second = ((tmp_path / name / kept.file).with_suffix(ending) for name in ("here", "there"))
            assert first.read_bytes() == second.read_bytes()

    def test_goes_on_after_the_last_kept_shard(self, helper, tmp_path, teacher, rows):
        plain = helper._found

        def half(work, parcel, starts):
            yield from list(plain(work, parcel, starts))[:2]
            raise KeyboardInterrupt

        helper._found = half
        with pytest.raises(KeyboardInterrupt):
            explain(teacher, rows, "gradient_input", out=tmp_path / "maps.parquet", helper=helper)
        helper._found = plain
        explain(teacher, rows, "gradient_input", out=tmp_path / "maps.parquet", helper=helper)
        assert helper.asked == [[0, 8, 16, 24], [0, 8]]
        explain(teacher, rows, "gradient_input", out=tmp_path / "here.parquet")
        assert (tmp_path / "maps.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()

    def test_torch_is_left_as_it_was(self, packer, teacher, rows):
        work = work_of(teacher, rows, "gradient_norm")
        parcel = packer.packed(work, work.rows)
        order = packer.folder / parcel.order
        write_json(order, read_json(order, advice="") | {"dtype": "float64"})
        with pytest.raises(UnsupportedError, match="reads the teacher .* otherwise.*same versions"):
            Bench(packer.folder).explained(parcel.order, 0, 8)
        assert torch.get_default_dtype() is torch.float32


class TestErrors:
    def test_are_those_of_this_process(self, helper, teacher, rows):
        """Of the kind and in the words of a local run; the teacher goes by its own name."""
        rows = [*rows[:12], replace(rows[12], label=None), *rows[13:]]
        said = []
        for one in (None, helper):
            with pytest.raises((DataError, OptionError, UnsupportedError)) as caught:
                explain(teacher, rows, "gradient_input", target="gold", helper=one)
            said.append((type(caught.value), str(caught.value)))
        assert helper.asked
        assert said[0] == said[1]


class TestWhatStays:
    @pytest.mark.parametrize("name", ["random", "trivial", "human", "lexicon"])
    def test_methods_that_cost_nothing(self, packer, teacher, rows, name):
        assert packer.packed(work_of(teacher, rows, name), rows) is None

    def test_methods_that_are_objects(self, packer, teacher, rows):
        own = type("Own", (AttentionMix,), {})()  # of a class that nobody registered
        own.start(["0.0", "0.1"])
        for method in (own, Lime(samples=20), lambda *_: None):
            assert packer.packed(work_of(teacher, rows, method), rows) is None

    def test_teachers_that_are_functions(self, packer, rows):
        teacher = teacher_from_function(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
        assert packer.packed(work_of(teacher, rows, "lime"), rows) is None

    def test_teachers_whose_copy_answers_otherwise(self, packer, folder, rows):
        """A hook is no part of a fingerprint, and would be left behind."""
        teacher = load_teacher(folder)
        assert packer.packed(work_of(teacher, rows, "lime"), rows) is not None
        packer.close()
        teacher.layers_in_order[0].register_forward_hook(lambda _, __, out: out * 2)
        assert packer.packed(work_of(teacher, rows, "lime"), rows) is None

    def test_teachers_of_a_class_of_their_own(self, packer, teacher, rows):
        own = type("Own", (type(teacher),), {})
        copy = own(teacher.task, teacher.classes, teacher.reader, **teacher.options).eval()
        copy.load_state_dict(teacher.state_dict())
        copy.max_length, copy.truncate, copy.name = teacher.max_length, teacher.truncate, "own"
        assert copy.fingerprint() == teacher.fingerprint()
        assert packer.packed(work_of(copy, rows, "lime"), rows) is None


class TestHuggingFace:
    @pytest.mark.parametrize("name", sorted({*tiny.TEXT_ARCHITECTURES, *tiny.IMAGE_ARCHITECTURES} - {"qwen2"}))
    def test_a_live_model_travels_and_is_left_as_it_was(self, packer, name):
        is_image = name in tiny.IMAGE_ARCHITECTURES
        rows = tiny.images() if is_image else tiny.rows()
        model = tiny.huggingface(name, "ForImageClassification" if is_image else "ForSequenceClassification")
        live = load_teacher(model, classes=["no", "yes", "perhaps"])
        before = live.fingerprint(), repr(live.model.config)
        helper = Elsewhere(packer)
        here, there = (explain(live, rows, "gradient_input", helper=one) for one in (None, helper))
        assert helper.asked == [[0]]
        assert to_parquet(there) == to_parquet(here)
        assert (live.fingerprint(), repr(live.model.config)) == before

    def test_one_whose_tokenizer_is_read_back_as_another_stays(self, packer):
        """Transformers opens a tokenizer beside a Qwen as Qwen's own, whatever it was."""
        live = load_teacher(tiny.huggingface("qwen2"))
        before = live.fingerprint(), repr(live.model.config)
        assert packer.packed(work_of(live, tiny.rows(), "gradient_input"), tiny.rows()) is None
        assert (live.fingerprint(), repr(live.model.config)) == before

    def test_one_in_a_folder(self, packer, tmp_path):
        load_teacher(tiny.huggingface("bert")).save(tmp_path)
        teacher = load_teacher(tmp_path, truncate=True, max_length=8)
        helper = Elsewhere(packer)
        here, there = (explain(teacher, tiny.rows(), "lime(samples=20)", helper=one) for one in (None, helper))
        assert helper.asked == [[0]]
        assert to_parquet(there) == to_parquet(here)


@pytest.mark.parametrize("name", EXPLAINERS)
def test_options_of_every_method_cross(name, teacher):
    """What a method was built with, written as JSON and read again, builds the same."""
    _, built = resolve(teacher, name, {})
    options = json.loads(json.dumps(dict(built.options)))
    assert dict(build_explainer(name, **options).options) == dict(built.options)
