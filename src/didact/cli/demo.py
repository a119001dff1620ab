"""`didact demo`: which explanation of a model can be trusted, offline, in a few minutes.

It calls what everybody can call: train_teacher, learn_l2e, compare, report.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import didact
from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import console, going_on, print_json, say
from didact.errors import DidactError, OptionError
from didact.registry import renamed_option

if TYPE_CHECKING:
    from didact.core.dataset import Dataset
    from didact.core.teacher import Teacher
    from didact.experiment.demo import DemoSize
    from didact.results.comparison import Comparison

FOLDER: Final = Path("runs/demo")
_MOST_SEEDS: Final = 2**24  # of a demo; students' seeds are multiples of it
# Shown side by side, if they are there: the truth, chance, and what people use most.
_SHOWN: Final = (
    *("human", "random", "gradient_norm", "integrated_gradients", "lime(samples=100)", "attention_all", "l2e"),
)

EXAMPLES: Final = ("didact demo --quick", "didact demo --model my-model --data reviews.csv --out runs/my-demo")


def demo(
    quick: Annotated[bool, flag("--quick", "One seed and no intervals: about a minute.")] = False,
    full: Annotated[bool, flag("--full", "Eight seeds, more methods and controls: half an hour.")] = False,
    seed: Annotated[
        int, option("--seed", "N", "Seed of planted data, teacher and students.", options.ADVANCED, min=0)
    ] = 0,
    model: Annotated[
        str | None, option("--model", "MODEL", "Your own model (folder or hub name); with --data.", options.MODEL)
    ] = None,
    data: Annotated[str | None, options.DATA_OPTION] = None,
    task: options.Task = None,
    max_length: options.MaxLength = None,
    length: Annotated[int | None, option("--length", "N", "Former name of --max-length.", hidden=True)] = None,
    truncate: options.Truncate = False,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    data_dir: options.DataDir = None,
    device: options.TeacherDevice = None,
    workers: options.Workers = None,
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", "Folder (default: runs/demo; your own: runs/demo-DATA).", options.OUTPUT),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """See a whole comparison offline, in about three minutes.

    Trains a teacher on data whose truth is known, and shows which explanations teach students to predict it. Three
    seeds and 250 rows per student: few, and marked as such. The methods are also measured by faithfulness, stability,
    truth, agreement and cost, and a page shows everything. With --model and --data it does the same with your own. The
    same command resumes a demo that was stopped.
    """
    if quick and full:
        raise OptionError("--quick and --full were both given: choose one.")
    began = time.monotonic()
    from didact.experiment import demo as steps

    size = steps.SIZES["quick" if quick else "full" if full else "default"]
    loading: dict[str, Any] = {"task": task, "max_length": max_length, "length": length, "truncate": truncate}
    loading |= {"revision": revision, "trust_remote_code": trust_remote_code}
    loading = renamed_option(loading, "length", "max_length")
    _check_request(model, data, seed, device, loading)
    home = out or _home(data)
    folder = home if size.name == "default" else home / size.name  # a plain report lies where people look for it
    show = _Printer(is_silent=as_json)
    with going_on():
        if model is None or data is None:
            loaded, teacher = _planted(show, home / "teacher", seed, device)
            subject: dict[str, Any] = {"teacher": home / "teacher", "data": steps.DATA, "data_seed": seed}
            subject |= {"students": list(size.students), "training": dict(steps.STUDENT)}
        else:
            loaded, teacher = _own(show, model, data, data_dir, seed, device, loading)
            subject = {"teacher": teacher, "data": loaded, **steps.LIMITS}
        subject |= {"train_sizes": [min(size.rows, len(loaded["train"]))], "out": folder, "workers": workers}
        subject |= {} if device is None else {"device": device}
        result = _compared(show, teacher, loaded, size, seed, subject)
        _end(show, result, folder, began, is_text=loaded.task.is_text)
    if result.failed:
        say(f"{len(result.failed)} runs failed; the same command tries them again.")
        raise typer.Exit(1)


class _Printer:
    """Numbered headings and wrapped prose on stdout; with --json, stdout is left to one document."""

    def __init__(self, *, is_silent: bool) -> None:
        self.is_silent, self.number = is_silent, 0

    def heading(self, text: str) -> None:
        self.number += 1
        self.text(f"\n{self.number}. {text}", style="bold")

    def text(self, text: str, style: str = "") -> None:
        if not self.is_silent:
            from rich.text import Text

            console().print(Text(text, style=style))

    def warn(self, text: str) -> None:
        """What people should know, and those who read JSON, too."""
        say(text) if self.is_silent else self.text(text)


def _check_request(
    model: str | None, data: str | None, seed: int, device: str | None, loading: Mapping[str, Any]
) -> None:
    if (model is None) != (data is None):
        has, lacks = ("data", "model") if model is None else ("model", "data")
        raise OptionError(
            f"--{has} was given without --{lacks}: a demo of your own needs both. Train a model with `didact train "
            "--data D --out T` and give --model T --data D; or leave both out."
        )
    if model == "human":
        raise OptionError("The teacher 'human' computes nothing that could be explained. Give a model.")
    if model is None and any(loading.values()):
        names = [name.replace("_", "-") for name, value in loading.items() if value]
        raise OptionError(f"--{', --'.join(names)} is about a model of your own: give --model and --data, too.")
    if not 0 <= seed < _MOST_SEEDS:
        raise OptionError(f"The seed of a demo is from 0 to {_MOST_SEEDS:,}, not {seed}.")
    from didact.models.load import checked_device
    from didact.models.spread import AUTO

    if device is not None and (device != AUTO or model is None):  # a model of your own may be spread
        checked_device(device)


def _home(data: str | None) -> Path:
    """Where a demo lives: your own beside the planted one."""
    if data is None:
        return FOLDER
    name = re.sub(r"[^\w.]+", "-", Path(data.partition("(")[0]).name).strip("-.")
    return FOLDER.with_name(f"{FOLDER.name}-{name or 'own'}")


# -- data and teacher ------------------------------------------------------------------------------------------------


def _planted(show: _Printer, folder: Path, seed: int, device: str | None) -> "tuple[Dataset, Teacher]":
    """Planted data, and the teacher of an earlier demo, or one that is trained now."""
    import torch

    from didact.cli.data import show_rows
    from didact.experiment import demo as steps

    torch.set_num_threads(1)  # small models are quickest so; two threads on a busy machine can be ten times slower
    data = didact.load_data(steps.DATA, seed=seed)
    show.heading("Data whose truth is known: planted/sentiment")
    show.text("The marked words decide the label; nothing else does.")
    if not show.is_silent:
        show_rows(list(data["test"][:2]), data)
    show.heading("A teacher: a transformer of two layers, trained from scratch")
    origin = f"Kept from an earlier demo, in {folder}."
    if not steps.is_trained(folder, data, seed):
        origin = f"Trained on {len(data['teach']):,} sentences, {steps.EPOCHS} times over."
        training: dict[str, Any] = {"seed": seed, "epochs": steps.EPOCHS, "device": device, "progress": True}
        didact.train_teacher(data, steps.TEACHER, out=folder, overwrite=True, **training)
    teacher = didact.load_teacher(folder, device=device)
    metrics = getattr(teacher, "record", {})["metrics"]
    show.text(f"{origin} Accuracy on {metrics['test_rows']:,} test sentences: {metrics['test_accuracy']:.1%}.")
    show.text(
        "Does it answer for the right reasons? With all unmarked words drawn anew it keeps its answer on "
        f"{metrics['kept']:.1%} of sentences (99 % wanted); with the marked words drawn anew it follows the new "
        f"label on {metrics['followed']:.1%} (95 % wanted)."
    )
    show.text(
        "So the marked words are what it reads, and explanations can be held against them as truth."
        if metrics["verified"]
        else "So the marked words are not proven to be what it reads: do not take them for the truth of this "
        "teacher. Another --seed trains another one."
    )
    return data, teacher


def _own(
    show: _Printer,
    model: str,
    source: str,
    data_dir: str | None,
    seed: int,
    device: str | None,
    loading: Mapping[str, Any],
) -> "tuple[Dataset, Teacher]":
    data = didact.load_data(source, data_dir=data_dir, seed=seed)
    show.heading(f"Your data: {data.name}")
    show.text(f"It is {data.task}: " + ", ".join(f"{len(split):,} {name}" for name, split in data.items()))
    show.heading(f"Your model: {model}")
    teacher = didact.load_teacher(model, device=device, **loading)
    if teacher.task != data.task:
        raise OptionError(
            f"The data {data.name!r} is {data.task}, and the model does {teacher.task}. Give data that fit "
            "it, or say what it does, e.g. --task pair."
        )
    teacher.predict(data["train"].rows[:2])  # what it cannot read is told now
    classes = "" if teacher.classes is None else f", with the classes {', '.join(teacher.classes[:10])}"
    show.text(f"It does {teacher.task}{classes}. It stays as it is; nothing is trained but students.")
    show.text("How long this takes depends on the model: large ones can take hours on a CPU.")
    return data, teacher


# -- explanations and students ---------------------------------------------------------------------------------------


def _imitation(
    show: _Printer, teacher: "Teacher", data: "Dataset", size: "DemoSize", folder: Path, seed: int
) -> list[Path]:
    """The folder of a fast imitation of a slow method; none where none is wanted, or where it cannot be learned."""
    from didact.core.model import TooLongError
    from didact.experiment.demo import IMITATED, learn_imitation
    from didact.explainers import is_learned

    if not size.imitated:
        return []
    if folder.exists() and not is_learned(folder):
        raise OptionError(f"{folder} holds something that no demo made. Choose another folder (--out).")
    show.heading(f"A fast imitation: L2E learns what {IMITATED} would say")
    try:
        learned = learn_imitation(teacher, data, folder, size, seed)
    except TooLongError:
        raise
    except DidactError as error:
        show.warn(f"Left out: l2e: {error}")
        return []
    metrics = learned.learned["metrics"]
    show.text(f"One network learned from {metrics['train_rows'] + metrics['dev_rows']:,} explained rows.")
    if metrics["dev_spearman"] is not None:
        show.text(
            "On the tenth of them that was held out its scores rank words like the imitated ones with Spearman's "
            f"ρ = {metrics['dev_spearman']:.2f}."
        )
    return [folder]


def _compared(
    show: _Printer,
    teacher: "Teacher",
    data: "Dataset",
    size: "DemoSize",
    seed: int,
    subject: Mapping[str, Any],
) -> "Comparison":
    """Students taught with each of the explanations, and the explanations measured by all else."""
    from didact.experiment.demo import possible_methods
    from didact.results.gains import FEW

    imitation = _imitation(show, teacher, data, size, subject["out"] / "l2e", seed)
    (rows,) = subject["train_sizes"]
    seeds = "one seed" if size.seeds == 1 else f"{size.seeds} seeds"
    few = ", which is few" if size.seeds < FEW else ""
    show.heading(f"Students: which explanations teach? {rows} rows each, {seeds}{few}")
    show.text(
        f"Every student learns the teacher's answers to the same {rows} rows of a seed. One sees these alone "
        "(none), the others an explanation of each answer, too. Then all predict the teacher on rows they never "
        "saw, with no explanation."
    )
    possible, left_out = possible_methods(teacher, data, size.explainers, rows)
    methods: list[str | Path] = [*possible, *imitation]
    reasons = [f"{name}: {why}" for name, why in left_out.items()]
    for reason in reasons:
        show.warn(f"Left out: {reason}")
    if "smat" in methods and len(size.temperatures) == 1:
        show.text(
            "SMaT is learned anew for each seed, from that seed's rows. Beside it stands static attention, "
            f"sharpened at one temperature, {size.temperatures[0]:g}, fixed beforehand (--full tries several on dev)."
        )
    if not methods:
        raise OptionError(f"None of the demo's methods can explain this model on these rows. {'; '.join(reasons)}")
    return didact.compare(
        **subject, explainers=methods, eval_rows=size.eval_rows, progress=True,
        seeds=list(range(seed * size.seeds, (seed + 1) * size.seeds)),  # no two seeds of a demo share one
        skip_controls=list(size.skip_controls), temperatures=list(size.temperatures),
    )  # fmt: skip


# -- what came out ---------------------------------------------------------------------------------------------------


def _end(show: _Printer, result: "Comparison", folder: Path, began: float, *, is_text: bool) -> None:
    from didact.reports.verdict import CAUTION, verdict_of
    from didact.results.comparison import Comparison

    if is_text and not show.is_silent:
        _show_row(show, folder)
    show.heading("The ranking")
    if not show.is_silent:
        typer.echo(result.table())
    page = didact.report(folder)
    verdict = verdict_of(Comparison.load(folder))
    show.heading("What it means")
    show.text(verdict.text)
    show.text(CAUTION[0].partition(". ")[0] + ".")
    seconds = time.monotonic() - began
    if show.is_silent:
        document = {"out": str(folder), "report": str(page), "ranking": result.ranking(), "verdict": verdict.text}
        print_json(document | {"seconds": round(seconds, 1)})
    else:
        typer.echo(f"\nThe report: {page}")
        typer.echo(f"Done in {seconds:.0f} s. Open the report in a browser; it needs nothing else.")


def _show_row(show: _Printer, folder: Path) -> None:
    """The first measured row, as some of the methods explain it."""
    from didact.experiment.measure import read_measured
    from didact.results.views import side_by_side

    measured = read_measured(folder)
    files = {method.label: folder / method.file for method in (() if measured is None else measured.methods)}
    labels = [label for label in _SHOWN if label in files]
    if labels:
        show.heading("One row, as some of the methods explain it")
        maps = {label: didact.Explanations.load(files[label])[:1] for label in labels}
        side_by_side([replace(rows, method=label, options={}) for label, rows in maps.items()])
