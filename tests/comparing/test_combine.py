"""`didact.combine`: runs of several teachers, against their own answers and tables; what cannot be combined."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.comparing.combine import _differences
from didact.comparing.run_answers import RunAnswers
from didact.errors import OptionError, PlanError, RecordError
from didact.results.combined import ALL_COLUMNS, CombinedComparison
from didact.results.comparison import Comparison
from didact.stats.claims import claims
from didact.stats.contrast import crossed_contrast
from didact.stats.teachers import TeacherTable, teacher_contrast
from school import planted, trained

COLUMN = ("same/attention", 12)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two teachers on the same data, two columns; the second has one more method."""
    from didact.comparing.compare import compare

    place = tmp_path_factory.mktemp("runs")
    options = {"train_sizes": [8, 12], "seeds": 2, "workers": 0, "training": {"epochs": 2, "learning_rate": 0.02}}
    options |= {"eval_rows": 0, "balance": False, "skip_controls": ["trivial", "human"]}
    for seed, methods in ((0, ["gradient_norm", "attention_all"]), (1, ["gradient_norm", "attention_all", "lrp"])):
        teacher = trained("sentiment", seed=seed)
        compare(teacher, planted("sentiment"), methods, ["same/attention"], out=place / f"t{seed}", **options)
    return [place / "t0", place / "t1"]


@pytest.fixture
def combined(runs):
    return didact.combine(runs, average=True)


