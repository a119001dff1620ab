"""`didact.audit`: how well each way of judging explanations recovers what is known about them."""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np

from didact.auditing.changes import LEAKS, MARKS, audited_explanations, audited_pairs
from didact.auditing.config import OWN_FIELDS, AuditConfig
from didact.auditing.config_fields import AuditFields
from didact.auditing.evaluator_answers import EvaluatorAnswers
from didact.auditing.metric_values import MetricValues, check_metrics, metric_evaluators
from didact.auditing.student_values import student_evaluators
from didact.auditing.true_areas import test_areas, train_areas
from didact.comparing.assemble import check_fit
from didact.comparing.compare import compare, load_plan_data, load_plan_teacher, split_arguments
from didact.comparing.config import CompareConfig
from didact.comparing.sampling import data_for_students
from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.needs import obstacle
from didact.core.teacher import Differentiable, Teacher
from didact.core.truth import ExactTeacher, has_truth
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.verify import Verification, verify
from didact.errors import DidactError, OptionError, UnsupportedError
from didact.explaining.explain import explain
from didact.explaining.job import ExplainJob
from didact.explaining.score_checks import ignore_score_warnings
from didact.files.remote import is_url
from didact.models import MODELS
from didact.results.audit import Audit, AuditedExplanation, AuditedPair
from didact.results.comparison import Comparison
from didact.results.evidence import Evidence, EvidenceTeacher
from didact.viz.progress import announce

FILE: Final = "audit.json"
TRUTH: Final = "truth"
# Methods to rank, and bases to change, where none are named; those that the teacher does not support are left out.
_WHITE_BOX: Final = (
    "integrated_gradients", "lrp", "attention_all", "gradient_norm", "gradient_input", "deeplift", "gradient_shap",
    "occlusion", "lime", "kernel_shap", "attention_cls", "attention_last", "attention_rollout", "attention_gradient",
    "value_zeroing",
)  # fmt: skip
_BLACK_BOX: Final = (
    "occlusion", "lime", "kernel_shap", "shapley_sampling", "lexicon", "lime(samples=10)", "lime(samples=25)",
    "lime(samples=300)", "kernel_shap(samples=10)", "kernel_shap(samples=25)", "kernel_shap(samples=300)",
    "shapley_sampling(permutations=1)",
)  # fmt: skip
_WHITE_BASES: Final = ("integrated_gradients", "lrp", "attention_all")
_BLACK_BASES: Final = ("occlusion", "lime", "kernel_shap")
_STUDENTS: Final = ("pool/attention", "pool(pool=mean, layers=1)/gradient")


def audit(
    teacher: Any = None,
    data: Any = None,
    explainers: Sequence[str] | None = None,
    students: Sequence[Any] | None = None,
    *,
    config: AuditConfig | None = None,
    **fields: Unpack[AuditFields],
) -> Audit:
    """Audit ways of judging explanations: which of them recover what is known?

    An evaluator is a student with a target normalisation and a test set, or a metric. Each judges explanations whose
    order is known: damaged ones, equal ones of different sharpness, ones that lost information, and leaks. On planted
    data with a verified teacher, and for exact teachers, it also ranks methods whose true AUC is known.

    Args:
        teacher: A teacher, a folder or a hub name.
        data: A data set, its name, or a file.
        explainers: The methods to rank. Default: those of a list that the teacher supports.
        students: As for `compare`. Default: two or three kinds that the teacher supports.
        config: An `AuditConfig` with all options. Arguments given here win over it.
        **fields: The fields of `AuditConfig` (docs/reference/config.md): those of `CompareConfig`, and `bases`,
            `damage`, `damaged`, `normalisations` and `metrics`. With `out`, the same call resumes a stopped audit.

    Returns:
        An `Audit`. `didact.summarise_audits` counts its answers, with those of audits of other teachers.

    Raises:
        PlanError: Options are wrong. The message lists all faults. Nothing was trained.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        result = didact.audit(
            teacher, data, ["gradient_norm", "occlusion"], ["pool/attention"], bases=["gradient_norm"],
            normalisations=["raw"], metrics=["comprehensiveness"], train_sizes=[60], seeds=2, workers=0,
        )
        print(didact.summarise_audits([result]).table())
        ```
    """
    plan, objects = split_arguments(AuditConfig, teacher, data, explainers, students, config, fields)
    if objects.methods:
        raise OptionError("An audit takes methods by name, with options, since it makes changed versions of them.")
    if plan.out is not None and is_url(plan.out):
        raise OptionError(f"An audit is written to a local folder, and out is {plan.out}.")
    started = datetime.now(UTC)
    loaded_data, loaded_teacher = load_plan_data(plan, objects), load_plan_teacher(plan, objects)
    if isinstance(loaded_teacher, str):
        raise UnsupportedError("The labels of people cannot be audited: no method explains them. Give a model.")
    # As a comparison does, so that its rows and those of the metrics come from the same splits.
    loaded_data, _ = data_for_students(loaded_teacher, loaded_data)
    if plan.out is not None:
        result = _run(plan, loaded_teacher, loaded_data, Path(plan.out), started)
        result.save(Path(plan.out) / FILE)
        return result
    with tempfile.TemporaryDirectory(prefix="didact-audit-") as folder:
        return _run(plan, loaded_teacher, loaded_data, Path(folder), started)


