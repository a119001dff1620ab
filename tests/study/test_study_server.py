"""People at the server: every page, every way to answer twice, and what is stored."""

import re

import pytest

from didact.study.app import create_app
from didact.study.auth import read_keys
from didact.study.schedule import steps_of
from study.people import METHODS, Someone, study_of


@pytest.mark.parametrize(("kind", "task"), [
    ("ranking", "image"), ("simulation", "classification"), ("rating", "pair"),
    *(pytest.param(kind, task, marks=pytest.mark.slow) for kind, task in [
        ("ranking", "classification"), ("ranking", "pair"), ("simulation", "pair"), ("simulation", "image"),
        ("rating", "classification"), ("rating", "image"),
    ]),
])  # fmt: skip
def test_a_study_is_played_through_and_stored_in_order(tmp_path, kind, task):
    folder = study_of(tmp_path / "s", kind, task=task, pause=2)
    someone = Someone(folder, 2).agree()  # the second of a simulation sees the first method
    steps = steps_of(someone.design, 2)
    seen = []
    for step in steps:
        answer = someone.answer(step.number)
        assert answer.status_code == 200, answer.text
        page = someone.client.get(answer.json()["next"])
        assert page.status_code == 200
        seen.append(page.text)
    assert str(someone.client.get("/").url).endswith("/thanks")
    assert "p02" in someone.client.get("/thanks").text
    stored = someone.stored()
    assert [(one.step, one.item, one.shown, one.phase) for one in stored] == [
        (step.number, step.item.id, step.shown, step.phase) for step in steps
    ]
    assert not any(name in page for page in seen for name in METHODS)
    if kind == "ranking":
        assert all(one.ranks == dict(zip(one.shown, (1, 2, 3), strict=True)) for one in stored)
    else:
        assert {one.choice for one in stored} | {one.rating for one in stored} == {
            None,
            "good" if kind == "simulation" else 3,
        }


