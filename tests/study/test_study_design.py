"""Which rows are chosen, and who sees what in which order."""

import json
from collections import Counter

import pytest

from didact.errors import DataError, OptionError, RecordError
from didact.study.design import Design, Item, read_design
from didact.study.item_sampling import sample_items, sample_simulation_items
from didact.study.schedule import steps_of
from didact.study.stimuli import read_stimuli
from study.people import study_of

GOLDEN = [("r2", "abc"), ("r0", "bca"), ("r1", "cab"), ("r5", "abc"), ("r3", "cab"), ("r4", "bca")]
GOLDEN_RATING = "accbba"


def items_of(right: dict[str, int], wrong: dict[str, int] | None = None) -> list[Item]:
    """So many rows of each answer, right and wrong."""
    found = []
    for is_wrong, counts in ((False, right), (True, wrong or {})):
        for name, count in counts.items():
            found += [
                Item(f"{name}-{is_wrong}-{number}", name, f"not {name}" if is_wrong else name)
                for number in range(count)
            ]
    return found


def design_of(kind: str, items: int = 12, methods: tuple[str, ...] = ("a", "b", "c"), **changes) -> Design:
    phases = {"simulation": ["learning"] * (items * 2 // 3) + ["test"] * (items - items * 2 // 3)}
    listed = tuple(Item(f"r{number}", "yes", "yes", phases.get(kind, [""] * items)[number]) for number in range(items))
    facts = {"title": "t", "question": "q", "task": "classification", "classes": ("no", "yes"), "people": 3}
    return Design(kind=kind, methods=methods, items=listed, **(facts | changes))


def test_items_are_even_over_the_answers_as_far_as_rows_reach():
    picked = sample_items(items_of({"good": 50, "bad": 4}), count=20, seed=0)
    assert Counter(item.prediction for item in picked) == {"good": 16, "bad": 4}
    assert len({item.id for item in picked}) == 20


def test_items_depend_on_ids_and_seed_and_not_on_the_order_of_rows():
    rows = items_of({"good": 30, "bad": 30})
    assert sample_items(rows, count=10, seed=1) == sample_items(rows[::-1], count=10, seed=1)
    assert sample_items(rows, count=10, seed=1) != sample_items(rows, count=10, seed=2)


def test_where_every_answer_is_another_rows_are_drawn_from_all_of_them():
    """A regression has as many answers as rows: those that come first as words are no better than others."""
    rows = [Item(f"r{number}", f"{number / 1000:.3f}") for number in range(1000)]
    picked = [float(item.prediction) for item in sample_items(rows, count=60, seed=0)]
    assert min(picked) < 0.2
    assert max(picked) > 0.8
    assert 0.35 < sum(picked) / 60 < 0.65


def test_too_few_rows_are_told_with_their_number():
    with pytest.raises(OptionError, match=r"60 items .* only 8 distinct rows.*--items 8"):
        sample_items(items_of({"good": 8}), count=60, seed=0)


@pytest.mark.parametrize(("count", "learn", "errors"), [(60, 40, 0.5), (20, 10, 0.2), (9, 6, 0.5), (12, 6, 1.0)])
def test_both_phases_of_a_simulation_have_their_share_of_errors_and_of_every_answer(count, learn, errors):
    rows = items_of({"good": 40, "bad": 40}, {"good": 40, "bad": 40})
    picked = sample_simulation_items(rows, count=count, learn=learn, errors=errors, seed=0)
    for phase, size in (("learning", learn), ("test", count - learn)):
        own = [item for item in picked if item.phase == phase]
        assert len(own) == size
        assert sum(item.is_error for item in own) == round(errors * size)
        answers = Counter((item.prediction, item.is_error) for item in own)
        for is_error in (True, False):
            assert abs(answers["good", is_error] - answers["bad", is_error]) <= 1
    assert len({item.id for item in picked}) == count


def test_too_few_errors_are_refused_with_counts_and_a_share_that_would_do():
    rows = items_of({"good": 40, "bad": 40}, {"good": 5, "bad": 1})
    with pytest.raises(
        OptionError, match=r"needs 30 rows that the model gets wrong, and there are 6 \(1 'bad', 5 'good'\)"
    ):
        sample_simulation_items(rows, count=60, learn=40, errors=0.5, seed=0)
    with pytest.raises(OptionError, match=r"--errors 0.1 "):
        sample_simulation_items(rows, count=60, learn=40, errors=0.5, seed=0)
    assert len(sample_simulation_items(rows, count=60, learn=40, errors=0.1, seed=0)) == 60


@pytest.mark.parametrize(("count", "learn", "wrong"), [(1000, 667, 237), (62, 43, 31), (60, 40, 7), (30, 20, 0)])
def test_the_share_that_would_do_does(count, learn, wrong):
    rows = items_of({"good": 1000, "bad": 1000}, {"good": wrong})
    with pytest.raises(OptionError, match="--errors") as told:
        sample_simulation_items(rows, count=count, learn=learn, errors=0.5, seed=0)
    share = float(str(told.value).split("--errors ")[1].split()[0])
    picked = sample_simulation_items(rows, count=count, learn=learn, errors=share, seed=0)
    assert wrong - count / 100 - 1 <= sum(item.is_error for item in picked) <= wrong


def test_a_simulation_without_gold_labels_is_refused():
    rows = [Item("r1", "good", None), Item("r2", "good", "bad")]
    with pytest.raises(OptionError, match="1 of 2 rows have no gold label"):
        sample_simulation_items(rows, count=2, learn=1, errors=0.5, seed=0)


@pytest.mark.parametrize("methods", [("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d", "e")])
def test_every_method_stands_equally_often_in_every_place_of_a_ranking(methods):
    steps = steps_of(design_of("ranking", items=4 * len(methods), methods=methods), 1)
    for place in range(len(methods)):
        assert set(Counter(step.shown[place] for step in steps).values()) == {4}
    assert {frozenset(step.shown) for step in steps} == {frozenset(methods)}


def test_orders_differ_between_people_and_are_the_same_for_one():
    design = design_of("ranking", items=30)
    one, other = steps_of(design, 1), steps_of(design, 2)
    assert one == steps_of(design, 1)
    assert [step.item for step in one] != [step.item for step in other]
    assert {step.item.id: step.shown for step in one} != {step.item.id: step.shown for step in other}
    assert sorted(step.item.id for step in one) == sorted(step.item.id for step in other)
    assert [step.number for step in one] == list(range(1, 31))


def test_orders_stay_what_they_were():
    """They are not stored: another version of Python or of didact must not change a study that is under way."""
    steps = steps_of(design_of("ranking", items=6), 1)
    assert [(step.item.id, "".join(step.shown)) for step in steps] == GOLDEN
    assert [step.shown[0] for step in steps_of(design_of("rating", items=6), 1)] == list(GOLDEN_RATING)


def test_every_method_meets_every_item_of_a_rating_once_there_are_as_many_people():
    design = design_of("rating", items=12)
    met = Counter((step.item.id, step.shown[0]) for number in (1, 2, 3) for step in steps_of(design, number))
    assert set(met.values()) == {1}
    assert len(met) == 12 * 3
    assert set(Counter(step.shown[0] for step in steps_of(design, 1)).values()) == {4}


def test_cohorts_of_a_simulation_take_turns_and_see_their_method_while_learning_only():
    design = design_of("simulation", items=9)
    assert [design.cohort_of(number) for number in range(1, 6)] == ["none", "a", "b", "c", "none"]
    for number, shown in ((1, ()), (2, ("a",)), (4, ("c",))):
        steps = steps_of(design, number)
        assert [step.phase for step in steps] == ["learning"] * 6 + ["test"] * 3
        assert {step.shown for step in steps if step.phase == "learning"} == {shown}
        assert {step.shown for step in steps if step.phase == "test"} == {()}


def test_a_design_is_read_as_it_was_written(tmp_path):
    design = design_of("simulation", consent=("One.", "Two."), facts={"data": "d"})
    design.save(tmp_path)
    assert read_design(tmp_path) == design


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "ranking"}', '{"items": [{"strange": 1}]}'])
def test_a_damaged_design_is_told_by_its_file(tmp_path, content):
    (tmp_path / "study.json").write_text(content)
    with pytest.raises((DataError, RecordError), match=r"study.json is (damaged|not a study's design)"):
        read_design(tmp_path)


@pytest.mark.parametrize("version", [None, 2])
def test_the_version_of_a_study(tmp_path, version):
    """Studies of earlier versions name none; one of a newer didact is not called damaged."""
    study_of(tmp_path / "study")
    for file, read in (("study.json", read_design), ("stimuli.json", read_stimuli)):
        path = tmp_path / "study" / file
        document = json.loads(path.read_text())
        del document["checksum"]
        assert document.pop("version") == 1
        path.write_text(json.dumps(document | ({} if version is None else {"version": version})))
        if version is None:
            assert read(tmp_path / "study")
            continue
        with pytest.raises(RecordError, match=rf"{file} has schema version 2, and this didact reads up to 1\. Update"):
            read(tmp_path / "study")


def test_a_folder_without_a_study_is_told(tmp_path):
    with pytest.raises(OptionError, match="holds no study.*didact study new"):
        read_design(tmp_path)
