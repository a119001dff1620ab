"""The page of options and the schema of a plan are what the config classes say."""

import json
import sys
import tomllib

import pytest
import typer
from pages import DOCS

from didact.cli.main import app


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(DOCS))
    try:
        import make_config_reference

        yield make_config_reference
    finally:
        sys.path.remove(str(DOCS))


def test_both_are_current(script):
    """Otherwise run `python docs/make_config_reference.py`."""
    assert script.PAGE.read_text(encoding="utf-8") == script.page()
    assert script.SCHEMA.read_text(encoding="utf-8") == script.schema()


def test_every_command_that_has_a_config_is_on_the_page(script):
    root = typer.main.get_command(app)
    for name, kind in script.COMMANDS.items():
        command = root
        for part in name.split():
            command = command.commands[part]
        shown = {param.name for param in command.params if not getattr(param, "hidden", False)}
        fields = {field for field, info in kind.model_fields.items() if script.option_of(info) is not None}
        assert fields <= shown
        assert shown - fields <= {"as_json", "dry_run"}


def test_the_schema_knows_every_entry_of_a_plan(script):
    properties = json.loads(script.schema())["properties"]
    text = (DOCS / "compare.md").read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    entries = tomllib.loads(text)
    training = entries.pop("training")
    assert {*entries, *training} <= set(properties)
    assert properties["max_length"]["group"] == "Model"
    assert properties["seeds"]["description"] == "Number of seeds, or a list as in 0,1,2 (default: 8)."
