"""A verdict names no winner where temperature alone makes as much; a raw run says that sharpness was not controlled."""

import json

import pytest

from didact.reports.build import report
from didact.reports.sections import curves, ranking, sharpness
from didact.reports.verdict import verdict_of
from didact.results.comparison import Comparison
from golden.scenario import HERE
from reports.folders import change, write_run
from reports.reading import Page

UNCONTROLLED = "Sharpness was not controlled"
CONTROLS = {"random": 0.0}
GRID = (4.0, 1.0, 0.25)


def banded(folder, gains, spans, *, about=None, **options):
    """A run of `band`: the gain of each label at its best temperature, and what temperature alone makes of it."""
    folder = write_run(
        folder / "run", methods=tuple(name for name in gains if name != "random"), controls=("random",), seeds=8,
        gains=gains, measured=False, spread=0.004,
        about={"target_normalisation": "band", "target_temperatures": list(GRID), **(about or {})}, **options,
    )  # fmt: skip
    document = json.loads((folder / "comparison.json").read_text())
    for row in document["rows"]:
        if (span := spans.get(row["explainer"])) is not None:
            shifts = dict(zip(GRID, (span, 0.0, span / 2), strict=True))
            same = {"seeds": 8, "p": 0.01, "claimed": True}
            row["band"] = [
                {"temperature": t, **same, **{name: row[name] - shift for name in ("mean", "gain", "low", "high")}}
                for t, shift in shifts.items()
            ]
    for line in list(document["contrasts"]):
        for t in GRID if "none" not in (line["first"], line["second"]) else ():
            names = {side: f"{line[side]} (T={t:g})" for side in ("first", "second")}
            document["contrasts"].append(line | names | {"difference": line["difference"] - 0.05 * (t == 4)})
    change(folder / "comparison.json", **document)
    return Comparison.load(folder)


def lead_of(tmp_path, lead, spans):
    return verdict_of(banded(tmp_path, CONTROLS | {"A": 0.2 + lead, "B": 0.2}, {"random": 0.0} | spans))


class TestTheRule:
    """A lead of 4 points, claimed in each of these runs, against what temperature makes of the two methods."""

    @pytest.mark.parametrize("spans", [{"A": 0.0, "B": 0.0}, {"A": 0.03, "B": 0.03}, {"A": 0.0, "B": 0.03}])
    def test_a_lead_beyond_both_spans_counts(self, tmp_path, spans):
        found = lead_of(tmp_path, 0.04, spans)
        assert (found.level, found.title, found.tied) == ("clear", "“A” teaches best", ("A",))
        assert "It is clearly ahead of every other method. The next one is B" in found.text

    @pytest.mark.parametrize("spans", [{"A": 0.05, "B": 0.05}, {"A": 0.05, "B": 0.0}, {"A": 0.0, "B": 0.05}])
    def test_a_lead_within_the_larger_span_does_not(self, tmp_path, spans):
        found = lead_of(tmp_path, 0.04, spans)
        assert found.level == "close"
        assert found.title == "“A” and “B” teach alike: temperature alone makes as much as the method"
        assert found.tied == ("A", "B")
        assert "teaches best" not in found.text
        assert "; temperature alone makes 5.0)" in found.text
        assert "--seeds" not in found.text, "more data would not help"

    def test_a_lead_that_is_not_claimed_stays_too_close_to_call(self, tmp_path):
        found = lead_of(tmp_path, 0.001, {"A": 0.0, "B": 0.0005})
        assert found.title == "“A” and “B” lead, too close to call"
        assert "Most of the uncertainty about A against B" in found.text

    def test_more_data_are_not_advised_where_they_would_not_help(self, tmp_path):
        found = lead_of(tmp_path, 0.0015, {"A": 0.05, "B": 0.05})
        assert found.title.startswith("“A” and “B” teach alike")
        assert "Most of the uncertainty" not in found.text

    def test_it_holds_for_chance_too(self, tmp_path):
        gains = {"random": 0.16, "A": 0.2}
        clear = verdict_of(banded(tmp_path / "a", gains, {"A": 0.01, "random": 0.01}))
        within = verdict_of(banded(tmp_path / "b", gains, {"A": 0.01, "random": 0.05}))
        assert clear.title == "“A” teaches; there was no other method to compare it with"
        assert within.title == "“A” ranks first, but is not clearly ahead of random marks"

    def test_columns_are_judged_one_by_one(self, tmp_path):
        run = banded(tmp_path, CONTROLS | {"A": 0.24, "B": 0.2}, {"A": 0.01, "B": 0.01}, students=("a", "b"))
        rows = [row.to_document() for row in run.rows]
        for row in rows:
            if (row["explainer"], row["student"]) == ("B", "b"):
                row["band"][0]["mean"] -= 0.1
        change(run.folder / "comparison.json", rows=rows)
        found = verdict_of(Comparison.load(run.folder))
        assert found.title == "“A” leads, but is clearly ahead of “B” in only 1 of 2 combinations"
        assert "clearly ahead in 1 of 2 combinations, within what temperature alone makes in 1" in found.text


