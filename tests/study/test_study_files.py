"""Damaged files of a study: one error that names the file, before anybody is let in or a link is written."""

import json
import shutil

import pytest

from didact.errors import DidactError
from didact.study.app import create_app
from didact.study.links import invites_base_url
from study.people import study_of


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return study_of(tmp_path_factory.mktemp("study") / "s")


@pytest.fixture
def folder(source, tmp_path):
    return shutil.copytree(source, tmp_path / "s")


def changed(path, change):
    document = json.loads(path.read_text())
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize("name", ["study.json", "stimuli.json", "secret.key", "answers.sqlite"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"null", b"[" * 100_000, b"{}", b"x" * 40])
def test_a_damaged_file_is_named(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(DidactError, match=name.replace(".", r"\.")):
        create_app(folder)


@pytest.mark.parametrize(("name", "change"), [
    ("stimuli.json", lambda document: document.update(items="x")),
    ("stimuli.json", lambda document: document["example"].update(views=None)),
    ("study.json", lambda document: document.update(items=5)),
    ("study.json", lambda document: document.pop("methods")),
])  # fmt: skip
def test_a_damaged_entry_is_named_by_its_file(folder, name, change):
    (folder / name).write_bytes(changed(folder / name, change))
    with pytest.raises(DidactError, match=name):
        create_app(folder)


def test_a_secret_of_another_study_is_noticed_before_links_are_made(folder):
    (folder / "secret.key").write_bytes(b"y" * 32)
    with pytest.raises(DidactError, match=r"secret\.key\) does not belong to its answers"):
        create_app(folder)


def test_a_database_without_the_study_is_refused(folder, tmp_path):
    with pytest.raises(DidactError, match="holds no study"):
        create_app(folder, database=f"sqlite:///{tmp_path / 'other.sqlite'}")


def test_a_sheet_of_links_that_cannot_be_read_is_named(folder):
    (folder / "invites.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DidactError, match=r"invites\.csv cannot be read .* --url ADDRESS"):
        invites_base_url(folder)
    (folder / "invites.csv").write_text("person,link\np01\n")
    assert invites_base_url(folder) == ""
