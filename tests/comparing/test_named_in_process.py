"""Explainers, metrics, strategies and architectures that a decorator names, or that are given as objects."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import didact
from didact.cli.main import app
from didact.errors import OptionError, PlanError, UnknownNameError, UnsupportedError
from didact.explainers import EXPLAINERS
from didact.explainers.build import build_explainer
from didact.learning.student_objects import as_student_spec
from didact.metrics import METRICS
from didact.models import MODELS
from didact.models.pool import PoolModel
from didact.registry import Spec
from didact.source_hash import hash_source
from didact.students import STRATEGIES
from didact.students.attention import Attention
from didact.students.build import build_strategy, parse_student, strategy_options
from didact.students.strategy import Strategy
from teachers import teacher

TEXT = ["a good film"]
SMALL = {"skip_controls": ["trivial", "human"], "seeds": 1}


def lengths(teacher, batch, target, *, power: float = 1.0):  # noqa: ARG001
    """Long pieces count most."""
    return (batch.offsets[..., 1] - batch.offsets[..., 0]).double() ** power


def shout(explained, row, *, k: int = 1):  # noqa: ARG001
    """The largest score."""
    return float(np.abs(explained.scores).max()) * k


class Pull(Strategy):
    """The student's attention is pulled towards the explanation."""

    listen = ("reading",)

    def __init__(self, *, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, trace, batch, lesson):  # noqa: ARG002
        return self.beta * (trace.reading[:, -1].exp().mean(1) - lesson.mass).square().sum(-1)


class Gru(PoolModel):
    """A GRU over the words."""

    def _layers(self):
        return nn.ModuleList([nn.GRU(self.options["width"], self.options["width"], batch_first=True)])

    def _states(self, embeddings, sequence_masks):  # noqa: ARG002
        return [embeddings, self.layers[0](embeddings)[0]]


def cells(folder):
    return {path.name for path in (folder / "cells").glob("*.json")}


class TestExplainer:
    def test_a_function_is_a_method_with_options(self):
        assert didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths) is lengths
        maps = didact.explain(teacher("hf", "classification"), TEXT, "lengths(power=2)")
        np.testing.assert_allclose(maps.scores, [1, 16, 16])
        assert (maps.method, maps.kind, maps.options["power"]) == ("lengths", "magnitude", 2)
        by_object = didact.explain(teacher("hf", "classification"), TEXT, lengths)
        assert (by_object.method, by_object.scores.tolist()) == ("lengths", [1, 4, 4])

    def test_it_is_listed_with_its_facts(self):
        didact.explainer("lengths", kind="magnitude", needs="nothing", paper="ours")(lengths)
        entry = EXPLAINERS["lengths"]
        assert (entry.kind, entry.needs, entry.paper, entry.about) == (
            "magnitude", "nothing", "ours", "Long pieces count most",
        )  # fmt: skip
        assert "Long pieces count most" in " ".join(CliRunner().invoke(app, ["methods"]).output.split())
        assert "power" in CliRunner().invoke(app, ["methods", "lengths"]).output
        assert didact.check_explainer("lengths").passed

    def test_what_is_made_of_it_is_not_known_elsewhere_either(self):
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        for method in ("lengths", "lexicon(imitate=lengths)", "blend(members=lime+lengths)"):
            assert not build_explainer(method).is_reproducible, method
        assert build_explainer("blend(members=lime+occlusion)").is_reproducible
        maps = didact.explain(teacher("hf", "classification"), TEXT, "lexicon(imitate=lengths)")
        assert maps.scores.tolist() == [1, 4, 4]

    def test_a_stream_with_workers_is_refused(self, folder, tmp_path):
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        rows = [{"text": "a good film"}]
        with pytest.raises(
            OptionError, match="Workers do not know 'lengths'.*workers=0, or register it as an entry point"
        ):
            didact.explain_stream(folder, rows, "lengths", out=tmp_path / "a.parquet", workers=1)

    @pytest.mark.parametrize(
        ("name", "facts", "message"),
        [
            ("lime", {}, "The explainer 'lime' already exists, part of didact"),
            ("smat", {}, "'smat' already exists"),
            ("my method", {}, "A name consists of letters, digits and _, unlike explainer 'my method'"),
            ("mine", {"kind": "sgned"}, "no kind named 'sgned'. Did you mean 'signed'"),
            ("mine", {"needs": "gradient"}, "Did you mean 'gradients'"),
            ("mine", {"papr": "x"}, "no attribute of explainer 'mine' named 'papr'. Did you mean 'paper'"),
        ],
    )
    def test_faults(self, name, facts, message):
        with pytest.raises(OptionError, match=message):
            didact.explainer(name, **{"kind": "magnitude", "needs": "nothing", **facts})(lengths)
        assert "mine" not in EXPLAINERS

    def test_only_its_own_later_version_replaces_it(self):
        decorate = didact.explainer("lengths", kind="magnitude", needs="nothing")
        decorate(lengths)
        decorate(lengths)
        with pytest.raises(OptionError, match="'lengths' already exists, .*:lengths. Choose another name for yours"):
            decorate(shout)
        with pytest.raises(OptionError, match="Only a class or a function can be registered as explainer"):
            decorate(3)

    def test_an_unknown_name_suggests_it(self):
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        with pytest.raises(UnknownNameError, match="Did you mean 'lengths'"):
            didact.explain(teacher("hf", "classification"), TEXT, "length")


