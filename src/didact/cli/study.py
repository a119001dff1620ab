"""`didact study`: blind rankings, ratings and simulation studies with people."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from didact.cli import options
from didact.cli.output import figure, print_json, print_table, say
from didact.errors import MissingExtraError, OptionError
from didact.records.atomic import check_new_file, with_folder, write_bytes
from didact.registry import split_list

if TYPE_CHECKING:
    from didact.study.address import Links
    from didact.study.database import Answers
    from didact.study.design import Design
    from didact.study.invitations import Invitation

app = typer.Typer(
    help="Studies with people: which explanation do they prefer, and which helps them to predict the model?",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder that `didact study new` wrote.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="DIDACT_STUDY_DATABASE",
        help="An SQLAlchemy URL (PostgreSQL); default: answers.sqlite in the folder.",
    ),
]
Url = Annotated[str, typer.Option("--url", help="Where people will find the study; for the links.")]
LOCAL = "http://127.0.0.1:8000"
SHOWN = 20  # links that `serve` prints


@app.command("new")
def new(
    explanations: Annotated[
        list[Path], typer.Option("--explanations", help="A file of `didact explain --out`; give one for each method.")
    ],
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", help="The study's folder; it must not exist yet.")],
    columns: options.Columns = None,
    classes: options.Classes = None,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="More files, as with --explanations.")
    ] = None,
    kind: Annotated[str, typer.Option(help="ranking, simulation or rating.")] = "ranking",
    items: Annotated[int, typer.Option(min=1, help="Rows that people are asked about.")] = 60,
    annotators: Annotated[
        int, typer.Option(min=1, help="People to invite; in a simulation, to each method and the control.")
    ] = 3,
    learn: Annotated[int | None, typer.Option(min=1, help="Of a simulation: items to learn from; two thirds.")] = None,
    errors: Annotated[float, typer.Option(help="Of a simulation: share of rows that the model has wrong.")] = 0.5,
    points: Annotated[int, typer.Option(help="Of a rating: 2 to 9.")] = 5,
    pause: Annotated[int, typer.Option(help="Suggest a break after so many answers; 0 for never.")] = 20,
    signs: Annotated[
        str, typer.Option(help="Colours for and against: show, hide, or auto (only if every method has signs).")
    ] = "auto",
    title: Annotated[str, typer.Option(help="What people read above every page.")] = "",
    about: Annotated[
        str,
        typer.Option(help="One sentence for participants: what the model does. Asked for in a terminal if missing."),
    ] = "",
    question: Annotated[str, typer.Option(help="What people are asked.")] = "",
    consent: Annotated[
        Path | None, typer.Option("--consent", help="A text file: what people agree to, in paragraphs.")
    ] = None,
    contact: Annotated[str, typer.Option(help="Whom people can ask.")] = "",
    split: Annotated[str | None, typer.Option(help="Of the data, if ids are the same in several.")] = None,
    seed: Annotated[int, typer.Option(help="Decides which rows, and every order.")] = 0,
    url: Url = LOCAL,
    data_dir: options.DataDir = None,
    database: Database = None,
    as_json: options.Json = False,
) -> None:
    """Make a study: choose rows, freeze what is shown, and make an invitation for each person.

    Names of methods never reach a browser, and their order is shuffled for each person and row.
    """
    _check_extra()
    files = [*explanations, *(more or [])]
    options.check_files(files, has_data=True)
    from didact.experiment.bring import opened
    from didact.records.explanations import Explanations
    from didact.study.address import serve_flags
    from didact.study.design import read_design
    from didact.study.make import facts_of, new_study

    dataset = options.data_of(data, split, data_dir=data_dir, seed=0, columns=columns)
    sets, said = opened(files, dataset)
    for line in said:
        say(f"note: {line}")
    maps = [one if isinstance(one, Explanations) else Explanations.load(one) for one in sets]
    paragraphs = [] if consent is None else _paragraphs(consent)
    if not about and sys.stdin.isatty() and not as_json:
        about = _ask_about(maps[0].task, maps[0].classes or dataset.classes)
    folder = new_study(
        maps, dataset, out=out, kind=kind, items=items, annotators=annotators, learn=learn, errors=errors,
        points=points, pause=pause, signs=signs, title=title, question=question, about=about, consent=paragraphs,
        contact=contact, seed=seed, url=url, database=database, classes=options.parse_classes(classes),
    )  # fmt: skip
    facts = facts_of(folder, read_design(folder))
    if as_json:
        print_json(facts)
        return
    answers = ", ".join(f"{count} {name!r}" for name, count in sorted((facts["answers"] or {}).items()))
    wrong = "" if facts["errors"] is None else f"; the model is wrong about {facts['errors']}"
    typer.echo(f"{kind} of {len(facts['methods'])} methods: {', '.join(facts['methods'])}")
    typer.echo(f"{facts['items']} items{f' ({answers})' if answers else ''}{wrong}")
    typer.echo(f"{facts['people']} people{_cohorts(facts['cohorts'])}; their links are in {facts['invites']}")
    typer.echo(f"participants read: {facts['about']}")
    say(f"Serve it with: {shlex.join(['didact', 'study', 'serve', str(folder), *serve_flags(url)])}")


@app.command("serve")
def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Listen here; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8000,
    database: Database = None,
    root: Annotated[str, typer.Option(help="A path before all pages, behind a proxy: /study.")] = "",
    proxy: Annotated[
        str | None, typer.Option("--proxy", help="Address of a trusted proxy: its X-Forwarded-* headers are used.")
    ] = None,
    https: Annotated[
        bool, typer.Option("--https", help="People connect by https (through the proxy): send cookies only there.")
    ] = False,
) -> None:
    """Serve the pages of a study until stopped (Ctrl-C), and print the links for its address.

    Stopping loses nothing: every answer is on disk before the page says so.
    """
    _check_extra()
    from didact.study.address import is_loopback, links_for
    from didact.study.guard import read_keys
    from didact.study.invitations import invitations
    from didact.study.serve import serve as run

    if root and not root.startswith("/"):
        raise OptionError(f"--root must begin with a slash: /{root}, not {root}.")
    root = root.rstrip("/")
    design, answers = _opened(folder, database)
    keys = read_keys(folder)
    organiser = keys.organiser
    people = answers.people()
    synthetic = sum(person.is_synthetic for person in people)
    answers.close()
    invited = invitations(design, keys, [one.number for one in people if not one.is_erased and not one.is_synthetic])

    def ready(address: str) -> None:
        say(f"The study is at {address}{root}/\nThe organiser's page: {address}{root}/o/{organiser}")
        _print_links(folder, invited, links_for(folder, f"{address}{root}", is_proxied=https or proxy is not None))
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


@app.command("invite")
def invite(
    folder: Folder,
    more: Annotated[int, typer.Option("--more", min=0, help="Invite so many more people.")] = 0,
    names: Annotated[
        Path | None, typer.Option("--names", help="A text file with a name a line, for those who are invited now.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where people will find the study (default: the address in invites.csv)."),
    ] = None,
    database: Database = None,
    as_json: options.Json = False,
) -> None:
    """Print the links of all people, invite more, and rewrite invites.csv (with --url for another address)."""
    design, answers = _opened(folder, database)
    from didact.study.address import written_base
    from didact.study.guard import read_keys, write_private
    from didact.study.invitations import INVITES, invitations, listed

    keys = read_keys(folder)
    url = url or written_base(folder) or str(design.facts.get("url", LOCAL))
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


@app.command("status")
def status(folder: Folder, database: Database = None, as_json: options.Json = False) -> None:
    """Say how far everybody is, how long pages take, and which answers look odd."""
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


@app.command("close")
def close(
    folder: Folder,
    reopen: Annotated[bool, typer.Option("--open", help="Take answers again.")] = False,
    database: Database = None,
) -> None:
    """Take no more answers, or (--open) take them again."""
    _, answers = _opened(folder, database)
    answers.set_closed(not reopen)
    say(f"The study is {'open' if reopen else 'closed'}.")


@app.command("simulate")
def simulate(
    folder: Folder,
    people: Annotated[
        int | None, typer.Option(min=1, help="Synthetic people; as many as the study invites, if not said.")
    ] = None,
    worths: Annotated[
        str | None, typer.Option(help="Of a ranking: log-worth of each method, lime=1,random=0; else 0.5 apart.")
    ] = None,
    accuracies: Annotated[
        str | None, typer.Option(help="Of a simulation: how often each cohort is right, none=0.6,lime=0.7.")
    ] = None,
    means: Annotated[str | None, typer.Option(help="Of a rating: mean of each method, lime=4,random=2.")] = None,
    ties: Annotated[float, typer.Option(help="Of a ranking: how readily people make ties.")] = 0.2,
    spread: Annotated[float, typer.Option(help="How much people differ (standard deviation).")] = 0.0,
    item_spread: Annotated[float, typer.Option("--item-spread", help="How much items differ.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Decides what they answer.")] = 0,
    database: Database = None,
) -> None:
    """Fill a study with synthetic people of known preferences: to plan its size, and to try its analysis.

    A study that real people have answered is left alone.
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


