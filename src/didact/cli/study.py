"""`didact study`: blind rankings, ratings and simulation studies with people. Commands new, serve and invite."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from didact.cli import inputs, study_answers
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import Json, configured
from didact.cli.output import echo_notes, echo_stderr, print_json
from didact.errors import OptionError, RecordError
from didact.study.config import LOCAL, InviteConfig, ServeConfig, StudyConfig

if TYPE_CHECKING:
    from didact.study.database import AnswerStore
    from didact.study.links import Invitation

NEW: Final = (
    "didact study new --kind ranking --explanations lrp.parquet lime.parquet \\\n"
    "    --data reviews.csv --out runs/study"
)
SHOWN: Final = 20  # maximum links that `serve` prints

app = typer.Typer(
    cls=HelpGroup,
    help="Run studies with people: which explanations help them?",
    no_args_is_help=True,
    epilog=epilog(NEW, "didact study serve runs/study"),
)


@command(
    app,
    "new",
    NEW,
    "didact study new --kind simulation --explanations lrp.parquet --data sst \\\n"
    '    --annotators 10 --about "The model rates films." --out runs/simulation',
)
@configured(StudyConfig)
def new(config: StudyConfig, as_json: Json = False) -> None:
    """Make a study: choose rows and invite people.

    Stores a copy of the rows and explanations, and makes a link for each person. Browsers never receive the names of
    methods; their order is shuffled for each person and row.
    """
    inputs.check_study_extra()
    files = [*config.explanations, *config.more]
    inputs.check_files(files, has_data=True)
    from didact.explaining.read_explanations import open_sets
    from didact.results.explanations import Explanations
    from didact.study.create import create_study

    data = inputs.data_for_files(config, config.split, seed=0)
    sets, notes = open_sets(files, data)
    echo_notes(notes)
    explanations = [source if isinstance(source, Explanations) else Explanations.load(source) for source in sets]
    if not config.about and sys.stdin.isatty() and not as_json:
        config = config.with_fields(about=_ask_about(explanations[0].task, explanations[0].classes or data.classes))
    create_study(explanations, data, config, config.classes or None)
    _show_new(config, as_json=as_json)


def _ask_about(task: str, classes: Sequence[str] | None) -> str:
    """Ask for one sentence about the model on the terminal. Enter takes the default."""
    from didact.study.about import default_about

    default = default_about(task, classes)
    return str(typer.prompt("What does the model do? One sentence for participants", default=default, err=True))


def _show_new(config: StudyConfig, *, as_json: bool) -> None:
    from didact.study.create import study_summary
    from didact.study.design import read_design
    from didact.study.links import serve_flags

    summary = study_summary(config.out, read_design(config.out))
    if as_json:
        print_json(summary)
        return
    answers = ", ".join(f"{count} {name!r}" for name, count in sorted((summary["answers"] or {}).items()))
    wrong = "" if summary["errors"] is None else f"; the model is wrong about {summary['errors']}"
    names = summary["cohorts"]
    cohorts = f" in {len(names)} cohorts ({', '.join(names)})" if names else ""
    typer.echo(f"{config.kind} of {len(summary['methods'])} methods: {', '.join(summary['methods'])}")
    typer.echo(f"{summary['items']} items{f' ({answers})' if answers else ''}{wrong}")
    typer.echo(f"{summary['people']} people{cohorts}; their links are in {summary['invites']}")
    typer.echo(f"participants read: {summary['about']}")
    echo_stderr(f"Serve it with: {shlex.join(['didact', 'study', 'serve', str(config.out), *serve_flags(config.url)])}")


@command(app, "serve", "didact study serve runs/study", "didact study serve runs/study --host 0.0.0.0 --port 8080")
@configured(ServeConfig)
def serve(config: ServeConfig) -> None:
    """Serve the pages of a study, and print the links.

    Runs until you stop it (Ctrl-C). Stopping loses nothing: the page confirms an answer only when it is on disk.
    """
    inputs.check_study_extra()
    from didact.study.serve import serve as run

    _, answers = inputs.open_study(config)
    invited, synthetic = _invited(answers, config.folder), sum(person.is_synthetic for person in answers.people())
    answers.close()

    def ready(address: str) -> None:
        echo_stderr(f"The study is at {address}{config.root}/")
        _print_links(config, f"{address}{config.root}", invited)
        if synthetic:
            echo_stderr(
                f"warning: {synthetic} synthetic people have answered this study (didact study simulate). The analysis "
                "would mix their answers with those of real people. Make a new study for real people."
            )

    run(config, ready=ready)


def _print_links(config: ServeConfig, address: str, invited: "Sequence[Invitation]") -> None:
    """Print the links, but only on a terminal. They give access, so a log gets only the path of their file."""
    from didact.study.auth import read_keys, write_private
    from didact.study.design import person_name
    from didact.study.links import INVITES, ORGANISER, is_loopback, links_for

    folder = config.folder
    is_proxied = config.https or config.proxy is not None
    links = links_for(folder, address, is_proxied=is_proxied)
    organiser = f"{links.base if is_proxied else address}/o/{read_keys(folder).organiser}"
    if sys.stderr.isatty():
        echo_stderr(f"The organiser's page: {organiser}")
        if invited:
            echo_stderr("Links for participants:")
        for invitation in invited[:SHOWN]:
            echo_stderr(f"  {person_name(invitation.number)}  {invitation.link(links.base)}")
        if len(invited) > SHOWN:
            echo_stderr(f"  … and {len(invited) - SHOWN} more: didact study invite {folder} prints all.")
    else:
        try:
            write_private(folder / ORGANISER, f"{organiser}\n")
            echo_stderr(
                f"The organiser's link is in {folder / ORGANISER}, those of participants in {folder / INVITES}."
            )
        except RecordError as error:  # a read-only folder, with the answers in another database
            echo_stderr(f"warning: {error} The organiser's link is printed if you serve the study from a terminal.")
    if links.warning:
        echo_stderr(f"warning: {links.warning}")
    if not is_loopback(config.host):
        echo_stderr(
            "warning: the study is open to the network, and what people send is not encrypted. Put a server with "
            "https in front (--proxy, --https), or serve on a network you trust."
        )


@command(
    app,
    "invite",
    "didact study invite runs/study --more 5",
    "didact study invite runs/study --url https://study.example.org",
)
@configured(InviteConfig)
def invite(config: InviteConfig, as_json: Json = False) -> None:
    """Print the links of all people, and invite more.

    Also rewrites invites.csv. Use --url if the address of the study has changed.
    """
    design, answers = inputs.open_study(config)
    from didact.study.auth import read_keys, write_private
    from didact.study.design import person_name
    from didact.study.links import INVITES, invitations, invitations_csv, invites_base_url

    keys = read_keys(config.folder)
    answers.check_keys(keys)
    url = config.url or invites_base_url(config.folder) or str(design.facts.get("url", LOCAL))
    names = config.names
    if len(names) > config.more:
        raise OptionError(
            f"--names has {len(names)} names, but --more invites {config.more} people. Give --more {len(names)}."
        )
    if config.more:
        first = answers.next_number()
        more = invitations(keys, range(first, first + config.more))
        answers.invite(design, more, names)
    invited = _invited(answers, config.folder)
    write_private(config.folder / INVITES, invitations_csv(invited, url))
    links = {person_name(invitation.number): invitation.link(url) for invitation in invited}
    if as_json:
        print_json({"rows": [{"person": person, "link": link} for person, link in links.items()]})
        return
    for person, link in links.items():
        typer.echo(f"{person}  {link}")


def _invited(answers: "AnswerStore", folder: Path) -> "list[Invitation]":
    """The invitations of people who can answer."""
    from didact.study.auth import read_keys
    from didact.study.links import invitations

    people = [person for person in answers.people() if not person.is_erased and not person.is_synthetic]
    return invitations(read_keys(folder), [person.number for person in people])


app.add_typer(study_answers.app)  # without a name, so its commands join these
