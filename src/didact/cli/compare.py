"""`didact compare`: which explanation method teaches best on this model and data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from didact.cli import options
from didact.cli.output import going_on, print_json, say
from didact.errors import OptionError, RequestError
from didact.records.remote import is_url
from didact.registry import parse_spec, split_list


def compare(
    plan: Annotated[Path | None, typer.Argument(metavar="PLAN.toml", help="A plan; flags win over it.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The teacher: a folder, a hub name, or human.")] = None,
    data: Annotated[str | None, typer.Option("--data", help="A name from `didact data list`, or a file.")] = None,
    explainers: Annotated[
        str | None, typer.Option(help="Names from `didact methods`, with options, or files of explanations.")
    ] = None,
    students: Annotated[
        str | None, typer.Option(help="architecture/strategy, e.g. same/attention,bilstm/multitask,same/attention@sgd.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="How many rows students see: 250,500. Default 500.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many seeds, or a list of them: 8, or 3,4,5. Default 8.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder or URL (s3://…) of the run; else runs/compare-DATA.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="With a URL: the folder to work in, else in your cache.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes; as many as cores. 0: none beside this.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who does the cells: local (processes here) or ray (a cluster).")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="auto|HOST:PORT", help="Of a Ray cluster; without it one is started here.")
    ] = None,
    gpus: Annotated[float | None, typer.Option(help="With ray and cuda: GPUs per cell, e.g. 0.5. Default 1.")] = None,
    tune: Annotated[
        str | None, typer.Option(help="`yes`, `no`, or what to choose from on dev: temperature=[1,0.5],beta=[1,5].")
    ] = None,
    base: Annotated[str | None, typer.Option(help="Base model of `same` and `embeddings=base`, if unrecorded.")] = None,
    soft: Annotated[bool | None, typer.Option("--soft/--hard", help="Learn the teacher's chances, not labels.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Training of students; default by their kind.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    rate: Annotated[float | None, typer.Option()] = None,
    test: Annotated[str | None, typer.Option(help="wilcoxon (default) or sign_flip, both exact, over seeds.")] = None,
    replicates: Annotated[int | None, typer.Option(help="Of the bootstrap; 2000.")] = None,
    measure: Annotated[
        int | None, typer.Option(help="Explain so many test rows, too, and measure them by all else; for `report`.")
    ] = None,
    together: Annotated[
        bool | None,
        typer.Option("--together", help="Train the seeds of native students as one: for narrow ones, and GPUs."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Per cell; 1. Another number gives other weights.")] = None,
    task: Annotated[str | None, typer.Option(help="If the model does not say: `pair` for one that reads two.")] = None,
    length: Annotated[int | None, typer.Option(help="The teacher reads so many tokens at most.")] = None,
    truncate: Annotated[bool | None, typer.Option("--truncate", help="Cut rows too long for the teacher.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")] = None,
    device: options.TeacherDevice = None,
    precision: Annotated[
        str | None, typer.Option(help="Of students' training: single (default), bfloat16, or float16 on cuda.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[
        bool | None, typer.Option("--trust-remote-code", help="Run a model's own code.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do not run: tell cells, time, memory and disk, from short probes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Teach students with each explanation method, and see who predicts the model best on rows they never saw.

    The controls none, random, trivial and, where there are rationales, human are always in the table. A run that was
    stopped goes on when the same command is given again. Exit code 1 if any cell failed. With --dry-run nothing is run
    or kept.
    """
    given: dict[str, Any] = {
        "model": model, "data": data, "explainers": None if explainers is None else split_list(explainers),
        "students": None if students is None else split_list(students), "sizes": _numbers(sizes),
        "seeds": _seeds(seeds), "base": base, "soft": soft, "tune": _tune(tune), "test": test,
        "replicates": replicates, "measure": measure, "together": together, "threads": threads, "task": task,
        "length": length, "truncate": truncate, "data_dir": data_dir, "device": device, "precision": precision,
        "revision": revision, "trust_remote_code": trust_remote_code,
    }  # fmt: skip
    said = {name: value for name, value in given.items() if value is not None}
    if out is not None and out.startswith("memory://"):
        raise OptionError(f"{out} would be gone with this command; in Python such a place is of use. Give a folder.")
    training = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    training = {name: value for name, value in training.items() if value is not None}

    with going_on():
        from didact.experiment.compare import forecast_plan, run_plan
        from didact.experiment.plan import read_plan

        asked = {} if plan is None else read_plan(plan)
        asked |= said
        if training and isinstance(asked.get("training", {}), dict):  # what is no table is told with the other faults
            asked["training"] = {**asked.get("training", {}), **training}
        engaged: dict[str, Any] = {"workers": workers, "engine": engine, "address": address, "gpus": gpus}
        if dry_run:
            found = forecast_plan(asked, out=out, cache=cache, progress=True, **engaged)
            print_json(found.to_document()) if as_json else typer.echo(found.table())
            return
        result = run_plan(asked, out=out, cache=cache, progress=True, **engaged)
    if as_json:
        print_json(result.to_document())
    else:
        typer.echo(result.table())
    kept = out if out is not None and is_url(out) else result.folder
    say(f"The run is kept in {kept}; `didact report {kept}` makes a page of it.")
    if result.failed:
        say(f"{len(result.failed)} cells failed; give the same command again to try them once more.")
        raise typer.Exit(1)


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
