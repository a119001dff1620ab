"""Edited rows: what planted data, counterfactual pairs and word swaps give, and what cannot be edited."""

from dataclasses import replace

import pytest

from didact.core.classes import align_labels
from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.core.row import Revision, Row, fingerprint_of
from didact.core.task import CLASSIFICATION, PAIR
from didact.core.words import words_of
from didact.data.edits import EditKind, editor_of
from didact.data.load import load_data
from didact.data.word_swap import WordSwap, word_class
from didact.errors import DataError, UnsupportedError

PLANTED = "(teach=4, explain=4, train=40, dev=4, test=4)"
REVIEWS = (
    "The acting was slow and the boring plot never worked .",
    "A moving story with great acting , and the jokes worked !",
    "Anna said the long film isn't boring <br /> at 10 times the price [SEP] .",
    "Peter said a short film with 20 jokes is 'moving' <mask> at www.films.com .",
    "This plot was great . Nobody walked out .",
    "That story is long . Somebody walked in .",
)


def reviews():
    return [Row(f"r{number}", (text,)) for number, text in enumerate(REVIEWS)]


class TestPlanted:
    @pytest.mark.parametrize("name", ["sentiment", "inference", "shapes"])
    def test_only_a_redrawn_rationale_flips_the_oracle(self, name):
        data = load_data(f"planted/{name}{PLANTED}")
        rows, oracle = data["train"].rows, data.oracle()
        editor = editor_of(data, rows)
        assert editor.kind is EditKind.REDRAWN
        source_labels = oracle.predict(rows).labels
        flips = {"rationale": 0, "rest": 0}
        for row, label in zip(rows, source_labels, strict=True):
            for edited in editor.edits(row):
                source, region = edited.id.split("/")
                assert source == row.id
                redrawn = data.redraw(row, region, 0)
                assert (edited.content, edited.label) == (redrawn.content, redrawn.label)
                assert edited.content != row.content
                flips[region] += int(oracle.predict([edited]).labels[0] != label)
        assert flips["rest"] == 0
        assert flips["rationale"] > len(rows) / 5

    def test_the_same_edits_every_time_whatever_the_other_rows(self):
        data = load_data(f"planted/sentiment{PLANTED}")
        row = data["train"][3]
        first, second = (editor_of(data, rows).edits(row) for rows in (data["train"].rows, [row]))
        assert fingerprint_of(first) == fingerprint_of(second)