class TestTheText:
    def test_of_a_band(self, tmp_path):
        text = lead_of(tmp_path, 0.04, {"A": 0.03, "B": 0.02}).text
        assert "Students who saw “A” while learning, sent at its best temperature (1), agree with the model" in text
        assert "Sent at the temperatures 4, 1 and 0.25, “A” gains from +2" in text
        assert ": temperature alone makes 3.0 points. A lead counts if it exceeds that of both methods." in text
        assert "At the same temperature it is above B in 2 of 3." in text
        assert UNCONTROLLED not in text

    def test_a_raw_run_says_that_sharpness_was_not_controlled_and_changes_nothing_else(self, tmp_path):
        folder = write_run(tmp_path / "run", gains={"random": 0.0, "trivial": 0.0, "attention_all": 0.3}, seeds=8)
        raw = verdict_of(Comparison.load(folder))
        assert len([note for note in raw.confidence_notes if UNCONTROLLED in note]) == 1
        assert "use --target-normalisation band or tuned." in raw.text
        about = json.loads((folder / "comparison.json").read_text())["about"]
        change(
            folder / "comparison.json", about=about | {"target_normalisation": "tuned", "target_temperatures": [4, 1]}
        )
        tuned = verdict_of(Comparison.load(folder))
        assert UNCONTROLLED not in tuned.text
        assert (
            "Target normalisation tuned: each student gets its explanations at the temperature from 4, 1" in tuned.text
        )
        assert (tuned.title, tuned.comparison_notes, tuned.tied) == (raw.title, raw.comparison_notes, raw.tied)

    def test_an_old_run_is_raw(self):
        run = Comparison.load(HERE / "old_run")
        assert run.about.target_normalisation == "raw"
        assert "target_normalisation" not in run.about.to_document()
        assert all("band" not in row.to_document() for row in run.rows)
        assert "Target normalisation" not in run.table()
        assert UNCONTROLLED in verdict_of(run).text


class TestThePage:
    @pytest.mark.parametrize("normalisation", ["raw", "tuned"])
    def test_says_what_was_sent(self, tmp_path, normalisation):
        about = {} if normalisation == "raw" else {"target_normalisation": normalisation, "target_temperatures": [2, 1]}
        run = Comparison.load(write_run(tmp_path / "run", about=about, measured=False))
        text = Page(report(run).read_text()).text
        assert (f"Target normalisation {normalisation}: " in text) == (normalisation != "raw")
        assert (f"target normalisation: {normalisation}" in text) == (normalisation != "raw")
        assert ("the scores of every method are used unchanged" in text) == (normalisation == "raw")
        assert ("temperature of what is sent from 2, 1" in text) == (normalisation == "tuned")
        assert sharpness.section(run) is None

    @pytest.mark.parametrize("normalisation", ["matched", "ranks", "tuned"])
    def test_sections_of_gains_work_as_before(self, tmp_path, normalisation):
        folder = write_run(tmp_path / "run", sizes=(100, 200), measured=False)
        raw = Comparison.load(folder)
        about = {**raw.about.to_document(), "target_normalisation": normalisation, "target_temperatures": [2, 1]}
        change(folder / "comparison.json", about=about)
        run = Comparison.load(folder)
        pages = [
            [figure.alt for figure in part.section(one).figures] for part in (ranking, curves) for one in (raw, run)
        ]
        assert pages[0] == pages[1]
        assert len(pages[2]) == len(pages[3]) > 2

    def test_draws_bands(self, tmp_path):
        run = banded(
            tmp_path, CONTROLS | {"A": 0.24, "B": 0.2}, {"A": 0.03, "B": 0.05, "random": 0.01}, sizes=(100, 200)
        )
        text = Page(report(run).read_text()).text
        assert "What sharpness alone makes" in text
        first = next(row for row in run.rows if row.explainer == "A")
        low, high = (run.format.signed(value) for value in (first.gain - 0.03, first.gain))
        assert f"{low} to {high}" in text
        (figure, _) = ranking.section(run).figures
        chart = figure.draw(820).to_dict()
        assert "A at temperature 0.25: " in json.dumps(chart)
        assert f"A {low} [" in figure.alt
        tables = sharpness.section(run).tables
        assert [str(getattr(table.heads[-1], "text", table.heads[-1])) for table in tables] == ["span", "span"]
        (line,) = [line for line in tables[0].rows if getattr(line[0], "text", line[0]) == "B"]
        assert line[-1].text == "5.0"
