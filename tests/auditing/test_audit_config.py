"""The options of an audit: one list, and all faults at once."""

import inspect
import re

import pytest

from auditing.test_audit_run import own_data
from didact.auditing import audit as module
from didact.auditing.config import OWN_FIELDS, AuditConfig
from didact.auditing.config_fields import AuditFields
from didact.comparing.config import CompareConfig
from didact.comparing.config_fields import CompareFields
from didact.config import option_of
from didact.errors import OptionError, PlanError, UnsupportedError
from didact.explainers.gradients import GradientNorm
from didact.results.target_normalisation import NAMES
from school import planted, taught
from teachers import black_box

NAMED = {"model": "m", "data": "planted/sentiment"}


def test_every_field_is_a_keyword_argument_that_editors_know():
    named = set(inspect.signature(module.audit).parameters) - {"teacher", "fields", "config"}
    annotated = {*AuditFields.__annotations__, *CompareFields.__annotations__}
    assert AuditFields.__optional_keys__ == annotated
    assert named | annotated == {*AuditConfig.model_fields, "training"}
    assert not named & annotated


def test_own_fields_are_those_that_a_comparison_lacks():
    assert set(OWN_FIELDS) == set(AuditConfig.model_fields) - set(CompareConfig.model_fields)


def test_every_field_is_an_option_unless_an_audit_sets_it():
    hidden = {name for name, field in AuditConfig.model_fields.items() if option_of(field) is None}
    set_here = {"target_normalisation", "target_temperatures", "budget", "temperatures", "search_space", "protocol"}
    assert hidden == {"progress", "fitted_from", "left_out"} | set_here
    assert [
        name for name in set(AuditConfig.model_fields) - hidden if not AuditConfig.model_fields[name].description
    ] == []


def test_defaults():
    config = AuditConfig.of(NAMED)
    assert (config.damage, config.damaged) == ((0.05, 0.1, 0.2, 0.4), ("rows",))
    assert (config.normalisations, config.metrics, config.eval_rows) == (("raw", "matched", "ranks"), ("all",), 200)
    assert AuditConfig.of(NAMED | {"normalisations": NAMES}).normalisations == NAMES


def test_all_faults_at_once():
    wrong = {
        "train_sizes": [10, 20], "damage": [0, 0.1, 2], "normalisations": ["rank"], "damaged": ["row"],
        "metrics": ["comprehensivenes", "srg(k=3)"], "bases": ["limee"], "explainers": ["gradient_nrom"],
    }  # fmt: skip
    with pytest.raises(PlanError, match="The plan has 9 faults; nothing was loaded") as error:
        AuditConfig.of(NAMED | wrong)
    for fault in (
        "train_sizes: an audit has one training size, got 2. Run one audit per size.",
        "damage: a share must be above 0 and at most 1, got 0.",
        "damage: a share must be above 0 and at most 1, got 2.",
        "normalisations: There is no target normalisation named 'rank'. Did you mean 'ranks'?",
        "damaged: There is no kind of damage named 'row'. Did you mean 'rows'?",
        "metrics: There is no metric named 'comprehensivenes'. Did you mean 'comprehensiveness'",
        "metrics: There is no option of srg named 'k'",
        "bases: There is no explainer named 'limee'. Did you mean 'lime'?",
        "explainers: There is no explainer named 'gradient_nrom'",
    ):
        assert fault in str(error.value)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"damage": 0.1}, "damage: must be a list of shares, got 0.1"),
        ({"damage": [True]}, "a share must be above 0 and at most 1, got True"),
        ({"damage": [float("nan")]}, "a share must be above 0 and at most 1, got nan"),
        ({"damage": [0.1, 0.1]}, "damage: 0.1 is listed twice"),
        ({"normalisations": []}, "normalisations: name at least one of raw, tuned, matched, ranks, band"),
        ({"normalisations": 3}, "normalisations: must be a list of names, got 3"),
        ({"normalisations": [["raw"]]}, "normalisations: There is no target normalisation named \"['raw']\""),
        ({"metrics": ["none", "srg"]}, "metrics: 'none' stands alone"),
        ({"metrics": ["srg", "srg()"]}, "metrics: srg is listed twice"),
        ({"metrics": [3]}, "metrics: "),
        ({"bases": [3]}, "bases: "),
        (
            {"target_normalisation": "ranks"},
            "target_normalisation: an audit does not take it, got 'ranks'. Name",
        ),
        ({"target_temperatures": [2.0]}, "target_temperatures: only tuned and band have temperatures"),
        ({"budget": "20m"}, "budget: an audit does not take it, got '20m'"),
    ],
)
def test_faults(entry, fault):
    with pytest.raises(PlanError, match=re.escape(fault)):
        AuditConfig.of(NAMED | entry)


