"""The rows of a comparison's table: the requested methods, the controls, and the companions of learned explainers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from didact.comparing.config import CONTROLS, CompareConfig
from didact.core.dataset import Dataset
from didact.core.row import fingerprint_of
from didact.core.teacher import Teacher
from didact.errors import DidactError, PlanError
from didact.explainers import is_learned
from didact.explainers.build import build_explainer, knows_option
from didact.explainers.learned import LearnedExplainer, load_explainer
from didact.explainers.mix import ComponentMix
from didact.explaining.cache import Method
from didact.explaining.method_options import resolve_method
from didact.learned.smat_spec import Learner, is_learner, parse_learner
from didact.learning.defaults import default_methods
from didact.registry import Spec, parse_spec
from didact.results.explanations import Explanations
from didact.results.target_normalisation import RAW

# Methods that count as controls where they are requested. `truth` is in no table that does not name it.
_REQUESTED_CONTROLS: Final = (*CONTROLS, "truth")
# The static method that each family of learned explainers starts from.
_STATIC: Final[Mapping[str, str]] = {"attention_mix": "attention_all", "gradient_mix": "gradient_mix"}


class Role(StrEnum):
    """The role of a table row.

    All but PLAIN belong to a learned explainer and are the controls that it must be compared with.
    """

    PLAIN = ""  # a method or control without a learned explainer
    FRESH = "fresh"  # the learned explainer, frozen, tested on new students: its own row
    COTRAINED = "cotrained"  # the student that the explainer was learned with
    FLATTENED = "flattened"  # the learned explanations, flattened to the mean entropy of the explainer before learning
    MATCHED = "matched"  # the explainer before learning, at the mean entropy of the learned explanations
    SHARPENED = "sharpened"  # the explainer before learning, with a temperature chosen on dev
    EXTRA = "extra"  # no explanations, but training on the dev rows that learning saw


# Roles whose explanations exist only after the explainer is learned.
DERIVED: Final = (Role.FRESH, Role.FLATTENED, Role.MATCHED)
# Roles that show what sharpness alone contributes to a learned explainer.
_OF_SHARPNESS: Final = (Role.FLATTENED, Role.MATCHED, Role.SHARPENED)


@dataclass(frozen=True, eq=False)
class ComparedMethod:
    """One row of the table. `resample_per_seed` draws its explanations again for every seed.

    Explanations of rows with a `learner` come from what it learns, according to `role`.
    """

    label: str
    method: Method | None
    is_control: bool
    resample_per_seed: bool = False
    role: Role = Role.PLAIN
    learner: Learner | None = None

    @property
    def has_own_scores(self) -> bool:
        """False if the row has no explanations, or those of another row at another temperature."""
        return self.role in (Role.PLAIN, Role.FRESH) and self.label != "none"

    @property
    def file_label(self) -> str:
        """The label in the name of its explanation file; two rows may share a file."""
        return str(self.method) if self.role is Role.SHARPENED else self.label

    def for_seed(self, seed: int) -> Method | None:
        if not self.resample_per_seed:
            return self.method
        spec = parse_spec(str(self.method))
        return str(Spec(spec.name, {**spec.options, "seed": seed}))


@dataclass
class Findings:
    """Notes for the reader of the table, and faults that stop the comparison, collected during setup."""

    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def raise_faults(self) -> None:
        if self.faults:
            count = f"{len(self.faults)} fault{'s' * (len(self.faults) > 1)}"
            raise PlanError(f"The plan has {count}; nothing was computed:", self.faults)


@dataclass(frozen=True, eq=False)
class MethodChoice:
    """The rows of the table, and the config that names them. `defaults` are the methods that didact chose.

    If the teacher does not support a default method, it is left out with a note; a requested method is a fault.
    """

    config: CompareConfig
    methods: tuple[ComparedMethod, ...] = ()
    defaults: frozenset[str] = frozenset()

    def without(self, label: str, error: DidactError, findings: Findings) -> "MethodChoice":
        """The choice without a method that the teacher does not support."""
        if label not in self.defaults:
            findings.faults.append(f"explainers: {label}: {error}" if self.has(label) else f"explainers: {error}")
            return self
        findings.notes.append(f"{label} is left out, since this model does not support it: {error}")
        explainers = tuple(name for name in self.config.explainers if name != label)
        methods = tuple(method for method in self.methods if method.label != label)
        return MethodChoice(self.config.with_fields(explainers=explainers), methods, self.defaults)

    def has(self, label: str) -> bool:
        return any(method.label == label for method in self.methods)


def choose_methods(
    config: CompareConfig, teacher: Teacher, data: Dataset, objects: Sequence[Method], findings: Findings
) -> MethodChoice:
    """Choose the rows of the table: controls, the requested methods (or defaults for the teacher), and companions."""
    choice = MethodChoice(config)
    if not config.explainers and not objects:
        names = default_methods(teacher)
        choice = MethodChoice(config.with_fields(explainers=names), defaults=frozenset(names))
    requested: list[Method] = [*choice.config.explainers, *objects]
    methods = _controls(choice.config, data, requested, findings)
    for method in requested:
        if method == "none":
            continue
        try:
            methods.append(_compared_method(method, teacher, choice.config, methods))
        except DidactError as error:
            choice = choice.without(str(method), error, findings)
    for companion in _companions(methods, teacher, data, findings):
        is_listed = any(companion.label == method.label for method in methods)
        if not is_listed and not _is_skipped(config, companion.role):
            methods.append(companion)
    _note_choices(choice.config, methods, findings)
    _check_learned_rows(methods, teacher, data, findings)
    return MethodChoice(choice.config, tuple(methods), choice.defaults)


def is_spec(method: Method | None) -> bool:
    """Whether the method is a name with options, not an object, file or folder."""
    return isinstance(method, str) and not method.endswith(".parquet") and not is_learned(method)


def _is_skipped(config: CompareConfig, name: str) -> bool:
    """Whether a control is left out. Target normalisation takes the place of controls of sharpness."""
    return name in config.skip_controls or (config.target_normalisation != RAW and name in _OF_SHARPNESS)


def _controls(
    config: CompareConfig, data: Dataset, requested: Sequence[Method], findings: Findings
) -> list[ComparedMethod]:
    """The standard controls that apply to these data and were not requested as methods."""
    controls = [ComparedMethod("none", None, True)]
    for name in CONTROLS[1:]:
        if name not in requested and not _is_skipped(config, name) and _is_possible(name, data, findings):
            controls.append(ComparedMethod(name, name, True, resample_per_seed=name == "random"))
    return controls


def _is_possible(control: str, data: Dataset, findings: Findings) -> bool:
    """Whether a control applies to these data. Adds a note if it does not."""
    if control == "trivial" and not data.task.has_classes:
        findings.notes.append(f"The control 'trivial' is left out: it leaks the class, and {data.task} has no classes.")
        return False
    if control != "human":
        return True
    with_rationale, rows = sum(row.rationale is not None for row in data["train"]), len(data["train"])
    if 0 < with_rationale < rows:
        findings.notes.append(
            f"The control 'human' is left out: only {with_rationale} of {rows} train rows have a rationale. Name it "
            "among the explainers to use those rows alone."
        )
    return 0 < with_rationale == rows


def _compared_method(
    method: Method, teacher: Teacher, config: CompareConfig, others: Sequence[ComparedMethod]
) -> ComparedMethod:
    """The table row of a requested method. Raises DidactError if the teacher does not support it."""
    label = _label(method, config, {other.label for other in others})
    if is_learner(method):
        return ComparedMethod(label, None, False, role=Role.FRESH, learner=parse_learner(str(method)))
    resample = False
    if is_spec(method):
        _, built = resolve_method(teacher, str(method), {})
        is_drawn = bool(getattr(built.explainer, "resample_per_seed", False))
        resample = is_drawn and "seed" not in parse_spec(str(method)).options and knows_option(built.name, "seed")
    return ComparedMethod(label, method, is_spec(method) and method in _REQUESTED_CONTROLS, resample)


def _label(method: Method, config: CompareConfig, taken: set[str]) -> str:
    """A unique label for the table row, different from all controls and requested specs."""
    if isinstance(method, str) and is_spec(method):
        return method
    if isinstance(method, str):
        name = Path(method).name.removesuffix(".parquet")
    else:
        name = method.method if isinstance(method, Explanations) else build_explainer(method).name
    number, label = 2, name
    while label in taken | {*CONTROLS, *config.explainers}:
        label, number = f"{name}#{number}", number + 1
    return label


def _companions(
    methods: Sequence[ComparedMethod], teacher: Teacher, data: Dataset, findings: Findings
) -> list[ComparedMethod]:
    """The fair controls of learned explainers. Some may already be rows of the table."""
    learners = [method.learner for method in methods if method.learner is not None]
    companions: list[ComparedMethod] = []
    statics: list[str] = []
    for learner in learners:
        companions.append(
            ComparedMethod(learner.companion_label("cotrained"), None, True, role=Role.COTRAINED, learner=learner)
        )
        static = _STATIC.get(learner.family)
        if static is None:  # a blend is compared with its members
            companions += [ComparedMethod(name, name, True) for name in _members(learner, teacher, data, findings)]
            continue
        is_plain = not set(learner.spec.options) - {"family"}
        name = f"{static}(matched)" if is_plain else f"{static}(matched, {learner.label})"
        flattened = learner.companion_label("flattened")
        companions.append(ComparedMethod(flattened, None, True, role=Role.FLATTENED, learner=learner))
        companions.append(ComparedMethod(name, None, True, role=Role.MATCHED, learner=learner))
        statics.append(static)
    for static in dict.fromkeys(statics):
        companions.append(ComparedMethod(static, static, True))
        companions.append(ComparedMethod(f"{static}(sharpened)", static, True, role=Role.SHARPENED))
    if any(learner.smat.outer == "dev" for learner in learners):
        companions.append(ComparedMethod("none+extra", None, True, role=Role.EXTRA))
    return companions


def _members(learner: Learner, teacher: Teacher, data: Dataset, findings: Findings) -> tuple[str, ...]:
    try:
        return learner.explainer().component_names(teacher, data["train"][0])
    except DidactError as error:
        findings.faults.append(f"explainers: {learner.label}: {error}")
        return ()


def _note_choices(config: CompareConfig, methods: Sequence[ComparedMethod], findings: Findings) -> None:
    """Note choices of the plan that a reader of the table would not expect."""
    labels = {method.label for method in methods}
    skipped = [name for name in config.skip_controls if name not in labels]
    if skipped:
        findings.notes.append(f"Left out by skip_controls: {', '.join(skipped)}.")
    if config.target_normalisation != RAW and any(method.role is Role.COTRAINED for method in methods):
        findings.notes.append(
            f"Learned explainers have no controls of sharpness ({', '.join(_OF_SHARPNESS)}) here, since target "
            f"normalisation {config.target_normalisation} takes their place. Students that an explainer is learned "
            "with (cotrained) are not normalised."
        )
    sharpened = [method.label for method in methods if method.role is Role.SHARPENED]
    if sharpened and len(config.temperatures) == 1:
        findings.notes.append(
            f"{', '.join(sharpened)}: the temperature is fixed at {config.temperatures[0]:g} and not chosen on dev."
        )


def _check_learned_rows(methods: Sequence[ComparedMethod], teacher: Teacher, data: Dataset, findings: Findings) -> None:
    """Check the rows and the teacher that saved explainers were learned from. Test rows among them are a fault."""
    for compared in methods:
        explainer = compared.method
        if isinstance(explainer, str) and is_learned(explainer):
            explainer = load_explainer(explainer)
        if not isinstance(explainer, LearnedExplainer) or not explainer.learned:
            continue
        seen_rows = set(explainer.learned.get("rows", ()))
        tested = sum(fingerprint_of([row]) in seen_rows for row in data["test"])
        if tested:
            findings.faults.append(
                f"explainers: {compared.label} was learned from {tested} rows of the test split, so its result would "
                "be biased. Learn it from other rows."
            )
        else:
            is_mix = isinstance(explainer, ComponentMix)
            advice = " Name `smat` instead to learn it from each student's rows alone." if is_mix else ""
            findings.notes.append(
                f"{compared.label} was learned from the teacher's answers to {len(seen_rows):,} rows, which the "
                f"students of other methods did not see.{advice}"
            )
        learned_for = explainer.learned.get("teacher_fingerprint")
        if not teacher.is_identified_by_answers and learned_for not in (None, teacher.fingerprint(())):
            findings.notes.append(
                f"{compared.label} was learned for another teacher ({explainer.learned.get('teacher')})."
            )
