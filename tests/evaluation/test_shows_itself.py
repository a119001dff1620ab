"""Results in a notebook: the numbers of the table, nothing that was not escaped, and still the values they were."""

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas
import pytest

import didact
from didact.errors import OptionError
from didact.evaluation.evaluate import run_evaluation
from didact.evaluation.metrics_frame import MetricsFrame
from didact.results.explanations import Explanations

BAD = '<script>alert("x")</script>'


@pytest.fixture
def maps(school):
    teacher, data = school()
    return [didact.explain(teacher, data["test"], method) for method in ("gradient_input", "gradient_norm", "human")]


@pytest.fixture
def frame(school, maps):
    teacher, data = school()
    return didact.evaluate(maps, teacher, data, metrics=["roc_auc", "sufficiency", "iou_lexical"])


def cells_of(page):
    """Lines of the table as text, tags taken off."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


class TestFrame:
    def test_metrics_down_methods_across(self, frame):
        page = frame._repr_html_()
        lines = {line[0]: line[1:] for line in cells_of(page)}
        assert lines[""] == ["gradient_input", "gradient_norm", "human", "random"]
        assert {"roc_auc ↑", "sufficiency ↓", "iou_lexical ↑", "plausibility", "faithfulness", "stability"} <= set(
            lines
        )
        for metric, line in (("roc_auc", lines["roc_auc ↑"]), ("sufficiency", lines["sufficiency ↓"])):
            values = frame[frame["metric"] == metric]["value"]
            assert [float(cell.removesuffix(" ≈").replace("−", "-")) for cell in line] == pytest.approx(
                values.tolist(), abs=6e-4
            )
        assert "95 %" in page
        assert any(note in page.replace("&#39;", "'") for note in frame.attrs["notes"])

    def test_the_best_is_marked_whichever_way_is_better(self, frame):
        page = frame._repr_html_()
        best = re.findall(r'<td class="number best" title="([^,]*), ([^:]*):', page)
        for metric, choose in (("roc_auc", "idxmax"), ("sufficiency", "idxmin")):
            own = frame[frame["metric"] == metric].set_index("method")["value"]
            assert (getattr(own, choose)(), metric) in best

    def test_what_cannot_be_told_from_the_best_says_so(self, frame):
        lines = {line[0]: line[1:] for line in cells_of(frame._repr_html_())}
        tests = frame.attrs["tests"]
        found = 0
        for metric, sign in (("roc_auc", "↑"), ("sufficiency", "↓")):
            own = frame[frame["metric"] == metric].set_index("method")["value"]
            best = own.idxmax() if sign == "↑" else own.idxmin()
            for method, cell in zip(own.index, lines[f"{metric} {sign}"], strict=True):
                pair = tests[(tests["metric"] == metric) & tests["method"].isin([best, method])]
                pair = pair[pair["other"].isin([best, method])]
                holds = bool(len(pair)) and pair["low"].item() <= 0 <= pair["high"].item()
                assert cell.endswith("≈") == (holds and own[method] != own[best])
                found += cell.endswith("≈")
        assert found, "a case of it is in the test"

    def test_an_interval_stands_in_the_title(self, frame):
        line = frame.set_index(["metric", "method"]).loc[("roc_auc", "gradient_norm")]
        expected = f"[{line['low']:.3f}, {line['high']:.3f}], {line['rows']} rows"
        assert expected in frame._repr_html_()

    def test_it_is_a_data_frame(self, frame):
        plain = pandas.DataFrame(frame.to_dict("records"), columns=frame.columns)
        pandas.testing.assert_frame_equal(pandas.DataFrame(frame), plain)
        assert frame.to_json() == plain.to_json()
        assert frame.to_csv() == plain.to_csv()
        again = pickle.loads(pickle.dumps(frame))  # noqa: S301
        assert isinstance(again, MetricsFrame)
        pandas.testing.assert_frame_equal(pandas.DataFrame(again), plain)
        assert again.attrs["heading"] == frame.attrs["heading"]
        assert again._repr_html_() == frame._repr_html_()
        assert isinstance(frame["value"], pandas.Series)
        assert frame.groupby("metric")["value"].max()["roc_auc"] == 1.0
        assert list(frame.pivot(index="metric", columns="method", values="value").columns)[-1] == "random"

    def test_a_part_with_all_columns_is_a_table_too_and_others_are_plain(self, frame):
        part = frame[frame["metric"] == "roc_auc"]
        assert part.attrs["heading"] == frame.attrs["heading"]
        assert "roc_auc ↑" in part._repr_html_().replace("<wbr>", "")
        assert "sufficiency" not in part._repr_html_()
        for other in (frame[["method", "value"]], frame[:0], pandas.concat([frame, frame])):
            assert "didact-grid" not in other._repr_html_()
            assert "<table" in other._repr_html_()

    def test_a_value_that_is_missing_is_a_dash(self, school, maps):
        teacher, data = school()
        page = didact.evaluate(maps, teacher, data, metrics=["log_odds_positive"])._repr_html_()
        assert [cells_of(page)[2][0], cells_of(page)[2][2]] == ["log_odds_positive ↑", "–"]  # no signs there

    def test_everything_is_escaped(self, school, maps):
        _, data = school()
        frame = didact.evaluate([replace(maps[0], method=BAD), maps[1]], None, data, metrics="roc_auc")
        frame.attrs["notes"] = [BAD]
        assert "<script" not in frame._repr_html_()
        assert "&lt;script&gt;" in frame._repr_html_()

    def test_json_is_what_it_was(self, school, maps):
        """The document of the command line has plain rows and knows nothing of frames."""
        _, data = school()
        found = run_evaluation(maps, None, data, metrics="roc_auc")
        assert json.loads(json.dumps(found.to_document()))["rows"] == found.summary()


class TestComparison:
    def test_the_table_of_the_terminal_as_html(self, compare):
        result = compare(explainers=["gradient_norm", "lime(samples=8)"], train_sizes=[8, 12], seeds=3)
        page = result._repr_html_()
        lines = cells_of(page)
        assert lines[0] == ["explainer", "same/attention\n8 rows", "same/attention\n12 rows", "mean\nrank"]
        assert lines[1][0] == "none"
        text = result.table()
        for line in lines[1:]:
            for cell in line if line[0] != "explainer" else ():  # the head of the second table
                assert cell in text
        for row in result.rows:
            if row["gain"] is not None:
                gain = f"{100 * row['gain']:+.1f}"
                assert f"{'0.0' if float(gain) == 0 else gain} [" in page
        for remark in result.remarks():
            assert remark.replace("'", "&#39;").replace("<", "&lt;") in page
        assert page.count("a control") == 4 + 3  # `none` is not in the second table

    def test_marks_and_missing_cells(self, compare):
        result = compare(seeds=3)
        rows = list(result.rows)
        assert rows[0].explainer == "none"
        rows[1] = replace(rows[1], gain=0.1, low=0.05, high=0.15, p=0.01, claimed=True)
        rows[2] = replace(rows[2], gain=-0.1, low=-0.15, high=-0.05, claimed=True)
        rows[3] = replace(rows[3], median=None, mean=None, gain=None)
        page = replace(result, rows=tuple(rows))._repr_html_()
        assert "+10.0 [+5.0, +15.0] ▲°" in page
        assert 'class="number above"' in page
        assert "-10.0 [-15.0, -5.0] ▼°" in page
        assert 'class="number below"' in page
        assert "all runs failed" in page

    def test_everything_is_escaped(self, compare):
        result = compare()
        rows = tuple(replace(row, explainer=BAD, student=BAD) for row in result.rows[:1])
        page = replace(result, rows=rows, notes=(BAD,))._repr_html_()
        assert "<script" not in page
        assert page.count("&lt;script&gt;") >= 3


def test_explanations_show_themselves(maps):
    page = maps[0]._repr_html_()
    assert maps[0].ids[0] in page
    assert isinstance(maps[0], Explanations)


class TestMetricsOfOnesOwn:
    def test_a_function_is_a_metric(self, school, maps):
        """One number per row, asked of every method; its direction is said, and shown."""
        _, data = school()

        def marked(explained, row):
            return None if not explained.scores.any() else float(len(row.rationale) / len(explained))

        marked.better = "lower"
        frame = didact.evaluate(maps, None, data, metrics=["roc_auc", marked])
        own = frame[frame["metric"] == "marked"]
        expected = np.mean([len(row.rationale) / len(one) for row, one in zip(data["test"], maps[0], strict=True)])
        assert own["value"].tolist() == pytest.approx([expected] * 4)
        assert set(own["better"]) == {"lower"}
        assert "your own" in frame._repr_html_()
        assert "marked ↓" in frame._repr_html_()

    def test_an_object_may_have_bounds(self, school, maps):
        class Share:
            better, bounds = "higher", (0.0, 1.0)

            def __call__(self, explained, row):
                return float(len(row.texts) == 1 and len(explained) > 0)

        frame = didact.evaluate(maps[0], None, school()[1], metrics=Share())
        assert frame["metric"].unique().tolist() == ["Share"]
        assert (frame["high"] <= 1).all()

    @pytest.mark.parametrize(
        ("metric", "said"),
        [
            (lambda explained, row: 1.0, "higher"),  # noqa: ARG005
            (type("Kind", (), {"better": "higher"}), "a callable"),
        ],
    )
    def test_what_cannot_be_one_is_told(self, maps, metric, said):
        with pytest.raises(OptionError, match=said):
            didact.evaluate(maps, metrics=[metric])

    def test_names_and_answers_are_checked(self, maps):
        def roc_auc(explained, row):  # noqa: ARG001
            return 0.0

        roc_auc.better = "higher"
        with pytest.raises(OptionError, match="already"):
            didact.evaluate(maps, metrics=[roc_auc])

        def wordy(explained, row):  # noqa: ARG001
            return "good"

        wordy.better = "higher"
        with pytest.raises(OptionError, match="one number per row"):
            didact.evaluate(maps, metrics=[wordy])
