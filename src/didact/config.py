"""Options as fields of a class. The command line, TOML files and keyword arguments are views of these fields.

`Config` is the base class of all of them. `ModelOptions`, `DataOptions` and `TrainingOptions` are groups that commands
share. The docstring of a field is its help text. To add an option, add a field to the config of its function.
"""

import csv
import difflib
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from didact.errors import DidactError, OptionError, PlanError
from didact.limits import MOST_AT_ONCE, MOST_EPOCHS, MOST_LENGTH, MOST_ROWS, most_threads, shown
from didact.registry import plain, unknown

log = logging.getLogger(__name__)

TRUST: Final = "trust_remote_code"
OPTIONAL_ROLES: Final = ("label", "id", "rationale", "alignments")


class Group(StrEnum):
    """The panels in which `--help` lists options, in their order, for all commands."""

    MODEL = "Model"
    DATA = "Data"
    METHOD = "Method"
    STUDY = "Study"
    PARTICIPANTS = "Participants"
    TRAINING = "Training"
    STATISTICS = "Statistics"
    OUTPUT = "Output"
    ADVANCED = "Advanced"


@dataclass(frozen=True)
class Option:
    """Where and how the command line shows a field. A field without one is not on the command line.

    `read` turns the text of a flag into a value (the texts, if the flag is `repeatable`); without it the type of the
    field decides. `default` replaces the default that the help shows ("-" for none); `flag` replaces `--name`.
    """

    group: Group
    metavar: str = ""
    read: Callable[[Any], Any] | None = None
    repeatable: bool = False
    is_argument: bool = False
    flag: str = ""
    default: str = ""
    envvar: str | None = None

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "group": str(self.group)}


@dataclass(frozen=True)
class Integer:
    """A whole number between two bounds. Numbers of numpy are numbers; true and false are not."""

    least: int
    most: int

    def __call__(self, value: Any) -> int:
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, int) or not self.least <= number <= self.most:
            raise OptionError(f"must be an integer from {self.least} to {self.most:,}, got {shown(number)}.")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return BeforeValidator(self).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number:
    """A finite number that a test accepts; `wanted` says which ones."""

    wanted: str
    accepts: Callable[[float], bool]

    def __call__(self, value: Any) -> float:
        number = plain(value)
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if not is_number or not self.accepts(number):
            raise OptionError(f"must be a number {self.wanted}, got {shown(number)}.")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        # Nothing follows: an integer stays an integer, so that keys that hold it stay equal.
        return PlainValidator(self).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "number", "description": self.wanted}


def check_word(value: Any) -> str:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise OptionError(f"a name is wanted, not {shown(value)}.")
    return str(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"true or false is wanted, not {shown(value)}.")
    return value


def check_seed(value: Any) -> int:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
        raise OptionError(f"a seed is a whole number from 0 to 2^31, not {shown(number)}.")
    return number


def _columns(value: Any) -> dict[str, str | None]:
    if not isinstance(value, Mapping):
        raise OptionError(f'a table of roles and columns is wanted, e.g. text = "comment", not {shown(value)}.')
    return {str(role): None if column in (None, "") else str(column) for role, column in value.items()}


def each(values: Any, check: Callable[[Any], Any], kind: str) -> tuple[Any, ...]:
    """Every value of a list, checked. Reports all faults, and values that are there twice."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise OptionError(f"a list of {kind} is wanted, not {shown(values)}.")
    checked: list[Any] = []
    faults: list[str] = []
    for value in values:
        try:
            checked.append(check(plain(value)))
        except DidactError as error:
            faults.append(str(error))
    names = [str(value) for value in checked]
    faults += [f"{name} is there twice." for name in sorted({name for name in names if names.count(name) > 1})]
    if faults:
        raise PlanError("", faults)
    return tuple(checked)


Word = Annotated[str, BeforeValidator(check_word)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Seed = Annotated[int, BeforeValidator(check_seed)]
Threads = Annotated[int, Integer(1, most_threads())]
BatchSize = Annotated[int, Integer(1, MOST_AT_ONCE)]
Epochs = Annotated[int, Integer(1, MOST_EPOCHS)]
Count = Annotated[int, Integer(1, MOST_ROWS)]
Positive = Annotated[float, Number("above 0", lambda number: number > 0)]
NotNegative = Annotated[float, Number("of 0 or more", lambda number: number >= 0)]
Share = Annotated[float, Number("from 0 to below 1", lambda number: 0 <= number < 1)]
Words = Annotated[tuple[str, ...], BeforeValidator(lambda values: each(values, check_word, "names"))]
Columns = Annotated[dict[str, str | None], BeforeValidator(_columns)]


def parse_columns(values: Iterable[str]) -> dict[str, str | None]:
    """The columns by role from `["text=comment,label=verdict"]`. `label=` and `label=none` mean no labels."""
    columns: dict[str, str | None] = {}
    for part in (part.strip() for value in values for part in value.split(",")):
        role, sign, column = (piece.strip() for piece in part.partition("="))
        if not sign or not role:
            raise OptionError(f"--columns takes role=column, as in --columns text=comment,label=verdict, not {part!r}.")
        if role in columns:
            raise OptionError(f"--columns names {role!r} twice: {columns[role] or 'none'} and {column or 'none'}.")
        is_optional = role in OPTIONAL_ROLES
        if not column and not is_optional:
            raise OptionError(f"--columns {role}= names no column. Only {', '.join(OPTIONAL_ROLES)} can be left out.")
        columns[role] = None if is_optional and column.lower() in ("", "none") else column
    return columns


def parse_classes(text: str) -> list[str]:
    """The names with commas between them, in quotes where a name holds a comma."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


