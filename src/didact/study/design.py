"""The design of a study: questions, items and cohorts, fixed in `study.json` before the first person starts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import ConfigDict

from didact.errors import OptionError
from didact.results.documents import load_document, save_document, validated

FILE: Final = "study.json"
VERSION: Final = 1  # version of its schema
_ADVICE: Final = "Restore the file, or create the study again."
CONTROL: Final = "none"  # the cohort of a simulation that sees no explanation
QUESTIONS: Final = {
    "ranking": "Which explanation aligns the most with how you would explain a similar decision?",
    "simulation": "What does the model say about this one?",
    "rating": "How well does this explanation agree with how you would explain the decision?",
}


@dataclass(frozen=True)
class Item:
    """A row of the study, with the model's answer and, if known, the right one."""

    id: str
    prediction: str
    label: str | None = None
    phase: str = ""  # of a simulation: learning or test

    @property
    def is_error(self) -> bool | None:
        """True if the model is wrong about it; None if unknown."""
        return None if self.label is None else self.label != self.prediction


@dataclass(frozen=True)
class Design:
    """The design of one study. `people` is the number of invited people, per cohort in a simulation."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    kind: str
    title: str
    question: str
    task: str
    classes: tuple[str, ...]
    methods: tuple[str, ...]
    items: tuple[Item, ...]
    people: int
    seed: int = 0
    points: int = 5  # of a rating
    pause: int = 20  # answers between suggested breaks; 0 for none
    signs: bool = False  # whether colours distinguish for from against
    contact: str = ""
    consent: tuple[str, ...] = ()
    about: str = ""  # what the model does, for participants; "" in studies of earlier versions
    facts: Mapping[str, Any] = field(default_factory=dict)  # where stimuli come from: data, teacher, files

    @property
    def cohorts(self) -> tuple[str, ...]:
        """The cohorts: in a simulation the control and one per method; otherwise a single one, ""."""
        return (CONTROL, *self.methods) if self.kind == "simulation" else ("",)

    def cohort_of(self, number: int) -> str:
        """The cohort of person `number`, counted from 1. Cohorts take turns, so that they grow evenly."""
        return self.cohorts[(number - 1) % len(self.cohorts)]

    def save(self, folder: Path) -> None:
        save_document(folder / FILE, asdict(self), VERSION, indent=1)


def read_design(folder: Path) -> Design:
    """The design of the study in `folder`."""
    path = folder / FILE
    if not path.is_file():
        raise OptionError(
            f"{folder} holds no study: {FILE} is missing. Create one with didact study new … --out {folder}."
        )
    return load_document(path, VERSION, validated(Design), advice=_ADVICE)


def person_name(number: int) -> str:
    """The code name of a person: p01, p02, …"""
    return f"p{number:02d}"
