"""`didact demo`: which explanation of a model can be trusted, offline, in a few minutes.

It calls what everybody can call: train_teacher, learn_l2e, compare, report.
"""

import contextlib
import io
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import didact
from didact.cli.options import Json, configured
from didact.cli.output import console, echo_stderr, exit_on_interrupt, print_json
from didact.config import Group, ModelOptions, Option
from didact.errors import DidactError, OptionError
from didact.field_types import Integer, Name, Switch, Threads
from didact.limits import MAX_WORKERS

if TYPE_CHECKING:
    from didact.cli.demo_steps import DemoSize
    from didact.core.dataset import Dataset
    from didact.core.teacher import Teacher
    from didact.results.comparison import Comparison

FOLDER: Final = Path("runs/demo")
# Shown side by side, if they are there: the truth, chance, and what people use most.
_SHOWN: Final = (
    *("human", "random", "gradient_norm", "integrated_gradients", "lime(samples=100)", "attention_all", "l2e"),
)

EXAMPLES: Final = ("didact demo --quick", "didact demo --model my-model --data reviews.csv --out runs/my-demo")


class DemoConfig(ModelOptions):
    """The options of `didact demo`."""

    quick: Annotated[Switch, Option(Group.GENERAL)] = False
    """One seed and no intervals: about a minute."""
    full: Annotated[Switch, Option(Group.GENERAL)] = False
    """Eight seeds, more methods and controls: half an hour."""
    model: Annotated[Name | None, Option(Group.MODEL, "MODEL")] = None  # type: ignore[assignment]
    """Your own model (folder or hub name); with --data."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu, cuda, mps, or auto (training uses one GPU)."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None
    """A file, or a name from `didact data list`."""
    data_dir: Annotated[Name | None, Option(Group.DATA, "FOLDER")] = None
    """Folder with real data (default: $DIDACT_DATA)."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder (default: runs/demo; your own: runs/demo-DATA)."""
    seed: Annotated[Annotated[int, Integer(0, 2**24 - 1)], Option(Group.ADVANCED, "N")] = 0
    """Seed of data, teacher and students."""
    workers: Annotated[Annotated[int, Integer(0, MAX_WORKERS)] | None, Option(Group.ADVANCED, "N")] = None
    """Workers (default: one per core; 0: in this process)."""
    threads: Threads | None = None
    """Not on the command line: a demo uses one thread per student."""

    @property
    def home(self) -> Path:
        """Where the demo lives: your own beside the planted one."""
        if self.out is not None or self.data is None:
            return self.out or FOLDER
        name = re.sub(r"[^\w.]+", "-", Path(self.data.partition("(")[0]).name).strip("-.")
        return FOLDER.with_name(f"{FOLDER.name}-{name or 'own'}")

    def check(self) -> None:
        """An error for what does not go together."""
        if self.quick and self.full:
            raise OptionError("--quick and --full were both given: choose one.")
        if (self.model is None) != (self.data is None):
            has, lacks = ("data", "model") if self.model is None else ("model", "data")
            raise OptionError(
                f"--{has} was given without --{lacks}: a demo of your own needs both. Train a model with `didact train "
                "--data D --out T` and give --model T --data D; or leave both out."
            )
        if self.model == "human":
            raise OptionError("The teacher 'human' computes nothing that could be explained. Give a model.")
        loading = [name.replace("_", "-") for name, value in self.loading().items() if value and name != "device"]
        if self.model is None and loading:
            raise OptionError(f"--{', --'.join(loading)} is about a model of your own: give --model and --data, too.")
        from didact.models.accelerate_hooks import AUTO
        from didact.models.load import checked_device

        if self.device is not None and (self.device != AUTO or self.model is None):  # your own may be spread
            checked_device(self.device)


@configured(DemoConfig)
def demo(config: DemoConfig, as_json: Json = False) -> None:
    """See a whole comparison offline, in about three minutes.

    Trains a teacher on data whose truth is known, and shows which explanations teach students to predict it. Three
    seeds and 250 rows per student: few, and marked as such. The methods are also measured by faithfulness, stability,
    truth, agreement and cost, and a page shows everything. With --model and --data it does the same with your own. The
    same command resumes a demo that was stopped.
    """
    config.check()
    start = time.monotonic()
    from didact.cli.demo_steps import SIZES

    size = SIZES["quick" if config.quick else "full" if config.full else "default"]
    # A plain report lies where people look for it.
    folder = config.home if size.name == "default" else config.home / size.name
    redirect = contextlib.redirect_stdout(io.StringIO()) if as_json else contextlib.nullcontext()
    with exit_on_interrupt():
        with redirect:
            screen = _Screen(is_hidden=as_json)
            result = _run_steps(screen, config, size, folder)
            page, verdict = _show_ranking(screen, result, folder)
        seconds = time.monotonic() - start
        if as_json:
            document = {"out": str(folder), "report": str(page), "ranking": result.ranking(), "verdict": verdict}
            print_json(document | {"seconds": round(seconds, 1)})
        else:
            typer.echo(f"\nThe report: {page}")
            typer.echo(f"Done in {seconds:.0f} s. Open the report in a browser; it needs nothing else.")
    if result.failed:
        echo_stderr(f"{len(result.failed)} runs failed; the same command tries them again.")
        raise typer.Exit(1)


