"""Aligned spans of question and passage: cut, joined and saved with the rows they belong to."""

import json
from collections import namedtuple
from dataclasses import replace

import pytest
from test_explanations import TEXTS, assert_same, maps

from didact.errors import RecordError, ShapeError
from didact.results.explanations import Explanations
from didact.results.transforms import absolute_scores, normalise_scores

PAIRS = (
    (((0, 0, 12), (1, 0, 2)), ((0, 13, 17), (1, 3, 5))),
    (),
    (((0, 5, 9), (1, 0, 1)),),
)


def aligned(**changes):
    return maps(**({"task": "reading", "classes": None, "alignments": PAIRS} | changes))


class TestRows:
    def test_of_one_row(self):
        assert [row.alignments for row in aligned()] == list(PAIRS)
        assert maps()[0].alignments is None

    def test_selecting_and_joining(self):
        whole = aligned()
        assert whole.select([2, 0, 2]).alignments == (PAIRS[2], PAIRS[0], PAIRS[2])
        assert whole[1:].alignments == PAIRS[1:]
        assert_same(Explanations.joined([whole[:1], whole[1:2], whole[2:]]), whole)
        assert maps().select([0]).alignments is None
        assert Explanations.joined([maps(), maps()]).alignments is None

    def test_rows_of_parts_without_any_have_none(self):
        bare = replace(aligned(), alignments=None)
        assert Explanations.joined([aligned(), bare]).alignments == (*PAIRS, (), (), ())
        assert Explanations.joined([bare[:1], aligned()[1:]]).alignments == ((), *PAIRS[1:])

    def test_other_scores_for_the_same_rows(self):
        for changed in (aligned().words(), absolute_scores(aligned()), normalise_scores(aligned(), "top(k=0.2)")):
            assert changed.alignments == PAIRS

    def test_numbers_become_plain(self):
        place = namedtuple("place", "segment start end")
        given = tuple(tuple((place(*first), place(*second)) for first, second in pairs) for pairs in PAIRS)
        held = aligned(alignments=given).alignments
        assert held == PAIRS
        assert type(held[0][0][0]) is tuple


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "pair"}, "Only task 'reading' has aligned spans .* not task 'pair'"),
        ({"alignments": PAIRS[:2]}, "3 rows need 3 sets of alignments, got 2"),
        ({"alignments": ((((0, 0, 19), (1, 0, 1)),), (), ())}, "row 'r0' is outside its texts"),
        ({"alignments": ((((0, 0, 1), (1, 0, 6)),), (), ())}, "row 'r0' is outside its texts"),
        ({"alignments": ((), (((0, 0, 1), (1, 0, 0)),), ())}, "row 'r1' is outside its texts"),
        ({"alignments": ((((0, -1, 1), (1, 0, 1)),), (), ())}, "is outside"),
        ({"alignments": ((((0, 3, 1), (1, 0, 1)),), (), ())}, "is outside"),
        ({"alignments": ((((1, 0, 1), (0, 0, 1)),), (), ())}, "first span must be .* in the question"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    assert len(TEXTS[0][0]) == 18
    with pytest.raises(ShapeError, match=message):
        aligned(**changes)


class TestTables:
    def test_documents(self):
        documents = aligned().to_documents()
        assert json.loads(json.dumps(documents)) == documents
        assert [row["alignments"] for row in documents] == [
            [[[0, 12], [0, 2]], [[13, 17], [3, 5]]], [], [[[5, 9], [0, 1]]],
        ]  # fmt: skip
        assert "alignments" not in maps().to_documents()[0]

    def test_frames(self):
        assert aligned().to_pandas()["alignments"][2] == [[[5, 9], [0, 1]]]
        assert "alignments" not in maps().to_pandas()


class TestFiles:
    @pytest.mark.parametrize("whole", [aligned(), aligned()[1:2], aligned()[:0], aligned(alignments=((), (), ()))])
    def test_back_as_they_were(self, tmp_path, whole):
        whole.save(tmp_path / "maps")
        back = Explanations.load(tmp_path / "maps")
        assert_same(back, whole)
        back.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "maps").read_bytes()

    def test_without_them_there_is_no_column(self, tmp_path):
        from pyarrow import parquet

        maps().save(tmp_path / "maps")
        assert parquet.read_table(tmp_path / "maps").column_names == [
            "id", "texts", "tokens", "segments", "words", "start", "end", "scores", "target", "prediction", "residual",
            "probability", "label",
        ]  # fmt: skip
        aligned().save(tmp_path / "aligned")
        column = parquet.read_table(tmp_path / "aligned").column("alignments").to_pylist()
        assert column == [row["alignments"] for row in aligned().to_documents()]

    def test_the_checksum_of_a_file_written_before(self):
        """As it was before there were alignments: a hash over these and no others."""
        import hashlib

        from didact.files.store import canonical_json
        from didact.results.explanations_parquet import METADATA, _checksum

        whole = maps()
        facts = [{name: getattr(whole, name) for name in METADATA}]
        facts += [whole.ids, whole.texts, whole.tokens, whole.targets, whole.predictions]
        digest = hashlib.sha256(canonical_json(facts).encode())
        for name in ("bounds", "segments", "word_index", "offsets", "scores", "residuals"):
            digest.update(getattr(whole, name).tobytes())
        assert _checksum(whole) == digest.hexdigest()

    def test_changed_and_missing_columns_are_seen(self, tmp_path):
        import pyarrow
        from pyarrow import parquet

        path = tmp_path / "maps"
        aligned().save(path)
        table = parquet.read_table(path)
        place = table.column_names.index("alignments")
        spans = table.column("alignments").to_pylist()
        spans[0][0][0][1] = 11
        changed = pyarrow.array(spans, table.column("alignments").type)
        for other in (table.drop_columns(["alignments"]), table.set_column(place, "alignments", changed)):
            parquet.write_table(other, path)
            with pytest.raises(RecordError, match="checksum"):
                Explanations.load(path)
