"""The options of a new study."""

from pathlib import Path
from typing import Annotated, Any

from didact.config import Count, DataOptions, Group, Option, Seed, Word

LOCAL = "http://127.0.0.1:8000"
DATABASE_VARIABLE = "DIDACT_STUDY_DATABASE"


class StudyConfig(DataOptions):
    """The options of `didact study new`. They reach `new_study` by the same names."""

    more: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True, is_argument=True)] = ()
    """More files, as with --explanations."""
    explanations: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True)]
    """File of `didact explain`, one per method."""
    split: Annotated[Word | None, Option(Group.DATA, "SPLIT")] = None
    """Split of the data, if ids are in several."""
    kind: Annotated[Word, Option(Group.STUDY, "KIND")] = "ranking"
    """ranking, simulation or rating."""
    items: Annotated[Count, Option(Group.STUDY, "N")] = 60
    """Rows that people are asked about."""
    learn: Annotated[Count | None, Option(Group.STUDY, "N")] = None
    """Simulation: items to learn from (default: 2/3)."""
    errors: Annotated[float, Option(Group.STUDY, "SHARE")] = 0.5
    """Simulation: share of wrong answers."""
    points: Annotated[int, Option(Group.STUDY, "N")] = 5
    """Rating: points of the scale, 2 to 9."""
    signs: Annotated[Word, Option(Group.STUDY, "WHEN")] = "auto"
    """Signs in colour: show, hide or auto."""
    annotators: Annotated[Count, Option(Group.PARTICIPANTS, "N")] = 3
    """People to invite; in a simulation, for each method and the control."""
    pause: Annotated[int, Option(Group.PARTICIPANTS, "N")] = 20
    """Offer a break every N answers; 0: never."""
    title: Annotated[str, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """Title of every page."""
    about: Annotated[str, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """One sentence: what the model does (asked if missing)."""
    question: Annotated[str, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """What people are asked."""
    consent: Annotated[Path | None, Option(Group.PARTICIPANTS, "FILE")] = None
    """Text file: what people agree to."""
    contact: Annotated[str, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """Whom people can ask."""
    url: Annotated[str, Option(Group.PARTICIPANTS, "URL")] = LOCAL
    """Address of the study, for the links."""
    out: Annotated[Path, Option(Group.OUTPUT, "STUDY")]
    """Folder of the study; it must not exist yet."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed of the choice and order of rows."""
    database: Annotated[str | None, Option(Group.ADVANCED, "URL", envvar=DATABASE_VARIABLE)] = None
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
