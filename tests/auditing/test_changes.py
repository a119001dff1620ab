"""What an audit explains, and which pairs it asks about."""

from collections import Counter

import pytest

from didact.auditing.changes import audited_explanations, audited_pairs, start_of
from didact.comparing.config_checks import check_method
from didact.results.audit import Change, Relation

BASES = ["lime", "human", "lime(samples=10)", "lime(samples=10, seed=3)", "ranked(base=lime)"]


def listed(
    methods=("lime", "occlusion"), bases=("lime", "human"), damage=(0.4, 0.1), damaged=("rows", "units"), leaks=()
):
    return audited_explanations(methods, bases, damage=damage, damaged=damaged, leaks=leaks)


def by_name(**options):
    return {item.name: item for item in listed(**options)}


class TestExplanations:
    def test_each_once(self):
        names = [item.name for item in listed(methods=("lime", "human", "lime"), bases=("human", "lime", "lime"))]
        assert [name for name, count in Counter(names).items() if count > 1] == []

    def test_all_of_one_base(self):
        made = {
            name: (item.change, item.level, item.damaged) for name, item in by_name(methods=(), bases=("lrp",)).items()
        }
        assert made == {
            "lrp": (Change.START, 0.0, ""),
            "degraded(base=lrp, by=rows, share=0.4)": (Change.DAMAGE, 0.4, "rows"),
            "degraded(base=lrp, by=rows, share=0.1)": (Change.DAMAGE, 0.1, "rows"),
            "degraded(base=lrp, by=units, share=0.4)": (Change.DAMAGE, 0.4, "units"),
            "degraded(base=lrp, by=units, share=0.1)": (Change.DAMAGE, 0.1, "units"),
            "tempered(base=lrp, t=0.25)": (Change.SAME, 0.0, ""),
            "tempered(base=lrp, t=4)": (Change.SAME, 0.0, ""),
            "ranked(base=lrp)": (Change.SAME, 0.0, ""),
            "scaled(base=lrp, factor=8)": (Change.SAME, 0.0, ""),
            "blurred(base=lrp)": (Change.LESS, 0.0, ""),
            "top(base=lrp, k=0.2)": (Change.LESS, 0.0, ""),
        }

    @pytest.mark.parametrize(
        "base", ["lime", "human", "lime(samples=10)", "lime(samples=10, seed=3)", "ranked(base=lime)"]
    )
    def test_names_are_those_that_a_comparison_gives(self, base):
        """A name that it spells otherwise would lose all pairs."""
        names = [item.name for item in listed(bases=(base,), damage=(0.05, 1.0, 1e-5))]
        assert [check_method(name) for name in names] == names

    def test_a_base_that_is_a_method_is_both(self):
        made = by_name()
        assert (made["lime"].change, made["lime"].base, made["lime"].is_method) == (Change.START, "lime", True)
        assert (made["occlusion"].change, made["occlusion"].is_method) == (Change.NONE, True)
        assert not by_name(methods=("occlusion",))["lime"].is_method

    def test_a_method_that_is_a_changed_version_or_a_leak_is_both(self):
        made = by_name(methods=("blurred(base=lime)", "trivial"), leaks=("trivial", "leak_count"))
        blurred, trivial = made["blurred(base=lime)"], made["trivial"]
        assert (blurred.change, blurred.is_method) == (Change.LESS, True)
        assert (trivial.change, trivial.is_method) == (Change.LEAK, True)
        assert not made["leak_count"].is_method

    def test_marks_start_from_their_sizes(self):
        made = by_name(methods=("human",), bases=("human",))
        start = made[start_of("human")]
        assert start.name == "degraded(base=human, share=0)"
        assert (start.change, start.is_method) == (Change.START, False)
        assert (made["human"].change, made["human"].is_method) == (Change.NONE, True)
        assert not any(name.startswith("scaled") for name in made), "marks have no scale"


class TestPairs:
    def pairs(self, relation, **options):
        return [tuple(pair[1:]) for pair in audited_pairs(listed(**options), "none") if pair[0] == relation]

    def test_steps_of_one_base_and_kind_of_damage_in_order(self):
        assert self.pairs(Relation.STEP, bases=("lime",), damage=(0.4, 0.1, 0.2)) == [
            (f"{first}", f"{second}", "lime", by)
            for by in ("rows", "units")
            for first, second in [
                ("lime", f"degraded(base=lime, by={by}, share=0.1)"),
                (f"degraded(base=lime, by={by}, share=0.1)", f"degraded(base=lime, by={by}, share=0.2)"),
                (f"degraded(base=lime, by={by}, share=0.2)", f"degraded(base=lime, by={by}, share=0.4)"),
            ]
        ]

    def test_steps_of_marks_start_from_their_sizes(self):
        steps = self.pairs(Relation.STEP, bases=("human",), damaged=("rows",), damage=(0.1,))
        assert steps == [("degraded(base=human, share=0)", "degraded(base=human, by=rows, share=0.1)", "human", "rows")]

    def test_no_step_crosses_bases(self):
        explanations = by_name(bases=("lime", "human", "occlusion"))
        steps = self.pairs(Relation.STEP, bases=("lime", "human", "occlusion"))
        assert len(steps) == 3 * 2 * 2
        for first, second, base, by in steps:
            assert explanations[first].base == explanations[second].base == base
            assert explanations[second].damaged == by
            assert explanations[first].level < explanations[second].level

    def test_equal_pairs_are_all_pairs_of_the_base_and_its_sharpnesses(self):
        equal = self.pairs(Relation.EQUAL, bases=("lime",))
        same = [
            "lime",
            "tempered(base=lime, t=0.25)",
            "tempered(base=lime, t=4)",
            "ranked(base=lime)",
            "scaled(base=lime, factor=8)",
        ]
        assert {frozenset(pair[:2]) for pair in equal} == {frozenset((a, b)) for a in same for b in same if a != b}
        assert len(equal) == 10
        assert len(self.pairs(Relation.EQUAL, bases=("human",))) == 6

    def test_what_lost_information_is_compared_with_its_base(self):
        assert self.pairs(Relation.LESS, bases=("lime", "human")) == [
            ("blurred(base=lime)", "lime", "lime", ""),
            ("top(base=lime, k=0.2)", "lime", "lime", ""),
            ("blurred(base=human)", "degraded(base=human, share=0)", "human", ""),
            ("top(base=human, k=0.2)", "degraded(base=human, share=0)", "human", ""),
        ]

    def test_leaks_are_compared_with_the_reference(self):
        assert self.pairs(Relation.LEAK, leaks=("trivial",)) == [("trivial", "none", "", "")]
        by_metric = list(audited_pairs(listed(leaks=("trivial",)), "random"))
        assert [tuple(pair[1:3]) for pair in by_metric if pair[0] == Relation.LEAK] == [("trivial", "random")]
        assert self.pairs(Relation.LEAK) == []

    def test_without_damage_there_are_no_steps(self):
        assert self.pairs(Relation.STEP, damage=()) == []
        assert self.pairs(Relation.STEP, damaged=()) == []
