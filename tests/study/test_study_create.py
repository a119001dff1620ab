"""New studies: what is frozen, what is refused."""

import json
import stat
from dataclasses import replace

import numpy as np
import pytest

from didact.core.dataset import Dataset, Split
from didact.errors import DataError, OptionError, PlanError, RecordError, ShapeError
from didact.study.auth import read_keys
from didact.study.config import StudyFields, StudyOptions
from didact.study.create import new_study
from didact.study.database import open_answers
from didact.study.design import read_design
from didact.study.stimuli import read_stimuli
from study.people import METHODS, maps_of, rows_of, study_of


def test_texts_are_frozen_whole_with_a_colour_for_each_word(tmp_path):
    folder = study_of(tmp_path / "s")
    data, _ = rows_of(40)
    texts = {row.id: row.texts for row in data["test"]}
    stimuli = read_stimuli(folder)
    assert set(stimuli.items) == {item.id for item in read_design(folder).items}
    for name, one in stimuli.items.items():
        assert one.texts == texts[name]
        assert set(one.views) == set(METHODS)
        for view in one.views.values():
            assert "".join(part for part, _ in view.texts[0]) == one.texts[0]
            looks = {look for part, look in view.texts[0] if part.strip()}
            assert any(look == "strength10" for look in looks)  # the strongest has the full colour


def test_a_word_in_pieces_is_one_word_for_people(tmp_path):
    data, said = rows_of(4)
    maps = maps_of(data, said, "m")
    halves = np.repeat(maps.offsets, 2, axis=0)
    halves[::2, 1] = halves[1::2, 0] = maps.offsets[:, 0] + 1
    pieces = replace(
        maps, tokens=tuple(np.repeat(maps.tokens, 2)), segments=np.repeat(maps.segments, 2),
        word_index=np.repeat(maps.word_index, 2), offsets=halves, scores=np.repeat(maps.scores, 2),
        bounds=maps.bounds * 2,
    )  # fmt: skip
    new_study([pieces], data, out=tmp_path / "s", kind="rating", items=4, annotators=1)
    for one in read_stimuli(tmp_path / "s").items.values():
        words = [part for part, _ in one.views["m"].texts[0] if part.strip()]
        assert words == one.texts[0].split()


@pytest.mark.parametrize(("kinds", "signs", "shown"), [
    (("signed", "signed"), "auto", True),
    (("signed", "magnitude"), "auto", False),
    (("signed", "signed"), "hide", False),
    (("signed", "magnitude"), "show", True),
])  # fmt: skip
def test_signs_are_shown_only_if_every_method_has_them(tmp_path, kinds, signs, shown):
    data, said = rows_of(10)
    maps = [maps_of(data, said, f"m{place}", kind=kind, seed=place) for place, kind in enumerate(kinds)]
    new_study(maps, data, out=tmp_path / "s", items=6, signs=signs)
    assert read_design(tmp_path / "s").signs is shown
    looks = (tmp_path / "s" / "stimuli.json").read_text()
    items = json.dumps(json.loads(looks)["items"])
    assert ("against" in items) is shown


def test_pictures_are_files_under_the_name_of_their_content_with_patches(tmp_path):
    folder = study_of(tmp_path / "s", task="image")
    stimuli = read_stimuli(folder)
    for one in stimuli.items.values():
        assert one.picture is not None
        assert (folder / "images" / one.picture.file).read_bytes()[:4] == b"\x89PNG"
        assert (one.picture.width, one.picture.height) == (16, 16)
        for view in one.views.values():
            x, y, wide, high, _, cover = max(view.patches, key=lambda patch: patch[-1])
            assert (wide, high) == (8, 8)
            assert {x, y} <= {0, 8}
            assert cover == 0.75
    assert {path.name for path in (folder / "images").iterdir()} == stimuli.pictures