class TestNumbers:
    def test_each_teacher_has_the_gain_of_its_table(self, runs, combined):
        tables = [Comparison.load(folder) for folder in runs]
        for row in combined.gains:
            if row.column == ALL_COLUMNS:
                gains = [np.mean([line.gain for line in table.rows_of(row.explainer)]) for table in tables]
            else:
                gains = [table.row(row.explainer, *row.column).gain for table in tables]
            assert row.by_teacher == pytest.approx(gains)
            assert row.difference == pytest.approx(np.mean(gains))

    def test_it_is_the_contrast_of_their_answers(self, runs, combined):
        answers = [RunAnswers.load(folder) for folder in runs]
        tables = []
        for run in answers:
            first, second = (
                np.stack([run.contributions[name, *COLUMN][seed] for seed in range(2)])
                for name in ("gradient_norm", "none")
            )
            tables.append(TeacherTable(first - second, run.row_keys, (0, 1)))
        wanted, row = teacher_contrast(tables), combined.gain("gradient_norm", *COLUMN)
        for name in ("difference", "se", "df", "seed_variance", "row_variance", "teacher_sd", "teacher_variance"):
            assert row[name] == pytest.approx(getattr(wanted, name))
        assert (combined.shared_rows, combined.shares_seeds) == (16, True)
        assert (row.teachers, row.seeds, row.test_rows) == (2, 2, 16)

    def test_claims_follow_the_one_rule(self, combined):
        """Methods are one family, each control one of its own."""
        from didact.results.contrast import TeacherContrast

        rows = [row for row in combined.gains if row.column == COLUMN]
        assert {row.explainer for row in rows if row.is_control} == {"random"}
        methods = [row for row in rows if not row.is_control]
        family = claims([TeacherContrast(row.difference, row.se, row.df, 2, 16) for row in methods])
        for row, claim in zip(sorted(methods, key=lambda row: -row.difference), sorted(
            family, key=lambda claim: -claim.contrast.difference), strict=True):  # fmt: skip
            assert (row.low, row.high, row.p, row.claimed) == (claim.low, claim.high, claim.p, claim.claimed)

    def test_leads_and_ahead(self, combined):
        for column in combined.columns:
            rows = [row for row in combined.gains if row.column == column]
            methods = [row for row in rows if not row.is_control]
            best = np.max([row.by_teacher for row in methods], axis=0)
            for row in methods:
                assert row.leads == np.mean(np.array(row.by_teacher) == best)
                assert row.ahead == np.mean(np.array(row.by_teacher) > 0)
            assert all(row.leads is None for row in rows if row.is_control)

    def test_pairs(self, combined):
        pairs = [(row.explainer, row.against) for row in combined.pairs if row.column == COLUMN]
        best, other = (row.explainer for row in combined.ranked(COLUMN)[:2])
        assert sorted(pairs) == sorted([(best, other), (best, "random"), (other, "random")])
        pair = combined.contrast(best, other, *COLUMN)
        gains = [combined.gain(name, *COLUMN).difference for name in (best, other)]
        assert pair.difference == pytest.approx(gains[0] - gains[1])
        with pytest.raises(OptionError, match="0 contrasts match"):
            combined.contrast(other, best, *COLUMN)

    def test_order_of_runs_does_not_matter(self, runs, combined):
        other = didact.combine([Comparison.load(folder) for folder in reversed(runs)], average=True)
        for row in combined.gains:
            same = other.gain(row.explainer, *row.column)
            assert (same.difference, same.se, same.df) == pytest.approx((row.difference, row.se, row.df))
            assert same.by_teacher == row.by_teacher[::-1]

    def test_one_teacher_is_her_own_table(self, runs):
        table, alone = Comparison.load(runs[0]), didact.combine(runs[:1])
        for row in alone.gains:
            line = table.row(row.explainer, *row.column)
            assert (row.difference, row.low, row.high, row.p) == pytest.approx((line.gain, line.low, line.high, line.p))
        assert "this teacher only" in alone.table()

    def test_a_run_at_a_url(self, runs, combined, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        remote = didact.combine([runs[0].as_uri(), runs[1]], average=True)
        assert [row.to_document() for row in remote.gains] == [row.to_document() for row in combined.gains]

    def test_a_method_that_not_all_have_is_left_out(self, combined):
        assert combined.explainers == ["random", "gradient_norm", "attention_all"]
        assert combined.notes[0] == "Left out, since not every run has them: lrp."

    def test_correlation(self, compare, tmp_path):
        """Influences on r: what `combine` adds up is what the table has."""
        results = []
        for seed in (0, 1):
            teacher, data = trained("quality", seed=seed), planted("quality")
            results.append(compare(teacher, data, skip_controls=["human"], out=tmp_path / f"q{seed}"))
        quality = didact.combine(results)
        assert quality.measure == "pearson"
        assert quality.gain("gradient_norm").by_teacher == pytest.approx(
            [result.row("gradient_norm").gain for result in results]
        )
        assert "Pearson's r" in quality.table()


class TestShown:
    def test_table(self, combined):
        text = combined.table()
        for name in ("all columns", "same/attention, 8 rows", "same/attention, 12 rows", "1: native", "2: native"):
            assert name in text
        assert text.count("\n gradient_norm ") + text.count("\n attention_all ") >= 6
        assert "share the same test rows, and the training rows of each seed" in text
        assert "gain over none" in combined._repr_html_()
        assert repr(combined) == "CombinedComparison(2 teachers, 3 explainers)"

    def test_saved_and_loaded(self, combined, tmp_path):
        import pandas

        combined.save(tmp_path / "deep" / "all.json")
        loaded = CombinedComparison.load(tmp_path / "deep" / "all.json")
        assert loaded.to_document() == combined.to_document()
        assert loaded.table() == combined.table()
        combined.save(tmp_path / "all.csv")
        combined.save(tmp_path / "all.parquet")
        for frame in (pandas.read_csv(tmp_path / "all.csv"), pandas.read_parquet(tmp_path / "all.parquet")):
            assert frame["difference"].tolist() == combined.to_pandas()["difference"].tolist()
        with pytest.raises(OptionError, match=".json, .csv, .parquet"):
            combined.save(tmp_path / "all.xlsx")
        with pytest.raises(OptionError, match="no file"):
            CombinedComparison.load(tmp_path / "other.json")
        (tmp_path / "bad.json").write_text('{"teachers": [], "gains": []}')
        with pytest.raises(RecordError, match="names no teacher"):
            CombinedComparison.load(tmp_path / "bad.json")

    def test_command(self, runs, combined, tmp_path):
        folders = list(map(str, runs))
        printed = CliRunner().invoke(app, ["combine", *folders, "--average", "--json"])
        assert json.loads(printed.stdout) == json.loads(json.dumps(combined.to_document()))
        written = CliRunner().invoke(app, ["combine", *folders, "--out", str(tmp_path / "all.csv")])
        assert written.exit_code == 0
        assert "gain over none" in written.stdout
        assert (tmp_path / "all.csv").is_file()
        again = CliRunner().invoke(app, ["combine", *folders, "--out", str(tmp_path / "all.csv")])
        assert isinstance(again.exception, OptionError)
        assert "exists" in str(again.exception)


class TestRefused:
    def test_all_faults_at_once(self, runs, tmp_path):
        shutil.copytree(runs[0], tmp_path / "copy")
        with pytest.raises(PlanError) as caught:
            didact.combine([*runs, tmp_path / "copy", tmp_path / "missing"])
        same, missing = sorted(caught.value.faults, key=lambda fault: "no folder" in fault)
        assert "the same teacher" in same
        assert "There is no folder" in missing
        with pytest.raises(PlanError, match="there is no run"):
            didact.combine([])

    def test_an_old_run_has_no_contrasts(self, runs, tmp_path):
        document = Comparison.load(runs[0]).to_document()
        del document["contrasts"]
        (tmp_path / "comparison.json").write_text(json.dumps(document))
        with pytest.raises(PlanError, match="older didact.*Run the same comparison again to add them"):
            didact.combine([tmp_path, runs[1]])

    @pytest.mark.parametrize(
        ("missing", "message"),
        [
            ("results.parquet", "no results.parquet.*nothing is trained twice"),
            ("classroom", "no answers of the teacher.*Run the same comparison again"),
            ("cells", "answers in .* cannot be read.*Run the same comparison again"),
        ],
    )
    def test_a_run_without_its_answers(self, runs, tmp_path, missing, message):
        folder = tmp_path / "run"
        shutil.copytree(runs[0], folder)
        path = folder / missing
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(PlanError, match=message):
            didact.combine([folder, runs[1]])

    def test_answers_that_do_not_give_the_table(self, runs, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(runs[0], folder)
        comparison = Comparison.load(folder)
        rows = [row if row.gain is None else replace(row, gain=row.gain + 0.01) for row in comparison.rows]
        replace(comparison, rows=tuple(rows)).save(folder / "comparison.json")
        with pytest.raises(PlanError, match="no answers of the teacher that give its table"):
            didact.combine([folder, runs[1]])

    def test_other_students_or_another_measure(self, runs):
        first, second = map(Comparison.load, runs)
        fewer = replace(second, rows=tuple(row for row in second.rows if row.size == 8))
        with pytest.raises(PlanError, match="students and sizes same/attention, 8 rows, and"):
            didact.combine([first, fewer])
        other = replace(second, about=replace(second.about, measure="pearson"))
        with pytest.raises(PlanError, match="measures pearson, and .* measures accuracy$"):
            didact.combine([first, other])
        answers = RunAnswers.load(runs[1])
        about = replace(answers.comparison.about, measure="balanced_accuracy")
        balanced = replace(answers, comparison=replace(answers.comparison, about=about))
        (fault,) = _differences([RunAnswers.load(runs[0]), balanced])
        assert fault.endswith("compare all with --balance yes, or all with no")


def test_rows_are_the_same_by_content():
    from didact.comparing.run_answers import row_keys
    from didact.core.row import Row

    keys = row_keys([Row("a", ("x",)), Row("b", ("y",)), Row("c", ("x",))])
    assert len(set(keys)) == 3
    assert set(row_keys([Row("z", ("x",)), Row("y", ("x",))])) < set(keys)
    image = np.zeros((2, 2, 3), dtype=np.uint8)
    assert row_keys([Row("a", (), image)]) == row_keys([Row("b", (), image.copy())])


def test_seeds_of_the_same_data_are_shared(runs):
    """Students of one seed learn from the same rows with every teacher: the reason why seeds are crossed."""
    from didact.data.subset import draw_subset

    ids = tuple(row.id for row in planted("sentiment")["train"].rows)
    assert draw_subset(ids, size=8, seed=1).tolist() == draw_subset(ids, size=8, seed=1).tolist()
    prints = {Comparison.load(folder).about.data_fingerprint for folder in runs}
    assert len(prints) == 1


def test_a_contrast_within_one_run_is_as_stored(runs):
    run = RunAnswers.load(runs[0])
    first, second = (
        np.stack([run.contributions[name, *COLUMN][seed] for seed in range(2)]) for name in ("random", "none")
    )
    assert crossed_contrast(first, second) == run.comparison.contrasts.get("random", "none", COLUMN)
