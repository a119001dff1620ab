"""`didact study`: blind rankings, ratings and simulation studies with people."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from didact.cli import options
from didact.cli._options import configured
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import flag, option
from didact.cli.output import figure, print_json, print_table, say
from didact.errors import MissingExtraError, OptionError, RecordError
from didact.files.atomic import check_new_file, check_output_folder, with_folder, write_bytes
from didact.registry import split_list
from didact.study.config import DATABASE_VARIABLE, LOCAL, StudyConfig

if TYPE_CHECKING:
    from didact.study.address import Links
    from didact.study.database import Answers
    from didact.study.design import Design
    from didact.study.invitations import Invitation

app = typer.Typer(
    cls=HelpGroup,
    help="Run studies with people: which explanations help them?",
    no_args_is_help=True,
    epilog=epilog(
        "didact study new --kind ranking --explanations lrp.parquet lime.parquet \\\n"
        "    --data reviews.csv --out runs/study",
        "didact study serve runs/study",
    ),
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder that `didact study new` wrote.")]
Database = Annotated[
    str | None,
    option(
        "--database",
        "URL",
        "SQLAlchemy URL (default: answers.sqlite in STUDY).",
        options.ADVANCED,
        envvar=DATABASE_VARIABLE,
    ),
]
SHOWN = 20  # links that `serve` prints


@command(
    app,
    "new",
    "didact study new --kind ranking --explanations lrp.parquet lime.parquet \\\n"
    "    --data reviews.csv --out runs/study",
    "didact study new --kind simulation --explanations lrp.parquet --data sst \\\n"
    '    --annotators 10 --about "The model rates films." --out runs/simulation',
)
@configured(StudyConfig)
def new(config: StudyConfig, as_json: options.Json = False) -> None:
    """Make a study: choose rows and invite people.

    Freezes what is shown and makes a link for each person. Browsers never receive the names of methods; their order is
    shuffled for each person and row.
    """
    _check_extra()
    files = [*config.explanations, *config.more]
    options.check_files(files, has_data=True)
    from didact.experiment.bring import opened
    from didact.results.explanations import Explanations
    from didact.study.make import new_study

    dataset = options.data_of(config, config.split, seed=0)
    sets, notes = opened(files, dataset)
    for note in notes:
        say(f"note: {note}")
    maps = [item if isinstance(item, Explanations) else Explanations.load(item) for item in sets]
    about = config.about
    if not about and sys.stdin.isatty() and not as_json:
        about = _ask_about(maps[0].task, maps[0].classes or dataset.classes)
    consent = [] if config.consent is None else _paragraphs(config.consent)
    folder = new_study(
        maps, dataset, about=about, consent=consent, classes=list(config.classes) or None, **config.design()
    )
    _show_new(folder, config, as_json=as_json)


def _show_new(folder: Path, config: StudyConfig, *, as_json: bool) -> None:
    from didact.study.address import serve_flags
    from didact.study.design import read_design
    from didact.study.make import facts_of

    facts = facts_of(folder, read_design(folder))
    if as_json:
        print_json(facts)
        return
    answers = ", ".join(f"{count} {name!r}" for name, count in sorted((facts["answers"] or {}).items()))
    wrong = "" if facts["errors"] is None else f"; the model is wrong about {facts['errors']}"
    typer.echo(f"{config.kind} of {len(facts['methods'])} methods: {', '.join(facts['methods'])}")
    typer.echo(f"{facts['items']} items{f' ({answers})' if answers else ''}{wrong}")
    typer.echo(f"{facts['people']} people{_cohorts(facts['cohorts'])}; their links are in {facts['invites']}")
    typer.echo(f"participants read: {facts['about']}")
    say(f"Serve it with: {shlex.join(['didact', 'study', 'serve', str(folder), *serve_flags(config.url)])}")


@command(app, "serve", "didact study serve runs/study", "didact study serve runs/study --host 0.0.0.0 --port 8080")
def serve(
    folder: Folder,
    host: Annotated[
        str, option("--host", "HOST", "Address to listen on; 0.0.0.0: every network.", options.STUDY)
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port", "PORT", "Port to listen on; 0: any free port.", options.STUDY, min=0, max=65535)
    ] = 8000,
    database: Database = None,
    root: Annotated[
        str, option("--root", "PATH", "Path before all pages, behind a proxy: /study.", options.ADVANCED)
    ] = "",
    proxy: Annotated[
        str | None,
        option("--proxy", "HOST", "Trusted proxy (its X-Forwarded-* headers are used).", options.ADVANCED),
    ] = None,
    https: Annotated[
        bool, flag("--https", "People connect by https: send cookies only there.", options.ADVANCED)
    ] = False,
) -> None:
    """Serve the pages of a study, and print the links.

    Runs until it is stopped (Ctrl-C). Stopping loses nothing: every answer is on disk before the page confirms it.
    """
    _check_extra()
    from didact.study.address import is_loopback, is_root, links_for
    from didact.study.guard import read_keys
    from didact.study.invitations import invitations
    from didact.study.serve import serve as run

    if not is_root(root):
        raise OptionError(f"--root must be a plain path that begins with a slash, such as /study, got {root!r}.")
    root = root.rstrip("/")
    design, answers = _opened(folder, database)
    keys = read_keys(folder)
    people = answers.people()
    synthetic = sum(person.is_synthetic for person in people)
    answers.close()
    invited = invitations(design, keys, [one.number for one in people if not one.is_erased and not one.is_synthetic])

    def ready(address: str) -> None:
        say(f"The study is at {address}{root}/")
        is_proxied = https or proxy is not None
        links = links_for(folder, f"{address}{root}", is_proxied=is_proxied)
        base = links.base if is_proxied else f"{address}{root}"
        _print_links(folder, f"{base}/o/{keys.organiser}", invited, links)
        if synthetic:
            say(
                f"warning: {synthetic} synthetic people have answered this study (didact study simulate). Their "
                "answers would be analysed together with those of real people. Make a new study for real people."
            )
        if not is_loopback(host):
            say(
                "warning: the study is open to the network, and what people send is not encrypted. Put a server with "
                "https in front (--proxy, --https), or serve on a network you trust."
            )

    run(folder, host=host, port=port, database=database, root=root, proxy=proxy, is_secure=https, ready=ready)


@command(
    app,
    "invite",
    "didact study invite runs/study --more 5",
    "didact study invite runs/study --url https://study.example.org",
)
def invite(
    folder: Folder,
    more: Annotated[int, option("--more", "N", "Number of people to invite now.", options.PARTICIPANTS, min=0)] = 0,
    names: Annotated[
        Path | None,
        option("--names", "FILE", "Text file with one name per line, for those people.", options.PARTICIPANTS),
    ] = None,
    url: Annotated[
        str | None,
        option("--url", "URL", "Address of the study (default: that in invites.csv).", options.PARTICIPANTS),
    ] = None,
    database: Database = None,
    as_json: options.Json = False,
) -> None:
    """Print the links of all people, and invite more.

    Rewrites invites.csv, with --url for another address.
    """
    design, answers = _opened(folder, database)
    from didact.study.address import written_base
    from didact.study.design import check_text
    from didact.study.guard import read_keys, write_private
    from didact.study.invitations import INVITES, invitations, listed

    keys = read_keys(folder)
    answers.check_keys(keys)
    url = url or written_base(folder) or str(design.facts.get("url", LOCAL))
    check_text("url", url)
    called = [line.strip() for line in _text(names).splitlines() if line.strip()] if names is not None else []
    if len(called) > more:
        raise OptionError(f"{names} has {len(called)} names, and {more} people are invited. Give --more {len(called)}.")
    first = max((person.number for person in answers.people()), default=0) + 1
    if more:
        new = invitations(design, keys, range(first, first + more))
        answers.invite(design, [(one.number, one.code) for one in new], called)
    open_ones = [one.number for one in answers.people() if not one.is_erased and not one.is_synthetic]
    invited = invitations(design, keys, open_ones)
    write_private(folder / INVITES, listed(invited, url))
    if as_json:
        print_json({"rows": [{"person": f"p{one.number:02d}", "link": one.link(url)} for one in invited]})
        return
    for one in invited:
        typer.echo(f"p{one.number:02d}  {one.link(url)}")


@command(app, "status", "didact study status runs/study", "didact study status runs/study --json")
def status(folder: Folder, database: Database = None, as_json: options.Json = False) -> None:
    """Show progress, time per page, and answers that look odd."""
    design, answers = _opened(folder, database)
    from didact.study.overview import overview

    found = overview(design, answers) | {"is_closed": answers.is_closed}
    if as_json:
        print_json(found)
        return
    counts = found["counts"]
    typer.echo(
        f"{counts['answers']:,} answers, {found['progress']:.0%} of all; {counts['finished']} of {counts['people']} "
        f"people have finished; the study is {'closed' if found['is_closed'] else 'open'}."
    )
    print_table(
        ["person", "cohort", "answered", "seconds a page", "odd"],
        [
            (
                row["person"], row["cohort"], f"{row['done']} of {row['total']}",
                "–" if row["median_seconds"] is None else figure(row["median_seconds"], ".1f"), "; ".join(row["flags"]),
            )
            for row in found["rows"]
        ],
    )  # fmt: skip


@command(app, "close", "didact study close runs/study", "didact study close runs/study --open")
def close(
    folder: Folder,
    reopen: Annotated[bool, flag("--open", "Accept answers again.", options.STUDY)] = False,
    database: Database = None,
) -> None:
    """Stop accepting answers, or accept them again (--open)."""
    _, answers = _opened(folder, database)
    answers.set_closed(not reopen)
    say(f"The study is {'open' if reopen else 'closed'}.")


@command(
    app,
    "simulate",
    "didact study simulate runs/study",
    "didact study simulate runs/study --people 20 --worths lrp=1,lime=0",
)
def simulate(
    folder: Folder,
    people: Annotated[
        int | None,
        option("--people", "N", "Synthetic people (default: as many as invited).", options.PARTICIPANTS, min=1),
    ] = None,
    worths: Annotated[
        str | None,
        option(
            "--worths",
            "NAME=N",
            "Ranking: log-worth of each method: lime=1,random=0 (default: 0.5 apart).",
            options.PARTICIPANTS,
        ),
    ] = None,
    accuracies: Annotated[
        str | None,
        option("--accuracies", "NAME=N", "Simulation: accuracy per cohort: none=0.6,lime=0.7.", options.PARTICIPANTS),
    ] = None,
    means: Annotated[
        str | None,
        option("--means", "NAME=N", "Rating: mean of each method: lime=4,random=2.", options.PARTICIPANTS),
    ] = None,
    ties: Annotated[float, option("--ties", "N", "Ranking: how readily people make ties.", options.PARTICIPANTS)] = 0.2,
    spread: Annotated[float, option("--spread", "N", "Standard deviation between people.", options.PARTICIPANTS)] = 0.0,
    item_spread: Annotated[
        float, option("--item-spread", "N", "Standard deviation between items.", options.PARTICIPANTS)
    ] = 0.0,
    seed: Annotated[int, option("--seed", "N", "Seed of the answers.", options.ADVANCED)] = 0,
    database: Database = None,
) -> None:
    """Fill a study with synthetic people of known preferences.

    Use it to plan the size of a study and to try its analysis. Refuses a study that real people have answered.
    """
    design, answers = _opened(folder, database)
    from didact.study.preferences import simulated

    real = sum(not one.is_synthetic for one in answers.read())
    if real:
        raise OptionError(
            f"{folder} holds {real} answers of real people, and synthetic ones would be mixed with them. Make another "
            "study with the same options, and simulate there."
        )
    first = max((person.number for person in answers.people()), default=0) + 1
    made = simulated(
        design, people=people or design.people * len(design.cohorts), worths=_values(worths, "worths"),
        accuracies=_values(accuracies, "accuracies"), means=_values(means, "means"), ties=ties, spread=spread,
        item_spread=item_spread, first=first, seed=seed,
    )  # fmt: skip
    answers.add_synthetic(design, made)
    say(
        f"{len({one.person for one in made})} synthetic people gave {len(made):,} answers. "
        f"Read them with: didact study analyze {folder}"
    )


@command(
    app,
    "analyze",
    "didact study analyze runs/study",
    "didact study analyze runs/study --leave-out p03 --figures figures",
)
def analyze(
    folder: Folder,
    difference: Annotated[
        float | None,
        option(
            "--difference",
            "N",
            "Say how many people are needed to detect this difference (0.1: ten points of a simulation).",
            options.STATISTICS,
        ),
    ] = None,
    leave_out: Annotated[
        str | None, option("--leave-out", "PEOPLE", "People not to count: p03,p07.", options.STATISTICS)
    ] = None,
    level: Annotated[
        float, option("--level", "SHARE", "Confidence level of the intervals.", options.STATISTICS)
    ] = 0.95,
    replicates: Annotated[
        int, option("--replicates", "N", "Bootstrap samples of people and items.", options.STATISTICS, min=1)
    ] = 2000,
    seed: Annotated[int, option("--seed", "N", "Seed of the bootstrap.", options.STATISTICS)] = 0,
    figures: Annotated[
        Path | None,
        option("--figures", "FOLDER", "Also write charts (PNG, SVG) and tables (CSV, LaTeX).", options.OUTPUT),
    ] = None,
    database: Database = None,
    as_json: options.Json = False,
) -> None:
    """Analyse the answers: which explanations people prefer or use.

    Shows the order of the methods, how sure it is, and how far people agree. Writes analysis.json and analysis.html
    into the folder of the study. `didact report RUN --study STUDY` adds them to the report of a run.
    """
    _check_extra()
    from didact.reports.study_page import study_page
    from didact.results.study_tables import study_tables
    from didact.study.folder import analyze_study

    if figures is not None:
        check_output_folder(figures)
    found = analyze_study(
        folder, replicates=replicates, level=level, seed=seed, difference=difference,
        leave_out=split_list(leave_out) if leave_out else (), database=database,
    )  # fmt: skip
    page = study_page(folder, figures=figures)
    if as_json:
        print_json(found.to_document())
        return
    typer.echo(found.headline)
    for table in study_tables(found):
        typer.echo(f"\n{table.caption}")
        print_table(table.text_heads, table.text_rows, keys=table.keys)
    if difference is not None:
        typer.echo(f"\n{found.power_for(difference)}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    say(f"\nThe page is {page}.")


@command(
    app,
    "export",
    "didact study export runs/study --out answers.csv",
    "didact study export runs/study --out answers.parquet --names",
)
def export(
    folder: Folder,
    out: Annotated[Path, option("--out", "FILE", "answers.csv, .json or .parquet.", options.OUTPUT)],
    overwrite: options.OverwriteFile = False,
    names: Annotated[bool, flag("--names", "Include people's names, where known.", options.OUTPUT)] = False,
    database: Database = None,
) -> None:
    """Write all answers to a file.

    One line for each method that was judged.
    """
    from didact.study.export import FORMATS, exported

    kind = out.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise OptionError(f"Answers are exported as {', '.join(FORMATS)}, by the name of the file, not {out.name!r}.")
    check_new_file(out, overwrite=overwrite)
    design, answers = _opened(folder, database)
    known = {person.id: person.name for person in answers.people()} if names else None
    given = answers.read()
    write_bytes(with_folder(out), exported(design, given, kind, known))
    say(f"{len(given):,} answers are in {out}.")


@command(app, "erase", "didact study erase runs/study p07", "didact study erase runs/study p07 --yes")
def erase(
    folder: Folder,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="The person's code: p07.")],
    yes: Annotated[bool, flag("--yes", "Do not ask for confirmation.", options.STUDY)] = False,
    database: Database = None,
) -> None:
    """Remove the answers and the name of one person.

    Their link stops working.
    """
    _, answers = _opened(folder, database)
    from didact.study.database import number_of

    number = number_of(answers.people(), person)
    if not yes and not typer.confirm(f"Remove all {answers.done(number)} answers of {person} for good?"):
        raise typer.Exit(1)
    removed = answers.erase(number)
    say(f"{removed} answers of {person} are removed. Analyses and exports made before still hold them: make them anew.")


def _opened(folder: Path, database: str | None) -> "tuple[Design, Answers]":
    _check_extra()
    from didact.study.database import open_answers
    from didact.study.design import read_design

    design = read_design(folder)
    return design, open_answers(folder, design, database)


def _check_extra() -> None:
    from importlib.util import find_spec

    missing = [
        name for name in ("fastapi", "itsdangerous", "jinja2", "sqlalchemy", "uvicorn") if find_spec(name) is None
    ]
    if missing:
        raise MissingExtraError(
            f"Studies need {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            'Install them with: pip install "didact[study]"'
        )


def _print_links(folder: Path, organiser: str, invited: "Sequence[Invitation]", links: "Links") -> None:
    """The links on a terminal. They let people in: a log file or a journal is told only where they are."""
    from didact.study.design import person_name
    from didact.study.guard import write_private
    from didact.study.invitations import INVITES, ORGANISER

    if sys.stderr.isatty():
        say(f"The organiser's page: {organiser}")
        if invited:
            say("Links for participants:")
        for invitation in invited[:SHOWN]:
            say(f"  {person_name(invitation.number)}  {invitation.link(links.base)}")
        if len(invited) > SHOWN:
            say(f"  … and {len(invited) - SHOWN} more: didact study invite {folder} prints all.")
    else:
        try:
            write_private(folder / ORGANISER, f"{organiser}\n")
            say(f"The organiser's link is in {folder / ORGANISER}, those of participants in {folder / INVITES}.")
        except RecordError as error:  # a folder that is only read, with the answers in another database
            say(f"warning: {error} The organiser's link is printed if you serve the study from a terminal.")
    if links.warning:
        say(f"warning: {links.warning}")


def _ask_about(task: str, classes: Sequence[str] | None) -> str:
    """One sentence about the model, from the terminal; Enter takes the default."""
    from didact.study.about import default_about

    default = default_about(task, classes)
    return str(typer.prompt("What does the model do? One sentence for participants", default=default, err=True))


def _cohorts(cohorts: list[str]) -> str:
    return f" in {len(cohorts)} cohorts ({', '.join(cohorts)})" if cohorts else ""


def _paragraphs(path: Path) -> list[str]:
    found = [" ".join(part.split()) for part in _text(path).split("\n\n")]
    return [part for part in found if part]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read as text ({error}).") from error


def _values(text: str | None, name: str) -> dict[str, float] | None:
    """`lime=1,random=0` as numbers by method."""
    if text is None:
        return None
    found: dict[str, Any] = {}
    for part in split_list(text):
        method, _, value = part.rpartition("=")
        try:
            found[method.strip()] = float(value)
        except ValueError:
            raise OptionError(f"--{name} takes a number for each method: lime=1,random=0. {part!r} is none.") from None
    return found
