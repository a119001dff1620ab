"""Options as fields of a class. The command line, TOML files and keyword arguments are views of these fields.

`Config` is the base class of all of them. `ModelOptions`, `DataOptions` and `TrainingOptions` are groups that commands
share. The docstring of a field is its help text. To add an option, add a field to the config of its function.
"""

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from didact.errors import PlanError
from didact.field_types import (
    BatchSize,
    Columns,
    Epochs,
    Integer,
    Name,
    Names,
    Positive,
    Switch,
    Threads,
    parse_classes,
    parse_columns,
)
from didact.limits import MAX_LENGTH, shown
from didact.registry import unknown_name_message

log = logging.getLogger(__name__)

TRUST: Final = "trust_remote_code"


class Group(StrEnum):
    """The panels in which `--help` lists options, in their order, for all commands."""

    GENERAL = "Options"
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
                super().__init__(**self.current_entries(entries, faults))
            except ValidationError as error:
                faults += [fault for item in error.errors() for fault in self._faults_of(item)]
            if faults:
                raise self.fault_list(faults)

    @classmethod
    def of(
        cls: "type[C]", entries: Mapping[str, object], *, objects: Iterable[str] = (), faults: Iterable[str] = ()
    ) -> C:
        """The config of these entries, complete for a call. `objects` stand in for fields; `faults` are added."""
        name_faults: list[str] = []
        fields = cls.current_entries(entries, name_faults)
        missing = [name for name in cls.NEEDED if name not in fields and name not in objects]
        faults = [*faults, *(f"{name}: missing; give {cls.NEEDED[name]} ({flag_of(name)})." for name in missing)]
        try:
            config = cls(**fields)
        except PlanError as error:
            raise cls.fault_list([*name_faults, *error.faults, *faults]) from None
        if name_faults or faults:
            raise cls.fault_list([*name_faults, *faults])
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
    def current_entries(
        cls, entries: Mapping[str, object], faults: list[str], *, warns: bool = True
    ) -> dict[str, object]:
        """The entries under their present names, without those that are None or retired."""
        fields = {name: value for name, value in entries.items() if value is not None}
        for old, new in cls.RENAMED.items():
            if old in fields and new in fields:
                faults.append(f"{old}: the former name of {new}, and both were given. Give {new} alone.")
                del fields[old]
            elif old in fields:
                fields[new] = fields.pop(old)
                if warns:
                    log.warning("%s is now called %s. The former name still works.", old, new)
        for name in [name for name in cls.RETIRED if name in fields]:
            del fields[name]
            if warns:
                log.warning("%s: no longer an option, and ignored. %s", name, cls.RETIRED[name][1])
        return fields

    def with_fields(self: C, **changes: Any) -> C:
        """A copy with some fields changed, which are not checked."""
        return self.model_copy(update=changes)

    def explicit_fields(self) -> dict[str, object]:
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
            return [f"{name}: {unknown_name_message(name.replace('_', ' '), str(value), choices)}"]
        return [f"{name}: {item['msg'][0].lower()}{item['msg'][1:]}, got {shown(value)}."]


def unknown_entry(cls: type[Config], name: str, names: Iterable[str] = (), *, kind: str = "") -> str:
    """The sentence that answers an entry that does not exist, with the nearest names; without any, all names."""
    field_names = list(names or (field for field in cls.model_fields if field not in ("plan", "progress")))
    former = {old: new for old, new in cls.RENAMED.items() if new in field_names}
    matches = difflib.get_close_matches(name[:200], [*field_names, *former], n=3, cutoff=0.6)
    suggestions = dict.fromkeys(former.get(match, match) for match in matches)
    hint = (
        f"Did you mean {' or '.join(map(repr, suggestions))}?"
        if suggestions
        else f"Known: {', '.join(sorted(field_names))}."
    )
    return f"There is no {kind or cls.KIND} named {name!r}. {hint}"


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def option_of(field: FieldInfo) -> Option | None:
    """How the command line shows a field; None if it does not."""
    return next((item for item in field.metadata if isinstance(item, Option)), None)


class ModelOptions(Config):
    """Which model, and how it is loaded."""

    RENAMED: ClassVar[Mapping[str, str]] = {"length": "max_length"}

    model: Annotated[Name, Option(Group.MODEL, "MODEL")]
    """Folder or hub name of the model."""
    task: Annotated[Name | None, Option(Group.MODEL, "TASK")] = None
    """pair for a model that reads two texts."""
    max_length: Annotated[Annotated[int, Integer(1, MAX_LENGTH)] | None, Option(Group.MODEL, "N")] = None
    """Maximum tokens the model reads."""
    truncate: Annotated[Switch, Option(Group.MODEL)] = False
    """Cut rows that are too long for the model."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu, cuda, mps, or auto for all GPUs."""
    revision: Annotated[Name | None, Option(Group.MODEL, "NAME")] = None
    """Revision of a model on the hub."""
    trust_remote_code: Annotated[Switch, Option(Group.MODEL)] = False
    """Run code that comes with a model."""
    threads: Annotated[Threads | None, Option(Group.ADVANCED, "N")] = None
    """CPU threads (another number changes last digits)."""

    def loading(self) -> dict[str, Any]:
        """The keyword arguments of `load_teacher`."""
        return self.pick("task", "device", "max_length", "truncate", "revision", "trust_remote_code")


class DataOptions(Config):
    """Which data, and how they are read."""

    data: Annotated[Name, Option(Group.DATA, "DATA")]
    """A file, or a name from `didact data list`."""
    columns: Annotated[Columns, Option(Group.DATA, "ROLE=NAME", parse_columns, repeatable=True)] = {}
    """text=comment,label=verdict (label=none: no labels)."""
    classes: Annotated[Names, Option(Group.DATA, "NAMES", parse_classes)] = ()
    """The data's class names in model order: bad,good."""
    data_dir: Annotated[Name | None, Option(Group.DATA, "FOLDER")] = None
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