class _Screen:
    """Numbered headings and wrapped prose on stdout, which --json hides."""

    def __init__(self, *, is_hidden: bool) -> None:
        self.is_hidden, self.number = is_hidden, 0

    def heading(self, text: str) -> None:
        self.number += 1
        self.text(f"\n{self.number}. {text}", style="bold")

    def text(self, text: str, style: str = "") -> None:
        from rich.text import Text

        console().print(Text(text, style=style))

    def warn(self, text: str) -> None:
        """What people should know, and those who read JSON, too."""
        echo_stderr(text) if self.is_hidden else self.text(text)


def _run_steps(screen: _Screen, config: DemoConfig, size: "DemoSize", folder: Path) -> "Comparison":
    """All steps, each with what it shows: data, teacher, imitation, students, and a row."""
    from didact.cli import demo_steps as steps

    if config.model is None:
        data, teacher = _planted_subject(screen, config)
        subject: dict[str, Any] = {
            "teacher": config.home / "teacher", "data": steps.DATA, "data_seed": config.seed,
            "students": list(size.students), "training": dict(steps.STUDENT),
        }  # fmt: skip
    else:
        data, teacher = _open_own(screen, config)
        subject = {"teacher": teacher, "data": data, **steps.LIMITS}
    imitation = _imitation(screen, teacher, data, size, folder / "l2e", config.seed)
    rows = min(size.rows, len(data["train"]))
    methods: list[str | Path] = [*_methods(screen, teacher, data, size, rows, required=not imitation), *imitation]
    result = didact.compare(
        **subject, out=folder, **config.pick("workers", "device"), explainers=methods, train_sizes=[rows],
        # No two seeds of a demo share a seed of students.
        seeds=list(range(config.seed * size.seeds, (config.seed + 1) * size.seeds)), eval_rows=size.eval_rows,
        skip_controls=list(size.skip_controls), temperatures=list(size.temperatures), progress=True,
    )  # fmt: skip
    if data.task.is_text:
        _show_row(screen, folder)
    return result


def _planted_subject(screen: _Screen, config: DemoConfig) -> "tuple[Dataset, Teacher]":
    """Planted data, and the teacher of an earlier demo, or one that is trained now."""
    import torch

    from didact.cli import demo_steps as steps
    from didact.cli.data import show_rows

    torch.set_num_threads(1)  # small models are quickest so; two threads on a busy machine can be ten times slower
    folder, seed = config.home / "teacher", config.seed
    data = didact.load_data(steps.DATA, seed=seed)
    screen.heading("Data whose truth is known: planted/sentiment")
    screen.text("The marked words decide the label; nothing else does.")
    show_rows(list(data["test"][:2]), data)
    screen.heading("A teacher: a transformer of two layers, trained from scratch")
    origin = f"Kept from an earlier demo, in {folder}."
    if not steps.is_trained(folder, data, seed):
        origin = f"Trained on {len(data['teach']):,} sentences, {steps.EPOCHS} times over."
        didact.train_teacher(
            data, steps.TEACHER, out=folder, overwrite=True, seed=seed, epochs=steps.EPOCHS, device=config.device,
            progress=True,
        )  # fmt: skip
    teacher = didact.load_teacher(folder, device=config.device)
    metrics = getattr(teacher, "record", {})["metrics"]
    screen.text(f"{origin} Accuracy on {metrics['test_rows']:,} test sentences: {metrics['test_accuracy']:.1%}.")
    screen.text(
        "Does it answer for the right reasons? With all unmarked words drawn anew it keeps its answer on "
        f"{metrics['kept']:.1%} of sentences (99 % wanted); with the marked words drawn anew it follows the new "
        f"label on {metrics['followed']:.1%} (95 % wanted)."
    )
    screen.text(
        "So the marked words are what it reads, and explanations can be held against them as truth."
        if metrics["verified"]
        else "So the marked words are not proven to be what it reads: do not take them for the truth of this "
        "teacher. Another --seed trains another one."
    )
    return data, teacher


