"""`didact compare`: which explanation method teaches best on this model and data."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import going_on, print_json, say
from didact.errors import DidactError, OptionError, RequestError
from didact.records.remote import is_url
from didact.registry import parse_spec, split_list

if TYPE_CHECKING:
    from didact.results.comparison import Comparison

# What --leave-out knows; as `didact.experiment.plan.SPARED`, which is not imported before a command runs.
_SPARED: Final = ("trivial", "human", "flattened", "matched", "sharpened", "extra")
EXAMPLES: Final = (
    "didact compare --model my-model --data reviews.csv --columns text=comment \\\n    --budget 20m",
    "didact compare --model my-model --data sst --explainers lrp,lime --seeds 8 \\\n    --out runs/first",
)


def compare(
    plan: Annotated[
        Path | None, typer.Argument(metavar="PLAN.toml", help="A file with these options; those given here win.")
    ] = None,
    model: Annotated[
        str | None, option("--model", "MODEL", "Folder or hub name of the model, or human.", options.MODEL)
    ] = None,
    task: options.Task = None,
    length: options.Length = None,
    truncate: Annotated[bool | None, options.TRUNCATE_OPTION] = None,
    device: options.Device = None,
    revision: options.Revision = None,
    trust_remote_code: Annotated[bool | None, options.TRUST_OPTION] = None,
    data: Annotated[str | None, options.DATA_OPTION] = None,
    columns: options.Columns = None,
    classes: options.Classes = None,
    balance: Annotated[
        str | None, option("--balance", "WHEN", "Balance rows by answer: auto (default), yes, no.", options.DATA)
    ] = None,
    test_rows: Annotated[
        int | None, option("--test-rows", "N", "Maximum test rows (default: 2000; 0: all).", options.DATA, min=0)
    ] = None,
    data_dir: options.DataDir = None,
    data_seed: Annotated[
        int | None, option("--data-seed", "N", "Seed of planted data (default: 0).", options.DATA)
    ] = None,
    train_rows: Annotated[
        int | None, option("--train-rows", "N", "Maximum rows students learn from (default: all).", options.DATA, min=0)
    ] = None,
    dev_rows: Annotated[
        int | None, option("--dev-rows", "N", "Maximum dev rows (default: all).", options.DATA, min=0)
    ] = None,
    explainers: Annotated[
        str | None,
        option("--explainers", "NAMES", "Methods or files (default: some that suit the model).", options.METHODS),
    ] = None,
    students: Annotated[
        str | None, option("--students", "NAMES", "Like bilstm/multitask,same/attention@sgd.", options.TRAINING)
    ] = None,
    base: options.Base = None,
    tune: Annotated[
        str | None, option("--tune", "WHAT", "yes, no, or temperature=[1,0.5]: chosen on dev.", options.TRAINING)
    ] = None,
    sharpness: Annotated[
        str | None,
        option("--sharpness", "T,T", "Temperatures tried beside a learned method: 1,0.5.", options.TRAINING),
    ] = None,
    leave_out: Annotated[
        str | None,
        option("--leave-out", "NAMES", f"Rows left out of the table: {', '.join(_SPARED)}.", options.METHODS),
    ] = None,
    sizes: Annotated[
        str | None, option("--sizes", "N,N", "Rows each student learns from: 250,500.", options.TRAINING)
    ] = None,
    seeds: Annotated[
        str | None, option("--seeds", "N", "Number of seeds (default: 8), or a list.", options.TRAINING)
    ] = None,
    epochs: options.StudentEpochs = None,
    batch_size: options.BatchSize = None,
    rate: options.StudentRate = None,
    soft: Annotated[bool | None, flag("--soft/--hard", "Learn probabilities or labels.", options.TRAINING)] = None,
    measure: Annotated[
        int | None,
        option("--measure", "N", "Test rows scored with every other metric.", options.STATISTICS, min=0),
    ] = None,
    out: Annotated[
        str | None,
        option("--out", "FOLDER", "Folder or URL of the run (default: runs/compare-DATA).", options.OUTPUT),
    ] = None,
    budget: Annotated[
        str | None, option("--budget", "TIME", "Time limit that the plan is fitted to: 20m, 2h.", options.OUTPUT)
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only print the runs and the time.", options.OUTPUT)] = False,
    as_json: options.Json = False,
    workers: options.Workers = None,
    threads: Annotated[
        int | None,
        option("--threads", "N", "CPU threads per run (default: 1; changes last digits).", options.ADVANCED),
    ] = None,
    precision: options.Precision = None,
    recheck: Annotated[
        int | None,
        option("--recheck", "N", "Rows a function is asked again on resuming (default: 8).", options.ADVANCED, min=0),
    ] = None,
    engine: Annotated[str, option("--engine", "NAME", "local, or ray for a cluster.", options.ADVANCED)] = "local",
    address: Annotated[
        str | None, option("--address", "HOST:PORT", "Address of the ray cluster, or auto.", options.ADVANCED)
    ] = None,
    gpus: Annotated[
        float | None, option("--gpus", "N", "GPUs per run with ray and cuda (default: 1).", options.ADVANCED)
    ] = None,
    cache: Annotated[
        Path | None, option("--cache", "FOLDER", "Local copy of a run that is at a URL.", options.ADVANCED)
    ] = None,
    test: Annotated[str | None, option("--test", "NAME", "Ignored.", hidden=True)] = None,
    replicates: Annotated[int | None, option("--replicates", "N", "Ignored.", hidden=True)] = None,
    together: Annotated[bool | None, flag("--together", "Ignored.", hidden=True)] = None,
) -> None:
    """Find out which explanation method teaches best.

    Students learn the model's answers with and without explanations; all then predict it on rows they never saw.
    Only --model and --data are needed. The command prints a table and writes a report; the controls none, random,
    trivial and (where people marked words) human are always in it. The same command resumes a run that was stopped.
    Exit code 1 if a run failed.
    """
    fields: dict[str, Any] = {
        "model": model, "data": data, "explainers": None if explainers is None else split_list(explainers),
        "students": None if students is None else split_list(students), "sizes": _numbers(sizes),
        "seeds": _seeds(seeds), "base": base, "soft": soft, "tune": _tune(tune), "test": test,
        "replicates": replicates, "measure": measure, "together": together, "threads": threads, "task": task,
        "length": length, "truncate": truncate, "data_dir": data_dir, "device": device, "precision": precision,
        "revision": revision, "trust_remote_code": trust_remote_code, "budget": budget, "test_rows": test_rows,
        "balance": _balance(balance), "columns": options.parse_columns(columns) or None,
        "classes": options.parse_classes(classes), "data_seed": data_seed, "train_rows": train_rows,
        "dev_rows": dev_rows, "sharpness": _decimals(sharpness),
        "leave_out": None if leave_out is None else split_list(leave_out),
    }  # fmt: skip
    if out is not None and out.startswith("memory://"):
        raise OptionError(f"--out {out} would be gone with this command. Give a folder, or an s3:// URL.")
    training = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    place: dict[str, Any] = {
        "out": out,
        "cache": cache,
        "workers": workers,
        "engine": engine,
        "address": address,
        "gpus": gpus,
    }
    with going_on():
        from didact.experiment.compare import forecast_plan, run_plan

        request = _request(plan, fields, training)
        if dry_run:
            forecast = forecast_plan(request, progress=True, **place)
            print_json(forecast.to_document()) if as_json else typer.echo(forecast.table())
            return
        result = run_plan(request, progress=True, command=_command(), recheck=recheck, **place)
    _show(result, out if out is not None and is_url(out) else str(result.folder), as_json=as_json)


def _request(plan: Path | None, fields: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """What the file says, overridden by what was given on the command line."""
    from didact.experiment.compare import plan_entries

    request = plan_entries(plan, fields)
    training = {name: value for name, value in training.items() if value is not None}
    if training and isinstance(request.get("training", {}), dict):  # what is no table is a fault of the plan
        request["training"] = {**request.get("training", {}), **training}
    return request


def _show(result: "Comparison", place: str, *, as_json: bool) -> None:
    """The table, failed runs, and last of all where the report is."""
    print_json(result.to_document()) if as_json else typer.echo(result.table())
    from didact.reports.build import report

    if is_url(place):
        say(f"The run is kept in {place}.")
    if result.failed:
        say(f"{len(result.failed)} runs failed; the same command tries them again.")
    try:
        say(f"Report: {report(place)}")
    except DidactError as error:
        say(f"The run is kept in {place}, but its report could not be written: {error}")
        raise typer.Exit(1) from None
    if result.failed:
        raise typer.Exit(1)


def _command() -> str:
    """The command line as it was given, with the program's name instead of its path."""
    return shlex.join(["didact", *sys.argv[1:]])


def _balance(text: str | None) -> bool | str | None:
    choices = {"auto": None, "yes": True, "no": False}
    return None if text is None else choices.get(text.lower(), text)


def _numbers(text: str | None) -> list[int | str] | None:
    """Whole numbers; what is none stays as it is, to be told with the plan's other faults."""
    return None if text is None else [_number(part) for part in split_list(text)]


def _decimals(text: str | None) -> list[float | str] | None:
    """Numbers; what is none stays as it is, to be told with the plan's other faults."""
    if text is None:
        return None
    found: list[float | str] = []
    for part in split_list(text):
        try:
            found.append(float(part))
        except ValueError:
            found.append(part)
    return found


def _number(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _seeds(text: str | None) -> int | str | list[int | str] | None:
    found = _numbers(text)
    is_count = found is not None and len(found) == 1 and isinstance(found[0], int) and "," not in str(text)
    return found[0] if found is not None and is_count else found


def _tune(text: str | None) -> Any:
    if text is None:
        return None
    if text.lower() in ("yes", "true", "no", "false"):
        return text.lower() in ("yes", "true")
    try:
        return dict(parse_spec(f"tune({text})").options)
    except RequestError:
        return text  # to be told with the plan's other faults
