"""Makes commands from config classes: a field is an option, its docstring the help, its group the panel."""

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic.fields import FieldInfo

from didact.config import Config, Group, Option, flag_of, option_of
from didact.errors import DidactError, OptionError, PlanError

C = TypeVar("C", bound=Config)
_SIMPLE = (bool, int, float, str, Path)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.", rich_help_panel=Group.OUTPUT)]


def configured(
    kind: type[C], callbacks: Mapping[str, Callable[..., Any]] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a function `f(config, …)`: it gets the options of a config class in addition to its own.

    `callbacks` are those of typer, by field. Former names become hidden options. All faults are reported at once, with
    the flag of each value that came from one.
    """

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        _, *declared = inspect.signature(function, eval_str=True).parameters.values()
        parameters = [
            _parameter(name, field, option, (callbacks or {}).get(name))
            for name, field in kind.model_fields.items()
            if (option := option_of(field)) is not None
        ]
        parameters += [*_former_options(kind), *declared]
        own_names = {parameter.name for parameter in declared}

        @wraps(function)
        def command(**values: Any) -> None:
            entries = {name: value for name, value in values.items() if name not in own_names}
            function(config_of(kind, entries), **{name: values[name] for name in own_names})

        keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        command.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
        command.config_class = kind  # type: ignore[attr-defined]  # to check a command line without running it
        return command

    return wrap


def config_of(kind: type[C], values: Mapping[str, Any]) -> C:
    """Make the config from the values of the command line."""
    entries: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        if value is None or value == []:
            continue
        try:
            entries[name] = _read(kind, name, value)
        except DidactError as error:
            faults.append(str(error) if str(error).startswith("--") else f"{flag_of(name)}: {error}")
    try:
        return kind.of(entries, faults=faults)
    except PlanError as error:
        flags = {kind.RENAMED.get(name, name): flag_of(name) for name in entries}
        raise PlanError(str(error).partition("\n")[0], [_with_flag(fault, flags) for fault in error.faults]) from None


def _with_flag(fault: str, flags: Mapping[str, str]) -> str:
    name, sign, text = fault.partition(": ")
    return f"{flags[name]}: {text}" if sign and name in flags else fault


def _read(kind: type[Config], name: str, value: Any) -> Any:
    """Parse the value of a flag. Text that is no number stays text, so that the field reports it with all faults."""
    field = kind.model_fields.get(kind.RENAMED.get(name, name))
    option = None if field is None else option_of(field)
    if field is None or option is None or not isinstance(value, str | list):
        return value
    if option.read is not None:
        if value == "":
            raise OptionError("must not be empty. Leave the option out for its default.")
        return option.read(value)
    number = _plain_type(field)
    if number in (int, float) and not option.repeatable:
        with contextlib.suppress(ValueError):
            return number(value)
    return value


def _parameter(name: str, field: FieldInfo, option: Option, callback: Callable[..., Any] | None) -> inspect.Parameter:
    """Make the option of a field. Its default is None, so that it does not override a value in a file."""
    annotation = _type(field, option)
    settings: dict[str, Any] = {"help": " ".join((field.description or "").split()), "metavar": option.metavar or None}
    is_required = field.is_required() and callback is None
    if option.is_argument:
        declared: Any = typer.Argument(**settings)
    else:
        names = option.flag or flag_of(name)
        declared = typer.Option(
            names, rich_help_panel=option.group, callback=callback, envvar=option.envvar, show_envvar=True,
            show_default=_default(field, option), **settings,
        )  # fmt: skip
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else None,
        annotation=Annotated[annotation if is_required else annotation | None, declared],
    )


def _default(field: FieldInfo, option: Option) -> str | bool:
    """The default that the help shows. False if the help text already names one."""
    default = field.default
    if option.default:
        return False if option.default == "-" else option.default
    if isinstance(default, bool):
        return option.flag.partition("/")[0] or flag_of("") if default else False
    is_shown = isinstance(default, str | int | float) and default != "" and "default" not in (field.description or "")
    return str(default).replace(",", ", ") if is_shown else False


def _type(field: FieldInfo, option: Option) -> Any:
    """The type for typer: text, if the field or its option parses the value."""
    if option.repeatable:
        return list[Path] if Path in typing.get_args(field.annotation) else list[str]
    plain = _plain_type(field)
    return str if option.read is not None or plain in (int, float) else plain


def _plain_type(field: FieldInfo) -> Any:
    return next((plain for plain in _SIMPLE if plain in _types(field.annotation)), str)


def _types(annotation: Any) -> set[Any]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union, Annotated):
        return {kind for argument in typing.get_args(annotation) for kind in _types(argument)}
    return {annotation} if isinstance(annotation, type) else set()


def _former_options(kind: type[Config]) -> list[inspect.Parameter]:
    """Hidden options: former names of fields, and retired options."""
    parameters = []
    for old, new in kind.RENAMED.items():
        field = kind.model_fields.get(new)
        option = None if field is None else option_of(field)
        if field is not None and option is not None:
            flag = flag_of(old)  # a second flag such as `--hard` exists only for the present name
            parameters.append(_hidden_option(old, _type(field, option), flag, f"Former name of {flag_of(new)}."))
    for name, (type_, _) in kind.RETIRED.items():
        parameters.append(_hidden_option(name, type_, flag_of(name), "Ignored."))
    return parameters


def _hidden_option(name: str, kind: Any, flag: str, text: str) -> inspect.Parameter:
    option = typer.Option(flag, hidden=True, help=text, metavar="VALUE")
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