def test_only_the_owner_reads_secret_and_links_and_the_database_has_no_code(tmp_path):
    folder = study_of(tmp_path / "s")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("secret.key", "invites.csv"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    code = read_keys(folder).code(1)
    assert code in (folder / "invites.csv").read_text()
    assert code.encode() not in (folder / "answers.sqlite").read_bytes()
    assert len({read_keys(folder).code(number) for number in range(1, 500)}) == 499


def test_a_database_that_has_the_people_of_such_a_study_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    study_of(tmp_path / "one", database=url)
    with pytest.raises(RecordError, match="people from p01 on.*its own database"):
        study_of(tmp_path / "other", database=url)
    assert not (tmp_path / "other").exists()


def test_answers_that_lie_elsewhere_are_asked_for_and_no_empty_file_is_made(tmp_path):
    url = f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"
    folder = study_of(tmp_path / "s", database=url)
    with pytest.raises(RecordError, match=r"answers.sqlite is missing.*--database"):
        open_answers(folder, read_design(folder))
    assert not (folder / "answers.sqlite").exists()
    assert len(open_answers(folder, read_design(folder), url).people()) == 2


@pytest.mark.parametrize("url", ["postgresql://u:secretword@host:port/x", "secretword", "nosuch://u:secretword@h/x"])
def test_a_database_that_cannot_be_used_is_told_without_its_password(tmp_path, url):
    folder = study_of(tmp_path / "s")
    with pytest.raises(RecordError, match="cannot be used") as told:
        open_answers(folder, read_design(folder), url)
    assert "secretword" not in str(told.value)


def test_two_studies_of_the_same_data_have_other_codes(tmp_path):
    one, other = study_of(tmp_path / "one"), study_of(tmp_path / "other")
    assert read_keys(one).code(1) != read_keys(other).code(1)
    assert (one / "stimuli.json").read_bytes() == (other / "stimuli.json").read_bytes()


def test_a_simulation_invites_as_many_to_each_cohort(tmp_path):
    folder = study_of(tmp_path / "s", "simulation", annotators=2, items=9)
    assert (folder / "invites.csv").read_text().count("http") == 2 * (1 + len(METHODS))


def test_an_existing_folder_is_never_replaced(tmp_path):
    folder = study_of(tmp_path / "s")
    before = (folder / "secret.key").read_bytes()
    with pytest.raises(OptionError, match="might hold people's answers"):
        study_of(tmp_path / "s")
    assert (folder / "secret.key").read_bytes() == before


def test_a_failed_study_leaves_nothing(tmp_path):
    with pytest.raises(OptionError, match="60 items"):
        study_of(tmp_path / "s", items=60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "said"), [
    ({"kind": "rankng"}, "rankng.*ranking"),
    ({"points": 12}, "points: must be an integer from 2 to 9, got 12"),
    ({"errors": 1.5, "kind": "simulation"}, "errors: must be a number between 0 and 1, got 1.5"),
    ({"annotators": 0}, "annotators: must be an integer from 1"),
    ({"pause": -1}, "pause: must be an integer from 0"),
    ({"item": 3}, "no option named 'item'. Did you mean 'items'"),
    ({"signs": "maybe"}, "maybe"),
    ({"learn": 6, "kind": "simulation"}, "at least one must be to learn from"),
])  # fmt: skip
def test_wrong_options_are_told(tmp_path, options, said):
    with pytest.raises((OptionError, PlanError), match=said):
        study_of(tmp_path / "s", **options)


def test_all_wrong_options_are_told_at_once(tmp_path):
    with pytest.raises(PlanError) as told:
        study_of(tmp_path / "s", points=12, signs="maybe", annotators=0)
    assert len(told.value.faults) == 3


def test_keyword_arguments_are_the_fields_of_the_options():
    assert list(StudyFields.__annotations__) == list(StudyOptions.model_fields)


def test_a_method_given_twice_is_refused(tmp_path):
    with pytest.raises(OptionError, match="given twice: m"):
        study_of(tmp_path / "s", methods=("m", "m"))