C = TypeVar("C", bound="Config")


class Config(BaseModel):
    """The options of one function. An unknown name is answered with the nearest; all faults are reported at once.

    `KIND` is what an entry is called in messages. `NEEDED` are fields that must be there when a function is called,
    with what to give; objects may stand in for them. `RENAMED` are former names with the present ones, `RETIRED` former
    options with their type and the reason why they are ignored: both still work, with a warning.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    KIND: ClassVar[str] = "option"
    NEEDED: ClassVar[Mapping[str, str]] = {}
    RENAMED: ClassVar[Mapping[str, str]] = {}
    RETIRED: ClassVar[Mapping[str, tuple[type, str]]] = {}

    if not TYPE_CHECKING:  # type checkers know the fields as keyword arguments

        def __init__(self, **entries: Any) -> None:
            faults: list[str] = []
            try:
                super().__init__(**self.current(entries, faults))
            except ValidationError as error:
                faults += [fault for item in error.errors() for fault in self._faults_of(item)]
            if faults:
                raise self.fault_list(faults)

    @classmethod
    def of(
        cls: "type[C]", entries: Mapping[str, object], *, objects: Iterable[str] = (), faults: Iterable[str] = ()
    ) -> C:
        """The config of these entries, complete for a call. `objects` stand in for fields; `faults` are added."""
        collected: list[str] = []
        fields = cls.current(entries, collected)
        missing = [name for name in cls.NEEDED if name not in fields and name not in objects]
        faults = [*faults, *(f"{name}: missing; give {cls.NEEDED[name]} ({flag_of(name)})." for name in missing)]
        try:
            config = cls(**fields)
        except PlanError as error:
            raise cls.fault_list([*collected, *error.faults, *faults]) from None
        if collected or faults:
            raise cls.fault_list([*collected, *faults])
        return config

    @classmethod
    def fault_list(cls, faults: Sequence[str]) -> PlanError:
        """The error that lists all faults."""
        title = "The plan has" if cls.KIND == "entry of a plan" else "The options have"
        return PlanError(f"{title} {len(faults)} fault{'s' * (len(faults) > 1)}; nothing was loaded:", faults)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """A class inherits the former names of all its bases."""
        cls.RENAMED = {old: new for base in reversed(cls.__mro__) for old, new in getattr(base, "RENAMED", {}).items()}

    @classmethod
    def current(cls, entries: Mapping[str, object], faults: list[str], *, warns: bool = True) -> dict[str, object]:
        """The entries under their present names, without those that are None or retired."""
        fields = {name: value for name, value in entries.items() if value is not None}
        for old, new in cls.RENAMED.items():
            if old in fields and new in fields:
                faults.append(f"{old}: the former name of {new}, and both were given. Give {new} alone.")
                del fields[old]
            elif old in fields:
                fields[new] = fields.pop(old)
                if warns:
                    log.warning("%s is now named %s. The former name still works.", old, new)
        for name in [name for name in cls.RETIRED if name in fields]:
            del fields[name]
            if warns:
                log.warning("%s: no longer an option, and ignored. %s", name, cls.RETIRED[name][1])
        return fields

    def with_fields(self: C, **changes: Any) -> C:
        """A copy with some fields changed, which are not checked."""
        return self.model_copy(update=changes)

    def given(self) -> dict[str, object]:
        """The fields that were given, by name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    @classmethod
    def default(cls, name: str) -> Any:
        """The default of a field."""
        return cls.model_fields[name].default

    def pick(self, *names: str, **renamed: str) -> dict[str, Any]:
        """Fields as keyword arguments: by their own names, or by others (`rate="learning_rate"`)."""
        return {name: getattr(self, field) for name, field in [*zip(names, names, strict=True), *renamed.items()]}

    @classmethod
    def _faults_of(cls, item: Any) -> list[str]:
        """What pydantic found wrong with one entry, in our words."""
        name, value, error = str(item["loc"][0]), item["input"], item.get("ctx", {}).get("error")
        if item["type"] == "extra_forbidden":
            return [unknown_entry(cls, name)]
        if isinstance(error, PlanError):
            return [f"{name}: {fault}" for fault in error.faults]
        if error is not None:
            return [f"{name}: {error}"]
        if item["type"] == "missing":
            return [f"{name}: missing ({flag_of(name)}). {cls.model_fields[name].description}"]
        if item["type"] == "literal_error":
            choices = re.findall(r"'(.*?)'", item["ctx"]["expected"])
            return [f"{name}: {unknown(name.replace('_', ' '), str(value), choices)}"]
        return [f"{name}: {item['msg'][0].lower()}{item['msg'][1:]}, got {shown(value)}."]


