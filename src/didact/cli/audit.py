"""`didact audit run` and `didact audit table`: which ways of judging explanations can be trusted."""

import re
from pathlib import Path
from typing import Annotated

import typer

from didact.auditing.config import AuditConfig
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import Json, configured
from didact.cli.output import echo_notes, echo_stderr, exit_on_interrupt, print_json
from didact.config import Config, Group, Option
from didact.errors import OptionError
from didact.field_types import Switch

app = typer.Typer(
    cls=HelpGroup,
    help="Check which ways of judging explanations are right.",
    no_args_is_help=True,
    epilog=epilog(
        "didact audit run --model my-model --data planted/sentiment --out runs/audit",
        "didact audit table runs/audit/audit.json",
    ),
)


class TableConfig(Config):
    """The options of `didact audit table`."""

    audits: Annotated[tuple[str, ...], Option(Group.DATA, "AUDIT", repeatable=True, is_argument=True)]
    """Audits (audit.json), their folders, or folders of evidence."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FILE")] = None
    """Save the scores: .json or .csv."""
    overwrite: Annotated[Switch, Option(Group.OUTPUT)] = False
    """Replace files that exist."""


@command(
    app,
    "run",
    "didact audit run --model runs/teacher --data planted/sentiment \\\n    --train-sizes 300 --out runs/audit",
    "didact audit run audit.toml --test-sets new,edited --metrics none",
)
@configured(AuditConfig)
def run(config: AuditConfig, as_json: Json = False) -> None:
    """Audit students and metrics on one model.

    They judge explanations whose order is known: damaged ones, equal ones of other sharpness, ones that lost
    information, and leaks. On planted data with a verified model, and for exact models, they also rank methods whose
    true AUC is known. Run the same command again to resume a stopped audit.
    """
    with exit_on_interrupt():
        from didact.auditing.audit import FILE, audit
        from didact.auditing.summarise import summarise_audits

        # Windows does not allow these characters in folder names.
        out = config.out or Path("runs") / ("audit-" + re.sub(r'[\\/:*?"<>|]', "-", str(config.data)))
        result = audit(config=config.with_fields(progress=True, out=out))
        summary = summarise_audits([result])
    print_json(result.to_document()) if as_json else typer.echo(summary.table())
    echo_notes(result.evidence.notes)
    echo_stderr(f"The audit is in {Path(out) / FILE}.")


@command(
    app,
    "table",
    "didact audit table runs/audit-0 runs/audit-1 runs/audit-2",
    "didact audit table evidence/audit/screening --out scores.csv",
)
@configured(TableConfig)
def table(config: TableConfig, as_json: Json = False) -> None:
    """Count right and wrong answers of evaluators over audits.

    Intervals are over the audits: give audits of several models for results that hold for models in general.
    """
    from didact.auditing.summarise import summarise_audits
    from didact.files.atomic import check_new_file

    if config.out is not None:
        if config.out.suffix not in (".json", ".csv"):
            raise OptionError(f"--out: scores are saved as .json or .csv, not as {config.out.name!r}.")
        check_new_file(config.out, overwrite=config.overwrite)
    summary = summarise_audits([path for name in config.audits for path in _files(Path(name))])
    if config.out is not None:
        summary.save(config.out)
        echo_stderr(f"The scores are in {config.out}.")
    print_json(summary.to_document()) if as_json else typer.echo(summary.table())


def _files(path: Path) -> list[Path]:
    """The audit in a file, in the folder of an audit, or all audits in a folder of evidence or of runs."""
    from didact.auditing.audit import FILE
    from didact.results.audit import KIND
    from didact.results.evidence import kind_of

    if not path.is_dir():
        return [path]
    if (path / FILE).is_file():
        return [path / FILE]
    files = [file for file in sorted(path.rglob("*.json")) if kind_of(file) == KIND]
    if not files:
        raise OptionError(f"There is no audit in {path}. Write one with `didact audit run … --out {path}`.")
    return files
