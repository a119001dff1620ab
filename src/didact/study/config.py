"""The options of the study commands, one class per command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypedDict

from pydantic import AfterValidator

from didact.config import Config, DataOptions, Group, Option
from didact.errors import OptionError
from didact.field_types import Count, Integer, Name, Number, Seed, Switch
from didact.limits import MAX_ROWS
from didact.registry import split_list
from didact.study.links import is_root

LOCAL: Final = "http://127.0.0.1:8000"
DATABASE_VARIABLE: Final = "DIDACT_STUDY_DATABASE"


def _check_text(text: str) -> str:
    """The text, if it can be stored as UTF-8: bytes of another encoding on the command line become surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise OptionError(f"must be valid Unicode text, got {text[:80]!a}. Write it in UTF-8.") from None
    return text


def _check_root(root: str) -> str:
    """The path without a trailing slash."""
    if not is_root(root):
        raise OptionError(f"must be a plain path that begins with a slash, such as /study, got {root!r}.")
    return root.rstrip("/")


def read_text(path: Path | str) -> str:
    """The text of a user's file."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read as text ({error}).") from error


def parse_paragraphs(path: str) -> list[str]:
    """The paragraphs of a text file, each on one line."""
    paragraphs = [" ".join(block.split()) for block in read_text(path).split("\n\n")]
    return [paragraph for paragraph in paragraphs if paragraph]


def parse_lines(path: str) -> list[str]:
    """The lines of a text file that are not empty."""
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def parse_values(text: str) -> dict[str, float]:
    """`lime=1,random=0` as numbers by method."""
    values: dict[str, float] = {}
    for entry in split_list(text):
        method, _, value = entry.rpartition("=")
        try:
            values[method.strip()] = float(value)
        except ValueError:
            raise OptionError(f"must give a number for each method, as in lime=1,random=0; got {entry!r}.") from None
    return values


Text = Annotated[str, AfterValidator(_check_text)]
Database = Annotated[str | None, Option(Group.ADVANCED, "URL", envvar=DATABASE_VARIABLE)]
Values = Annotated[dict[str, float] | None, Option(Group.PARTICIPANTS, "NAME=N", parse_values)]


class StudyOptions(Config):
    """The options of `new_study`."""

    kind: Annotated[Literal["ranking", "simulation", "rating"], Option(Group.STUDY, "KIND")] = "ranking"
    """ranking, simulation or rating."""
    items: Annotated[Count, Option(Group.STUDY, "N")] = 60
    """Number of rows that people answer questions about."""
    learn: Annotated[Count | None, Option(Group.STUDY, "N")] = None
    """Simulation: items to learn from (default: 2/3)."""
    errors: Annotated[
        Annotated[float, Number("between 0 and 1", lambda share: 0 <= share <= 1)], Option(Group.STUDY, "SHARE")
    ] = 0.5
    """Simulation: share of rows that the model gets wrong."""
    points: Annotated[Annotated[int, Integer(2, 9)], Option(Group.STUDY, "N")] = 5
    """Rating: points of the scale, 2 to 9."""
    signs: Annotated[Literal["auto", "show", "hide"], Option(Group.STUDY, "WHEN")] = "auto"
    """Signs in colour: show, hide or auto."""
    annotators: Annotated[Count, Option(Group.PARTICIPANTS, "N")] = 3
    """People to invite (simulation: per cohort)."""
    pause: Annotated[Annotated[int, Integer(0, MAX_ROWS)], Option(Group.PARTICIPANTS, "N")] = 20
    """Offer a break every N answers; 0: never."""
    title: Annotated[Text, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """Title on every page."""
    about: Annotated[Text, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """One sentence: what the model does (default: prompted for)."""
    question: Annotated[Text, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """Question to participants."""
    consent: Annotated[tuple[Text, ...], Option(Group.PARTICIPANTS, "FILE", parse_paragraphs)] = ()
    """Text file with the consent form."""
    contact: Annotated[Text, Option(Group.PARTICIPANTS, "TEXT")] = ""
    """Contact for participants."""
    url: Annotated[Text, Option(Group.PARTICIPANTS, "URL")] = LOCAL
    """Address, for links (default: http://127.0.0.1:8000)."""
    out: Annotated[Path, Option(Group.OUTPUT, "STUDY")]
    """Folder of the study; it must not exist yet."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed for the choice and order of rows."""
    database: Database = None
    """SQLAlchemy URL of answers."""


class StudyFields(TypedDict, total=False):
    """The fields of `StudyOptions` as keyword arguments, for completion in editors. A test keeps the two equal."""

    kind: Literal["ranking", "simulation", "rating"]
    items: int
    learn: int | None
    errors: float
    points: int
    signs: Literal["auto", "show", "hide"]
    annotators: int
    pause: int
    title: str
    about: str
    question: str
    consent: Sequence[str]
    contact: str
    url: str
    out: Path | str
    seed: int
    database: str | None


class StudyConfig(StudyOptions, DataOptions):
    """The options of `didact study new`."""

    more: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True, is_argument=True)] = ()
    """More files, as with --explanations."""
    explanations: Annotated[tuple[Path, ...], Option(Group.DATA, "FILE", repeatable=True)]
    """File of `didact explain`, one per method."""
    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """Split of the data, if ids are in several."""


