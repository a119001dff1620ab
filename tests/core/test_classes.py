"""Classes are matched by name, in one place: what a label means to a model, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

import didact
import tiny
from didact.core.classes import align_labels, align_rows, check_class_names, match_classes
from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.core.row import Row
from didact.core.task import CLASSIFICATION, REGRESSION
from didact.data.load import load_data
from didact.data.planted.verify import verify
from didact.errors import OptionError
from didact.models.huggingface import HuggingFaceModel


class TestMatch:
    @pytest.mark.parametrize(
        ("data", "model", "mapping"),
        [
            (("POSITIVE",), ("NEGATIVE", "POSITIVE"), (1,)),
            (("Acceptable", "Bad"), ("bad", "acceptable"), (1, 0)),
            ((" neutral ", "Not  entailed"), ("not entailed", "x", "neutral"), (2, 0)),
            (("a", "A"), ("A", "a"), (1, 0)),  # as written, where case tells classes apart
            (("0", "1"), ("1", "0"), (1, 0)),
            (("LABEL_1",), ("LABEL_0", "LABEL_1"), (1,)),
            ((), ("a", "b"), ()),
        ],
    )
    def test_by_name(self, data, model, mapping):
        found = match_classes(data, model)
        assert (found.mapping, found.note) == (mapping, None)

    @pytest.mark.parametrize(
        ("data", "mapping"), [(("0", "1", "2"), (0, 1, 2)), (("2",), (2,)), (("2", "0"), (2, 0)), (("1", "10"), None)]
    )
    def test_numbers_meet_names_that_nobody_gave(self, data, mapping):
        model = ("LABEL_0", "LABEL_1", "LABEL_2")
        if mapping is None:
            with pytest.raises(OptionError, match="1, 10"):
                match_classes(data, model)
            return
        found = match_classes(data, model)
        assert found.mapping == mapping
        assert "by number" in found.note
        assert f"{data[0]} = LABEL_{data[0]}" in found.note

    @pytest.mark.parametrize(
        ("data", "model", "says"),
        [
            (("good", "terrible"), ("NEGATIVE", "POSITIVE"), "--classes good,terrible"),
            (("good", "terrible"), ("LABEL_0", "LABEL_1"), "good is LABEL_0, terrible is LABEL_1"),
            (
                ("0", "1"),
                ("NEGATIVE", "POSITIVE"),
                "classes=['0', '1'] (on the command line --classes 0,1) means that 0 is",
            ),
            (("angry", "happy", "sad"), ("NEGATIVE", "POSITIVE"), "more classes than the model (3 and 2)"),
            (("1", "2"), ("LABEL_0", "LABEL_1"), "--classes 1,2"),
            (("good",), ("NEGATIVE", "POSITIVE"), "--classes good,none"),
            (("bad", "good"), ("good", "evil"), "--classes good,bad"),  # the name that fits stands where it belongs
            (("a",), ("A", " a "), "--classes"),  # two classes of the model, and neither as written
        ],
    )
    def test_what_names_do_not_decide_is_refused(self, data, model, says):
        with pytest.raises(OptionError) as caught:
            match_classes(data, model)
        assert f"The data's classes are {', '.join(data)}, and the model's are {', '.join(model)}." in str(caught.value)
        assert says in str(caught.value)

    def test_spellings_of_one_class(self):
        found = match_classes(("Bad", "bad", "good"), ("good", "bad"))
        assert found.mapping == (1, 1, 0)
        assert "Bad, bad as bad" in found.note

    def test_as_given(self):
        model = ("NEGATIVE", "POSITIVE")
        assert match_classes(("good", "terrible"), model, classes=["terrible", "good"]).mapping == (1, 0)
        assert match_classes(("good", "terrible"), model, classes=("Terrible", " Good")).mapping == (1, 0)
        assert match_classes(("0", "1"), model, classes=[1, 0]).mapping == (1, 0)
        assert match_classes(("good",), model, classes=["none", "good"]).mapping == (1,)
        assert match_classes(("NEGATIVE", "POSITIVE"), model, classes=["POSITIVE", "NEGATIVE"]).mapping == (1, 0)
        with pytest.raises(OptionError, match=r"one for each of the model's 2 classes .* 1 were given: good"):
            match_classes(("good",), model, classes=["good"])
        with pytest.raises(OptionError, match="every class of the data once, and terrible is missing"):
            match_classes(("good", "terrible"), model, classes=["good", "bad"])
        with pytest.raises(OptionError, match="good is missing"):
            match_classes(("good",), model, classes=["good", "good"])


def dataset(classes=("Good", "bad"), task=CLASSIFICATION, **more):
    rows = [Row("a", ("a good film",), label=0), Row("b", ("bad",), label=1), Row("c", ("the plot",))]
    splits = {"dev": Split("dev", rows[:1]), "test": Split("test", rows)}
    return Dataset("d", task, splits, classes, all_rows=Split("all", rows[::-1]), notes=("read",), **more)


def teacher(*classes):
    """A model whose answer is always its first class."""
    sure = np.eye(len(classes))[0] * 0.9 + 0.05
    return didact.teacher_from_function(lambda texts: np.tile(sure, (len(texts), 1)), classes=classes)


class TestAlign:
    def test_labels_become_those_of_the_teacher(self):
        found = align_labels(dataset(), teacher("x", "bad", "good"))
        assert found.classes == ("x", "bad", "good")
        assert [row.label for row in found["test"]] == [2, 1, None]
        assert [row.label for row in found["all"]] == [None, 1, 2]
        assert found["test"][:2].classes == found["all"].classes == found.classes
        assert found.notes == ("read",)
        assert align_labels(found, teacher("x", "bad", "good")) is found

    def test_names_that_are_given_are_used_once(self):
        model = teacher("good", "bad")
        turned = align_labels(dataset(("good", "bad")), model, classes=["bad", "good"])
        assert [row.label for row in turned["test"]] == [1, 0, None]
        assert align_labels(turned, model, classes=["bad", "good"]) is turned

    def test_notes_are_told(self):
        found = align_labels(dataset(("0", "1")), teacher("LABEL_0", "LABEL_1"))
        assert found.notes[0] == "read"
        assert "by number" in found.notes[1]

    def test_labels_that_do_not_fit(self):
        with pytest.raises(OptionError, match="The data's classes are Good, bad"):
            align_labels(dataset(), teacher("no", "yes"))
        found = align_labels(dataset(), teacher("no", "yes"), required=False)
        assert all(row.label is None for name in ("dev", "test", "all") for row in found[name])
        assert "labels are left out" in found.notes[1]
        assert found.classes == ("no", "yes")
        with pytest.raises(OptionError, match="Good, bad"):  # wrong names are told, needed or not
            align_labels(dataset(), teacher("no", "yes"), classes=["n", "y"], required=False)

    def test_what_has_no_labels_or_classes_passes(self):
        plain = dataset(None)
        assert align_labels(plain, teacher("no", "yes")) is plain
        rated = dataset(None, REGRESSION)
        assert align_labels(rated, teacher("no", "yes")) is rated
        bare = dataset(("p", "q", "r"))
        bare = replace(bare, splits={"test": Split("test", [Row("a", ("a",))])}, all_rows=None)
        assert align_labels(bare, teacher("no", "yes")).classes == ("no", "yes")

    def test_rows_of_no_split_are_in_the_models_order_already(self):
        rows = list(dataset()["test"])
        assert align_rows(rows, ("bad", "good")) == (rows, None)
        with pytest.raises(OptionError, match="carry no class names"):
            align_rows(rows, ("bad", "good"), classes=["bad", "good"])


class TestSplits:
    def test_know_their_classes_in_every_part(self):
        split = dataset()["test"]
        parts = (split, split[:2], split[1:][:1], split.select([1, 0]))
        assert all(part.classes == ("Good", "bad") for part in parts)

    def test_a_data_set_decides_what_its_splits_mean(self):
        split = dataset()["test"]
        assert Dataset("other", CLASSIFICATION, {"test": split}, ("x", "y"))["test"].classes == ("x", "y")
        assert split.classes == ("Good", "bad")


class TestLibrary:
    """The gold class of `a good film` is the teacher's `good`, whatever the order or the way in."""

    @pytest.fixture
    def model(self):
        network, tokenizer = tiny.huggingface("bert", labels=2, id2label={0: "bad", 1: "acceptable"})
        return HuggingFaceModel(network, tokenizer, task=CLASSIFICATION, classes=("bad", "acceptable"), name="m")

    @pytest.fixture
    def data(self, tmp_path):
        rows = [{"id": f"r{n}", "text": t, "label": v} for n, (t, v) in enumerate(self.TEXTS)]
        (tmp_path / "films.jsonl").write_text("\n".join(map(json.dumps, rows)))
        found = load_data(tmp_path / "films.jsonl")
        assert found.classes == ("acceptable", "bad")  # sorted; the model has them the other way
        return found

    TEXTS = tuple((f"a {word} film {n}", {"good": "acceptable", "bad": "bad"}[word]) for n in range(8)
                  for word in ("good", "bad"))  # fmt: skip

    def test_explain(self, model, data):
        for rows in (data["test"][:3], data["all"], data):
            maps = didact.explain(model, rows, "gradient_norm", target="gold")
            assert len(maps) == (3 if rows is not data and len(rows) == 3 else 16)
            for texts, target in zip(maps.texts, maps.targets, strict=True):
                assert target == ("acceptable" if "good" in texts[0] else "bad")

    def test_a_preset_that_explains_gold(self, model, data):
        maps = didact.explain(model, data["all"][:2], "occlusion", preset="l2e")
        assert maps.targets == ("acceptable", "bad")

    def test_case_does_not_matter(self, model, data):
        other = replace(data, classes=("ACCEPTABLE", " Bad"))
        for asked in ({"target": "gold"}, {"preset": "l2e"}):
            assert didact.explain(model, other["all"][:2], "occlusion", **asked).targets == ("acceptable", "bad")
        assert didact.explain(model, other["all"][:2], "lime(samples=10, target=gold)").targets == ("acceptable", "bad")

    def test_plain_rows_keep_their_meaning(self, model, data):
        maps = didact.explain(model, list(data["all"])[:2], "gradient_norm", target="gold")
        assert maps.targets == ("bad", "acceptable")

    def test_other_names(self, model, data):
        other = replace(data, classes=("yes", "no"))
        predicted = didact.explain(model, other["all"], "gradient_norm")
        assert predicted.targets == predicted.predictions
        with pytest.raises(OptionError, match="--classes"):
            didact.explain(model, other["all"], "gradient_norm", target="gold")
        maps = didact.explain(model, other["all"][:2], "gradient_norm", target="gold", classes=["no", "yes"])
        assert maps.targets == ("acceptable", "bad")

    def test_a_data_set_of_one_file_is_explained_in_its_order(self, model, data):
        assert didact.explain(model, data, "gradient_norm").ids == tuple(f"r{n}" for n in range(16))
        with pytest.raises(OptionError, match="Choose a split of 'films'"):
            didact.explain(model, replace(data, all_rows=None), "gradient_norm")

    def test_streams(self, model, data, tmp_path):
        for source in (tmp_path / "films.jsonl", data["all"], iter(data["all"].rows)):
            out = tmp_path / "m.parquet"
            found = didact.explain_stream(model, source, "gradient_norm", out=out, target="gold", overwrite=True)
            told = didact.Explanations.load(found.path).targets
            swapped = not isinstance(source, type(data["all"])) and source != tmp_path / "films.jsonl"
            assert told[:2] == (("bad", "acceptable") if swapped else ("acceptable", "bad"))

    def test_a_metric_of_ones_own_reads_labels_of_the_teacher(self, model, data):
        maps = didact.explain(model, data, "gradient_norm", target="gold")

        def is_gold(explained, row):
            return model.classes[row.label] == explained.target

        is_gold.better = "higher"
        frame = didact.evaluate(maps, model, data, metrics=is_gold, control=False)
        assert frame["value"].tolist() == [1.0]
        other = replace(data, classes=("yes", "no"))
        frame = didact.evaluate(maps, model, other, metrics=is_gold, control=False, classes=["no", "yes"])
        assert frame["value"].tolist() == [1.0]
        with pytest.raises(OptionError, match="no class names"):
            didact.evaluate(maps, model, list(data["all"]), metrics=is_gold, control=False, classes=["no", "yes"])

    def test_learning_from_gold(self, model, data):
        asked = {"initialisations": 1, "training": {"epochs": 1}, "imitate": "occlusion(target=gold)"}
        assert didact.learn_l2e(model, data, **asked).learned["train_rows"] == len(data["explain"])
        other = replace(data, classes=("yes", "no"))
        with pytest.raises(OptionError, match="--classes"):
            didact.learn_l2e(model, other, **asked)
        didact.learn_l2e(model, other, classes=["no", "yes"], **asked)

    def test_a_twin_learns_labels_of_the_teacher(self, model, data):
        other = replace(data, classes=("yes", "no"))
        asked = {"checks": ["labels"], "epochs": 1, "rows": 2}
        with pytest.raises(OptionError, match="--classes"):
            didact.sanity(model, other, ["gradient_norm"], **asked)
        assert didact.sanity(model, other, ["gradient_norm"], classes=["no", "yes"], **asked).labels
        assert didact.sanity(model, other, ["gradient_norm"], checks=["trivial"], rows=2).notes


def test_a_planted_truth_is_verified_in_any_order():
    data = load_data("planted/sentiment(teach=4, explain=4, train=4, dev=4, test=40)")
    oracle = data.oracle()
    turned = didact.teacher_from_function(
        lambda texts: oracle.predict([Row(str(n), (text,)) for n, text in enumerate(texts)]).values[:, ::-1].copy(),
        classes=data.classes[::-1],
        output="logit",
    )
    assert verify(turned, data).verified


def test_names_of_classes_may_be_an_array():
    """As `classes_` of scikit-learn is."""
    teacher = FunctionTeacher(lambda texts: np.full((len(texts), 2), 0.5), np.array(["no", "yes"]))
    assert teacher.classes == ("no", "yes")
    for wrong in ({"no", "yes"}, {"no": 0}, "no", iter(["no"])):
        with pytest.raises(OptionError, match="classes must be a list of names"):
            check_class_names(wrong)
