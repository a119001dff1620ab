"""`didact compare`: which explanation method teaches best on this model and data."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from didact.cli import options
from didact.cli.output import going_on, print_json, say
from didact.errors import DidactError, OptionError, RequestError
from didact.records.remote import is_url
from didact.registry import parse_spec, split_list

if TYPE_CHECKING:
    from didact.experiment.comparison import Comparison

MODEL, DATA, METHODS, TRAINING = "Model", "Data", "Methods and students", "Training and statistics"
OUTPUT, ADVANCED = "Output and time", "Advanced"
EPILOG: Final = (
    "Examples:\n\n"
    "didact compare --model my-folder --data reviews.csv --columns text=comment --budget 20m\n\n"
    "didact compare --model M --data sst --explainers lrp,lime --seeds 8 --out runs/first"
)


def compare(
    plan: Annotated[
        Path | None, typer.Argument(metavar="PLAN.toml", help="A plan in a file; options given here win over it.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Folder or hub name of the model, or human.", rich_help_panel=MODEL)
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="pair for a model that reads two texts.", rich_help_panel=MODEL)
    ] = None,
    length: Annotated[int | None, typer.Option(help="Maximum tokens the model reads.", rich_help_panel=MODEL)] = None,
    truncate: Annotated[
        bool | None, typer.Option("--truncate", help="Cut rows that are too long.", rich_help_panel=MODEL)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, mps, or auto for all GPUs.", rich_help_panel=MODEL)
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.", rich_help_panel=MODEL)] = None,
    trust_remote_code: Annotated[
        bool | None, typer.Option("--trust-remote-code", help="Run a model's own code.", rich_help_panel=MODEL)
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="A file, or a name of `didact data list`.", rich_help_panel=DATA)
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="text=comment,label=verdict,id=review_id.", rich_help_panel=DATA),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", help="What the data call the model's classes, in its order.", rich_help_panel=DATA),
    ] = None,
    balance: Annotated[
        str | None, typer.Option(help="auto (default), yes or no: rows by answer.", rich_help_panel=DATA)
    ] = None,
    test_rows: Annotated[
        int | None, typer.Option(min=0, help="Most test rows (default 2000; 0: all).", rich_help_panel=DATA)
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Folder with real data (or DIDACT_DATA).", rich_help_panel=DATA)
    ] = None,
    explainers: Annotated[
        str | None,
        typer.Option(help="Methods, or files of explanations (default: chosen).", rich_help_panel=METHODS),
    ] = None,
    students: Annotated[
        str | None,
        typer.Option(help="Like bilstm/multitask,same/attention@sgd.", rich_help_panel=METHODS),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Pretrained base that students start from.", rich_help_panel=METHODS)
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(help="yes, no, or temperature=[1,0.5]: chosen on dev.", rich_help_panel=METHODS),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Rows each student learns from: 250,500.", rich_help_panel=TRAINING)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Number of seeds (default 8), or a list.", rich_help_panel=TRAINING)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of a student.", rich_help_panel=TRAINING)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Batch size of a student.", rich_help_panel=TRAINING)] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate of a student.", rich_help_panel=TRAINING)] = None,
    soft: Annotated[
        bool | None,
        typer.Option("--soft/--hard", help="Learn probabilities or labels.", rich_help_panel=TRAINING),
    ] = None,
    test: Annotated[str | None, typer.Option(help="wilcoxon (default) or sign_flip.", rich_help_panel=TRAINING)] = None,
    replicates: Annotated[
        int | None, typer.Option(help="Bootstrap samples (default 2000).", rich_help_panel=TRAINING)
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder or URL of the run (runs/compare-DATA).", rich_help_panel=OUTPUT),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time limit: 20m, 2h. The plan is fitted to it.", rich_help_panel=OUTPUT)
    ] = None,
    measure: Annotated[
        int | None,
        typer.Option(min=0, help="Test rows scored with all other metrics.", rich_help_panel=OUTPUT),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print runs and the time.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout.", rich_help_panel=OUTPUT)
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes (default: one per core; 0: this one).", rich_help_panel=ADVANCED),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads per run (1); changes digits.", rich_help_panel=ADVANCED)
    ] = None,
    together: Annotated[
        bool | None,
        typer.Option("--together", help="Train the seeds of native students as one.", rich_help_panel=ADVANCED),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="single, bfloat16 or float16 (training).", rich_help_panel=ADVANCED)
    ] = None,
    engine: Annotated[str, typer.Option(help="local or ray (a cluster).", rich_help_panel=ADVANCED)] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Ray cluster, or auto.", rich_help_panel=ADVANCED)
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(help="GPUs per run with ray and cuda (1).", rich_help_panel=ADVANCED)
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Local folder for a run kept at a URL.", rich_help_panel=ADVANCED)
    ] = None,
) -> None:
    """Find out which explanation method teaches best on your model and data.

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
        "classes": options.parse_classes(classes),
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
        result = run_plan(request, progress=True, command=_command(), **place)
    _show(result, out if out is not None and is_url(out) else str(result.folder), as_json=as_json)


def _request(plan: Path | None, fields: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """What the file says, overridden by what was given on the command line."""
    from didact.experiment.plan import read_plan

    request = {} if plan is None else read_plan(plan)
    request |= {name: value for name, value in fields.items() if value is not None}
    training = {name: value for name, value in training.items() if value is not None}
    if training and isinstance(request.get("training", {}), dict):  # what is no table is a fault of the plan
        request["training"] = {**request.get("training", {}), **training}
    return request


def _show(result: "Comparison", place: str, *, as_json: bool) -> None:
    """The table, failed runs, and last of all where the report is."""
    print_json(result.to_document()) if as_json else typer.echo(result.table())
    from didact.reports.build import report

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
