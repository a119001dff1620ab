"""Metrics of explanations: one number per row, NaN where undefined.

`METRICS` lists them with bounds, direction, needs and paper, and imports a metric on first use. `faithfulness`,
`f_fidelity`, `plausibility`, `truth` and `stability` compute them; `ranked` and `probe` have the ranked units and the
teacher's answers for faithfulness. `agreement` and `prediction` compare two methods on the same rows; `same_units`
checks these rows.

To add a metric, write a class in one of these modules, an entry in `METRICS`, a line in docs/metrics.md and a test in
tests/metrics. Other packages add metrics through the entry point group `didact.metrics`.
"""

from dataclasses import dataclass
from typing import Final, Literal

from didact.registry import Entry, Registry

Better = Literal["higher", "lower"]
Property = Literal["faithfulness", "plausibility", "stability"]


@dataclass(frozen=True)
class MetricEntry(Entry):
    """What a reader needs to interpret a metric. `needs` is what it uses besides the explanations.

    `is_default` is false for a metric that is computed only if it is named, because it costs much more than the others.
    `version` is part of the key of stored values: increase it when the same options give other values.
    """

    measures: Property
    bounds: tuple[float, float]
    better: Better
    needs: tuple[str, ...]
    paper: str
    summary: str
    version: int = 1
    is_default: bool = True


_INF: Final = float("inf")
_PRUTHI: Final = "Pruthi et al. 2022"
_ERASER: Final = "DeYoung et al. 2020"
_L2E: Final = "Situ et al. 2021"
_SMAT: Final = "Fernandes et al. 2022"


def _faithful(name: str, bounds: tuple[float, float], better: Better, paper: str, summary: str) -> MetricEntry:
    return MetricEntry(
        f"didact.metrics.faithfulness:{name}", "faithfulness", bounds, better, ("teacher",), paper, summary
    )


def _f_fidelity(name: str, better: Better, summary: str) -> MetricEntry:
    return MetricEntry(
        f"didact.metrics.f_fidelity:{name}", "faithfulness", (-1, 1), better, ("teacher", "gradients", "other rows"),
        "Zheng et al. 2025", summary, is_default=False,
    )  # fmt: skip


def _plausible(name: str, paper: str, summary: str) -> MetricEntry:
    return MetricEntry(
        f"didact.metrics.plausibility:{name}", "plausibility", (0, 1), "higher", ("rationale",), paper, summary
    )


def _stable(name: str, summary: str) -> MetricEntry:
    needs = ("encoder",) if name == "SemanticStability" else ()
    return MetricEntry(f"didact.metrics.stability:{name}", "stability", (0, 1), "higher", needs, _L2E, summary)


METRICS: Final[Registry[MetricEntry]] = Registry(
    "metric",
    {
        "sufficiency": _faithful(
            "Sufficiency", (-1, 1), "lower", _PRUTHI, "How far the probability falls if only the top units stay."
        ),
        "comprehensiveness": _faithful(
            "Comprehensiveness", (-1, 1), "higher", _PRUTHI, "How far the probability falls without the top units."
        ),
        "aopc_sufficiency": _faithful(
            "AopcSufficiency", (-1, 1), "lower", _ERASER, "Sufficiency, mean over several shares of units."
        ),
        "aopc_comprehensiveness": _faithful(
            "AopcComprehensiveness", (-1, 1), "higher", _ERASER, "Comprehensiveness, mean over several shares of units."
        ),
        "log_odds_positive": _faithful(
            "LogOddsPositive", (-_INF, _INF), "higher", _L2E, "Fall of the log-odds without the most positive units."
        ),
        "log_odds_negative": _faithful(
            "LogOddsNegative", (-_INF, _INF), "lower", _L2E, "Fall of the log-odds without the most negative units."
        ),
        "log_odds_top": _faithful(
            "LogOddsTop", (-_INF, _INF), "higher", _L2E, "Fall of the log-odds without the largest units."
        ),
        "prediction_agreement": _faithful(
            "PredictionAgreement", (0, 1), "higher", _L2E, "Whether the top units alone get the same prediction."
        ),
        "deletion_auc": _faithful(
            "DeletionArea", (0, 1), "lower", "Petsiuk et al. 2018", "Mean probability while units are taken away."
        ),
        "insertion_auc": _faithful(
            "InsertionArea", (0, 1), "higher", "Petsiuk et al. 2018", "Mean probability while units are put back."
        ),
        "srg": _faithful(
            "SymmetricRelevanceGain",
            (-1, 1),
            "higher",
            "Blücher et al. 2024",
            "Area when the lowest units go first, minus area when the highest do.",
        ),
        "flip_fraction": _faithful(
            "FlipFraction", (0, 1), "lower", "Serrano and Smith 2019", "Share of units to remove to flip the answer."
        ),
        "f_fidelity": _f_fidelity("FFidelity", "higher", "f_fidelity_plus minus f_fidelity_minus."),
        "f_fidelity_plus": _f_fidelity(
            "FFidelityPlus", "higher", "Fall of a mask-tuned copy's probability without some of the top units."
        ),
        "f_fidelity_minus": _f_fidelity(
            "FFidelityMinus", "lower", "Fall of a mask-tuned copy's probability without some of the lowest units."
        ),
        "roc_auc": _plausible("RocAuc", _SMAT, "Chance that a marked word scores above an unmarked one."),
        "average_precision": _plausible(
            "AveragePrecision", _ERASER, "Area under precision and recall of marked words."
        ),
        "precision": _plausible("Precision", _ERASER, "Share of the top words that are marked."),
        "recall": _plausible("Recall", _ERASER, "Share of the marked words that are among the top ones."),
        "f1": _plausible("F1", _ERASER, "Harmonic mean of precision and recall of the top words."),
        "iou_f1": _plausible("IouF1", _ERASER, "F1 of whole spans; two spans match at an IoU of 0.5 or more."),
        "truth_tau": MetricEntry(
            "didact.metrics.truth:TruthTau",
            "plausibility",
            (-1, 1),
            "higher",
            ("truth",),
            "Kendall 1945",
            "Order of the words against that of their true scores, where these are known.",
        ),
        "iou_semantic": _stable("SemanticStability", "Top words shared with rows that mean the same."),
        "iou_lexical": _stable("LexicalStability", "Top words shared with rows of similar wording."),
    },
    group="didact.metrics",
)