class TestWordSwap:
    def edits(self, seeds=60):
        swap = WordSwap(reviews())
        return [(row, edited) for row in reviews() for seed in range(seeds) if (edited := swap.edit(row, seed=seed))]

    def test_one_word_becomes_another_of_its_class(self):
        changed_words = set()
        for row, edited in self.edits():
            before, after = (
                [one.texts[0][span.start : span.end] for span in words_of(one.texts)] for one in (row, edited)
            )
            assert len(before) == len(after)
            ((old, new),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
            assert old.isalnum()
            assert word_class(old).case == word_class(new).case
            assert word_class(old.lower()) == word_class(new.lower()) or old == old.title()
            changed_words.add((old, new))
        assert {("was", "is"), ("10", "20"), ("Anna", "Peter"), ("slow", "short")} <= changed_words

    def test_what_is_never_swapped(self):
        """Contractions, tags, special tokens, addresses and names of another case."""
        for row, edited in self.edits():
            for fixed in ("isn't", "<br />", "[SEP]", "<mask>", "www.films.com"):
                assert (fixed in row.texts[0]) == (fixed in edited.texts[0])

    def test_the_first_word_of_a_sentence_is_no_name(self):
        firsts = {edited.texts[0].split()[0] for row, edited in self.edits() if row.id == "r4"}
        assert firsts == {"This", "That"}

    def test_frequency_is_alike(self):
        """`plot` and `film` are there twice, but `sea` once and `door` four times: powers of two differ."""
        rows = [Row("a", ("plot film sea",)), Row("b", ("film plot door door door door",))]
        texts = {WordSwap(rows).edit(rows[0], seed=seed).texts[0] for seed in range(20)}
        assert texts == {"film film sea", "plot plot sea"}

    def test_id_and_seed_decide(self):
        swap, other = WordSwap(reviews()), WordSwap(reviews()[::-1])
        by_seed = [fingerprint_of([swap.edit(row, seed=seed) for row in reviews()]) for seed in (0, 0, 1)]
        assert by_seed[0] == by_seed[1] != by_seed[2]
        assert by_seed[0] == fingerprint_of([other.edit(row, seed=0) for row in reviews()])

    def test_a_row_without_alternatives_has_no_edit(self):
        rows = [Row("a", ("lonely",)), Row("b", ("42 , !",))]
        data = Dataset("own", CLASSIFICATION, {"train": Split("train", rows)}, classes=("no", "yes"))
        assert [editor_of(data, rows).edits(row) for row in rows] == [(), ()]

    def test_pairs_swap_in_either_text(self):
        rows = [Row(f"p{number}", ("a cat sat", "the dog ran")) for number in range(30)]
        rows += [Row("q", ("a cow sat", "the cow ran"))] * 4
        data = Dataset("own", PAIR, {"train": Split("train", rows)}, classes=("no", "yes"))
        edited = [edit.texts for row in rows for edit in editor_of(data, rows).edits(row)]
        assert {texts[0] == "a cat sat" for texts in edited} == {True, False}


class TestRevisions:
    @pytest.fixture
    def file(self, tmp_path):
        lines = ["n,kommentar,urteil,neuer text,neues urteil"]
        lines += [f"{n},film {n} was great,{'gut'},film {n} was awful,schlecht" for n in range(6)]
        lines += [f"{n},film {n} was poor,{'schlecht'},," for n in range(6, 12)]
        (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "pairs.csv"

    COLUMNS = {  # noqa: RUF012
        "text": "kommentar", "label": "urteil", "revised_text": "neuer text", "revised_label": "neues urteil"
    }  # fmt: skip

    def test_columns_of_any_name(self, file):
        rows = {row.texts[0]: row for row in load_data(file, columns=self.COLUMNS)["all"]}
        assert rows["film 3 was great"].revision == Revision(("film 3 was awful",), 1)
        assert rows["film 7 was poor"].revision is None

    def test_the_usual_names_are_recognised(self, tmp_path):
        """For a pair, a text without a revised version stays as it is."""
        (tmp_path / "p.csv").write_text(
            "premise,hypothesis,label,revised_second,revised_label\nit rains,it is wet,yes,it is dry,no\n"
            "it snows,it is hot,no,,\n"
        )
        first, second = load_data(tmp_path / "p.csv", task="pair")["all"]
        assert first.revision == Revision(("it rains", "it is dry"), 0)
        assert second.revision is None

    def test_a_label_that_is_no_class(self, file):
        file.write_text(file.read_text().replace("film 2 was awful,schlecht", "film 2 was awful,mies"))
        with pytest.raises(DataError, match="line 4: field 'neues urteil' holds 'mies', which is not one of"):
            load_data(file, columns=self.COLUMNS)

    def test_they_are_the_edits_and_the_fingerprint_does_not_know_them(self, file):
        data, plain = (
            load_data(file, columns=self.COLUMNS),
            load_data(file, columns=dict(list(self.COLUMNS.items())[:2])),
        )
        rows = data["all"].rows
        editor = editor_of(data, rows)
        assert editor.kind is EditKind.REVISED
        assert data.fingerprint == plain.fingerprint
        for row in rows:
            edits = [(edit.id, edit.texts, edit.label) for edit in editor.edits(row)]
            revision = row.revision
            assert edits == ([] if revision is None else [(f"{row.id}/revised", revision.texts, revision.label)])

    def test_their_labels_follow_the_classes_of_the_model(self, file):
        data = load_data(file, columns=self.COLUMNS)
        teacher = FunctionTeacher(lambda texts: [[1, 0]] * len(texts), ("schlecht", "gut"), task=CLASSIFICATION)
        aligned = align_labels(data, teacher)
        assert data.classes == ("gut", "schlecht")
        assert {(row.label, row.revision.label) for row in aligned["all"] if row.revision} == {(1, 0)}
        other = FunctionTeacher(lambda texts: [[1, 0]] * len(texts), ("x", "y"), task=CLASSIFICATION)
        unlabelled = align_labels(data, other, required=False)
        assert {row.revision.label for row in unlabelled["all"] if row.revision} == {None}


def test_what_cannot_be_edited():
    quality = load_data(f"planted/quality{PLANTED}")
    with pytest.raises(UnsupportedError, match="regression, which has no classes. Leave out the test set 'edited'"):
        editor_of(quality, quality["train"].rows)
    shapes = load_data(f"planted/shapes{PLANTED}")
    own = Dataset("own", shapes.task, shapes.splits, classes=shapes.classes)
    with pytest.raises(UnsupportedError, match="only planted images"):
        editor_of(own, own["train"].rows)
    assert replace(shapes, name="x").rules is shapes.rules
