"""The committed evidence: every file is whole, each part is named after its file, and docs show what files hold."""

import runpy
import sys
from pathlib import Path

import pytest

from didact.results.audit import Audit
from didact.results.evidence import MAX_BYTES, load_evidence

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "evidence" / "audit"
SCRIPTS = (("evidence", "run_audit"), ("evidence", "choose_finalists"), ("docs", "make_audit_tables"))


@pytest.fixture(scope="module")
def parts():
    return load_evidence(FOLDER)


@pytest.fixture(scope="module")
def scripts():
    """The scripts that make and read the evidence of the audit, as dicts of their names."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return {name: runpy.run_path(str(ROOT / folder / f"{name}.py")) for folder, name in SCRIPTS}
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_every_file_holds_the_part_that_it_is_named_after(parts, scripts):
    files = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.json"))
    assert [part.name for part in parts] == files
    assert set(files) <= set(scripts["run_audit"]["PARTS"])
    assert all(path.stat().st_size <= MAX_BYTES for path in FOLDER.rglob("*.json"))


def test_parts_name_the_protocol_and_no_folder_of_a_machine(parts, scripts):
    for part in parts:
        assert part.protocol == scripts["run_audit"]["PROTOCOL"]
        assert part.command == f"python evidence/run_audit.py {part.name}"
        assert 0 < part.hours <= 1


def test_teachers_are_verified_where_their_truth_is_used(parts):
    for part in parts:
        assert Audit.of_evidence(part).knows_truth, part.name


def test_the_tables_are_those_of_the_evidence(scripts):
    """Otherwise run `python docs/make_audit_tables.py`."""
    tables = scripts["make_audit_tables"]
    page = tables["PAGE"].read_text(encoding="utf-8")
    assert page == tables["with_tables"](page, tables["read_audits"]())


def test_finalists_follow_the_rule_of_the_protocol(parts, scripts):
    rule = scripts["choose_finalists"]
    audits = [Audit.of_evidence(part) for part in parts if part.name.startswith("screening/")]
    finalists = rule["choose"]([audit for audit in audits if not audit.name.endswith("-sharpness")])
    assert len(finalists) == 3
    students = [score.student for score in finalists]
    assert all(students.count(student) <= 2 for student in students)
    assert all(0.6 <= score.reference <= 0.85 for score in finalists)
    assert finalists == sorted(finalists, key=rule["order"])
