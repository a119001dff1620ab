"""A reader of the page sees at once whether the ranking is validated, and whether another kind of student agrees."""

import json

import pytest

from didact.reports.build import report_sections
from didact.reports.sections import trust
from didact.reports.sections.headline import header
from didact.results import validation
from didact.results.comparison import Comparison
from didact.results.validation import Validation
from reports.folders import change, write_run
from reports.reading import Page, section_html

SAME, POOL = STUDENTS = ("same/attention", "pool/attention")
TABLE = "Answers to explanations whose order is known"
GOOD = Validation(
    task="classification", evaluator="e", student=SAME, normalisation="raw", test_set="new", data=("planted/x", "sst"),
    teachers=10, audits=10, seeds=8, methods=14, steps=60, steps_right=57, equal=40, equal_differ=1, by_construction=10,
    move=0.008, leaks=8, lost_info=24, tau=0.83, tau_low=0.7, tau_high=0.93, tau_lead=0.05, tau_lead_low=0.01,
    tau_lead_high=0.09,
)  # fmt: skip
BAD = Validation(**{**GOOD, "student": POOL, "steps_right": 50, "leaks_ahead": 2, "missed": ("steps", "leaks")})


@pytest.fixture
def page_of(tmp_path, monkeypatch):
    """The section of a run, or an empty page, with these records as part of didact; the badges of its header."""

    def draw(*records, **options):
        monkeypatch.setattr(validation, "package_validations", lambda: records)
        run = Comparison.load(write_run(tmp_path / "run", measured=False, seeds=6, **options))
        section = trust.section(run)
        page = Page("" if section is None else section_html(section))
        page.badges = [badge for badge in header(run).badges if badge != "no other measures"]
        return page

    return draw


def test_without_an_audit(page_of):
    page = page_of()
    assert (
        "How far to trust this verdict Not validated: no audit has checked the rankings of same/attention" in page.text
    )
    assert "(task classification, target normalisation raw)" in page.text
    assert 'Add another: --students "same/attention,pool/attention"' in page.text
    assert page.badges == ["ranking not validated", "one kind of student"]
    assert TABLE not in page.tables


def test_with_an_audit_that_was_passed(page_of):
    page = page_of(GOOD)
    assert "Validated: in audits with known truth, same/attention reached all goals." in page.text
    assert "Not validated" not in page.text
    assert "same/attention: audited with 10 teachers on planted/x and sst, 8 seeds, 14 methods." in page.text
    assert page.badges == ["one kind of student"]
    lines = {line[0].partition("goal:")[0].strip(): " ".join(line[1].split()) for line in page.tables[TABLE]}
    assert lines["The less damaged explanation is ahead"] == "95.0 % of 60"
    assert lines["Equal explanations differ"] == "2.5 % of 40 +10 by construction"
    assert lines["Their distance, in points"] == "0.8"
    assert lines["Lost information is ahead"] == "0 of 24"
    assert lines["A leak of the answer is ahead"] == "0 of 8"
    assert lines["τ with the true ranking of methods"] == "0.83 [0.70, 0.93]"
    assert lines["Its lead over the best faithfulness metric"] == "+0.05 [+0.01, +0.09]"
    goals = [line[0].partition("goal: ")[2].strip() for line in page.tables[TABLE][1:]]
    assert goals == ["90 % or more", "5 % or less", "1.5 or less", "never", "never", "", "above 0"]


def test_with_goals_that_were_missed(page_of):
    page = page_of(GOOD, BAD, students=STUDENTS)
    assert "pool/attention missed 2 of 5 goals (steps of damage, leaks or lost information)." in page.text
    assert "Validated: in audits with known truth, same/attention reached all goals." in page.text
    assert page.badges == ["students miss goals of their audit"]
    marked = [(line[0].partition("goal")[0].strip(), "missed" in line[1], "missed" in line[2])
              for line in page.tables[TABLE][1:]]  # fmt: skip
    assert [name for name, _, is_missed in marked if is_missed] == [
        "The less damaged explanation is ahead", "A leak of the answer is ahead",
    ]  # fmt: skip
    assert not any(is_missed for _, is_missed, _ in marked)


@pytest.mark.parametrize(
    ("counts", "marked"),
    [
        ({"lost_info_ahead": 1}, ["Lost information is ahead"]),
        ({"leaks_ahead": 1}, ["A leak of the answer is ahead"]),
        ({"leaks": 0}, ["A leak of the answer is ahead"]),
    ],
)
def test_one_goal_has_two_lines(page_of, counts, marked):
    lines = page_of(Validation(**{**GOOD, **counts, "missed": ("leaks",)})).tables[TABLE][1:]
    assert [line[0].partition("goal")[0].strip() for line in lines if "missed" in line[1]] == marked


def test_one_student_of_two_was_audited(page_of):
    page = page_of(GOOD, students=STUDENTS)
    assert "Not validated: no audit has checked the rankings of pool/attention as in this run" in page.text
    assert "Validated: in audits with known truth, same/attention reached all goals." in page.text
    assert page.tables[TABLE][0][1:] == list(STUDENTS)
    assert page.tables[TABLE][1][2] == "not audited"


def test_two_kinds_of_student(page_of):
    gains = {"attention_all": 0.3, "gradient_norm": 0.2, "lime(samples=100)": 0.1}
    page = page_of(GOOD, students=STUDENTS, gains=gains)
    assert "All kinds of student have the same leader, “attention_all”." in page.text
    assert "τ between their rankings of the 3 methods is 1.00" in page.text
    assert "“attention_all” minus “gradient_norm”, with 95 % intervals: +" in page.text
    assert "with pool/attention: the same sign." in page.text
    assert "Not checked" not in page.text


def test_kinds_that_disagree(tmp_path):
    gains = {"attention_all": 0.3, "gradient_norm": 0.2, "lime(samples=100)": 0.1}
    folder = write_run(tmp_path / "run", students=STUDENTS, gains=gains, measured=False, seeds=6)
    document = json.loads((folder / "comparison.json").read_text())
    for row in document["rows"]:
        if (row["student"], row["explainer"]) == (POOL, "gradient_norm"):
            row["rank"] = 0.5
    for line in document["contrasts"]:
        if line["student"] == POOL and {line["first"], line["second"]} == {"attention_all", "gradient_norm"}:
            line["difference"] = -line["difference"]
    change(folder / "comparison.json", **document)
    text = Page(section_html(trust.section(Comparison.load(folder)))).text
    assert "The leader depends on the student: attention_all with same/attention and gradient_norm with pool" in text
    assert "τ between their rankings of the 3 methods is 0.33" in text
    assert ": the sign differs." in text


def test_runs_without_a_verdict_have_no_such_section(page_of):
    page = page_of(methods=())
    assert "How far to trust" not in page.text
    assert page.badges == []


def test_the_section_is_the_first_of_the_page(tmp_path):
    run = Comparison.load(write_run(tmp_path / "run", measured=False, students=STUDENTS))
    assert next(iter(report_sections(run))).id == "trust"


def test_old_runs_without_contrasts(page_of):
    page = page_of(students=STUDENTS, contrasts=False)
    assert "All kinds of student have the same leader" in page.text
    assert "An older didact made this run and stored no contrasts" in page.text
