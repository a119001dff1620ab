"""`didact.agree`: rows matched, groups pooled, undefined rows counted, labels told apart, and what is refused."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import didact
from didact.core.row import Row
from didact.errors import DataError, OptionError, RequestError, ShapeError, UnknownNameError, UnsupportedError
from didact.evaluation.agree import agree, agreements
from didact.explaining.explain import explain
from didact.metrics.agreement import AGREEMENT
from didact.metrics.prediction import Prediction
from didact.results.agreement import CAUTION, Agreement, draw_agreements
from scored import maps_of
from teachers import examples, teacher

# Row 0: same order. Row 1: opposite. Row 2: one pair of three turned. Row 3: a single unit. Row 4: the second is flat.
FIRST = maps_of([1, 2, 3], [1, 2], [1, 2, 3], [5], [1, 2, 3, 4])
SECOND = maps_of([4, 5, 9], [7, 2], [1, 3, 2], [5], [2, 2, 2, 2], method="ig")


def test_by_hand():
    found = agree([FIRST, SECOND])
    assert found.methods == ("lime", "ig")
    assert found.measure == "kendall"
    assert found.by == "size"
    np.testing.assert_allclose(found.values[:3, 0, 1], [1, -1, 1 / 3])
    assert found.matrix[0, 1] == found.between("lime", "ig") == pytest.approx(1 / 9)
    assert found.sd[0, 1] == pytest.approx(np.std([1, -1, 1 / 3], ddof=1))
    assert found.rows.tolist() == [[4, 3], [3, 3]]
    assert found.skipped.tolist() == [[1, 2], [2, 2]]
    assert (found.matrix[0, 0], found.matrix[1, 1]) == (1, 1)


def test_undefined_rows_are_never_zero():
    flat = replace(SECOND, scores=np.zeros_like(SECOND.scores))
    found = agree([FIRST, flat])
    assert np.isnan(found.matrix[0, 1])
    assert found.skipped[0, 1] == 5
    assert "up to 5 rows" in found.table()
    assert found.to_document()["rows"] == [[4, 0], [0, 0]]


def test_rows_are_matched_by_id():
    order = [3, 1, 4, 0, 2]
    turned = agree([FIRST, SECOND.select(order)])
    np.testing.assert_array_equal(turned.values, agree([FIRST, SECOND]).values)
    assert turned.ids == FIRST.ids
    np.testing.assert_array_equal(agree([FIRST.select(order), SECOND]).values, agree([FIRST, SECOND]).values[order])


def test_files_are_read(tmp_path):
    FIRST.save(tmp_path / "a.parquet")
    SECOND.save(tmp_path / "b.parquet")
    found = agree([tmp_path / "a.parquet", str(tmp_path / "b.parquet")])
    np.testing.assert_array_equal(found.values, agree([FIRST, SECOND]).values)


class TestOtherTools:
    """Their files are read onto the data, and go with the one teacher that the others explain."""

    def theirs(self, tmp_path, maps, **more):
        lines = [
            json.dumps({"id": one.id, "tokens": list(one.tokens), "attributions": one.scores.tolist()} | more)
            for one in maps
        ]
        path = tmp_path / "theirs.jsonl"
        path.write_text("\n".join(lines))
        return path

    def test_as_if_they_were_ours(self, tmp_path):
        rows = [Row(name, texts) for name, texts in zip(FIRST.ids, FIRST.texts, strict=True)]
        found = agree([self.theirs(tmp_path, SECOND), FIRST], data=rows)
        assert found.methods == ("theirs", "lime")
        np.testing.assert_array_equal(found.values, agree([replace(SECOND, method="theirs"), FIRST]).values)

    def test_they_say_whose_they_are_or_it_is_clear(self, tmp_path):
        rows = [Row(name, texts) for name, texts in zip(FIRST.ids, FIRST.texts, strict=True)]
        with pytest.raises(ShapeError, match="only set in group 'bert'.*--together"):
            agree([self.theirs(tmp_path, SECOND, model="bert"), FIRST], data=rows)
        others = [FIRST, SECOND, replace(FIRST, teacher="u"), replace(SECOND, teacher="u")]
        with pytest.raises(ShapeError, match="only set in group 'unnamed'"):
            agree([self.theirs(tmp_path, SECOND), *others], data=rows)

    def test_data_are_wanted(self, tmp_path):
        with pytest.raises(
            OptionError, match="theirs.jsonl. To match explanations of another tool with rows, .*--data"
        ):
            agree([self.theirs(tmp_path, SECOND), FIRST])


class TestLabels:
    def test_options_in_which_they_differ(self):
        one, two = (replace(FIRST, options={"samples": n, "width": 1}) for n in (200, 500))
        assert agree([one, two, SECOND]).methods == ("lime(samples=200)", "lime(samples=500)", "ig")

    def test_files(self, tmp_path):
        for name in ("monday", "tuesday"):
            FIRST.save(tmp_path / f"{name}.parquet")
        assert agree([tmp_path / "monday.parquet", tmp_path / "tuesday.parquet"]).methods == ("monday", "tuesday")

    def test_numbers(self):
        assert agree([FIRST, FIRST, SECOND]).methods == ("lime #1", "lime #2", "ig")

    def test_teachers(self):
        other = replace(FIRST, teacher="u", fingerprints={"teacher": "cd"})
        assert agree([FIRST, other], groups="all").methods == ("lime, t", "lime, u")


class TestGroups:
    """Two seeds of a teacher, with the same methods on the same rows."""

    def seeds(self):
        other = [replace(maps, teacher="u", fingerprints={"teacher": "cd"}) for maps in (FIRST, SECOND)]
        other[1] = replace(other[1], scores=np.array([3.0, 2, 1, 2, 7, 3, 2, 1, 5, 4, 3, 2, 1]))
        return [FIRST, SECOND], other

    def test_rows_of_seeds_are_pooled(self):
        first, second = self.seeds()
        found = agree([first[0], second[0], second[1], first[1]])
        assert found.methods == ("lime", "ig")
        assert found.values.shape == (10, 2, 2)
        means = [agree(part).matrix[0, 1] for part in (first, second)]
        assert means[1] == pytest.approx((-1 + 1 - 1 - 1) / 4)
        assert found.matrix[0, 1] == pytest.approx((3 * means[0] + 4 * means[1]) / 7)
        assert found.group_sd[0, 1] == pytest.approx(np.std(means, ddof=1))
        assert np.isnan(agree(first).group_sd).all()
        assert list(found.each("group")) == ["t", "u"]
        assert found.each("group")["u"].matrix[0, 1] == pytest.approx(means[1])
        assert "2 groups are pooled (t, u)" in found.table()

    def test_teachers_of_one_name(self):
        first, second = self.seeds()
        found = agree([*first, *(replace(maps, teacher="t") for maps in second)])
        assert list(found.each("group")) == ["t, ab", "t, cd"]

    def test_a_method_that_only_one_group_has(self):
        first, second = self.seeds()
        found = agree([*first, *second, replace(second[0], method="extra")])
        assert found.rows[0, 2] == 4
        assert found.skipped[0, 2] == 1, "the other group's rows are neither counted nor skipped"
        assert "'extra' is in 1 of 2 groups." in found.notes

    def test_groups_by_name(self):
        first, second = self.seeds()
        found = agree([*first, *second], groups=["a", "a", "b", "b"])
        assert list(found.each("group")) == ["a", "b"]

    def test_alone_in_its_group(self):
        _, second = self.seeds()
        with pytest.raises(ShapeError, match="the only set in group 't'.*groups='all'"):
            agree([FIRST, *second])

    def test_tasks(self):
        first, second = self.seeds()
        pairs = [replace(maps, task="pair") for maps in second]
        assert list(agree([*first, *pairs]).each("task")) == ["classification", "pair"]

    def test_other_options_under_one_name_are_told(self):
        first, second = self.seeds()
        second[0] = replace(second[0], options={"samples": 3})
        assert "'lime' has different options in different groups." in agree([*first, *second]).notes


def test_length_in_quarters():
    dice = np.random.default_rng(0)
    counts = [2] * 4 + [3] * 4 + [5] * 4 + [6, 7, 8, 9]
    maps = [maps_of(*[dice.normal(size=count) for count in counts], method=name) for name in "ab"]
    parts = agree(maps).each("length")
    assert list(parts) == ["2 units", "3 units", "5 units", "6 to 9 units"]
    assert [len(part.ids) for part in parts.values()] == [4, 4, 4, 4]
    whole = agree(maps).values
    np.testing.assert_array_equal(parts["6 to 9 units"].values, whole[-4:])
    same = agree([maps_of([1, 2], [2, 1]), maps_of([1, 2], [2, 1], method="b")]).each("length")
    assert list(same) == ["2 units"]


def test_words_bring_tokenizers_together():
    """The same word as one piece and as two."""
    whole = maps_of([3.0, 1, 2], texts=(("x x x",),))
    pieces = maps_of(
        [2.0, 1, 1, 2], method="ig", texts=(("x x x",),), word_index=np.array([0, 0, 1, 2]),
        offsets=np.array([[0, 0], [0, 1], [2, 3], [4, 5]]),
    )  # fmt: skip
    with pytest.raises(ShapeError, match="row 'r0' has 3 here .* and 4 there.*level='word'"):
        agree([whole, pieces])
    found = agree([whole, pieces], level="word")
    assert found.matrix[0, 1] == 1
    assert found.level == "word"
    with pytest.raises(OptionError, match="cannot be split into tokens"):
        agree([whole, pieces.words()], level="token")


def test_by_and_signs():
    first, second = maps_of([-3, 1, 2]), maps_of([3, 1, 2], method="norm", kind="magnitude")
    assert agree([first, second]).matrix[0, 1] == 1
    signed = agree([first, second], by="signed")
    assert (signed.by, signed.matrix[0, 1]) == ("signed", pytest.approx(-1 / 3))
    assert "Without signs: norm." in signed.notes
    both = agreements([first, second], ["kendall", "sign"])
    assert [one.by for one in both] == ["size", "signed"]
    assert np.isnan(both[1].matrix[0, 1])


def test_other_targets_are_told():
    other = replace(SECOND, targets=("no", *SECOND.targets[1:]))
    assert "Not all methods explain the same target. Rows with different targets: 1." in agree([FIRST, other]).notes
    assert agree([FIRST, SECOND]).notes == ()


class TestShown:
    found = agree([FIRST, SECOND, replace(FIRST, method="flat", scores=np.ones_like(FIRST.scores))])

    def test_table(self):
        table = self.found.table()
        assert "1 lime" in table
        assert "0.11" in table
        assert "±1.02" in table
        assert "Mean of 3 rows, scores without their signs" in table
        assert table.endswith(CAUTION)
        assert "−" not in agree([maps_of([1, 2, 3, 4]), maps_of([2.0, 4, 1, 3], method="b")]).grid(), "no −0.00"

    def test_document_is_json(self):
        document = self.found.to_document("length")
        assert document["methods"] == ["lime", "ig", "flat"]
        assert document["measure"] == "kendall"
        assert document["matrix"][0][1] == pytest.approx(1 / 9)
        assert document["caution"] == CAUTION
        assert set(document["each"]["length"]) == {"1 to 2 units", "3 units", "4 units"}
        json.dumps(document)

    def test_frames(self):
        frame = self.found.to_pandas()
        assert list(frame.columns) == ["measure", "first", "second", "mean", "sd", "rows", "skipped"]
        assert len(frame) == 3
        assert frame.loc[0, ["first", "second", "rows", "skipped"]].tolist() == ["lime", "ig", 3, 2]
        assert frame.loc[0, "mean"] == pytest.approx(1 / 9)
        assert len(self.found.to_pandas("length")) == 9

    def test_pictures(self, tmp_path):
        for kind in ("png", "svg", "html"):
            self.found.save(tmp_path / f"new/map.{kind}")
        assert (tmp_path / "new/map.png").read_bytes().startswith(b"\x89PNG")
        words = list(ElementTree.parse(tmp_path / "new/map.svg").getroot().itertext())
        assert {"0.11", "–", "lime", "kendall"} <= set(words)
        assert CAUTION.split(" ", 3)[:3] == ["Agreement", "is", "not"]
        assert any(word.startswith("Agreement is not correctness.") for word in words)
        page = (tmp_path / "new/map.html").read_text()
        assert "Agreement is not correctness." in page
        assert "default-src 'none'" in unescape(page)
        draw_agreements(agreements([FIRST, SECOND], ["kendall", "top_overlap(k=1)"]), tmp_path / "two.svg")
        words = list(ElementTree.parse(tmp_path / "two.svg").getroot().itertext())
        assert {"kendall", "top_overlap(k=1)"} <= set(words)
        assert self.found.chart().to_dict()["concat"]

    def test_names_are_words_not_markup(self, tmp_path):
        odd = agree([replace(FIRST, method="</script><b>x"), replace(SECOND, method="[bold]y")])
        odd.save(tmp_path / "odd.html")
        assert "<b>x" not in (tmp_path / "odd.html").read_text()
        assert "[bold]y" in odd.table()

    def test_kinds_of_pictures(self, tmp_path):
        with pytest.raises(OptionError, match="'pdf'"):
            self.found.save(tmp_path / "map.pdf")
        (tmp_path / "x.png").mkdir()
        with pytest.raises(OptionError, match="folder"):
            self.found.save(tmp_path / "x.png")


@pytest.mark.parametrize(
    ("sets", "options", "kind", "message"),
    [
        ([FIRST], {}, ShapeError, "at least two explanations, got 1"),
        (FIRST, {}, ShapeError, "at least two explanations, got 1"),
        ([FIRST, SECOND[:3]], {}, DataError, "'lime' explains 5 rows, 'ig' 3, and they share 3"),
        ([FIRST, SECOND[:3]], {}, DataError, "'r3' is not in 'ig'"),
        ([FIRST[:3], SECOND], {}, DataError, "'r3' is not in 'lime'"),
        ([FIRST.select([0, 0]), SECOND], {}, DataError, "id 'r0' more than once"),
        ([FIRST[:0], SECOND[:0]], {}, ShapeError, "explains no rows"),
        ([FIRST, SECOND], {"measure": "kendal"}, UnknownNameError, "Did you mean 'kendall'"),
        ([FIRST, SECOND], {"by": "abs"}, OptionError, "auto, signed or size"),
        ([FIRST, SECOND], {"level": "sentence"}, OptionError, "'token' or 'word'"),
        ([FIRST, SECOND], {"groups": ["a"]}, OptionError, "2 sets of explanations need 2 group names"),
        (["nowhere.parquet", FIRST], {}, OptionError, "There is no file nowhere.parquet"),
        ([FIRST, object()], {}, OptionError, "got object. .*read_explanations"),
    ],
)
def test_refuses(sets, options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        agree(sets, **options)
    assert isinstance(caught.value, RequestError)


def test_wrong_names_of_parts_and_methods():
    found = agree([FIRST, SECOND])
    with pytest.raises(OptionError, match="way to divide rows named 'lengths'. Did you mean 'length'"):
        found.each("lengths")
    with pytest.raises(OptionError, match="compared method named 'limes'"):
        found.between("limes", "ig")


def test_it_is_public_and_needs_no_torch():
    assert didact.agree is agree
    assert didact.Agreement is Agreement
    code = "import sys, didact; didact.agree, didact.Agreement; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


PAGE = Path(__file__).parents[2] / "docs" / "agreement.md"


def test_every_measure_is_in_the_docs_as_the_registry_says():
    page = PAGE.read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {one.bounds[0]:.0f} | {one.bounds[1]:.0f} | {one.about} | {one.ties} | {one.undefined} |"
        for name, one in AGREEMENT.items()
    ]
    assert [row for row in rows if row not in page] == []


@pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")  # few samples, for speed
def test_the_example_in_the_docs_runs(tmp_path, monkeypatch, capsys):
    """As written, on fewer rows."""
    shown = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    small = "planted/sentiment(teach=9, explain=9, train=9, dev=9, test=8)"
    exec(shown[1].replace("planted/sentiment", small).replace("samples=200", "samples=20"), {})
    assert "5 random" in capsys.readouterr().out
    assert (tmp_path / "agreement.png").stat().st_size > 1000


class TestPrediction:
    """What the teacher predicts from the units of either."""

    def maps(self, model, **options):
        return [explain(model, examples("classification"), name, **options) for name in ("gradient_input", "random")]

    def test_as_the_metrics_room_has_it(self):
        model = teacher("native", "classification")
        maps = self.maps(model)
        found = agree(maps, "prediction(k=0.5)", teacher=model)
        measure = Prediction(k=0.5)
        np.testing.assert_array_equal(found.values, measure(maps, measure.probe(model, maps[0])))
        assert (found.measure, found.by) == ("prediction(k=0.5)", "signed")
        assert found.notes[-1] == "Removed units are replaced by [MASK]."
        assert "share of rows of which the teacher predicts the same" in found.table()
        deleted = agree(maps, "prediction(replace=delete)", teacher=model)
        assert deleted.notes[-1] == "Removed units are deleted."
        named_before = agree(maps, "prediction(remove=delete)", teacher=model)
        np.testing.assert_array_equal(named_before.values, deleted.values)

    def test_beside_other_measures_and_for_words(self):
        model = teacher("hf", "classification")
        both = agreements(self.maps(model), ["kendall", "prediction"], teacher=model, level="word")
        assert [one.by for one in both] == ["size", "signed"]
        assert both[1].level == "word"
        assert not np.isnan(both[1].matrix).any()

    def test_in_batches_of_the_size_that_was_asked_for(self):
        sizes = []

        def predict(texts):
            sizes.append(len(texts))
            return np.array([[0.3, 0.7] if "good" in text else [0.6, 0.4] for text in texts])

        box = didact.teacher_from_function(predict, classes=["no", "yes"])
        maps = [explain(box, ["a good film", "no good at all", "bad"], name) for name in ("occlusion", "random")]
        sizes.clear()
        found = agree(maps, "prediction(k=1)", teacher=box, batch_size=2)
        assert max(sizes) == 2
        sizes.clear()
        np.testing.assert_array_equal(found.values, agree(maps, "prediction(k=1)", teacher=box).values)
        assert max(sizes) > 2

    def test_another_teacher_is_told(self):
        maps = self.maps(teacher("native", "classification"))
        other = teacher("bilstm", "classification")
        assert "bilstm, is not the one that was explained" in agree(maps, "prediction", teacher=other).notes[-1]

    def test_refused(self):
        model = teacher("native", "classification")
        with pytest.raises(OptionError, match="'prediction' asks the teacher .* none was given"):
            agree(self.maps(model), "prediction")
        with pytest.raises(UnsupportedError, match="compares predicted classes"):
            agree(self.maps(model), "prediction", teacher=teacher("native", "regression"))
        others = self.maps(teacher("bilstm", "classification"))
        with pytest.raises(
            OptionError, match="these sets explain 2 teachers, in the groups native, bilstm.*one teacher at a"
        ):
            agree([*self.maps(model), *others], "prediction", teacher=model)

    def test_images(self):
        model = teacher("native", "image")
        maps = [explain(model, examples("image"), name) for name in ("gradient_norm", "random")]
        assert (np.diagonal(agree(maps, "prediction", teacher=model).matrix) == 1).all()
        with pytest.raises(OptionError, match="files of explanations do not hold them"):
            agree([replace(one, images=None) for one in maps], "prediction", teacher=model)
