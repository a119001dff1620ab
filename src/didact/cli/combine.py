"""`didact combine`: gains of methods over several teachers, from one comparison with each."""

from pathlib import Path
from typing import Annotated, Final

import typer

from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, print_json
from didact.config import Config, Group, Option
from didact.field_types import Switch

EXAMPLES: Final = (
    "didact combine runs/first runs/second runs/third",
    "didact combine runs/first runs/second runs/third --average \\\n    --out combined.json",
)


class CombineConfig(Config):
    """The options of `didact combine`."""

    runs: Annotated[tuple[str, ...], Option(Group.DATA, "RUN", repeatable=True, is_argument=True)]
    """Folders or URLs of comparisons, one per teacher."""
    average: Annotated[Switch, Option(Group.STATISTICS)] = False
    """Also combine the mean over students and training sizes."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """Save the result: .json, .csv or .parquet."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""


@configured(CombineConfig)
def combine(config: CombineConfig, as_json: Json = False) -> None:
    """Find out which methods teach best for teachers in general.

    Combines comparisons of the same methods and students with different models. The intervals cover the choice of
    models, test rows and seeds. Three models give wide intervals, five usable ones.
    """
    from didact.comparing.combine import combine as combined_of
    from didact.files.atomic import check_new_file
    from didact.results.combined import check_kind

    if config.out is not None:
        check_kind(config.out)
        check_new_file(config.out, overwrite=config.overwrite)
    combined = combined_of(config.runs, average=config.average)
    if config.out is not None:
        combined.save(config.out)
        echo_stderr(f"The result is in {config.out}.")
    print_json(combined.to_document()) if as_json else typer.echo(combined.table())
