"""`didact study`: commands for the answers: status, close, simulate, analyze, export and erase."""

import typer

from didact.cli import inputs
from didact.cli.help import command
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, format_number, print_json, print_table
from didact.errors import OptionError
from didact.files.atomic import check_new_file, check_output_folder, ensure_parent, write_bytes
from didact.study.config import (
    AnalyzeConfig,
    CloseConfig,
    EraseConfig,
    ExportConfig,
    FolderOptions,
    SimulateConfig,
)

app = typer.Typer()  # its commands join those of `didact study`


@command(app, "status", "didact study status runs/study", "didact study status runs/study --json")
@configured(FolderOptions)
def status(config: FolderOptions, as_json: Json = False) -> None:
    """Show progress, time per page, and suspicious answers."""
    design, answers = inputs.open_study(config)
    from didact.study.progress import overview

    progress = overview(design, answers) | {"is_closed": answers.is_closed}
    if as_json:
        print_json(progress)
        return
    counts = progress["counts"]
    typer.echo(
        f"{counts['answers']:,} answers, {progress['progress']:.0%} of all; {counts['finished']} of "
        f"{counts['people']} people have finished; the study is {'closed' if progress['is_closed'] else 'open'}."
    )
    rows = [
        (
            row["person"],
            row["cohort"],
            f"{row['done']} of {row['total']}",
            format_number(row["median_seconds"], ".1f"),
            "; ".join(row["flags"]),
        )
        for row in progress["rows"]
    ]
    print_table(["person", "cohort", "answered", "seconds per page", "suspicious"], rows)


@command(app, "close", "didact study close runs/study", "didact study close runs/study --open")
@configured(CloseConfig)
def close(config: CloseConfig) -> None:
    """Stop accepting answers, or accept them again (--open)."""
    _, answers = inputs.open_study(config)
    answers.set_closed(not config.reopen)
    echo_stderr(f"The study is {'open' if config.reopen else 'closed'}.")


@command(
    app,
    "simulate",
    "didact study simulate runs/study",
    "didact study simulate runs/study --people 20 --worths lrp=1,lime=0",
)
@configured(SimulateConfig)
def simulate(config: SimulateConfig) -> None:
    """Fill a study with answers of synthetic people.

    You set their preferences. Use it to plan the size of a study and to try its analysis. Refuses a study that real
    people have answered.
    """
    design, answers = inputs.open_study(config)
    from didact.study.synthetic_annotators import simulate_answers

    real = sum(not answer.is_synthetic for answer in answers.read())
    if real:
        raise OptionError(
            f"{config.folder} holds {real} answers of real people, which synthetic answers must not join. Make another "
            "study with the same options, and simulate there."
        )
    simulated_answers = simulate_answers(
        design, people=config.people or design.people * len(design.cohorts), first=answers.next_number(),
        **config.pick("worths", "accuracies", "means", "ties", "spread", "item_spread", "seed"),
    )  # fmt: skip
    answers.add_synthetic(design, simulated_answers)
    echo_stderr(
        f"{len({answer.person for answer in simulated_answers})} synthetic people gave "
        f"{len(simulated_answers):,} answers. Read them with: didact study analyze {config.folder}"
    )


@command(
    app,
    "analyze",
    "didact study analyze runs/study",
    "didact study analyze runs/study --leave-out p03 --figures figures",
)
@configured(AnalyzeConfig)
def analyze(config: AnalyzeConfig, as_json: Json = False) -> None:
    """Analyse the answers: which explanations people prefer or use.

    Shows the order of the methods, its confidence, and how far people agree. Writes analysis.json and analysis.html to
    the folder of the study. `didact report RUN --study STUDY` adds the analysis to the report of a run.
    """
    inputs.check_study_extra()
    from didact.reports.build import study_page
    from didact.results.study_tables import study_tables
    from didact.study.analyze import analyze_study

    if config.figures is not None:
        check_output_folder(config.figures)
    analysis = analyze_study(
        **config.pick("folder", "replicates", "level", "seed", "difference", "leave_out", "database")
    )
    page = study_page(config.folder, figures=config.figures)
    if as_json:
        print_json(analysis.to_document())
        return
    typer.echo(analysis.headline)
    for table in study_tables(analysis):
        typer.echo(f"\n{table.caption}")
        print_table(table.text_heads, table.text_rows, keys=table.keys)
    if config.difference is not None:
        typer.echo(f"\n{analysis.power_for(config.difference)}")
    for note in analysis.notes:
        typer.echo(f"note: {note}")
    echo_stderr(f"\nThe page is {page}.")


@command(
    app,
    "export",
    "didact study export runs/study --out answers.csv",
    "didact study export runs/study --out answers.parquet --names",
)
@configured(ExportConfig)
def export(config: ExportConfig) -> None:
    """Write all answers to a file.

    The file has one row per answer; in rankings, one per answer and method.
    """
    from didact.study.export import FORMATS, export_answers

    out = config.out
    kind = out.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise OptionError(f"The name of the file must end in one of {', '.join(FORMATS)}, got {out.name!r}.")
    check_new_file(out, overwrite=config.overwrite)
    design, answers = inputs.open_study(config)
    names = {person.id: person.name for person in answers.people()} if config.names else None
    stored = answers.read()
    write_bytes(ensure_parent(out), export_answers(design, stored, kind, names))
    echo_stderr(f"{len(stored):,} answers are in {out}.")


@command(app, "erase", "didact study erase runs/study p07", "didact study erase runs/study p07 --yes")
@configured(EraseConfig)
def erase(config: EraseConfig) -> None:
    """Remove the answers and the name of one person.

    Their link stops working.
    """
    _, answers = inputs.open_study(config)
    from didact.study.database import person_number

    person = config.person
    number = person_number(answers.people(), person)
    if not config.yes and not typer.confirm(f"Permanently remove all {answers.done(number)} answers of {person}?"):
        raise typer.Exit(1)
    removed = answers.erase(number)
    echo_stderr(
        f"{removed} answers of {person} are removed. Earlier analyses and exports still contain them: run these again."
    )