class TestMetric:
    def test_a_function_is_a_metric_with_options(self):
        didact.metric("shout", better="higher", bounds=(0, 10))(shout)
        subject = teacher("hf", "classification")
        maps = didact.explain(subject, TEXT, "gradient_norm")
        frame = didact.evaluate(maps, metrics=["shout(k=2)", "shout"], control=False)
        twice, once = frame["value"]
        assert twice == pytest.approx(2 * once)
        assert set(frame["better"]) == {"higher"}
        assert set(didact.evaluate(maps, metrics=[shout])["metric"]) == {"shout"}
        assert "shout" in set(didact.evaluate(maps)["metric"]), "it is measured by default"
        assert "The largest score" in CliRunner().invoke(app, ["metrics"]).output
        with pytest.raises(OptionError, match="no option of shout named 'j'. Known: k"):
            didact.evaluate(maps, metrics=["shout(j=2)"])

    def test_one_that_raises_is_named_with_its_row(self):
        @didact.metric("raises", better="lower")
        def raises(explained, row):  # noqa: ARG001
            raise ZeroDivisionError("by zero")

        maps = didact.explain(teacher("hf", "classification"), TEXT, "gradient_norm")
        with pytest.raises(OptionError, match="Metric 'raises' raised ZeroDivisionError for row .*: by zero"):
            didact.evaluate(maps, metrics=["raises"])

    def test_what_is_better_must_be_told(self):
        with pytest.raises(OptionError, match="better='higher'"):
            didact.metric("shout", better="more")

    def test_scores_that_were_kept_are_made_again_when_it_changes(self):
        from didact.comparing.evaluation import versions

        before = versions()
        didact.metric("shout", better="higher")(shout)
        assert versions()["metrics"] == {**before["metrics"], "shout": hash_source(shout)}
        METRICS.local.clear()
        assert versions() == before


class TestStudents:
    @pytest.mark.parametrize("name", list(STRATEGIES))
    def test_our_own_strategies_as_objects_are_what_their_names_are(self, name):
        built = build_strategy(Spec(name))
        spec = as_student_spec(("pool(width=8)", built))
        assert str(spec) == f"pool(width=8)/{name}"
        assert strategy_options(spec.strategy) == strategy_options(Spec(name))

    def test_options_that_are_not_defaults_are_written(self):
        assert str(as_student_spec(Attention(beta=2, side="cls"))) == "default/attention(beta=2.0, side=cls)"
        assert str(as_student_spec("same/multitask(k=0.2)")) == "same/multitask(k=0.2)"
        assert as_student_spec(parse_student("pool/attention@sgd")).optimiser == "sgd"

    def test_classes_without_a_name_get_their_own(self):
        assert str(as_student_spec((partial(Gru, width=8), Pull(beta=2.0)))) == "Gru(width=8)/Pull(beta=2.0)"
        assert str(as_student_spec(Gru)) == "Gru/attention"
        assert str(as_student_spec(Pull)) == "default/Pull"
        assert (set(STRATEGIES.local), set(MODELS.local)) == ({"Pull"}, {"Gru"})
        assert MODELS["Gru"].about == "A GRU over the words"

    def test_decorated_ones_keep_theirs(self):
        didact.strategy("pull", needs="attention")(Pull)
        didact.student("gru")(Gru)
        assert str(as_student_spec((Gru, Pull()))) == "gru/pull"
        assert STRATEGIES["pull"].needs == "attention"
        assert str(parse_student("gru(width=8)/pull(beta=3)")) == "gru(width=8)/pull(beta=3)"

    def test_a_strategy_that_forgets_an_option_cannot_be_made_anew(self):
        class Forgets(Pull):
            def __init__(self, *, gamma: float = 1.0) -> None:
                super().__init__(beta=gamma)

        with pytest.raises(OptionError, match=r"does not keep 'gamma'. Write self.gamma = gamma"):
            as_student_spec(Forgets())

    def test_options_must_be_readable(self):
        with pytest.raises(OptionError, match="options must be numbers, words, lists"):
            as_student_spec(Pull(beta=torch.nn.Linear(1, 1)))

    @pytest.mark.parametrize(
        ("student", "message"),
        [
            (3, "must be a text .architecture/strategy., a strategy or a pair"),
            (("pool", 3), "as Attention"),
            (nn.Linear, "derives from NativeModel"),
            ("pool/pul", "no strategy named 'pul'. Did you mean 'pull'"),
            ("pool/pull(beat=1)", "Did you mean 'beta'"),
            ("pool/pull(beta=x)", "'beta' of strategy 'pull' must be a number, got 'x'"),
        ],
    )
    def test_faults(self, student, message, compare):
        didact.strategy("pull")(Pull)
        with pytest.raises(PlanError, match=message):
            compare(students=[student])