class FolderOptions(Config):
    """Which study, for every command but `new`."""

    folder: Annotated[Path, Option(Group.STUDY, "STUDY", is_argument=True)]
    """The folder that `didact study new` wrote."""
    database: Database = None
    """SQLAlchemy URL of answers."""


class ServeConfig(FolderOptions):
    """The options of `didact study serve`."""

    host: Annotated[str, Option(Group.STUDY, "HOST")] = "127.0.0.1"
    """Address (default: 127.0.0.1; 0.0.0.0: every network)."""
    port: Annotated[Annotated[int, Integer(0, 65535)], Option(Group.STUDY, "PORT")] = 8000
    """Port to listen on; 0: any free port."""
    root: Annotated[str, AfterValidator(_check_root), Option(Group.ADVANCED, "PATH")] = ""
    """Path below which the pages are, behind a proxy: /study."""
    proxy: Annotated[str | None, Option(Group.ADVANCED, "HOST")] = None
    """Trusted proxy (its X-Forwarded-* headers are used)."""
    https: Annotated[Switch, Option(Group.ADVANCED)] = False
    """People connect by https: send cookies over https only."""


class InviteConfig(FolderOptions):
    """The options of `didact study invite`."""

    more: Annotated[Annotated[int, Integer(0, MAX_ROWS)], Option(Group.PARTICIPANTS, "N")] = 0
    """Number of people to invite now."""
    names: Annotated[tuple[str, ...], Option(Group.PARTICIPANTS, "FILE", parse_lines)] = ()
    """Text file with one name per line, for those people."""
    url: Annotated[Text, Option(Group.PARTICIPANTS, "URL")] = ""
    """Address of the study (default: that in invites.csv)."""


class CloseConfig(FolderOptions):
    """The options of `didact study close`."""

    reopen: Annotated[Switch, Option(Group.STUDY, flag="--open")] = False
    """Accept answers again."""


class SimulateConfig(FolderOptions):
    """The options of `didact study simulate`. `simulate_answers` takes them by the same names."""

    people: Annotated[Count | None, Option(Group.PARTICIPANTS, "N")] = None
    """Synthetic people (default: as many as invited)."""
    worths: Values = None
    """Ranking: log-worths: lime=1 (default: 0.5 apart)."""
    accuracies: Values = None
    """Simulation: accuracy per cohort: none=0.6,lime=0.7."""
    means: Values = None
    """Rating: mean of each method: lime=4,random=2."""
    ties: Annotated[float, Option(Group.PARTICIPANTS, "N")] = 0.2
    """Ranking: how readily people make ties."""
    spread: Annotated[float, Option(Group.PARTICIPANTS, "N")] = 0.0
    """Standard deviation between people."""
    item_spread: Annotated[float, Option(Group.PARTICIPANTS, "N")] = 0.0
    """Standard deviation between items."""
    seed: Annotated[Seed, Option(Group.ADVANCED, "N")] = 0
    """Seed of the answers."""


class AnalyzeConfig(FolderOptions):
    """The options of `didact study analyze`. `analyze_study` takes them by the same names."""

    difference: Annotated[float | None, Option(Group.STATISTICS, "N")] = None
    """Difference to detect: estimate how many people it takes."""
    leave_out: Annotated[tuple[str, ...], Option(Group.STATISTICS, "PEOPLE", split_list)] = ()
    """People to leave out: p03,p07."""
    level: Annotated[float, Option(Group.STATISTICS, "SHARE")] = 0.95
    """Confidence level of the intervals."""
    replicates: Annotated[Count, Option(Group.STATISTICS, "N")] = 2000
    """Bootstrap samples of people and items."""
    seed: Annotated[Seed, Option(Group.STATISTICS, "N")] = 0
    """Seed of the bootstrap."""
    figures: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Also write charts (PNG, SVG) and tables (CSV, LaTeX)."""


class ExportConfig(FolderOptions):
    """The options of `didact study export`."""

    out: Annotated[Path, Option(Group.OUTPUT, "FILE")]
    """answers.csv, .json or .parquet."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""
    names: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Include people's names, where known."""


class EraseConfig(FolderOptions):
    """The options of `didact study erase`."""

    person: Annotated[str, Option(Group.STUDY, "PERSON", is_argument=True)]
    """The person's code: p07."""
    yes: Annotated[Switch, Option(Group.STUDY)] = False
    """Do not ask for confirmation."""
