"""Help of every command: it fits 80 columns, every option is described, and its examples are commands that exist."""

import re
import shlex
from functools import cache
from itertools import pairwise

import pytest
import typer
from typer.core import TyperArgument
from typer.testing import CliRunner

from didact.cli import help as printing
from didact.cli.main import app
from didact.config import Group

COLUMNS = 80


def walk(command, path=()):
    yield path, command
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from walk(subcommand, (*path, name))


ROOT = typer.main.get_command(app)
COMMANDS = dict(walk(ROOT))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}
every_command = pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "didact")
every_leaf = pytest.mark.parametrize("path", LEAVES, ids=" ".join)


@cache
def help_of(path, columns=COLUMNS):
    done = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(columns)}, prog_name="didact")
    assert done.exit_code == 0, done.output
    return done.output


def examples_of(text):
    """The command lines after `Examples:`, with continued lines joined."""
    _, _, after = text.partition("Examples:\n")
    return [line.strip() for line in after.replace("\\\n", " ").splitlines() if line.strip()]


def panel(text, title):
    """The lines of one panel."""
    found = re.search(rf"^╭─ {re.escape(title)} ─+╮\n(.*?)^╰", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no panel {title!r}"
    return [line.strip("│").strip() for line in found[1].splitlines()]


@every_command
def test_it_fits_80_columns_and_nothing_is_cut(path):
    text = help_of(path)
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert "…" not in text
    assert not re.search(r"<\w|\[x|\[\[|\{\w+\}", text), "types of typer"


@every_command
def test_every_option_is_shown_whole_with_a_help_text(path):
    text = " ".join(line.strip("│ ") for line in help_of(path).splitlines())
    for param in COMMANDS[path].params:
        if getattr(param, "hidden", False):
            continue
        assert param.help, param.name
        assert param.help.endswith("."), param.help
        assert all(name in text for name in (*param.opts, *param.secondary_opts) if name.startswith("-"))
        assert param.help.removesuffix(".").removesuffix(")") in " ".join(text.split())


@every_command
def test_values_are_named(path):
    """`--rows N`: an option says what it takes, and an argument what it is."""
    for param in COMMANDS[path].params:
        if isinstance(param, TyperArgument) or not param.is_flag:
            assert param.metavar, param.name
            assert param.metavar.strip("[]…{}<>") == param.metavar


@every_leaf
def test_options_are_in_panels_that_all_commands_share(path):
    titles = re.findall(r"^╭─ (.*?) ─+╮$", help_of(path), re.MULTILINE)
    assert set(titles) <= {"Arguments", "Options", *Group}
    panels = list(Group)
    ranks = [panels.index(title) for title in titles if title in panels]
    assert ranks == sorted(ranks)


@every_command
def test_examples_are_commands_that_parse(path):
    examples = examples_of(help_of(path))
    assert len(examples) >= 2
    for line in examples:
        name, *words = shlex.split(line)
        assert name == "didact"
        command, context = ROOT, None
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        command.make_context(command.name, list(words), parent=context)


@every_leaf
def test_examples_show_the_command_itself(path):
    assert all(line.startswith(f"didact {' '.join(path)}") for line in examples_of(help_of(path)))


def test_a_continued_example_can_be_copied():
    """A space after the backslash would end the command there."""
    text = help_of(("compare",))
    assert re.search(r"\\$", text, re.MULTILINE)
    assert not re.search(r"\\ +$", text, re.MULTILINE)


def test_the_commands_are_grouped_with_a_line_each():
    text = help_of(())
    groups = {
        "Start here": ["demo", "explain", "compare", "report"],
        "Measure": ["combine", "metrics", "agree", "sanity", "cost", "methods", "audit"],
        "Learn": ["train", "learn"],
        "Data and people": ["data", "study"],
    }
    for title, names in groups.items():
        assert [line.split()[0] for line in panel(text, title)] == names
    assert text.index("Start here") < text.index("Measure") < text.index("--version")


@pytest.mark.parametrize("group", ["audit", "learn", "data", "study"])
def test_a_group_has_a_line_for_each_command(group):
    assert [line.split()[0] for line in panel(help_of((group,)), "Commands")] == list(ROOT.commands[group].commands)


@pytest.mark.parametrize(
    ("path", "usage"),
    [
        ("explain", "didact explain [OPTIONS] [TEXT...]"),
        ("compare", "didact compare [OPTIONS] [PLAN.toml]"),
        ("methods", "didact methods [OPTIONS] [NAME]"),
        ("report", "didact report [OPTIONS] RUN"),
        ("data show", "didact data show [OPTIONS] DATA"),
        ("study erase", "didact study erase [OPTIONS] STUDY PERSON"),
        ("study", "didact study [OPTIONS] COMMAND [ARGS]..."),
    ],
)
def test_usage(path, usage):
    assert f" Usage: {usage}\n" in help_of(tuple(path.split()))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("sanity", "--model MODEL        Folder or hub name of the model (required)."),
        ("sanity", "--rows N             Use only the first N rows (default: 100)."),
        ("compare", "--soft-labels/--hard         Train on probabilities, or on predicted labels."),
        ("metrics", "--control/--no-control  Add random scores as a control (default: --control)."),
        ("study new", "--database URL       SQLAlchemy URL of answers (or $DIDACT_STUDY_DATABASE)."),
    ],
)
def test_a_line_of_an_option(path, line):
    """Flags show no type, values a short name; defaults follow in brackets."""
    assert f"│ {line} " in help_of(tuple(path.split()))


def test_paragraphs_of_docstrings_are_joined():
    """A line ends where the next word does not fit, not where the docstring has a line break."""
    text = help_of(("compare",)).partition("╭")[0]
    lines = text.split("\n\n")[2].splitlines()
    assert len(lines) > 2
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split()[0]) >= COLUMNS


def test_lines_do_not_get_longer_than_people_read():
    text = help_of(("explain",), columns=200)
    assert max(len(line) for line in text.splitlines()) == printing.WIDEST


def test_a_narrow_terminal_cuts_nothing():
    assert "…" not in help_of(("explain",), columns=50)


def test_a_group_without_a_command_prints_its_help():
    done = CliRunner().invoke(app, ["study"], env={"COLUMNS": str(COLUMNS)}, prog_name="didact")
    assert "Examples:" in done.output


@every_command
def test_it_is_plain_english(path):
    text = " ".join(line.strip("│ ") for line in help_of(path).splitlines())
    assert not re.search(r"\b(so many|goes on|told|kept|anew|nobody|as many as cores)\b", text)
