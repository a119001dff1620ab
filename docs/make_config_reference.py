"""Writes the page of options and the JSON schema of a plan: `python docs/make_config_reference.py`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from didact.auditing.config import AuditConfig
from didact.cli.configs import (
    AgreeConfig,
    CostConfig,
    ExplainConfig,
    L2eConfig,
    MetricsConfig,
    SanityConfig,
    SmatConfig,
)
from didact.comparing.config import CompareConfig
from didact.config import Config, Group, flag_of, option_of
from didact.learning.config import TrainConfig
from didact.study.config import (
    AnalyzeConfig,
    CloseConfig,
    EraseConfig,
    ExportConfig,
    InviteConfig,
    ServeConfig,
    SimulateConfig,
    StudyConfig,
)

FOLDER: Final = Path(__file__).parent / "reference"
PAGE: Final = FOLDER / "config.md"
SCHEMA: Final = FOLDER / "compare.schema.json"
COMMANDS: Final[dict[str, type[Config]]] = {
    "compare": CompareConfig,
    "audit run": AuditConfig,
    "explain": ExplainConfig,
    "train": TrainConfig,
    "learn smat": SmatConfig,
    "learn l2e": L2eConfig,
    "metrics": MetricsConfig,
    "agree": AgreeConfig,
    "sanity": SanityConfig,
    "cost": CostConfig,
    "study new": StudyConfig,
    "study serve": ServeConfig,
    "study invite": InviteConfig,
    "study close": CloseConfig,
    "study simulate": SimulateConfig,
    "study analyze": AnalyzeConfig,
    "study export": ExportConfig,
    "study erase": EraseConfig,
}
HEAD: Final = """# Options

Made by `docs/make_config_reference.py` from the config classes. One class per command is the only list of its options:
the flags of the command line are made from it, and so are the keyword arguments of `didact.compare` and
`didact.new_study`, and the entries of a [plan](../compare.md#the-plan). The schema of a plan, for editors that check
TOML, is [compare.schema.json](compare.schema.json).
"""


def schema() -> str:
    """The JSON schema of a plan."""
    return json.dumps(CompareConfig.model_json_schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """A table of options for each command, by their groups."""
    return HEAD + "".join(f"\n## didact {name}\n\n" + "".join(_table(kind)) for name, kind in COMMANDS.items())


def _table(kind: type[Config]) -> Iterator[str]:
    yield "| field | flag | what it says |\n|---|---|---|\n"
    options = {name: (field, option_of(field)) for name, field in kind.model_fields.items()}
    for group in Group:
        for name, (field, option) in options.items():
            if option is not None and option.group == group:
                flag = option.metavar if option.is_argument else option.flag or flag_of(name)
                text = " ".join((field.description or "").split()).replace("|", "\\|")
                yield f"| `{name}` | `{flag}` | {text} |\n"
    former = ", ".join(f"`{old}` (`{new}`)" for old, new in kind.RENAMED.items() if new in kind.model_fields)
    if former:
        yield f"\nFormer names that still work, with a warning: {former}.\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
