"""The options of a new study."""

from pathlib import Path
from typing import Annotated, Any

from didact.config import (
    ADVANCED,
    DATA,
    OUTPUT,
    PARTICIPANTS,
    STUDY,
    DataOptions,
    Integer,
    Option,
    Seed,
    Word,
)
from didact.limits import MOST_ROWS

LOCAL = "http://127.0.0.1:8000"
DATABASE_VARIABLE = "DIDACT_STUDY_DATABASE"
_Count = Annotated[int, Integer(1, MOST_ROWS)]


class StudyConfig(DataOptions):
    """The options of `didact study new`. They reach `new_study` by the same names."""

    more: Annotated[tuple[Path, ...], Option(DATA, "FILE", repeatable=True, is_argument=True)] = ()
    """More files, as with --explanations."""
    explanations: Annotated[tuple[Path, ...], Option(DATA, "FILE", repeatable=True)]
    """File of `didact explain`, one per method."""
    split: Annotated[Word | None, Option(DATA, "SPLIT")] = None
    """Split of the data, if ids are in several."""
    kind: Annotated[Word, Option(STUDY, "KIND")] = "ranking"
    """ranking, simulation or rating."""
    items: Annotated[_Count, Option(STUDY, "N")] = 60
    """Rows that people are asked about."""
    learn: Annotated[_Count | None, Option(STUDY, "N")] = None
    """Simulation: items to learn from (default: 2/3)."""
    errors: Annotated[float, Option(STUDY, "SHARE")] = 0.5
    """Simulation: share of wrong answers."""
    points: Annotated[int, Option(STUDY, "N")] = 5
    """Rating: points of the scale, 2 to 9."""
    signs: Annotated[Word, Option(STUDY, "WHEN")] = "auto"
    """Signs in colour: show, hide or auto."""
    annotators: Annotated[_Count, Option(PARTICIPANTS, "N")] = 3
    """People to invite; in a simulation, for each method and the control."""
    pause: Annotated[int, Option(PARTICIPANTS, "N")] = 20
    """Offer a break every N answers; 0: never."""
    title: Annotated[str, Option(PARTICIPANTS, "TEXT")] = ""
    """Title of every page."""
    about: Annotated[str, Option(PARTICIPANTS, "TEXT")] = ""
    """One sentence: what the model does (asked if missing)."""
    question: Annotated[str, Option(PARTICIPANTS, "TEXT")] = ""
    """What people are asked."""
    consent: Annotated[Path | None, Option(PARTICIPANTS, "FILE")] = None
    """Text file: what people agree to."""
    contact: Annotated[str, Option(PARTICIPANTS, "TEXT")] = ""
    """Whom people can ask."""
    url: Annotated[str, Option(PARTICIPANTS, "URL")] = LOCAL
    """Address of the study, for the links."""
    out: Annotated[Path, Option(OUTPUT, "STUDY")]
    """Folder of the study; it must not exist yet."""
    seed: Annotated[Seed, Option(ADVANCED, "N")] = 0
    """Seed of the choice and order of rows."""
    database: Annotated[str | None, Option(ADVANCED, "URL", envvar=DATABASE_VARIABLE)] = None
    """SQLAlchemy URL (default: answers.sqlite in STUDY)."""

    def design(self) -> dict[str, Any]:
        """The keyword arguments of `new_study` that are plain values."""
        names = (
            "out",
            "kind",
            "items",
            "annotators",
            "learn",
            "errors",
            "points",
            "pause",
            "signs",
            "title",
            "question",
        )
        return self.pick(*names, "contact", "seed", "url", "database")