def test_names_are_spelled_as_a_comparison_spells_them():
    config = AuditConfig.of(NAMED | {"bases": ["lime( seed=1,samples=10 )"], "metrics": ["srg( steps=5 )"]})
    assert (config.bases, config.metrics) == (("lime(samples=10, seed=1)",), ("srg(steps=5)",))
    assert AuditConfig.of(NAMED | {"metrics": "none", "bases": "lime"}).bases == ("lime",)
    assert AuditConfig.of(NAMED | {"metrics": []}).metrics == ("none",)


class TestBeforeAnythingIsTrained:
    """Nothing is compared if a later step would fail."""

    @pytest.fixture(autouse=True)
    def _no_comparison(self, monkeypatch):
        monkeypatch.setattr(module, "compare", lambda *_, **__: pytest.fail("something was trained"))

    @pytest.mark.parametrize(
        ("fields", "error", "message"),
        [
            ({"metrics": ["srgg"]}, PlanError, "There is no metric named 'srgg'. Did you mean 'srg'"),
            ({"explainers": ["gradient_norm"]}, PlanError, "gradient_norm: Method 'gradient_norm' needs gradients"),
            ({"bases": ["lrp", "lime"]}, PlanError, "The plan has 1 fault; nothing was loaded:\n  - lrp: "),
            (
                {"out": "s3://bucket/audit"},
                OptionError,
                "An audit is written to a local folder, and out is s3:",
            ),
            (
                {
                    "search_space": {"temperature": [0.5]},
                    "students": ["pool/attention"],
                    "normalisations": ["raw", "ranks"],
                },
                PlanError,
                "ranks sets the sharpness of what students are sent, and so does temperature in search_space",
            ),
        ],
        ids=["metric", "method", "base", "url", "search space"],
    )
    def test_named_things(self, fields, error, message):
        with pytest.raises(error, match=re.escape(message)):
            module.audit(
                black_box(), planted("sentiment"), **{"explainers": ["occlusion"], "bases": ["occlusion"]} | fields
            )

    def test_metrics_that_the_teacher_cannot_have(self):
        with pytest.raises(OptionError, match="2 of 2 metrics cannot be computed. log_odds_top: it needs classes"):
            module.audit(black_box("regression"), planted("quality"), metrics=["log_odds_top", "srg"])

    def test_metrics_that_the_data_cannot_have(self):
        names = ["roc_auc", "truth_tau", "f_fidelity"]
        with pytest.raises(OptionError, match="3 of 3 metrics cannot be computed. roc_auc: it needs rationales"):
            module.audit(black_box(), own_data(), ["occlusion"], bases=["occlusion"], metrics=names)

    def test_objects_are_no_methods(self):
        audit = inspect.unwrap(module.audit)  # its types are checked in tests, and forbid this
        with pytest.raises(OptionError, match="takes methods by name"):
            audit(taught("sentiment"), planted("sentiment"), [GradientNorm()])

    def test_people_are_no_teachers(self):
        with pytest.raises(UnsupportedError, match="labels of people cannot be audited"):
            module.audit("human", planted("sentiment"))