def _run(plan: AuditConfig, teacher: Teacher, data: Dataset, folder: Path, started: datetime) -> Audit:
    """Run an audit whose teacher and data are loaded."""
    choice = _choose(plan, teacher, data)
    check_metrics(plan, teacher, data)
    verification, unverified = _verified(teacher, data)
    explanations = audited_explanations(
        choice.methods, choice.bases, damage=plan.damage, damaged=plan.damaged, leaks=choice.leaks
    )
    names = [item.name for item in explanations]
    answers: list[EvaluatorAnswers] = []
    areas: dict[str, float | None] = {}
    notes = [*choice.notes, *unverified]
    aligned = align_labels(data, teacher, classes=plan.classes or None, required=False)
    configs = {name: _comparison_config(plan, name, folder / "comparison") for name in plan.normalisations}
    for normalisation, config in configs.items():
        announce([f"Target normalisation {normalisation}:"], shown=plan.progress)
        # These are always compared.
        compared = [name for name in names if name not in ("trivial", MARKS)]
        comparison = compare(teacher, data, compared, list(choice.students), config=config)
        # Read now: the next comparison writes its results over these.
        answers += student_evaluators(comparison, normalisation, names)
        areas = areas or train_areas(comparison, names, aligned, teacher)
        notes += [*comparison.notes, *_failures(comparison, normalisation)]
    measured = MetricValues.measure(plan, teacher, aligned, names, comparison.folder)
    answers += metric_evaluators(measured)
    notes += measured.notes
    explanations = _with_areas(explanations, areas, test_areas(measured, teacher))
    by_name = {item.name: item for item in explanations}
    evidence = Evidence(
        kind="audit",
        name=plan.name or f"{data.name}, {comparison.name}",
        tables={},
        seeds=tuple(plan.seeds),
        teachers=(_teacher_record(teacher, aligned, comparison, verification),),
        settings=_settings(plan, comparison, data),
        notes=tuple(dict.fromkeys(notes)),
        protocol=plan.protocol,
    )
    result = Audit(
        evidence.dated(_command(), started),
        tuple(explanations),
        tuple(answer.evaluator for answer in answers),
        tuple(value for answer in answers for value in answer.values(by_name)),
        tuple(
            _with_drop(pair, by_name, is_metric=answer.evaluator.is_metric)
            for answer in answers
            for pair in answer.pairs(audited_pairs(explanations, answer.reference))
        ),
    )
    return Audit.of_evidence(result.to_evidence())  # with the rounded numbers of a file


@dataclass(frozen=True, eq=False)
class _Choice:
    """The methods, bases, leaks and students of an audit, with notes on what was left out."""

    methods: tuple[str, ...]
    bases: tuple[str, ...]
    leaks: tuple[str, ...]
    students: tuple[Any, ...]
    notes: tuple[str, ...]


def _choose(plan: AuditConfig, teacher: Teacher, data: Dataset) -> _Choice:
    """Fill in what the plan leaves open. Raises PlanError if a method that is named is not supported."""
    check_fit(teacher, data)
    is_white_box = isinstance(teacher, Differentiable)
    truth = _truth_of(teacher, data)
    methods = plan.explainers or (*truth, *(_WHITE_BOX if is_white_box else _BLACK_BOX))
    bases = plan.bases or (*truth, *(_WHITE_BASES if is_white_box else _BLACK_BASES))
    named = {*plan.explainers, *plan.bases}
    faults = {
        name: _fault_of(name, teacher, data, runs=is_white_box or name not in named)
        for name in dict.fromkeys((*methods, *bases))
    }
    if any(faults[name] for name in named):
        raise plan.fault_list([f"{name}: {faults[name]}" for name in faults if name in named and faults[name]])
    methods, bases = (tuple(name for name in names if not faults[name]) for names in (methods, bases))
    leaks = tuple(name for name in LEAKS if data.task.has_classes)
    students = plan.students or _students(teacher)
    notes = []
    if not truth:
        notes.append(
            "No true AUC is known: the data are not planted, and the teacher is not exact. Damaged explanations are "
            "ordered by their damage alone."
        )
    return _Choice(tuple(methods), tuple(bases), leaks, tuple(students), tuple(notes))


def _students(teacher: Teacher) -> tuple[str, ...]:
    """Students that fit the task: the teacher's architecture, if it has attention, and small ones."""
    small = _STUDENTS if teacher.task.name in MODELS["pool"].tasks else ("native/attention",)
    return small if obstacle(teacher, "attention") or obstacle(teacher, "training") else ("same/attention", *small)


