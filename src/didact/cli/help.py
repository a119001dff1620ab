"""Prints the help of commands: options in panels, one line each at 80 columns, and examples at the end.

typer's own help has a column for the type of each option (`<int range> [x>=0]`), which leaves little room for the
text. Here an option and its value share one column.
"""

from collections.abc import Callable, Iterable, Iterator
from textwrap import fill, indent
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from didact.cli.output import console
from didact.config import Group

WIDEST: Final = 100  # columns, since longer lines are hard to read
GAP: Final = 2  # columns between an option and its help
ARGUMENTS, COMMANDS = "Arguments", "Commands"

Function = TypeVar("Function", bound=Callable[..., Any])


class HelpCommand(TyperCommand):
    """A command that prints its help with `print_help`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return ["[OPTIONS]", *(_usage(param) for param in self.params if isinstance(param, TyperArgument))]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        print_help(self, ctx)


class HelpGroup(TyperGroup):
    """A group of commands that prints its help with `print_help`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        print_help(self, ctx)


def command(app: typer.Typer, name: str, *examples: str, panel: str | None = None) -> Callable[[Function], Function]:
    """Register a function as a command of `app`, with examples in the epilog of its help."""
    return app.command(name, cls=HelpCommand, epilog=epilog(*examples), rich_help_panel=panel)


def epilog(*examples: str) -> str:
    """Format command lines as an epilog. A line that ends with a backslash continues on the next."""
    lines = [line for example in examples for line in example.splitlines()]
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def print_help(cli_command: Any, ctx: Any) -> None:
    """Print usage, description, panels and examples of a command or a group."""
    screen = console(min(console().width, WIDEST))
    typer.echo("\n" + indent(cli_command.get_usage(ctx), " "))
    for paragraph in _paragraphs(cli_command.help or ""):
        typer.echo("\n" + indent(fill(paragraph, screen.width - 2, break_on_hyphens=False), " "))
    typer.echo()
    panels = _panels(cli_command, ctx)
    width = max((_name(line).cell_len for lines in panels.values() for line in lines), default=0)
    for title in sorted(panels, key=_panel_rank):
        screen.print(_panel(title, panels[title], width))
    if cli_command.epilog:
        typer.echo("\n" + indent(cli_command.epilog, " "))  # not wrapped, so that examples can be copied


def _panel_rank(title: str) -> int:
    """The order of panels: arguments, commands, options."""
    order = (ARGUMENTS, COMMANDS, *Group)
    return order.index(title) if title in order else order.index(COMMANDS)


def _panels(cli_command: Any, ctx: Any) -> dict[str, list[Any]]:
    """Arguments, options and commands by the title of their panel. `--help` is last in the last panel of options."""
    panels: dict[str, list[Any]] = {}
    *params, help_option = cli_command.get_params(ctx)
    for param in params:
        if not getattr(param, "hidden", False):
            default = ARGUMENTS if isinstance(param, TyperArgument) else Group.GENERAL
            panels.setdefault(getattr(param, "rich_help_panel", None) or default, []).append(param)
    last = max((title for title in panels if title != ARGUMENTS), key=_panel_rank, default=Group.GENERAL)
    panels.setdefault(last, []).append(help_option)
    for name in cli_command.list_commands(ctx) if isinstance(cli_command, TyperGroup) else ():
        subcommand: Any = cli_command.get_command(ctx, name)
        if not subcommand.hidden:
            panels.setdefault(subcommand.rich_help_panel or COMMANDS, []).append(subcommand)
    return panels


def _panel(title: str, lines: Iterable[Any], width: int) -> Any:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(expand=True, padding=(0, GAP, 0, 0))
    table.add_column(width=width, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for line in lines:
        table.add_row(_name(line), Text(_description(line), overflow="fold"))
    return Panel(table, title=title, title_align="left", border_style="dim")


def _name(line: Any) -> Any:
    """`--rows N`, `--soft-labels/--hard`, an argument, or the name of a command."""
    from rich.text import Text

    if isinstance(line, TyperArgument):
        return Text(_metavar(line), style="bold cyan")
    if not hasattr(line, "opts"):
        return Text(line.name, style="bold cyan")
    name = Text(", ".join(sorted(line.opts, key=len)), style="bold cyan")
    if line.secondary_opts:
        name.append(f"/{line.secondary_opts[0]}")
    if not line.is_flag:
        name.append(f" {_metavar(line)}", style="yellow")
    return name


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _description(line: Any) -> str:
    """The help of an option with its default, or the first paragraph of a command's help."""
    if not hasattr(line, "opts"):
        return next(_paragraphs(line.short_help or line.help or ""), "")
    notes = list(_notes(line))
    text = " ".join((line.help or "").split())
    if not notes:
        return text
    text = text.removesuffix(".")
    has_brackets = text.endswith(")") and " (" in text and text.rindex(" (") + 1 == text.rindex("(")
    return f"{text[:-1]}; {'; '.join(notes)})." if has_brackets else f"{text} ({'; '.join(notes)})."


def _notes(param: Any) -> Iterator[str]:
    if param.required and not isinstance(param, TyperArgument):  # the usage line shows whether an argument is required
        yield "required"
    if isinstance(param.show_default, str):
        yield f"default: {param.show_default}"
    if param.envvar and getattr(param, "show_envvar", False):
        yield f"or ${param.envvar}"


def _usage(argument: Any) -> str:
    several = "..." if argument.nargs == -1 else ""
    return f"{_metavar(argument)}{several}" if argument.required else f"[{_metavar(argument)}{several}]"


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a docstring, each on one line."""
    for paragraph in text.partition("\f")[0].split("\n\n"):
        if paragraph.strip():
            yield " ".join(paragraph.split())
