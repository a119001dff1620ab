"""Options as fields of config classes. The command line, TOML files and keyword arguments are views of these fields.

`Config` is the base class. `ModelOptions`, `DataOptions` and `TrainingOptions` are groups of options that commands
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
    """The panels of `--help`, in the order in which all commands show them."""

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
    """How the command line shows a field. A field without an `Option` is not on the command line.

    `read` converts the text of a flag (a list of texts if the flag is `repeatable`) into a value; without it the type
    of the field decides. `default` replaces the default shown in the help ("-" for none); `flag` replaces `--name`.
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
    """The options of one function. A PlanError lists all faults at once, unknown names with the closest matches.

    `KIND` is what messages call an entry. `NEEDED` maps required fields to what the caller should pass; objects may
    replace them. `RENAMED` maps former names to present ones. `RETIRED` maps former options to their type and the
    reason why they are ignored. Renamed and retired options are still accepted, with a warning.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    KIND: ClassVar[str] = "option"
    NEEDED: ClassVar[Mapping[str, str]] = {}
    RENAMED: ClassVar[Mapping[str, str]] = {}
    RETIRED: ClassVar[Mapping[str, tuple[type, str]]] = {}

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

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
        """Build a config that is complete for a call.

        `objects` names the required fields that objects replace. `faults` are added to those found here; if there are
        any, a PlanError lists them.
        """
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
        """The PlanError that lists all faults."""
        title = "The plan has" if cls.KIND == "entry of a plan" else "The options have"
        return PlanError(f"{title} {len(faults)} fault{'s' * (len(faults) > 1)}; nothing was loaded:", faults)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Inherit the former names of all base classes."""
        cls.RENAMED = {old: new for base in reversed(cls.__mro__) for old, new in getattr(base, "RENAMED", {}).items()}

    @classmethod
    def current_entries(
        cls, entries: Mapping[str, object], faults: list[str], *, warns: bool = True
    ) -> dict[str, object]:
        """The entries under their present names, without None and retired options. Adds conflicts to `faults`."""
        fields = {name: value for name, value in entries.items() if value is not None}
        for old, new in cls.RENAMED.items():
            if old in fields and new in fields:
                faults.append(f"{old}: this is the former name of {new}, and both were given. Give only {new}.")
                del fields[old]
            elif old in fields:
                fields[new] = fields.pop(old)
                if warns:
                    log.warning("%s is now called %s. The former name still works.", old, new)
        for name in [name for name in cls.RETIRED if name in fields]:
            del fields[name]
            if warns:
                log.warning("%s is no longer an option and is ignored. %s", name, cls.RETIRED[name][1])
        return fields

    def with_fields(self: C, **changes: Any) -> C:
        """A copy with these fields changed. The new values are not validated."""
        return self.model_copy(update=changes)

    def explicit_fields(self) -> dict[str, object]:
        """The fields that the caller set, by name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    @classmethod
    def default(cls, name: str) -> Any:
        """The default of a field."""
        return cls.model_fields[name].default

    def pick(self, *names: str, **renamed: str) -> dict[str, Any]:
        """Fields as keyword arguments, under their own names or under others (`rate="learning_rate"`)."""
        return {name: getattr(self, field) for name, field in [*zip(names, names, strict=True), *renamed.items()]}

    @classmethod
    def _faults_of(cls, item: Any) -> list[str]:
        """Translate one pydantic error into messages."""
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
    """The message for an unknown entry, with the closest names or, if none is close, all names."""
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
    """The flag of a field: `--batch-size` for `batch_size`."""
    return f"--{name.replace('_', '-')}"


def option_of(field: FieldInfo) -> Option | None:
    """The `Option` of a field; None if the field is not on the command line."""
    return next((item for item in field.metadata if isinstance(item, Option)), None)


class ModelOptions(Config):
    """Which model to use and how to load it."""

    RENAMED: ClassVar[Mapping[str, str]] = {"length": "max_length"}

    model: Annotated[Name, Option(Group.MODEL, "MODEL")]
    """Folder or hub name of the model."""
    task: Annotated[Name | None, Option(Group.MODEL, "TASK")] = None
    """Task of the model if it does not say, as in pair (two texts)."""
    max_length: Annotated[Annotated[int, Integer(1, MAX_LENGTH)] | None, Option(Group.MODEL, "N")] = None
    """Maximum tokens the model reads."""
    truncate: Annotated[Switch, Option(Group.MODEL)] = False
    """Cut rows that are too long for the model."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu (default), cuda, mps, or auto for all GPUs."""
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
    """Which data to use and how to read them."""

    data: Annotated[Name, Option(Group.DATA, "DATA")]
    """A file, or a name from `didact data list`."""
    columns: Annotated[Columns, Option(Group.DATA, "ROLE=NAME", parse_columns, repeatable=True)] = {}
    """By role: text=comment,label=verdict (or label=none)."""
    classes: Annotated[Names, Option(Group.DATA, "NAMES", parse_classes)] = ()
    """The data's class names in model order: bad,good."""
    data_dir: Annotated[Name | None, Option(Group.DATA, "FOLDER")] = None
    """Folder with real data (default: $DIDACT_DATA)."""


class TrainingOptions(Config):
    """How to train. None keeps the default of whatever is trained."""

    RENAMED: ClassVar[Mapping[str, str]] = {"rate": "learning_rate"}

    epochs: Annotated[Epochs | None, Option(Group.TRAINING, "N")] = None
    """Maximum number of epochs."""
    batch_size: Annotated[BatchSize | None, Option(Group.TRAINING, "N")] = None
    """Rows per training step."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate."""

    @property
    def training(self) -> dict[str, object]:
        """The training fields that are not None."""
        values = self.pick("epochs", "batch_size", "learning_rate")
        return {name: value for name, value in values.items() if value is not None}
