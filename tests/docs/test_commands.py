"""Every command that README and docs show exists, with every option they give it."""

import re
import shlex

import pytest
import typer
from pages import PAGES, ROOT, blocks, commands, name_of

from didact.cli.main import app
from didact.cli.options import config_of
from didact.errors import DidactError

SHOWN = [
    (block, line) for page in PAGES for block in blocks(page) if block.language == "sh" for line in commands(block)
]
# Commands in a line of text or in a table: `didact data list [--json]`.
INLINE = [
    (page, line)
    for page in PAGES
    for line in re.findall(r"`(didact [^`]+)`", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M))
]


def command_of(words):
    """The command that words begin with, in its context, and the words that are left."""
    command = typer.main.get_command(app)
    context = command.make_context("didact", [], resilient_parsing=True)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, context, words


def parsed(words):
    """Options read as the command line reads them; nothing is run, and files need not be there."""
    command, context, words = command_of(words)
    assert not hasattr(command, "commands"), "a group is no command"
    context = command.make_context(command.name, list(words), parent=context)
    kind = getattr(command.callback, "config_class", None)
    if kind is not None:
        given = {name: value for name, value in context.params.items() if name in kind.model_fields}
        try:
            config_of(kind, given)
        except DidactError as error:
            wrong = [fault for fault in getattr(error, "faults", ()) if "must be" in fault]
            assert not wrong, wrong
    return context


@pytest.mark.parametrize(("block", "line"), SHOWN, ids=lambda one: getattr(one, "where", None) or one[:60])
def test_a_command_of_a_block_parses(block, line):
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{re.escape(words[1])}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), line
    elif words[0] in ("pip", "jupyter"):
        assert block.skipped == "it installs packages", line
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), line
    else:
        assert words[0] == "didact", f"{block.where}: {line}"
        parsed(words[1:])


@pytest.mark.parametrize(("page", "line"), INLINE, ids=lambda one: one[:60] if isinstance(one, str) else name_of(one))
def test_a_command_in_a_line_exists(page, line):
    """What may be left out stands in brackets, what is left out as an ellipsis: only names are checked."""
    command, _, words = command_of(line.replace("[", " ").replace("]", " ").split()[1:])
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, f"{name_of(page)}: {line}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "no command 'nothing'"),
        ("learn", "a group"),
        ("explain --modell M text", "modell"),
        ("explain text", "model"),
        ("explain --rows many --model M", "integer"),
        ("report", "run"),
    ],
)
def test_what_does_not_exist_is_noticed(line, said):
    with pytest.raises(Exception, match=r".") as caught:
        parsed(shlex.split(line))
    assert said in f"{caught.value} {getattr(caught.value, 'message', '')} {getattr(caught.value, 'param', '')}"


def test_every_command_is_on_the_page_of_commands():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app)
    missing = []
    for name, one in command.commands.items():
        own = [f"{name} {each}" for each in getattr(one, "commands", {})] or [name]
        missing += [each for each in own if not re.search(rf"^\| `didact {each}\b", page, re.MULTILINE)]
    assert missing == []