def _truth_of(teacher: Teacher, data: Dataset) -> tuple[str, ...]:
    """The explainer that gives the truth, if it is known: true scores, or else marks of planted data."""
    rows = data["train"]
    if len(rows) and all(has_truth(row, teacher) for row in rows):
        return (TRUTH,)
    is_planted = isinstance(data, PlantedDataset) and all(row.rationale is not None for row in rows)
    return (MARKS,) if is_planted else ()


def _fault_of(method: str, teacher: Teacher, data: Dataset, *, runs: bool) -> str:
    """Why the method cannot explain this teacher; empty if it can. `runs` explains two rows to find out."""
    rows = list(data["train"][:2])
    try:
        ExplainJob.of(teacher, method, background=rows).check(rows)
        if runs:
            with ignore_score_warnings():
                explain(teacher, rows, method, background_rows=rows)
    except DidactError as error:
        return str(error)
    return ""


def _comparison_config(plan: AuditConfig, normalisation: str, folder: Path) -> CompareConfig:
    """The comparison of one target normalisation. All share a folder, and with it students that are sent the same."""
    passed = ("model", "data", "task", "max_length", "truncate", "revision", "explainers")  # as objects, or by name
    not_compared = {*OWN_FIELDS, *passed, "plan", "budget", "target_temperatures"}
    fields: dict[str, Any] = {name: value for name, value in plan.explicit_fields().items() if name not in not_compared}
    return CompareConfig(**fields | {"eval_rows": 0, "target_normalisation": normalisation, "out": folder})


def _failures(comparison: Comparison, normalisation: str) -> Iterator[str]:
    """A note if students failed: pairs of explanations are judged by the others."""
    if comparison.failed:
        first = comparison.failed[0]
        yield (
            f"{len(comparison.failed)} students failed under {normalisation}, such as {first.student} with "
            f"{first.explainer}: {first.error}"
        )


def _with_areas(
    explanations: Sequence[AuditedExplanation], train: Mapping[str, float | None], test: Mapping[str, float | None]
) -> list[AuditedExplanation]:
    """The explanations with their true AUC on the rows of students, and on the evaluated rows."""
    return [replace(item, train_auc=train.get(item.name), test_auc=test.get(item.name)) for item in explanations]


def _with_drop(pair: AuditedPair, explanations: Mapping[str, AuditedExplanation], *, is_metric: bool) -> AuditedPair:
    """The pair with its difference in true AUC, on the rows that the evaluator is given."""
    areas = [
        None if item is None else item.test_auc if is_metric else item.train_auc
        for item in (explanations.get(pair.first), explanations.get(pair.second))
    ]
    first, second = areas
    if first is None or second is None:
        return pair
    return replace(pair, auc_drop=first - second)


def _verified(teacher: Teacher, data: Dataset) -> tuple[Verification | None, list[str]]:
    """Whether planted truth is that of the teacher, or None and a note if the teacher cannot be verified."""
    if not isinstance(data, PlantedDataset):
        return None, []
    try:
        return verify(teacher, data), []
    except DidactError as error:
        return None, [f"Whether the planted truth is that of this teacher could not be verified: {error}"]


def _teacher_record(
    teacher: Teacher, data: Dataset, comparison: Comparison, verification: Verification | None
) -> EvidenceTeacher:
    rows = list(data["test"])
    accuracy = None
    if data.task.has_classes and rows and all(row.label is not None for row in rows):
        accuracy = float(np.mean([row.label for row in rows] == teacher.predict(rows).labels))
    return EvidenceTeacher(
        name=comparison.name,
        fingerprint=comparison.about.teacher_fingerprint,
        data=data.name,
        accuracy=accuracy,
        unchanged=None if verification is None else verification.unchanged,
        followed=None if verification is None else verification.followed,
        verified=None if verification is None else verification.verified,
        is_exact=isinstance(teacher, ExactTeacher),
    )


def _settings(plan: AuditConfig, comparison: Comparison, data: Dataset) -> dict[str, object]:
    about = comparison.about
    return {
        "task": data.task.name,
        "data": data.name,
        "data_fingerprint": about.data_fingerprint,
        "measure": comparison.measure,
        "train_rows": about.train_rows,
        "test_rows": about.test_rows,
        "eval_rows": plan.eval_rows,
        "damage": list(plan.damage),
        "damaged": list(plan.damaged),
        "normalisations": list(plan.normalisations),
        "target_temperatures": list(plan.target_temperatures),
        "test_sets": list(plan.test_sets),
        "students": {name: str(text) for name, text in about.students.items()},
    }


def _command() -> str:
    """The command line, with the name of the program instead of its path. Empty for a call from Python."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return shlex.join([name, *sys.argv[1:]]) if re.fullmatch(r"didact|.*\.py", name) else ""
