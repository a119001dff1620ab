"""Evidence: one JSON file per part of a trial, with a fingerprint of its content."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from didact.errors import OptionError, RecordError
from didact.results.evidence import Evidence, EvidenceTable, EvidenceTeacher, kind_of, load_evidence

ROWS = [
    {"name": "a, b", "value": 0.1, "count": 3, "flag": True, "by_seed": (0.5, 0.25), "seconds": 2.0},
    {"name": 'with "quotes"', "value": None, "count": 0, "flag": False, "by_seed": (), "seconds": None},
]


def part(name="screening/a", kind="audit", rows=ROWS, **changes):
    evidence = Evidence(
        kind=kind,
        name=name,
        tables={"values": EvidenceTable.of(rows), "empty": EvidenceTable.of([])},
        seeds=(0, 1),
        teachers=(EvidenceTeacher("native", "f" * 16, "planted/sentiment", accuracy=0.9, verified=True),),
        settings={"measure": "accuracy", "damage": (0.1, 0.2)},
        notes=("τ is unknown",),
        protocol="abc123",
    )
    return replace(evidence, **changes)


class TestRoundTrip:
    def test_everything_reads_back(self, tmp_path):
        saved = part(command="didact audit run", date="2026-01-02", hours=1.5, versions={"didact": "1"})
        saved.save(tmp_path / "deep" / "part.json")
        loaded = Evidence.load(tmp_path / "deep" / "part.json")
        assert loaded.to_document() == saved.to_document()
        assert loaded.fingerprint == saved.fingerprint
        assert list(loaded.tables["values"].rows()) == [
            {**row, "by_seed": list(row["by_seed"])} for row in json.loads(json.dumps(ROWS))
        ]
        assert {name: len(table) for name, table in loaded.tables.items()} == {"values": 2, "empty": 0}
        assert dict(loaded.teachers[0]) == dict(saved.teachers[0])
        assert loaded.teachers[0].followed is None

    def test_numbers_have_six_significant_digits(self):
        table = EvidenceTable.of([{"x": 1.23456789e-7, "many": (123456.789, 1e9)}])
        assert list(table.rows()) == [{"x": 1.23457e-7, "many": [123457.0, 1e9]}]

    def test_numbers_that_are_not_finite_become_null(self, tmp_path):
        rows = [{"x": float("nan"), "y": (float("inf"), 1.0)}, {"x": np.float64("-inf"), "y": ()}]
        part(rows=rows, hours=float("nan"), settings={"z": float("inf")}).save(tmp_path / "part.json")
        text = (tmp_path / "part.json").read_text()
        assert "NaN" not in text
        assert "Infinity" not in text
        loaded = json.loads(text)
        assert loaded["tables"]["values"]["values"] == [[None, None], [[None, 1.0], []]]
        assert (loaded["hours"], loaded["settings"]) == (None, {"z": None})

    def test_a_table_that_was_made_with_nan_has_a_fingerprint(self):
        table = EvidenceTable(("x",), ([float("nan"), 1.0],))
        assert (
            part(tables={"t": table}).fingerprint
            == part(tables={"t": EvidenceTable(("x",), ([None, 1.0],))}).fingerprint
        )

    def test_texts_that_repeat_are_stored_once(self, tmp_path):
        names = ["degraded(base=lime)", "", "degraded(base=lime)", "τ", "", "", "degraded(base=lime)"]
        saved = part(rows=[{"name": name, "number": number} for number, name in enumerate(names)])
        saved.save(tmp_path / "part.json")
        assert (tmp_path / "part.json").read_text(encoding="utf-8").count("degraded(base=lime)") == 1
        loaded = Evidence.load(tmp_path / "part.json")
        assert loaded.tables["values"].values == (names, list(range(7)))
        assert loaded.fingerprint == saved.fingerprint

    def test_plain_columns_are_read_too(self):
        table = EvidenceTable.from_document({"names": ["x"], "values": [["a", "a", "a"]]})
        assert table.values == (["a", "a", "a"],)


class TestFingerprint:
    @pytest.mark.parametrize(
        "changes",
        [
            {"command": "didact audit run"},
            {"date": "2026-01-02"},
            {"hours": 3.0},
            {"versions": {"torch": "2"}},
            {"rows": [{**row, "seconds": 7.5} for row in ROWS]},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_circumstances_do_not_count(self, changes):
        assert part(**changes).fingerprint == part().fingerprint

    CHANGES = {  # noqa: RUF012
        "kind": "trial",
        "name": "screening/b",
        "seeds": (0, 1, 2),
        "teachers": (),
        "settings": {"measure": "accuracy"},
        "notes": (),
        "protocol": "def",
        "tables": {},
    }

    @pytest.mark.parametrize("name", CHANGES)
    def test_content_counts(self, name):
        assert replace(part(), **{name: self.CHANGES[name]}).fingerprint != part().fingerprint

    def test_every_field_is_one_or_the_other(self):
        assert {field.name for field in fields(Evidence)} == {*self.CHANGES, "command", "date", "hours", "versions"}

    @pytest.mark.parametrize("column", ["name", "value", "count", "flag", "by_seed"])
    def test_every_cell_counts(self, column):
        other = {"name": "z", "value": 0.2, "count": 4, "flag": False, "by_seed": (0.5,)}
        assert part(rows=[{**ROWS[0], column: other[column]}, ROWS[1]]).fingerprint != part().fingerprint

    def test_the_order_of_rows_and_the_name_of_a_column_count(self):
        renamed = [{**{name: row[name] for name in row if name != "count"}, "number": row["count"]} for row in ROWS]
        assert len({part().fingerprint, part(rows=ROWS[::-1]).fingerprint, part(rows=renamed).fingerprint}) == 3

    def test_dated_adds_circumstances_only(self):
        dated = part().dated("didact audit run", datetime.now(UTC) - timedelta(hours=2))
        assert dated.fingerprint == part().fingerprint
        assert dated.hours == pytest.approx(2, abs=0.01)
        assert dated.command == "didact audit run"
        assert datetime.fromisoformat(dated.date).date() <= datetime.now(UTC).date()
        assert {"python", "torch", "numpy"} <= set(dated.versions)


class TestFiles:
    def test_more_than_a_megabyte_is_refused(self, tmp_path):
        rows = [{"text": f"{number:0999}"} for number in range(1000)]
        with pytest.raises(OptionError, match=r"Part 'big' takes 1\.0 MB, and a part may have 1 MB\. Divide it"):
            part("big", rows=rows).save(tmp_path / "big.json")
        assert not (tmp_path / "big.json").exists()
        part("big", rows=rows[:980]).save(tmp_path / "big.json")
        assert (tmp_path / "big.json").stat().st_size < 1_000_200

    def test_bytes_count_not_characters(self, tmp_path):
        with pytest.raises(OptionError, match=r"takes 1\.[45] MB"):
            part(rows=[{"text": f"{number}" + "τ" * 990} for number in range(700)]).save(tmp_path / "big.json")

    def test_missing(self, tmp_path):
        with pytest.raises(OptionError, match=r"There is no evidence in .*none\.json"):
            Evidence.load(tmp_path / "none.json")

    @pytest.mark.parametrize("content", ["", "[]", "{", "{}", '{"kind": "audit", "name": "a", "tables": []}', "\x00"])
    def test_damaged(self, tmp_path, content):
        (tmp_path / "part.json").write_text(content)
        with pytest.raises(RecordError, match=r"part\.json is damaged"):
            Evidence.load(tmp_path / "part.json")

    @pytest.mark.parametrize(
        "table",
        [
            {"names": ["x"], "values": []},
            {"names": ["x", "y"], "values": [[1], [1, 2]]},
            {"names": ["x"], "values": [7]},
            {"names": ["x"], "values": [{"texts": ["a"], "index": [0, 1]}]},
            {"names": ["x"], "values": [{"texts": ["a"], "index": [-1]}]},
            {"values": [[1]]},
            3,
        ],
    )
    def test_damaged_tables(self, tmp_path, table):
        (tmp_path / "part.json").write_text(json.dumps({"kind": "audit", "name": "a", "tables": {"t": table}}))
        with pytest.raises(RecordError, match=r"part\.json is damaged"):
            Evidence.load(tmp_path / "part.json")

    def test_an_edited_number_is_noticed(self, tmp_path):
        part().save(tmp_path / "part.json")
        text = (tmp_path / "part.json").read_text()
        (tmp_path / "part.json").write_text(text.replace("0.1", "0.9", 1))
        with pytest.raises(RecordError, match=r"part\.json is damaged \(its checksum does not match"):
            Evidence.load(tmp_path / "part.json")

    def test_and_so_it_is_without_the_checksum(self, tmp_path):
        part().save(tmp_path / "part.json")
        document = json.loads((tmp_path / "part.json").read_text())
        del document["checksum"]
        (tmp_path / "part.json").write_text(json.dumps(document))
        assert Evidence.load(tmp_path / "part.json").fingerprint == part().fingerprint
        document["seeds"] = [0, 1, 2, 3]
        (tmp_path / "part.json").write_text(json.dumps(document))
        with pytest.raises(RecordError, match=r"part\.json is damaged \(its fingerprint does not belong to"):
            Evidence.load(tmp_path / "part.json")

    def test_a_later_version_is_refused(self, tmp_path):
        part().save(tmp_path / "part.json")
        document = json.loads((tmp_path / "part.json").read_text()) | {"version": 2}
        del document["checksum"]
        (tmp_path / "part.json").write_text(json.dumps(document))
        with pytest.raises(RecordError, match="Update didact"):
            Evidence.load(tmp_path / "part.json")


class TestFolders:
    def test_by_name_and_kind(self, tmp_path):
        part("b").save(tmp_path / "1.json")
        part("c", kind="trial").save(tmp_path / "deep" / "2.json")
        part("a").save(tmp_path / "deep" / "er" / "3.json")
        assert [item.name for item in load_evidence(tmp_path)] == ["a", "b", "c"]
        assert [item.name for item in load_evidence(str(tmp_path), kind="audit")] == ["a", "b"]
        assert load_evidence(tmp_path, kind="nothing") == []

    def test_two_files_of_one_part(self, tmp_path):
        part("a").save(tmp_path / "1.json")
        part("a", kind="trial").save(tmp_path / "2.json")
        with pytest.raises(RecordError, match=r"2\.json holds part 'a', which another file in .* holds, too"):
            load_evidence(tmp_path)

    def test_one_damaged_file(self, tmp_path):
        part("a").save(tmp_path / "1.json")
        (tmp_path / "2.json").write_text("{}")
        with pytest.raises(RecordError, match=r"2\.json is damaged"):
            load_evidence(tmp_path)

    def test_no_folder(self, tmp_path):
        with pytest.raises(OptionError, match=r"There is no folder .*none with evidence"):
            load_evidence(tmp_path / "none")

    def test_the_kind_of_a_file(self, tmp_path):
        part(kind="trial").save(tmp_path / "1.json")
        (tmp_path / "2.json").write_text('{"rows": []}')
        (tmp_path / "3.json").write_text("{")
        assert kind_of(tmp_path / "1.json") == "trial"
        assert kind_of(tmp_path / "2.json") is None
        with pytest.raises(RecordError, match=r"3\.json is damaged"):
            kind_of(tmp_path / "3.json")