@pytest.mark.parametrize("count", [1, 27])
def test_a_ranking_that_cannot_be_shown_or_analysed_is_refused_before_anybody_is_asked(tmp_path, count):
    with pytest.raises(OptionError, match=rf"2 to 26 methods on a page, and {count} w.*--kind rating"):
        study_of(tmp_path / "s", methods=[f"m{number}" for number in range(count)], rows=10)
    study_of(tmp_path / "r", "rating", methods=[f"m{number}" for number in range(count)], rows=10)


def test_methods_of_different_answers_are_refused(tmp_path):
    data, said = rows_of(10)
    other = ["good" if one == "bad" else "bad" for one in said]
    with pytest.raises(DataError, match=r"not of the same answers.*\n.*row 'r0': a explains 'good'"):
        new_study([maps_of(data, said, "a"), maps_of(data, other, "b")], data, out=tmp_path / "s", items=4)


def test_methods_that_share_no_row_are_refused(tmp_path):
    data, said = rows_of(10)
    one, other = maps_of(data, said, "a")[:5], maps_of(data, said, "b")[5:]
    with pytest.raises(DataError, match=r"No row is explained by every method \(a: 5, b: 5 rows\)"):
        new_study([one, other], data, out=tmp_path / "s", items=4)


def test_data_with_other_texts_are_refused(tmp_path):
    data, said = rows_of(10)
    other, _ = rows_of(10, text="other ")
    with pytest.raises(DataError, match="another text"):
        new_study([maps_of(data, said, "a")], other, out=tmp_path / "s", kind="rating", items=4)


def test_tasks_are_not_mixed(tmp_path):
    data, said = rows_of(10)
    pairs, answers = rows_of(10, task="pair")
    with pytest.raises(ShapeError, match="different tasks"):
        new_study([maps_of(data, said, "a"), maps_of(pairs, answers, "b")], data, out=tmp_path / "s", items=4)


def test_equal_rows_are_asked_about_once(tmp_path):
    data, said = rows_of(6)
    first = data["test"].rows[0]
    rows = [replace(row, texts=first.texts) for row in data["test"].rows]
    same = replace(data, splits={"test": type(data["test"])("test", rows)})
    with pytest.raises(OptionError, match="only 1 distinct rows"):
        new_study([maps_of(same, ["bad"] * 6, "a")], same, out=tmp_path / "s", kind="rating", items=2)
    assert len(said) == 6


class TestLabels:
    """Where the model is wrong is known by the names of classes."""

    @pytest.mark.parametrize("classes", [("bad", "good"), ("Bad", "GOOD")])
    def test_are_matched_by_name(self, tmp_path, classes):
        data, said = rows_of(40)
        turned = tuple(1 - row.label for row in data["test"])
        rows = [replace(row, label=label) for row, label in zip(data["test"], turned, strict=True)]
        other = Dataset(data.name, data.task, {"test": Split("test", rows)}, classes[::-1])
        for about, name in ((data, "a"), (other, "b")):
            new_study([maps_of(data, said, "m")], about, out=tmp_path / name, kind="simulation", items=6)
        designs = [read_design(tmp_path / name) for name in "ab"]
        assert designs[0].items == designs[1].items
        assert sum(item.is_error for item in designs[0].items) == 3

    def test_of_other_names_count_in_a_simulation_alone(self, tmp_path, caplog):
        data, said = rows_of(40)
        other = replace(data, classes=("terrible", "fine"))
        maps = [maps_of(data, said, "m")]
        with pytest.raises(OptionError, match="--classes terrible,fine"):
            new_study(maps, other, out=tmp_path / "s", kind="simulation", items=6)
        new_study(maps, other, out=tmp_path / "t", kind="rating", items=6)
        assert all(item.label is None for item in read_design(tmp_path / "t").items)
        assert "labels are left out" in caplog.text
        new_study(maps, other, out=tmp_path / "s", kind="simulation", items=6, classes=["terrible", "fine"])
        assert {item.label for item in read_design(tmp_path / "s").items} == {"bad", "good"}