@app.command("analyze")
def analyze(
    folder: Folder,
    difference: Annotated[
        float | None,
        typer.Option(help="Say how many people it takes to detect this difference (0.1: ten points of a simulation)."),
    ] = None,
    leave_out: Annotated[str | None, typer.Option("--leave-out", help="People not to count: p03,p07.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    replicates: Annotated[int, typer.Option(min=1, help="Draws of people and items.")] = 2000,
    seed: Annotated[int, typer.Option(help="Decides those draws.")] = 0,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write charts (PNG, SVG) and tables (CSV, LaTeX) there.")
    ] = None,
    database: Database = None,
    as_json: options.Json = False,
) -> None:
    """Say what people's answers amount to: the order of the methods, how sure that is, and how far people agree.

    Writes analysis.json and analysis.html into the study's folder. `didact report RUN --study STUDY` puts the same into
    the report of a run.
    """
    _check_extra()
    from didact.reports.study_page import study_page
    from didact.study.folder import analyze_study

    found = analyze_study(
        folder, replicates=replicates, level=level, seed=seed, difference=difference,
        leave_out=split_list(leave_out) if leave_out else (), database=database,
    )  # fmt: skip
    page = study_page(folder, figures=figures)
    if as_json:
        print_json(found.to_document())
        return
    typer.echo(found.headline)
    for sheet in found.sheets():
        typer.echo(f"\n{sheet.title}")
        print_table(sheet.columns, sheet.rows, keys=sheet.keys)
    if difference is not None:
        typer.echo(f"\n{found.power_for(difference)}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    say(f"\nThe page is {page}.")


@app.command("export")
def export(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", help="answers.csv, .json or .parquet.")],
    names: Annotated[bool, typer.Option("--names", help="With people's names, where they are known.")] = False,
    database: Database = None,
) -> None:
    """Write all answers to a file: one line for each method that was judged."""
    from didact.study.export import FORMATS, exported

    kind = out.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise OptionError(f"Answers are exported as {', '.join(FORMATS)}, by the name of the file, not {out.name!r}.")
    check_new_file(out)
    design, answers = _opened(folder, database)
    known = {person.id: person.name for person in answers.people()} if names else None
    given = answers.read()
    write_bytes(with_folder(out), exported(design, given, kind, known))
    say(f"{len(given):,} answers are in {out}.")


@app.command("erase")
def erase(
    folder: Folder,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="p07, as the person was told.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    database: Database = None,
) -> None:
    """Remove everything that a person said, and their name; their link opens nothing from then on."""
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


def _print_links(folder: Path, invited: "Sequence[Invitation]", links: "Links") -> None:
    """The links of participants on stderr, and a warning where those in invites.csv lead elsewhere."""
    from didact.study.design import person_name

    if invited:
        say("Links for participants:")
    for invitation in invited[:SHOWN]:
        say(f"  {person_name(invitation.number)}  {invitation.link(links.base)}")
    if len(invited) > SHOWN:
        say(f"  … and {len(invited) - SHOWN} more: didact study invite {folder} prints all.")
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
