"""The analysis of a study: planted truths come back, few answers are told, nobody is lost, order does not matter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from didact.errors import DataError, OptionError, UnsupportedError
from didact.results.study_tables import study_tables
from didact.stats import permutation
from didact.stats.concordance import kendall_w
from didact.stats.crossed import CrossedAnswers
from didact.stats.ranking import kendall
from didact.study import analyze_simulation
from didact.study.analyze import analyze
from didact.study.analyze_ranking import tau_by_person
from didact.study.analyze_rating import adjusted_means
from didact.study.answers import Answer
from didact.study.design import Design, Item
from didact.study.synthetic_annotators import simulate_answers

pytest.importorskip("trueskill")
METHODS = ("a", "b", "c")
KINDS = ("ranking", "simulation", "rating")


@pytest.fixture(autouse=True)
def no_shuffles(monkeypatch):
    """TrueSkill's shuffles have tests of their own, and take most of the time."""
    monkeypatch.setattr("didact.study.trueskill_ranking._SHUFFLES", 0)


def design_of(kind, items=12, methods=METHODS, **changes):
    half = items // 2
    listed = tuple(
        Item(
            f"r{one}", ("no", "yes")[one % 2], ("no", "yes")[one // 2 % 2],
            "" if kind != "simulation" else "learning" if one < half else "test",
        )
        for one in range(items)
    )  # fmt: skip
    facts = {"title": "t", "question": "q", "task": "classification", "classes": ("no", "yes"), "people": 3}
    return Design(kind=kind, methods=methods, items=listed, **(facts | changes))


def ranked(person, item, *places, step=1, methods=METHODS, **more):
    ranks = dict(zip(methods, places, strict=False))
    return Answer(person, "", step, "ranking", item, tuple(ranks), ranks=ranks, seconds=9.0, **more)


def found(kind, answers, items=12, methods=METHODS, **options):
    return analyze(design_of(kind, items, methods), answers, **({"replicates": 200} | options)).to_document()


def by_method(document):
    return {row["method"]: row for row in document["methods"]}


class TestRanking:
    def test_counts_by_hand(self):
        """Four pages: a first alone twice, once with b; c first once."""
        answers = [
            ranked("p01", "r0", 1, 2, 3), ranked("p01", "r1", 1, 1, 3), ranked("p02", "r0", 1, 3, 2),
            ranked("p02", "r1", 3, 2, 1),
        ]  # fmt: skip
        document = found("ranking", answers)
        rows = by_method(document)
        assert [rows[m]["first_places"] for m in METHODS] == [2.5 / 4, 0.5 / 4, 1 / 4]
        assert [rows[m]["mean_rank"] for m in METHODS] == [6.5 / 4, 8.5 / 4, 9 / 4]
        assert document["tied_share"] == pytest.approx(1 / 12)
        assert document["counts"]["answers"] == 4
        assert document["counts"]["dropouts"] == ["p01", "p02"]
        items = [kendall_w(np.array([[1.0, 2, 3], [1, 3, 2]])), kendall_w(np.array([[1.0, 1, 3], [3, 2, 1]]))]
        assert document["agreement"]["kendall_w_items"] == pytest.approx(np.mean(items))

    def test_planted_worths_come_back(self):
        design = design_of("ranking", items=80)
        worths = {"a": 1.0, "b": 0.0, "c": -1.0}
        document = analyze(
            design, simulate_answers(design, people=8, worths=worths, seed=2), replicates=300
        ).to_document()
        rows = by_method(document)
        for method, worth in worths.items():
            assert rows[method]["low"] < worth < rows[method]["high"]
            assert rows[method]["estimate"] == pytest.approx(worth, abs=0.2)
        assert [rows[m]["rank"] for m in METHODS] == [1, 2, 3]
        assert document["order"][0] == {"method": "a", "rank": 1, "beats": ["b", "c"], "alike": []}
        assert "a is better than b and c; b is better than c" in document["headline"]
        assert [one["method"] for one in document["trueskill"]["rows"]] == list(METHODS)
        assert document["ties"]["2"] == pytest.approx(0.2, rel=0.3)

    def test_equal_methods_cannot_be_told_apart(self):
        design = design_of("ranking", items=40)
        answers = simulate_answers(design, people=4, worths={}, seed=3)
        document = analyze(design, answers, replicates=300).to_document()
        assert {row["rank"] for row in document["methods"]} == {1}
        assert document["order"][0]["alike"]
        assert "the answers do not show which explanations people prefer" in document["headline"]

    def test_one_person_is_about_items_only(self):
        design = design_of("ranking", items=60)
        document = analyze(design, simulate_answers(design, people=1, worths={"a": 2.0}), replicates=200).to_document()
        assert any("only one person: intervals are about items only" in note for note in document["notes"])
        assert by_method(document)["a"]["low"] is not None
        assert document["agreement"]["alpha"] is None
        assert "2 people" in document["power"]["reason"]

    def test_one_item(self):
        answers = [ranked(f"p{one:02d}", "r0", 1, 2, 3) for one in range(1, 6)]
        document = found("ranking", answers, items=1)
        assert any("only one item" in note for note in document["notes"])
        assert document["agreement"]["kendall_w_items"] == 1

    def test_one_answer(self):
        document = found("ranking", [ranked("p01", "r0", 1, 2, 3)], items=1)
        assert by_method(document)["a"]["low"] is None
        assert by_method(document)["a"]["estimate"] > 0
        assert {row["rank"] for row in document["methods"]} == {1}
        assert "there are no intervals" in " ".join(document["notes"])

    def test_what_holds_for_these_people_need_not_hold_for_others(self):
        """Two always put a first, one always b: for them a is ahead, on any items; the next person may be either."""
        answers = [
            ranked(f"p{p:02d}", f"r{i}", *((1, 2) if p < 3 else (2, 1)), methods=("a", "b"))
            for p in range(1, 4)
            for i in range(24)
        ]
        document = found("ranking", answers, items=24, methods=("a", "b"))
        rows = by_method(document)
        assert (rows["a"]["rank_here"], rows["b"]["rank_here"]) == (1, 2)
        assert (rows["a"]["rank"], rows["b"]["rank"]) == (1, 1)
        assert "Among these people, a is ahead of b" in document["headline"]
        assert not document["pairs"][0]["is_sure"]
        assert document["pairs"][0]["is_sure_here"]

    def test_who_always_wins_has_finite_numbers(self):
        answers = [ranked(f"p{p:02d}", f"r{i}", 1, 2, 3) for p in range(1, 4) for i in range(24)]
        rows = by_method(found("ranking", answers, items=24))
        assert rows["a"]["high"] - rows["a"]["low"] > 0.5, "alike is not certain"
        assert rows["a"]["rank"] == 1
        assert rows["c"]["rank"] == 3

    def test_pages_with_fewer_methods_and_a_method_nobody_saw(self):
        answers = [
            Answer("p01", "", one, "ranking", f"r{one}", ("a", "b"), ranks={"a": 1, "b": 2}) for one in range(12)
        ]
        document = found("ranking", answers)
        assert by_method(document)["c"]["mean_rank"] is None
        assert any("No one ranked c" in note for note in document["notes"])

    def test_agreement_with_others_is_kendalls(self):
        """As `stats.ranking.kendall` has it, page by page, with ties and with pages that show fewer methods."""
        dice = np.random.default_rng(0)
        ranks = dice.integers(1, 4, (15, 3)).astype(float)
        ranks[3, 1] = ranks[7, 2] = np.nan
        answers = [ranked(f"p{place % 3}", f"r{place // 3}") for place in range(15)]
        found = tau_by_person(answers, ranks)
        for person in range(3):
            own = []
            for item in range(5):
                rows = [ranks[3 * item + other] for other in range(3)]
                places = [stats.rankdata(row, nan_policy="omit") for row in rows]
                means = np.nanmean([place for other, place in enumerate(places) if other != person], axis=0)
                own.append(kendall(places[person], means))
            assert found[f"p{person}"] == pytest.approx(np.nanmean(own))

    def test_somebody_who_disagrees_is_told_and_kept(self):
        design = design_of("ranking", items=40)
        answers = simulate_answers(design, people=5, worths={"a": 2.0, "c": -2.0})
        turned = [
            replace(one, ranks={m: 4 - place for m, place in one.ranks.items()}) if one.person == "p03" else one
            for one in answers
        ]
        document = analyze(design, turned, replicates=100).to_document()
        assert document["counts"]["odd"] == ["p03"]
        assert any("p03 looks odd (disagrees with the others" in note for note in document["notes"])
        assert document["counts"]["people"] == 5
        without = analyze(design, turned, replicates=100, leave_out=("p03",)).to_document()
        assert without["counts"]["people"] == 4
        assert without["counts"]["left_out"] == ["p03"]
        assert any("Left out on request: p03" in note for note in without["notes"])
        assert without == {
            **analyze(design, [one for one in turned if one.person != "p03"], replicates=100).to_document(),
            "counts": without["counts"], "notes": without["notes"],
        }  # fmt: skip

    def test_of_two_people_who_disagree_neither_is_odd(self):
        design = design_of("ranking", items=40)
        answers = simulate_answers(design, people=2, worths={"a": 2.0, "c": -2.0})
        turned = [
            replace(one, ranks={m: 4 - place for m, place in one.ranks.items()}) if one.person == "p02" else one
            for one in answers
        ]
        document = analyze(design, turned, replicates=100).to_document()
        assert all(person["tau"] < 0 for person in document["people"])
        assert document["counts"]["odd"] == []
        assert not any("disagrees" in note for note in document["notes"])

    def test_a_single_method_is_refused(self):
        with pytest.raises(UnsupportedError, match="at least two"):
            found("ranking", [ranked("p01", "r0", 1, methods=("a",))], methods=("a",))


class TestSimulation:
    def answers(self, right):
        """`right` holds for each person, by cohort in turn, how many of 4 test items are foreseen."""
        design = design_of("simulation", items=8, methods=("a",))
        found = []
        for number, count in enumerate(right, 1):
            for place, item in enumerate(design.items):
                other = "no" if item.prediction == "yes" else "yes"
                is_right = place < 4 or place - 4 < count
                found.append(
                    Answer(
                        f"p{number:02d}",
                        design.cohort_of(number),
                        place + 1,
                        item.phase,
                        item.id,
                        choice=item.prediction if is_right else other,
                        seconds=5.0,
                    )
                )
        return design, found

    def test_accuracies_and_exact_test_by_hand(self):
        """none: 0, 1, 1, 2 of 4; a: 3, 4, 4, 4. Only this deal and its mirror, of 70, are as extreme."""
        design, answers = self.answers([0, 3, 1, 4, 1, 4, 2, 4])
        document = analyze(design, answers, replicates=300).to_document()
        rows = by_method(document)
        assert rows["none"]["estimate"] == pytest.approx(4 / 16)
        assert rows["a"]["estimate"] == pytest.approx(15 / 16)
        assert rows["a"]["learning"] == 1
        assert rows["a"]["by_person"] == {"p02": 0.75, "p04": 1.0, "p06": 1.0, "p08": 1.0}
        (pair,) = document["pairs"]
        assert (pair["better"], pair["worse"]) == ("a", "none")
        assert pair["difference"] == pytest.approx(11 / 16)
        assert pair["p"] == pair["p_holm"] == pytest.approx(2 / 70)
        assert "people who saw a (+69 points) predict the model better" in document["headline"]

    def test_right_and_wrong_items_are_split(self):
        design, answers = self.answers([1, 1])  # of two items that the model has right and two that it has not, one
        errors = {item.id: item.is_error for item in design.items}
        tests = [one for one in answers if one.phase == "test" and one.cohort == "a"]
        said = {item.id: item.prediction for item in design.items}
        row = by_method(analyze(design, answers, replicates=50).to_document())["a"]
        for name, is_error in (("where_right", False), ("where_wrong", True)):
            own = [one.choice == said[one.item] for one in tests if errors[one.item] is is_error]
            assert row[name] == pytest.approx(np.mean(own))
        assert (row["where_right"], row["where_wrong"]) == (0.5, 0.0)

    def test_few_people_have_no_p_and_are_told_why(self):
        design, answers = self.answers([0, 4, 1, 4, 0, 3])
        (pair,) = analyze(design, answers, replicates=50).to_document()["pairs"]
        assert pair["p"] is None
        assert "smallest possible p is 0.1" in pair["p_reason"]

    def test_a_claim_needs_the_interval_and_the_test(self, monkeypatch):
        """A p of 0.4 beside an interval above 0, and the other way round: headline, order and pairs claim nothing."""
        design, answers = self.answers([0, 3, 1, 4, 1, 4, 2, 4])
        monkeypatch.setattr(analyze_simulation, "permutation_test", lambda *_, **__: permutation.PermutationResult(0.4))
        document = analyze(design, answers, replicates=300).to_document()
        (pair,) = document["pairs"]
        assert pair["sure_low"] > 0
        assert not pair["is_sure"]
        assert "explanations are not shown to help people predict the model" in document["headline"]
        assert all(row["beats"] == [] for row in document["order"])
        assert any("Interval and test disagree about a and none" in note for note in document["notes"])
        monkeypatch.setattr(
            analyze_simulation, "permutation_test", lambda *_, **__: permutation.PermutationResult(0.001)
        )
        design, answers = self.answers([1, 2, 2, 1, 2, 2, 1, 2])
        document = analyze(design, answers, replicates=300).to_document()
        assert not document["pairs"][0]["is_sure"]
        assert "not shown to help" in document["headline"]

    def test_the_level_that_was_asked_for_decides(self):
        """p is 2 in 70: enough for 95 %, not for 99 %."""
        design, answers = self.answers([0, 3, 1, 4, 1, 4, 2, 4])
        for level, is_sure in ((0.95, True), (0.99, False)):
            document = analyze(design, answers, replicates=300, level=level).to_document()
            assert document["pairs"][0]["is_sure"] is is_sure
            assert ("people who saw a" in document["headline"]) is is_sure

    def test_holm_is_over_cohorts(self):
        design = design_of("simulation", items=40)
        answers = simulate_answers(design, people=24, accuracies={"none": 0.4, "a": 0.9, "b": 0.9, "c": 0.5}, seed=1)
        rows = analyze(design, answers, replicates=100).to_document()["pairs"]
        control = sorted((row for row in rows if row["with_control"]), key=lambda row: row["p"])
        assert len(control) == 3
        assert control[0]["p_holm"] == pytest.approx(min(1, 3 * control[0]["p"]))
        assert control[0]["p_holm"] < 0.05
        assert sum(not row["with_control"] for row in rows) == 3

    def test_planted_difference_is_held(self):
        design = design_of("simulation", items=80, methods=("a",))
        answers = simulate_answers(design, people=24, accuracies={"none": 0.5, "a": 0.8}, seed=4)
        (pair,) = analyze(design, answers, replicates=300).to_document()["pairs"]
        assert pair["low"] < 0.3 < pair["high"]
        assert pair["low"] > 0

    def test_no_control_no_test_phase_and_all_right(self):
        design, answers = self.answers([4, 4, 4, 4])
        document = analyze(design, answers, replicates=50).to_document()
        assert by_method(document)["a"]["low"] is None
        assert any("All answers are right or all are wrong" in note for note in document["notes"])
        alone = analyze(design, [one for one in answers if one.cohort == "a"], replicates=50).to_document()
        assert "no one of the control answered" in alone["headline"]
        control = analyze(design, [one for one in answers if one.cohort == "none"], replicates=50).to_document()
        assert "in 1 cohort: no one but the control answered" in control["headline"]
        with pytest.raises(OptionError, match="test phase"):
            analyze(design, [one for one in answers if one.phase == "learning"])


class TestRating:
    def test_means_by_least_squares(self):
        """As with dummies of people and items; the means are those of a full table."""
        design = design_of("rating", items=30)
        answers = simulate_answers(design, people=6, spread=0.5, item_spread=0.5)
        document = analyze(design, answers, replicates=100).to_document()
        people, items = sorted({one.person for one in answers}), [item.id for item in design.items]
        columns = np.array(
            [
                [one.person == p for p in people]
                + [one.item == i for i in items]
                + [one.shown == (m,) for m in METHODS]
                for one in answers
            ]
        ).astype(float)
        ratings = np.array([one.rating for one in answers], dtype=float)
        effects = np.linalg.lstsq(columns, ratings, rcond=None)[0][-3:]
        rows = by_method(document)
        differences = [rows["a"]["estimate"] - rows[m]["estimate"] for m in METHODS]
        np.testing.assert_allclose(differences, effects[0] - effects, atol=1e-6)
        assert document["cleared_of"] == "people and items"
        # Everybody rates every method equally often here, so the plain means are nearly the same.
        assert rows["a"]["estimate"] == pytest.approx(rows["a"]["raw_mean"], abs=0.25)

    def test_a_strict_person_does_not_harm_the_methods_she_saw(self):
        """p01 gives 1 or 2, p02 4 or 5; a is one better than b. p01 saw a more often, so a's plain mean is lower."""
        answers = []
        for place in range(12):
            for person, base, often in (("p01", 1, 3), ("p02", 4, 1)):
                method = "a" if place % 4 < often else "b"
                answers.append(
                    Answer(person, "", place, "rating", f"r{place}", (method,), rating=base + (method == "a"))
                )
        rows = by_method(found("rating", answers, items=12, methods=("a", "b")))
        assert rows["a"]["raw_mean"] < rows["b"]["raw_mean"]
        assert rows["a"]["estimate"] - rows["b"]["estimate"] == pytest.approx(1)

    def test_planted_means_come_back(self):
        design = design_of("rating", items=60)
        answers = simulate_answers(design, people=9, means={"a": 3.5, "b": 3.0, "c": 2.5}, spread=0.2, seed=1)
        document = analyze(design, answers, replicates=200).to_document()
        rows = by_method(document)
        assert [rows[m]["estimate"] for m in METHODS] == pytest.approx([3.5, 3.0, 2.5], abs=0.3)
        assert rows["a"]["rank"] == 1
        assert rows["c"]["rank"] > 1
        assert document["agreement"]["shared"] > 0
        assert sum(rows["a"]["counts"]) == rows["a"]["ratings"]

    def test_one_person_all_the_same_and_no_shared_unit(self):
        answers = [
            Answer("p01", "", one, "rating", f"r{one}", (METHODS[one % 3],), rating=3, seconds=9.0) for one in range(9)
        ]
        document = found("rating", answers)
        assert by_method(document)["a"]["estimate"] == 3
        assert by_method(document)["a"]["low"] is None
        said = " ".join(document["notes"])
        assert "All ratings are the same" in said
        assert "too few answers to remove the effects" in said
        assert "no two people" in document["agreement"]["reason"]

    def test_one_method_and_one_answer(self):
        alone = [Answer("p01", "", 1, "rating", "r0", ("a",), rating=4)]
        document = found("rating", alone)
        assert by_method(document)["a"]["estimate"] == 4
        assert "so nothing can be compared" in document["headline"]
        assert any("No one has rated b, c" in note for note in document["notes"])

    def test_influences_are_as_large_as_least_squares_say(self):
        """Where nothing but chance varies, their squares sum to σ² times the inverse of the normal equations."""
        dice = np.random.default_rng(0)
        person, item = np.repeat(np.arange(8), 40), np.tile(np.arange(40), 8)
        method, ratings = (person + item) % 4, dice.normal(size=320)
        names = [[f"{one:02d}" for one in side] for side in (person, item)]
        means = adjusted_means(ratings, method, 4, CrossedAnswers.of(*names))
        difference = means.influence[:, 0] - means.influence[:, 1]
        dummies = [person[:, None] == np.arange(8), item[:, None] == np.arange(40), method[:, None] == np.arange(4)]
        columns = np.column_stack(dummies).astype(float)
        contrast = np.zeros(52)
        contrast[48], contrast[49] = 1, -1
        wanted = contrast @ np.linalg.pinv(columns.T @ columns) @ contrast  # σ is 1
        assert (difference**2).sum() == pytest.approx(wanted, rel=0.15)

    @pytest.mark.parametrize("scale", [1.0, 3.0])
    def test_influences_sum_to_nothing_and_scale_with_ratings(self, scale):
        design = design_of("rating", items=30)
        answers = simulate_answers(design, people=5)
        cells = CrossedAnswers.of([one.person for one in answers], [one.item for one in answers])
        method = np.array([METHODS.index(one.shown[0]) for one in answers])
        ratings = np.array([float(one.rating) for one in answers])
        plain, scaled = (adjusted_means(one * ratings, method, 3, cells) for one in (1.0, scale))
        np.testing.assert_allclose(plain.influence.sum(0), 0, atol=1e-9)
        np.testing.assert_allclose(scaled.influence, scale * plain.influence, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def answers(self, kind, people=8, **options):
        return simulate_answers(design_of(kind), people=people, spread=0.3, **options)

    def test_is_plain_data_and_repeats_itself(self, kind):
        answers = self.answers(kind)
        first, again = (found(kind, answers, difference=0.5) for _ in range(2))
        assert first == again
        text = json.dumps(first, allow_nan=False)
        assert json.loads(text) == first
        assert first != found(kind, answers, seed=1)

    def test_the_order_of_answers_does_not_matter(self, kind):
        answers = self.answers(kind)
        order = np.random.default_rng(0).permutation(len(answers))
        assert found(kind, answers) == found(kind, [answers[one] for one in order])

    def test_names_of_people_do_not_matter(self, kind):
        """The same numbers for methods; draws of people differ, so ends of intervals may, a little."""
        answers = self.answers(kind)
        renamed = [replace(one, person=f"p{50 - int(one.person[1:]):02d}") for one in answers]
        before, after = found(kind, answers, replicates=1000), found(kind, renamed, replicates=1000)
        for one, other in zip(before["methods"], after["methods"], strict=True):
            assert one["estimate"] == pytest.approx(other["estimate"])
            assert one["high"] - one["low"] == pytest.approx(other["high"] - other["low"], rel=0.02)

    def test_names_of_methods_do_not_matter(self, kind):
        answers = self.answers(kind)
        turn = {"a": "c", "b": "a", "c": "b"}
        renamed = [
            replace(
                one,
                cohort=turn.get(one.cohort, one.cohort),
                shown=tuple(turn[m] for m in one.shown),
                ranks=None if one.ranks is None else {turn[m]: place for m, place in one.ranks.items()},
            )
            for one in answers
        ]
        before, after = by_method(found(kind, answers)), by_method(found(kind, renamed))
        for name in METHODS:
            assert before[name]["estimate"] == pytest.approx(after[turn[name]]["estimate"])

    def test_synthetic_people_are_told_first(self, kind):
        document = found(kind, self.answers(kind))
        assert document["headline"].startswith("8 of 8 people are synthetic.")
        real = found(kind, [replace(one, is_synthetic=False) for one in self.answers(kind)])
        assert "synthetic" not in json.dumps(real["headline"])

    def test_who_did_not_finish_is_told_and_counts(self, kind):
        answers = self.answers(kind)
        cut = [one for one in answers if one.person != "p02" or one.step <= 10]
        document = found(kind, cut)
        assert document["counts"]["dropouts"] == ["p02"]
        assert document["counts"]["finished"] == 7
        assert document["counts"]["answers"] == len(cut)
        assert any("1 of 8 people started but did not finish" in note for note in document["notes"])

    def test_who_was_too_fast_is_told(self, kind):
        answers = [replace(one, seconds=0.4) if one.person == "p05" else one for one in self.answers(kind)]
        assert "p05" in found(kind, answers)["counts"]["odd"]

    def test_tables_hold_words_and_no_nan(self, kind):
        for answers in (self.answers(kind), self.answers(kind, people=len(design_of(kind).cohorts))):
            tables = study_tables(analyze(design_of(kind), answers, replicates=100, difference=0.4))
            assert {"methods", "pairs", "everybody"} <= {table.name for table in tables}
            for table in tables:
                assert all(len(row) == len(table.text_heads) for row in table.text_rows)
                cells = [cell for row in table.text_rows for cell in row]
                assert not any("nan" in cell.lower().split() or "None" in cell for cell in cells)

    def test_no_answers_and_nobody_left(self, kind):
        with pytest.raises(OptionError, match="no answers to analyse"):
            found(kind, [])
        answers = self.answers(kind, people=1)
        with pytest.raises(OptionError, match="Without these people there are no answers"):
            found(kind, answers, leave_out=("p01",))
        with pytest.raises(OptionError, match="No one called p99 answered"):
            found(kind, answers, leave_out=("p99",))

    def test_power_is_told(self, kind):
        power = found(kind, self.answers(kind, people=12), difference=0.25)["power"]
        asked = next(row for row in power["rows"] if row["what"] == "asked")
        assert asked["difference"] == 0.25
        assert asked["people"] is None or asked["more"] == max(0, asked["people"] - power["people"])
        assert power["detectable"] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item": "r99"}, "'r99' is not part"),
        ({"ranks": {"a": 1, "x": 2}}, "a method that is not part"),
        ({"ranks": None}, "no ranks"),
        ({"phase": "rating"}, "an answer of phase rating"),
    ],
)
def test_answers_that_do_not_fit(change, message):
    with pytest.raises(DataError, match=message):
        found("ranking", [replace(ranked("p01", "r0", 1, 2, 3), **change)])


def test_answers_twice():
    with pytest.raises(DataError, match="'r0' was answered 2 times"):
        found("ranking", [ranked("p01", "r0", 1, 2, 3)] * 2)


@pytest.mark.parametrize("options", [{"replicates": 0}, {"level": 1.0}, {"difference": 0.0}, {"difference": np.inf}])
def test_options(options):
    with pytest.raises(OptionError):
        found("ranking", [ranked("p01", "r0", 1, 2, 3)], **options)