def test_no_page_names_a_method_not_even_the_organisers_files_before_the_token(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    for path in ("/", "/instructions", "/task/1", "/static/ranking.js", "/static/study.css", "/break"):
        assert not any(name in someone.client.get(path).text for name in METHODS)
    for path in ("/organiser", "/organiser/answers.csv"):
        assert someone.client.get(path).status_code == 403


def test_nothing_is_stored_before_consent(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).arrive()
    token = someone.token("/")
    assert someone.client.get("/task/1", follow_redirects=False).headers["location"] == "/"
    fields = {"csrf": token, "rank-a": "1", "rank-b": "2", "rank-c": "3"}
    assert someone.send(1, fields).status_code == 403
    assert someone.client.post("/consent", data={"csrf": token}).status_code == 422
    assert someone.stored() == []
    assert someone.app.state.study.answers.person(1).consented is None


def test_a_repeated_answer_is_refused_and_the_first_stands(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    fields = someone.fields(1)
    assert someone.send(1, fields).status_code == 200
    again = someone.send(1, {**fields, "rank-a": "3", "rank-c": "1"})
    assert again.status_code == 409
    assert again.json()["next"] == "/task"
    assert len(someone.stored()) == 1
    assert someone.stored()[0].ranks == dict(zip(someone.stored()[0].shown, (1, 2, 3), strict=True))
    assert "answered this page before" in someone.send(1, fields, json=False).text


def test_an_answered_page_shows_the_answer_and_no_form_to_send(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    someone.answer(1)
    page = someone.client.get("/task/1").text
    assert "<select" not in page
    assert "data-task" not in page


@pytest.mark.parametrize(("changed", "status"), [
    ({"rank-a": "4"}, 422),  # there are three
    ({"rank-a": "0"}, 422),
    ({"rank-a": "1.5"}, 422),
    ({"rank-a": "-1"}, 422),
    ({"rank-a": "²"}, 422),
    ({"rank-a": None}, 422),  # left out
    ({"rank-a": ""}, 422),
    ({"rank-z": "1"}, 422),  # a method that is not shown
    ({"choice": "1"}, 422),  # an answer of another kind
    ({"seconds": "-3"}, 422),
    ({"seconds": "nan"}, 422),
    ({"seconds": "soon"}, 422),
    ({"csrf": "0" * 64}, 403),
    ({"csrf": None}, 403),
])  # fmt: skip
def test_a_form_that_is_no_answer_is_refused_and_nothing_stored(tmp_path, changed, status):
    someone = Someone(study_of(tmp_path / "s")).agree()
    assert someone.answer(1, **changed).status_code == status
    assert someone.stored() == []
    assert someone.answer(1).status_code == 200


def test_a_form_without_script_comes_back_with_the_reason(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    answer = someone.answer(1, json=False, **{"rank-a": ""})
    assert answer.status_code == 422
    assert "Something is not answered yet" in answer.text
    assert 'name="rank-a"' in answer.text
    assert re.search(r'name="rank-b".*?<option selected>2</option>', answer.text, re.DOTALL)  # what was chosen is there
    good = someone.answer(1, json=False)
    assert (good.status_code, good.headers["location"]) == (303, "/task")


def test_ties_are_competition_ranks(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    someone.answer(1, **{"rank-a": "2", "rank-b": "2", "rank-c": "3"})
    stored = someone.stored()[0]
    assert [stored.ranks[method] for method in stored.shown] == [1, 1, 3]


def test_pages_come_in_order(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    fields = someone.fields(1)
    assert someone.send(3, fields).status_code == 403
    assert someone.send(99, fields).status_code == 404
    assert someone.send(0, fields).status_code == 404
    assert someone.client.get("/task/3", follow_redirects=False).headers["location"] == "/task"
    assert someone.client.get("/task/nine").status_code == 404
    assert someone.stored() == []


def test_a_closed_study_takes_no_answer_and_an_opened_one_does(tmp_path):
    folder = study_of(tmp_path / "s")
    app = create_app(folder)
    someone, organiser = Someone(folder, app=app).agree(), Someone(folder, app=app)
    fields = someone.fields(1)
    organiser.client.get(f"/o/{read_keys(folder).organiser}")
    token = organiser.token("/organiser")
    assert organiser.client.post("/organiser/close", data={"csrf": token}).status_code == 200
    assert someone.send(1, fields).status_code == 410
    assert someone.client.get("/task/1").status_code == 410
    assert someone.stored() == []
    assert organiser.client.post("/organiser/open", data={"csrf": token}).status_code == 200
    assert someone.send(1, fields).status_code == 200


def test_the_learning_phase_tells_the_truth_after_the_answer_and_not_before(tmp_path):
    someone = Someone(study_of(tmp_path / "s", "simulation"), 2).agree()
    steps = steps_of(someone.design, 2)
    before = someone.client.get("/task/1").text
    assert not re.search(r'class="strength\d', before)  # no explanation beside the question
    someone.answer(1)
    after = someone.client.get("/task/1").text
    assert re.search(r'class="strength\d', after)
    assert steps[0].item.prediction in after
    for number in range(2, 5):
        someone.answer(number)
    assert steps[4].phase == "test"
    assert someone.answer(5).json()["next"] == "/task"  # no feedback to stop at
    assert not re.search(r'class="strength\d', someone.client.get("/task/5").text)


def test_explanations_are_shut_once_the_test_was_seen(tmp_path):
    someone = Someone(study_of(tmp_path / "s", "simulation"), 2).agree()
    for number in range(1, 5):
        someone.answer(number)
    assert someone.client.get("/task/4").status_code == 200  # the last answer's feedback
    assert steps_of(someone.design, 2)[4].phase == "test"
    someone.client.get("/task/5")
    assert someone.client.get("/task/4").status_code == 403
    assert someone.answer(5).status_code == 200


def test_two_studies_on_one_host_do_not_share_cookies(tmp_path):
    one, other = Someone(study_of(tmp_path / "one")).agree(), Someone(study_of(tmp_path / "other"))
    assert one.cookie != other.cookie
    other.client.cookies = one.client.cookies
    assert other.client.get("/task/1").status_code == 403


def test_the_control_learns_without_explanations(tmp_path):
    someone = Someone(study_of(tmp_path / "s", "simulation"), 1).agree()
    someone.answer(1)
    page = someone.client.get("/task/1").text
    assert not re.search(r'class="strength\d', page)
    assert steps_of(someone.design, 1)[0].item.prediction in page


def test_the_control_sees_no_explanation_in_the_instructions_either(tmp_path):
    folder = study_of(tmp_path / "s", "simulation")
    app = create_app(folder)
    for number, is_shown in ((1, False), (2, True)):
        page = Someone(folder, number, app=app).agree().client.get("/instructions").text
        assert bool(re.search(r'class="strength\d', page)) is is_shown
        assert "The model answered" in page


def test_whoever_stops_early_knows_the_code_name_to_be_deleted_by(tmp_path):
    someone = Someone(study_of(tmp_path / "s"), 2).agree()
    someone.answer(1)
    assert '<b class="code">p02</b>' in someone.client.get("/").text


def test_a_break_is_suggested_after_so_many_answers(tmp_path):
    someone = Someone(study_of(tmp_path / "s", pause=2)).agree()
    assert [someone.answer(number).json()["next"] for number in (1, 2, 3)] == ["/task", "/break", "/task"]
    never = Someone(study_of(tmp_path / "n", pause=0)).agree()
    assert [never.answer(number).json()["next"] for number in (1, 2)] == ["/task", "/task"]


def test_the_organiser_sees_progress_and_exports_without_names(tmp_path):
    folder = study_of(tmp_path / "s")
    app = create_app(folder)
    someone, organiser = Someone(folder, app=app).agree(), Someone(folder, app=app)
    someone.answer(1)
    page = organiser.client.get(f"/o/{read_keys(folder).organiser}").text
    assert "1 of 6" in page
    lines = organiser.client.get("/organiser/answers.csv").text.splitlines()
    assert lines[0].startswith("person,cohort,step")
    assert len(lines) == 1 + len(METHODS)
    assert [line["method"] for line in organiser.client.get("/organiser/answers.json").json()] == list(
        steps_of(someone.design, 1)[0].shown
    )


def test_a_study_is_served_below_a_path(tmp_path):
    folder = study_of(tmp_path / "s")
    someone = Someone(folder, app=create_app(folder, root="/study"))
    someone.client.base_url = "http://study.test/study"
    entered = someone.client.get(f"/i/{someone.code}", follow_redirects=False)
    assert entered.headers["location"] == "/study/"
    assert "path=/study/" in entered.headers["set-cookie"].lower()
    page = someone.client.get("/")
    assert 'action="/study/consent"' in page.text
    assert '"/study/static/study.css"' in page.text
    assert someone.client.get("/static/study.css").status_code == 200


def test_times_are_what_the_page_saw_and_never_more_than_passed(tmp_path):
    someone = Someone(study_of(tmp_path / "s")).agree()
    someone.answer(1, seconds="3000")
    someone.answer(2, seconds="")
    first, second = someone.stored()
    assert first.seconds < 30
    assert 0 <= second.seconds < 30


def test_a_server_that_starts_again_knows_everybody(tmp_path):
    folder = study_of(tmp_path / "s")
    someone = Someone(folder).agree()
    fields = someone.fields(1)
    again = Someone(folder, app=create_app(folder))
    again.client.cookies = someone.client.cookies
    assert again.send(1, fields).status_code == 200
    assert someone.send(1, fields).status_code == 409
