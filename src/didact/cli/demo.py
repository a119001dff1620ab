"""`didact demo`: a whole comparison, offline, in a few minutes.

It uses the public API: train_teacher, learn_l2e, compare, report.
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
# Shown next to each other, if computed: the truth, chance, and the most common methods.
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
    """Your own model (folder or hub name); needs --data."""
    device: Annotated[Name | None, Option(Group.MODEL, "DEVICE")] = None
    """cpu (default), cuda, mps, or auto (training uses one GPU)."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None
    """A file, or a name from `didact data list`."""
    data_dir: Annotated[Name | None, Option(Group.DATA, "FOLDER")] = None
    """Folder with real data (default: $DIDACT_DATA)."""
    out: Annotated[Path | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder (default: runs/demo, or runs/demo-DATA)."""
    seed: Annotated[Annotated[int, Integer(0, 2**24 - 1)], Option(Group.ADVANCED, "N")] = 0
    """Seed of data, teacher and students."""
    workers: Annotated[Annotated[int, Integer(0, MAX_WORKERS)] | None, Option(Group.ADVANCED, "N")] = None
    """Workers (default: one per core; 0: in this process)."""
    threads: Threads | None = None
    """Not on the command line: a demo uses one thread per student."""

    @property
    def home(self) -> Path:
        """The folder of the demo: runs/demo, or one next to it for your own data."""
        if self.out is not None or self.data is None:
            return self.out or FOLDER
        name = re.sub(r"[^\w.]+", "-", Path(self.data.partition("(")[0]).name).strip("-.")
        return FOLDER.with_name(f"{FOLDER.name}-{name or 'own'}")

    def check(self) -> None:
        """Raise an error for options that exclude each other."""
        if self.quick and self.full:
            raise OptionError("--quick and --full exclude each other. Choose one.")
        if (self.model is None) != (self.data is None):
            has, lacks = ("data", "model") if self.model is None else ("model", "data")
            raise OptionError(
                f"--{has} needs --{lacks}: a demo on your own data needs a model, too. Train one with `didact train "
                "--data D --out T` and give --model T --data D, or leave both out."
            )
        if self.model == "human":
            raise OptionError("The teacher 'human' is no model that could be explained. Give a model.")
        loading = [name.replace("_", "-") for name, value in self.loading().items() if value and name != "device"]
        if self.model is None and loading:
            raise OptionError(f"--{', --'.join(loading)} needs a model of your own: give --model and --data, too.")
        from didact.models.accelerate_hooks import AUTO
        from didact.models.load import checked_device

        if self.device is not None and (self.device != AUTO or self.model is None):  # yours may use several GPUs
            checked_device(self.device)


@configured(DemoConfig)
def demo(config: DemoConfig, as_json: Json = False) -> None:
    """See a whole comparison offline, in about three minutes.

    Trains a teacher on planted data, where the words that decide the label are known, and shows which explanations
    teach students to predict it. Also measures faithfulness, stability, truth, agreement and cost, and writes a report.
    The demo has three seeds and 250 rows per student, which is few; the results say so. --model and --data run it on
    your own model. Run the same command again to resume a stopped demo.
    """
    config.check()
    start = time.monotonic()
    from didact.cli.demo_steps import SIZES

    size = SIZES["quick" if config.quick else "full" if config.full else "default"]
    # The default demo has no subfolder.
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
            typer.echo(f"Done in {seconds:.0f} s. Open the report in a browser; it works offline.")
    if result.failed:
        echo_stderr(f"{len(result.failed)} runs failed. Run the same command to try them again.")
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
        """Print a warning; with --json, on stderr."""
        echo_stderr(text) if self.is_hidden else self.text(text)


def _run_steps(screen: _Screen, config: DemoConfig, size: "DemoSize", folder: Path) -> "Comparison":
    """Run and show all steps: data, teacher, imitation, students, and one row."""
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
        # Demos with different seeds share no seed of students.
        seeds=list(range(config.seed * size.seeds, (config.seed + 1) * size.seeds)), eval_rows=size.eval_rows,
        skip_controls=list(size.skip_controls), temperatures=list(size.temperatures), progress=True,
    )  # fmt: skip
    if data.task.is_text:
        _show_row(screen, folder)
    return result


def _planted_subject(screen: _Screen, config: DemoConfig) -> "tuple[Dataset, Teacher]":
    """Planted data, and a teacher: that of an earlier demo, or one trained now."""
    import torch

    from didact.cli import demo_steps as steps
    from didact.cli.data import show_rows

    torch.set_num_threads(1)  # fastest for small models; two threads on a busy machine can be ten times slower
    folder, seed = config.home / "teacher", config.seed
    data = didact.load_data(steps.DATA, seed=seed)
    screen.heading("Data whose truth is known: planted/sentiment")
    screen.text("The marked words decide the label; nothing else does.")
    show_rows(list(data["test"][:2]), data)
    screen.heading("A teacher: a transformer with two layers, trained from scratch")
    origin = f"Reused from an earlier demo, in {folder}."
    if not steps.is_trained(folder, data, seed):
        origin = f"Trained on {len(data['teach']):,} sentences for {steps.EPOCHS} epochs."
        didact.train_teacher(
            data, steps.TEACHER, out=folder, overwrite=True, seed=seed, epochs=steps.EPOCHS, device=config.device,
            progress=True,
        )  # fmt: skip
    teacher = didact.load_teacher(folder, device=config.device)
    metrics = getattr(teacher, "record", {})["metrics"]
    screen.text(f"{origin} Accuracy on {metrics['test_rows']:,} test sentences: {metrics['test_accuracy']:.1%}.")
    screen.text(
        "Does it answer for the right reasons? With all unmarked words redrawn, it keeps its answer on "
        f"{metrics['kept']:.1%} of sentences (required: 99 %). With the marked words redrawn, it follows the new "
        f"label on {metrics['followed']:.1%} (required: 95 %)."
    )
    screen.text(
        "So its answers depend on the marked words, and explanations can be compared with them as truth."
        if metrics["verified"]
        else "So its answers may not depend on the marked words: do not take them for the truth about this "
        "teacher. Another --seed trains another teacher."
    )
    return data, teacher


def _open_own(screen: _Screen, config: DemoConfig) -> "tuple[Dataset, Teacher]":
    data = didact.load_data(str(config.data), **config.pick("data_dir", "seed"))
    screen.heading(f"Your data: {data.name}")
    screen.text(f"Task: {data.task}. Rows: " + ", ".join(f"{len(split):,} {name}" for name, split in data.items()))
    screen.heading(f"Your model: {config.model}")
    teacher = didact.load_teacher(config.model, **config.loading())
    if teacher.task != data.task:
        raise OptionError(
            f"The data {data.name!r} is {data.task}, but the model does {teacher.task}. Give data that fit the model, "
            "or set its task, e.g. --task pair."
        )
    teacher.predict(data["train"].rows[:2])  # reports rows that it cannot read
    classes = "" if teacher.classes is None else f", with the classes {', '.join(teacher.classes[:10])}"
    screen.text(f"It does {teacher.task}{classes}. It is not changed; only students are trained.")
    screen.text("How long this takes depends on the model: large ones can take hours on a CPU.")
    return data, teacher


def _imitation(
    screen: _Screen, teacher: "Teacher", data: "Dataset", size: "DemoSize", folder: Path, seed: int
) -> list[Path]:
    """The folder of a fast imitation of a slow method; empty if none is planned or it cannot be learned."""
    from didact.cli.demo_steps import IMITATED, learn_imitation
    from didact.core.model import TooLongError
    from didact.explainers import is_learned

    if not size.imitated:
        return []
    if folder.exists() and not is_learned(folder):
        raise OptionError(f"{folder} was not written by a demo. Choose another folder (--out).")
    screen.heading(f"A fast imitation: L2E learns the scores of {IMITATED}")
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
            "On the held-out tenth of these rows, its scores correlate with the imitated ones: Spearman's "
            f"ρ = {metrics['dev_spearman']:.2f}."
        )
    return [folder]


def _methods(
    screen: _Screen, teacher: "Teacher", data: "Dataset", size: "DemoSize", rows: int, *, required: bool
) -> list[str]:
    """The methods that can explain this model. Raises `OptionError` if one is `required` but none can."""
    from didact.cli.demo_steps import possible_methods
    from didact.results.gains import FEW_SEEDS

    seeds = "one seed" if size.seeds == 1 else f"{size.seeds} seeds"
    few = ", which is few" if size.seeds < FEW_SEEDS else ""
    screen.heading(f"Students: which explanations teach? {rows} rows each, {seeds}{few}")
    screen.text(
        f"For each seed, all students learn the teacher's answers to the same {rows} rows. One sees only the answers "
        "(none), each of the others also the explanations of one method. Then all predict the teacher on new rows, "
        "without explanations."
    )
    methods, left_out = possible_methods(teacher, data, size.explainers, rows)
    reasons = [f"{name}: {why}" for name, why in left_out.items()]
    for reason in reasons:
        screen.warn(f"Left out: {reason}")
    if "smat" in methods and len(size.temperatures) == 1:
        screen.text(
            "SMaT is learned again for each seed, from the rows of that seed. It is compared with static attention, "
            f"sharpened with the fixed temperature {size.temperatures[0]:g} (--full chooses one of several on dev)."
        )
    if required and not methods:
        raise OptionError(f"None of the demo's methods can explain this model on these rows. {'; '.join(reasons)}")
    return methods


def _show_row(screen: _Screen, folder: Path) -> None:
    """Show how some of the methods explain one row."""
    from didact.comparing.evaluation import load_measured
    from didact.results.views import side_by_side

    measured = load_measured(folder)
    files = {method.label: folder / method.file for method in (() if measured is None else measured.methods)}
    labels = [label for label in _SHOWN if label in files]
    if labels:
        screen.heading("One row, explained by some of the methods")
        explanations = {label: didact.Explanations.load(files[label])[:1] for label in labels}
        side_by_side([replace(rows, method=label, options={}) for label, rows in explanations.items()])


def _show_ranking(screen: _Screen, result: "Comparison", folder: Path) -> tuple[Path, str]:
    """Show the table and the verdict. Returns the path of the report and the text of the verdict."""
    from didact.reports.verdict import CAUTIONS, verdict_of
    from didact.results.comparison import Comparison

    screen.heading("The ranking")
    typer.echo(result.table())
    page, verdict = didact.report(folder), verdict_of(Comparison.load(folder)).text
    screen.heading("What it means")
    screen.text(verdict)
    screen.text(CAUTIONS[0].partition(". ")[0] + ".")
    return page, verdict
