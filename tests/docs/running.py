"""How tests run the blocks of a page: Python in one namespace, commands through the command line's runner."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from pages import Block, blocks, commands, name_of, small
from typer.testing import CliRunner

SERVE = "didact study serve"


def run_command(line: str) -> None:
    """One command line of didact, in this process. A server is started in a process of its own, and stopped."""
    from didact.cli.main import app

    words = shlex.split(line, comments=True)
    if line.startswith(SERVE):
        return start_and_stop(words[1:])
    found = CliRunner().invoke(app, words[1:])
    assert found.exit_code == 0, f"{line}\n{found.output}\n{found.exception!r}"
    return None


def start_and_stop(words: list[str]) -> None:
    """Serve on a free port until the address is printed."""
    command = [sys.executable, "-m", "didact.cli.main", *words, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        printed = [server.stderr.readline() for _ in range(2)]
        assert printed[0].startswith("The study is at http://127.0.0.1:"), printed
        assert printed[1].startswith("The organiser's link is in "), printed
    finally:
        server.terminate()
        server.communicate(timeout=60)


def run_block(block: Block, names: dict[str, Any], *, has_commands: bool) -> None:
    """One block at a small size. Python sees what earlier blocks of the page left in `names`."""
    if block.language == "python":
        # Line numbers in a traceback are those of the page.
        exec(compile("\n" * block.line + small(block.text), name_of(block.page), "exec"), names)
    elif block.language == "toml" and (file := re.match(r"# (\S+\.toml)\n", block.text)):
        Path(file[1]).write_text(small(block.text), encoding="utf-8")
    elif block.language == "sh" and has_commands:
        for line in commands(block):
            if line.startswith("didact "):
                run_command(small(line))


def run_page(page: Path, *, has_commands: bool) -> None:
    """All blocks of a page that are not skipped, in order."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        if block.skipped is None:
            run_block(block, names, has_commands=has_commands)
