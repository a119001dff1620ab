"""What students are sent under `target_normalisation`: the trials and the arms of the band that it adds."""

from dataclasses import dataclass
from typing import Any, Final

from didact.comparing.config import CompareConfig
from didact.comparing.methods import DERIVED, ComparedMethod
from didact.results.target_normalisation import (
    BAND,
    ENTROPY_SHARE,
    MATCHED,
    RANKS,
    RAW,
    TUNED,
    band_arm,
)
from didact.results.target_transform import TargetTransform
from didact.students.build import StudentSpec, build_strategy

# The entry of a trial that changes what is sent. All other entries are options of the strategy.
TARGET: Final = "target"
_ONE_TRANSFORM: Final = {
    MATCHED: TargetTransform("entropy", ENTROPY_SHARE),
    RANKS: TargetTransform("ranks", ENTROPY_SHARE),
}


@dataclass(frozen=True)
class TargetArm:
    """One way in which a method is sent to a student, as an arm of the comparison. `temperature` is that of a band."""

    label: str
    transform: TargetTransform | None = None
    temperature: float | None = None


def normalises(config: CompareConfig, student: StudentSpec) -> bool:
    """Whether target normalisation changes what this student receives: not with `raw`, and not for marks."""
    return config.target_normalisation != RAW and build_strategy(student.strategy).reads_sizes


def target_arms(config: CompareConfig, method: ComparedMethod, student: StudentSpec) -> tuple[TargetArm, ...]:
    """The arms of a method: one, or under `band` one per temperature.

    A student without explanations, or one that an explainer is learned with, receives nothing that could be changed.
    """
    is_sent = method.method is not None or method.role in DERIVED
    if not is_sent or not normalises(config, student):
        return (TargetArm(method.label),)
    if config.target_normalisation == BAND:
        return tuple(
            TargetArm(band_arm(method.label, value), TargetTransform("temperature", value), value)
            for value in config.target_grid
        )
    return (TargetArm(method.label, _ONE_TRANSFORM.get(config.target_normalisation)),)


def student_trials(config: CompareConfig, student: StudentSpec) -> list[dict[str, Any]]:
    """The trials of a student: the grid of the search space, under `tuned` times the temperatures."""
    trials: list[dict[str, Any]] = [dict(trial) for trial in config.trials(student.strategy)]
    if config.target_normalisation != TUNED or not normalises(config, student):
        return trials
    transforms = [TargetTransform("temperature", value).to_document() for value in config.target_grid]
    return [{**trial, TARGET: transform} for trial in trials for transform in transforms]


def sent_as(trial: dict[str, Any], arm: TargetArm) -> dict[str, Any]:
    """The trial with the arm's change of what is sent, if it has one."""
    return trial if arm.transform is None else {**trial, TARGET: arm.transform.to_document()}
