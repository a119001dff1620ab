"""Participants are told what the model does, which keys work, and the organiser where links lead."""

import pytest

from didact.study.about import TITLE, default_about
from didact.study.design import read_design
from didact.study.links import links_for, serve_flags
from study.people import Someone, study_of

ABOUT = "The model reads a film review and says whether it is positive."


@pytest.mark.parametrize(("task", "classes", "sentence"), [
    ("classification", ("bad", "good"), "A computer model reads a text and answers one of: bad, good."),
    ("pair", ("yes", "no"), "A computer model reads two texts and answers one of: yes, no."),
    ("image", ("cat",), "A computer model looks at a picture and answers one of: cat."),
    ("regression", None, "A computer model reads a text and gives it a score."),
    ("reading", None, "A computer model reads a question and a passage, and copies its answer from the passage."),
    ("image", tuple("abcdefghi"), "A computer model looks at a picture and chooses one of 9 answers, such as a, b, c."),
])  # fmt: skip
def test_the_default_sentence_is_built_from_task_and_classes(task, classes, sentence):
    assert default_about(task, classes) == sentence


def test_title_and_sentence_do_not_name_the_data(tmp_path):
    design = read_design(study_of(tmp_path / "s"))
    assert design.title == TITLE
    assert "small" not in design.title + design.about
    assert design.about == default_about("classification", ("bad", "good"))


@pytest.mark.parametrize("kind", ["ranking", "simulation", "rating"])
def test_every_page_before_and_with_an_item_says_what_the_model_does(tmp_path, kind):
    someone = Someone(study_of(tmp_path / "s", kind, about=ABOUT)).arrive()
    assert ABOUT in someone.client.get("/").text  # the consent page, the first one
    someone.agree()
    for path in ("/instructions", "/task/1"):
        assert ABOUT in someone.client.get(path).text


@pytest.mark.parametrize(("kind", "options", "keys"), [
    ("simulation", {}, "<kbd>1</kbd> and <kbd>2</kbd>"),
    ("rating", {"points": 7}, "<kbd>1</kbd> to <kbd>7</kbd>"),
])  # fmt: skip
def test_as_many_keys_as_answers(tmp_path, kind, options, keys):
    someone = Someone(study_of(tmp_path / "s", kind, **options)).agree()
    for path in ("/instructions", "/task/1"):
        page = someone.client.get(path).text
        assert keys in page
        assert "<kbd>9</kbd>" not in page


@pytest.mark.parametrize(("url", "flags"), [
    ("http://127.0.0.1:8000", []),
    ("http://127.0.0.1:8124/", ["--port", "8124"]),
    ("http://localhost:8000/x/", ["--root", "/x"]),
    ("http://192.168.1.5:8124", ["--host", "0.0.0.0", "--port", "8124"]),
    ("http://lab.example", ["--host", "0.0.0.0", "--port", "80"]),
    ("https://lab.example/study", ["--proxy", "127.0.0.1", "--https", "--root", "/study"]),
])  # fmt: skip
def test_the_flags_that_serve_an_address(url, flags):
    assert serve_flags(url) == flags


@pytest.mark.parametrize(("written", "address", "is_proxied", "base", "warning"), [
    ("http://127.0.0.1:8124", "http://127.0.0.1:8124", False, "http://127.0.0.1:8124", ""),
    ("http://127.0.0.1:8000", "http://127.0.0.1:8124", False, "http://127.0.0.1:8124", "--url http://127.0.0.1:8124"),
    ("https://a.example", "http://127.0.0.1:8000", True, "https://a.example", ""),
    ("http://127.0.0.1:8000", "http://127.0.0.1:8000", True, "http://127.0.0.1:8000", "--url https://…"),
    ("http://lab:80", "http://0.0.0.0:80", False, "http://lab:80", ""),
    ("http://127.0.0.1:80", "http://0.0.0.0:80", False, "http://ADDRESS:80", "--url http://ADDRESS:80"),
    ("http://lab:80", "http://0.0.0.0:81", False, "http://ADDRESS:81", "--url http://ADDRESS:81"),
])  # fmt: skip
def test_links_that_lead_elsewhere_are_noticed(tmp_path, written, address, is_proxied, base, warning):
    folder = study_of(tmp_path / "s", url=written)
    links = links_for(folder, address, is_proxied=is_proxied)
    assert links.base == base
    assert links.warning.endswith(warning)
    assert bool(links.warning) == bool(warning)