class TestCompare:
    def test_objects_are_taken_and_a_second_run_trains_nothing(self, compare, tmp_path):
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        didact.metric("shout", better="higher")(shout)
        students = [(partial(Gru, width=8), Pull(beta=2.0)), Pull()]
        first = compare(explainers=["lengths"], students=students, eval_rows=4, **SMALL)
        assert not first.failed
        labels = {"Gru(width=8)/Pull(beta=2.0)", "same/Pull"}
        assert {row.student for row in first.rows} == labels
        before = cells(tmp_path / "run")
        measured = json.loads((tmp_path / "run" / "measured.json").read_text())
        assert "shout" in {row["metric"] for row in measured["metrics"]["rows"]}
        compare(explainers=["lengths"], students=students, eval_rows=4, **SMALL)
        assert cells(tmp_path / "run") == before

    def test_what_changed_is_trained_again(self, compare, tmp_path, monkeypatch):
        """The source of a strategy and of an architecture are part of the keys, of their own cells alone."""
        didact.strategy("pull")(Pull)
        didact.student("gru")(Gru)
        students = ["gru(width=8)/pull", "pool(width=8)/pull", "gru(width=8)/attention", "pool(width=8)/attention"]
        compare(students=students, **SMALL)
        first = cells(tmp_path / "run")
        assert len(first) == 10  # `none` of two architectures, `random` and `gradient_norm` of four students
        monkeypatch.setattr("didact.registry.hash_source", lambda thing: f"changed {hash_source(thing)}")
        didact.strategy("pull")(Pull)
        compare(students=students, **SMALL)
        second = cells(tmp_path / "run") - first
        assert len(second) == 4
        didact.student("gru")(Gru)
        compare(students=students, **SMALL)
        assert len(cells(tmp_path / "run") - first - second) == 5

    def test_what_workers_do_not_know_is_trained_here_to_the_same_bytes(self, compare, tmp_path, capsys):
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        arguments = {"explainers": ["lengths"], "students": [("pool(width=8)", Pull()), "pool(width=8)/attention"]}
        compare(**arguments, **SMALL, out=tmp_path / "here")
        compare(**arguments, **SMALL, workers=1, progress=True, out=tmp_path / "workers")
        assert "2 runs use names registered in this process only" in " ".join(capsys.readouterr().err.split())
        for name in ("results.parquet", "comparison.json"):
            assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "workers" / name).read_bytes()

    def test_a_strategy_that_raises_fails_its_own_cells(self, compare):
        class Broken(Pull):
            def forward(self, trace, batch, lesson):  # noqa: ARG002
                raise ValueError("I am broken")

        comparison = compare(students=[("pool(width=8)", Broken()), "pool(width=8)/attention"], **SMALL)
        assert {cell.error for cell in comparison.failed} == {"I am broken"}
        assert {row.student for row in comparison.rows if row.explainer == "gradient_norm"} == {
            "pool(width=8)/attention"
        }


class TestSource:
    def test_it_is_that_of_the_class_and_its_bases(self):
        class Other(Pull):
            pass

        assert hash_source(Pull) == hash_source(Pull)
        assert len({hash_source(thing) for thing in (Pull, Gru, lengths, Other)}) == 4

    def test_what_has_none_or_reads_variables_around_it_is_never_the_same(self):
        names = {}
        exec("def typed(): pass", {"__name__": "prompt"}, names)
        factor = 2

        def outer():
            return factor

        for thing in (names["typed"], outer):
            assert hash_source(thing) != hash_source(thing)

    def test_decorators_load_no_torch(self):
        code = "import sys, didact; didact.explainer, didact.strategy, didact.student; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_an_entry_point_of_the_same_class_makes_it_known_everywhere(self, monkeypatch):
        class Point:
            name, value = "lengths", f"{__name__}:lengths"

            def load(self):
                return lengths

        monkeypatch.setitem(EXPLAINERS.__dict__, "_entry_points", {"lengths": Point()})
        for name in ("_plugins", "_named_objects", "_broken"):
            monkeypatch.setattr(EXPLAINERS, name, {})
        didact.explainer("lengths", kind="magnitude", needs="nothing")(lengths)
        assert build_explainer("lengths").is_reproducible
        assert EXPLAINERS["lengths"].kind == "magnitude"
        with pytest.raises(OptionError, match="from another package"):
            didact.explainer("lengths", kind="magnitude", needs="nothing")(shout)


def test_a_broken_package_can_still_be_told(monkeypatch):
    class Point:
        name, value = "broken", "package:broken"

        def load(self):
            raise ImportError("no numba")

    monkeypatch.setitem(EXPLAINERS.__dict__, "_entry_points", {"broken": Point()})
    with pytest.raises(UnsupportedError, match="no numba"):
        EXPLAINERS["broken"]
    EXPLAINERS._broken.clear()
