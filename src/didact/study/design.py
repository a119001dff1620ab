"""What a study asks of whom, fixed before the first person comes: `study.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import ConfigDict

from didact.errors import OptionError
from didact.results.documents import load_document, save_document, validated

FILE: Final = "study.json"
VERSION: Final = 1  # version of its schema
_ADVICE: Final = "Restore the file, or make the study again."
CONTROL: Final = "none"  # the cohort of a simulation that sees no explanation
QUESTIONS: Final = {
    "ranking": "Which explanation aligns the most with how you would explain a similar decision?",
    "simulation": "What does the model say about this one?",
    "rating": "How well does this explanation agree with how you would explain the decision?",
}


@dataclass(frozen=True)
class Item:
    """A row that people are asked about: the model's answer, and the right one where it is known."""

    id: str
    prediction: str
    label: str | None = None
    phase: str = ""  # of a simulation: learning or test

    @property
    def is_error(self) -> bool | None:
        """Whether the model is wrong about it; None where nobody knows."""
        return None if self.label is None else self.label != self.prediction


@dataclass(frozen=True)
class Design:
    """One study. `people` are invited; in a simulation, that many to each cohort."""

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
    pause: int = 20  # answers after which a break is suggested; 0 for never
    signs: bool = False  # whether colours tell for from against
    contact: str = ""
    consent: tuple[str, ...] = ()
    about: str = ""  # what the model does, for participants; "" in studies of earlier versions
    facts: Mapping[str, Any] = field(default_factory=dict)  # where stimuli come from: data, teacher, files

    @property
    def cohorts(self) -> tuple[str, ...]:
        """Who is told apart: in a simulation one cohort for each method and the control; else everybody is one."""
        return (CONTROL, *self.methods) if self.kind == "simulation" else ("",)

    def cohort_of(self, number: int) -> str:
        """The cohort of person `number`, counted from 1: each in turn, so that all grow together."""
        return self.cohorts[(number - 1) % len(self.cohorts)]

    def save(self, folder: Path) -> None:
        save_document(folder / FILE, asdict(self), VERSION, indent=1)


def read_design(folder: Path) -> Design:
    """The design of the study in `folder`."""
    path = folder / FILE
    if not path.is_file():
        raise OptionError(
            f"{folder} holds no study: {FILE} is missing. Make one with didact study new … --out {folder}."
        )
    return load_document(path, VERSION, validated(Design), advice=_ADVICE)


def person_name(number: int) -> str:
    """What a person is called everywhere: p01, p02, …"""
    return f"p{number:02d}"