def unknown_entry(cls: type[Config], name: str, names: Iterable[str] = (), *, kind: str = "") -> str:
    """The sentence that answers an entry that does not exist, with the nearest names; without any, all names."""
    present = list(names or (field for field in cls.model_fields if field not in ("plan", "progress")))
    former = {old: new for old, new in cls.RENAMED.items() if new in present}
    hint = _near(name, [*present, *former], former) or f" Known: {', '.join(sorted(present))}."
    return f"There is no {kind or cls.KIND} named {name!r}.{hint}"


def _near(name: str, names: Sequence[str], former: Mapping[str, str] | None = None) -> str:
    near = difflib.get_close_matches(name[:200], names, n=3, cutoff=0.6)
    meant = dict.fromkeys((former or {}).get(other, other) for other in near)
    return f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def option_of(field: FieldInfo) -> Option | None:
    """How the command line shows a field; None if it does not."""
    return next((item for item in field.metadata if isinstance(item, Option)), None)


class ModelOptions(Config):
    """Which model, and how it is loaded."""

    RENAMED: ClassVar[Mapping[str, str]] = {"length": "max_length"}

    model: Annotated[Word, Option(Group.MODEL, "MODEL")]
    """Folder or hub name of the model."""
    task: Annotated[Word | None, Option(Group.MODEL, "TASK")] = None
    """pair for a model that reads two texts."""
    max_length: Annotated[Annotated[int, Integer(1, MOST_LENGTH)] | None, Option(Group.MODEL, "N")] = None
    """Maximum tokens the model reads."""
    truncate: Annotated[Switch, Option(Group.MODEL)] = False
    """Cut rows that are too long for the model."""
    device: Annotated[Word | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu, cuda, mps, or auto for all GPUs."""
    revision: Annotated[Word | None, Option(Group.MODEL, "NAME")] = None
    """Revision of a model on the hub."""
    trust_remote_code: Annotated[Switch, Option(Group.MODEL)] = False
    """Run code that comes with a model."""
    threads: Annotated[Threads | None, Option(Group.ADVANCED, "N")] = None
    """CPU threads (another number changes the last digits)."""

    def loading(self) -> dict[str, Any]:
        """The keyword arguments of `load_teacher`."""
        return self.pick("task", "device", "max_length", "truncate", "revision", "trust_remote_code")


class DataOptions(Config):
    """Which data, and how they are read."""

    data: Annotated[Word, Option(Group.DATA, "DATA")]
    """A file, or a name from `didact data list`."""
    columns: Annotated[Columns, Option(Group.DATA, "ROLE=NAME", parse_columns, repeatable=True)] = {}
    """text=comment,label=verdict (label=none: no labels)."""
    classes: Annotated[Words, Option(Group.DATA, "NAMES", parse_classes)] = ()
    """The data's class names in model order: bad,good."""
    data_dir: Annotated[Word | None, Option(Group.DATA, "FOLDER")] = None
    """Folder with real data (default: $DIDACT_DATA)."""


class TrainingOptions(Config):
    """How something is trained; None leaves it to what is trained."""

    RENAMED: ClassVar[Mapping[str, str]] = {"rate": "learning_rate"}

    epochs: Annotated[Epochs | None, Option(Group.TRAINING, "N")] = None
    """Maximum number of epochs."""
    batch_size: Annotated[BatchSize | None, Option(Group.TRAINING, "N")] = None
    """Rows per training step."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate."""

    @property
    def training(self) -> dict[str, object]:
        """The fields that were given."""
        values = self.pick("epochs", "batch_size", "learning_rate")
        return {name: value for name, value in values.items() if value is not None}