def _open_own(screen: _Screen, config: DemoConfig) -> "tuple[Dataset, Teacher]":
    data = didact.load_data(str(config.data), **config.pick("data_dir", "seed"))
    screen.heading(f"Your data: {data.name}")
    screen.text(f"It is {data.task}: " + ", ".join(f"{len(split):,} {name}" for name, split in data.items()))
    screen.heading(f"Your model: {config.model}")
    teacher = didact.load_teacher(config.model, **config.loading())
    if teacher.task != data.task:
        raise OptionError(
            f"The data {data.name!r} is {data.task}, and the model does {teacher.task}. Give data that fit "
            "it, or say what it does, e.g. --task pair."
        )
    teacher.predict(data["train"].rows[:2])  # what it cannot read is told now
    classes = "" if teacher.classes is None else f", with the classes {', '.join(teacher.classes[:10])}"
    screen.text(f"It does {teacher.task}{classes}. It stays as it is; nothing is trained but students.")
    screen.text("How long this takes depends on the model: large ones can take hours on a CPU.")
    return data, teacher


def _imitation(
    screen: _Screen, teacher: "Teacher", data: "Dataset", size: "DemoSize", folder: Path, seed: int
) -> list[Path]:
    """The folder of a fast imitation of a slow method; none where none is wanted, or where it cannot be learned."""
    from didact.cli.demo_steps import IMITATED, learn_imitation
    from didact.core.model import TooLongError
    from didact.explainers import is_learned

    if not size.imitated:
        return []
    if folder.exists() and not is_learned(folder):
        raise OptionError(f"{folder} holds something that no demo made. Choose another folder (--out).")
    screen.heading(f"A fast imitation: L2E learns what {IMITATED} would say")
    try:
        learned = learn_imitation(teacher, data, folder, size, seed)
    except TooLongError:
        raise
    except DidactError as error:
        screen.warn(f"Left out: l2e: {error}")
        return []
    metrics = learned.learned["metrics"]
    screen.text(f"One network learned from {metrics['train_rows'] + metrics['dev_rows']:,} explained rows.")
    if metrics["dev_spearman"] is not None:
        screen.text(
            "On the tenth of them that was held out its scores rank words like the imitated ones with Spearman's "
            f"ρ = {metrics['dev_spearman']:.2f}."
        )
    return [folder]


def _methods(
    screen: _Screen, teacher: "Teacher", data: "Dataset", size: "DemoSize", rows: int, *, required: bool
) -> list[str]:
    """The methods that can explain this model. If one is `required`, an error where there is none."""
    from didact.cli.demo_steps import possible_methods
    from didact.results.gains import FEW_SEEDS

    seeds = "one seed" if size.seeds == 1 else f"{size.seeds} seeds"
    few = ", which is few" if size.seeds < FEW_SEEDS else ""
    screen.heading(f"Students: which explanations teach? {rows} rows each, {seeds}{few}")
    screen.text(
        f"Every student learns the teacher's answers to the same {rows} rows of a seed. One sees these alone "
        "(none), the others an explanation of each answer, too. Then all predict the teacher on rows they never "
        "saw, with no explanation."
    )
    methods, left_out = possible_methods(teacher, data, size.explainers, rows)
    reasons = [f"{name}: {why}" for name, why in left_out.items()]
    for reason in reasons:
        screen.warn(f"Left out: {reason}")
    if "smat" in methods and len(size.temperatures) == 1:
        screen.text(
            "SMaT is learned anew for each seed, from that seed's rows. Beside it stands static attention, "
            f"sharpened at one temperature, {size.temperatures[0]:g}, fixed beforehand (--full tries several on dev)."
        )
    if required and not methods:
        raise OptionError(f"None of the demo's methods can explain this model on these rows. {'; '.join(reasons)}")
    return methods


def _show_row(screen: _Screen, folder: Path) -> None:
    """The first measured row, as some of the methods explain it."""
    from didact.comparing.evaluation import load_measured
    from didact.results.views import side_by_side

    measured = load_measured(folder)
    files = {method.label: folder / method.file for method in (() if measured is None else measured.methods)}
    labels = [label for label in _SHOWN if label in files]
    if labels:
        screen.heading("One row, as some of the methods explain it")
        maps = {label: didact.Explanations.load(files[label])[:1] for label in labels}
        side_by_side([replace(rows, method=label, options={}) for label, rows in maps.items()])


def _show_ranking(screen: _Screen, result: "Comparison", folder: Path) -> tuple[Path, str]:
    """The table and the verdict. Gives the report and the verdict in words."""
    from didact.reports.verdict import CAUTIONS, verdict_of
    from didact.results.comparison import Comparison

    screen.heading("The ranking")
    typer.echo(result.table())
    page, verdict = didact.report(folder), verdict_of(Comparison.load(folder)).text
    screen.heading("What it means")
    screen.text(verdict)
    screen.text(CAUTIONS[0].partition(". ")[0] + ".")
    return page, verdict
