"""`didact learn`: explainers that are learned."""

import shlex
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from didact.cli import options
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import flag, option
from didact.cli.output import figure, going_on, print_json, print_metrics, say
from didact.registry import parse_spec, split_list

app = typer.Typer(
    cls=HelpGroup,
    help="Learn explainers that teach (smat) or are fast (l2e).",
    no_args_is_help=True,
    epilog=epilog(
        "didact learn smat --model my-model --data reviews.csv --out runs/smat",
        'didact explain --model my-model --method runs/smat "A wonderful end."',
    ),
)


@app.callback()
def learn() -> None:
    """Learn an explainer of a model from data."""


@command(
    app,
    "smat",
    "didact learn smat --model my-model --data reviews.csv --out runs/smat",
    "didact learn smat --model my-model --data sst --family gradient_mix \\\n    --size 1000",
)
def smat(
    model: options.Model,
    data: options.Data,
    columns: options.Columns = None,
    classes: options.Classes = None,
    family: Annotated[
        str,
        option(
            "--family", "NAME", "attention_mix (default), gradient_mix or blend.", options.METHOD, show_default=False
        ),
    ] = "attention_mix",
    settings: Annotated[
        str | None,
        option(
            "--options",
            "NAME=VALUE",
            "More options of the explainer: normaliser=softmax, members='lime + occlusion', and others.",
            options.METHOD,
        ),
    ] = None,
    student: Annotated[
        str | None,
        option("--student", "NAME", "architecture/attention (default: by the model's kind).", options.TRAINING),
    ] = None,
    base: options.Base = None,
    size: Annotated[int, option("--size", "N", "Number of rows to learn from.", options.TRAINING, min=1)] = 500,
    epochs: options.StudentEpochs = None,
    batch_size: options.BatchSize = None,
    rate: options.StudentRate = None,
    outer: Annotated[
        str, option("--outer", "SPLIT", "Rows that judge a step: train or dev.", options.TRAINING)
    ] = "train",
    outer_rate: Annotated[
        float | None,
        option("--outer-rate", "RATE", "Explainer's learning rate (default: 0.04 / its parts).", options.TRAINING),
    ] = None,
    outer_batch: Annotated[
        int | None, option("--outer-batch", "N", "Rows that judge a step (default: --batch-size).", options.TRAINING)
    ] = None,
    pilot: Annotated[bool, flag("--pilot/--no-pilot", "Look ahead as in the paper.", options.TRAINING)] = True,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", "Folder for the explainer (default: runs/smat-DATA).", options.OUTPUT),
    ] = None,
    overwrite: options.Overwrite = False,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    data_seed: options.DataSeed = 0,
    device: options.TeacherDevice = None,
    threads: options.TrainingThreads = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Learn explanations that teach a student to predict the model.

    A student learns from the explanations, and the explainer changes until they help. Use the folder as a method:
    `didact explain --method FOLDER`, `didact compare --explainers FOLDER`. The same command resumes a run that was
    stopped.
    """
    began = time.monotonic()
    said: dict[str, Any] = dict(parse_spec(f"options({settings})").options) if settings else {}
    family = said.pop("family", family)
    given = {"outer": outer, "outer_rate": outer_rate, "outer_batch": outer_batch, "pilot": pilot}
    defaults = {"outer": "train", "outer_rate": None, "outer_batch": None, "pilot": True}
    said |= {name: value for name, value in given.items() if value != defaults[name]}
    training = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    training = {name: value for name, value in training.items() if value is not None}

    from didact.experiment.learner import learner_of
    from didact.records.atomic import check_new_folder

    learner = learner_of({"family": family, **said})  # what cannot be learned is told before anything is loaded
    options.check_device(device)
    loaded = options.loaded_data(data, columns=columns, data_dir=data_dir, seed=data_seed)
    folder = out or Path("runs") / f"smat-{loaded.name.replace('/', '-')}"
    check_new_folder(folder, overwrite=overwrite)

    from didact.experiment.learn import check_smat, learn_smat
    from didact.experiment.rows import asks_for_gold

    check_smat(loaded, learner, student=student, size=size, training=training)
    teacher = options.teacher_of(
        model, device=device, threads=threads, task=task, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    loaded = options.aligned(loaded, teacher, classes, required=asks_for_gold(said))
    with going_on("Stopped. Give the same command again to go on from the last finished epoch."):
        explainer = learn_smat(
            teacher, loaded, family=family, student=student, size=size, seed=seed, base=base, training=training,
            out=folder, overwrite=overwrite, progress=True, trust_remote_code=trust_remote_code, **said,
        )  # fmt: skip
    seconds = round(time.monotonic() - began, 1)
    metrics = explainer.learned["metrics"]
    if as_json:
        print_json({"out": str(folder), "metrics": metrics, "notes": explainer.learned["notes"], "seconds": seconds})
        return
    explainer.view(f"What {folder} weighs").show()
    print_metrics(metrics)
    for note in explainer.learned["notes"]:
        say(note)
    say(
        f"Kept in {folder} after {seconds:.0f} s. The measures are of the student it learned with; whether it teaches "
        f"others better than what it is made of, `didact compare --explainers {folder},attention_all` tells."
    )


@command(
    app,
    "l2e",
    "didact learn l2e --model my-model --data reviews.csv --out runs/l2e",
    "didact learn l2e --model my-model --data sst --imitate lime,kernel_shap",
)
def l2e(
    model: options.Model,
    data: options.Data,
    columns: options.Columns = None,
    classes: options.Classes = None,
    imitate: Annotated[
        str,
        option("--imitate", "NAMES", "Methods, learned folders or files of scores.", options.METHOD),
    ] = "kernel_shap",
    formulation: Annotated[
        str, option("--formulation", "NAME", "labelling, ranking or regression.", options.METHOD)
    ] = "labelling",
    combine: Annotated[
        str,
        option(
            "--combine",
            "HOW",
            "Several methods: ranks (default, mean ranks) or heads.",
            options.METHOD,
            show_default=False,
        ),
    ] = "ranks",
    preset: Annotated[
        str,
        option(
            "--preset",
            "NAME",
            "default, or paper: train as the paper's code does.",
            options.METHOD,
            show_default=False,
        ),
    ] = "default",
    settings: Annotated[
        str | None,
        option("--options", "NAME=VALUE", "Of the network: width=256,positions=false,level=word.", options.METHOD),
    ] = None,
    size: Annotated[
        int | None, option("--size", "N", "Number of rows to learn from (default: all).", options.TRAINING, min=2)
    ] = None,
    initialisations: Annotated[
        int, option("--initialisations", "N", "Networks to train; the best one is saved.", options.TRAINING, min=1)
    ] = 3,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    rate: options.Rate = None,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", "Folder for the explainer (default: runs/l2e-DATA).", options.OUTPUT),
    ] = None,
    overwrite: options.Overwrite = False,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    data_seed: options.DataSeed = 0,
    device: options.TeacherDevice = None,
    threads: options.TrainingThreads = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Make a slow explainer fast: a small network imitates it.

    The network explains in one pass. Use the folder as a method: `didact explain --method FOLDER`, `didact compare
    --explainers FOLDER`. The same command resumes a run that was stopped, and reuses the explanations made before.
    """
    began = time.monotonic()
    said: dict[str, Any] = dict(parse_spec(f"options({settings})").options) if settings else {}
    training = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    training = {name: value for name, value in training.items() if value is not None}

    from didact.experiment.distil import ImitationWarning, check_l2e, imitation_warning, learn_l2e
    from didact.experiment.rows import asks_for_gold
    from didact.records.atomic import check_new_folder

    check_l2e(split_list(imitate), formulation=formulation, combine=combine, preset=preset, training=training, **said)
    options.check_device(device)
    loaded = options.loaded_data(data, columns=columns, data_dir=data_dir, seed=data_seed)
    folder = out or Path("runs") / f"l2e-{loaded.name.replace('/', '-')}"
    check_new_folder(folder, overwrite=overwrite)
    teacher = options.teacher_of(
        model, device=device, threads=threads, task=task, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    loaded = options.aligned(loaded, teacher, classes, required=asks_for_gold(imitate))
    stopped = going_on("Stopped. Explanations that were made are kept: give the same command again to go on.")
    with stopped, warnings.catch_warnings():
        warnings.simplefilter("ignore", ImitationWarning)  # printed below
        explainer = learn_l2e(
            teacher, loaded, imitate=split_list(imitate), formulation=formulation, combine=combine, preset=preset,
            size=size, initialisations=initialisations, seed=seed, training=training, out=folder, overwrite=overwrite,
            progress=True, **said,
        )  # fmt: skip
    seconds = round(time.monotonic() - began, 1)
    metrics, imitates = explainer.learned["metrics"], explainer.learned["imitates"]
    caution = imitation_warning(imitates, metrics)
    if as_json:
        cautions = [] if caution is None else [caution]
        print_json({"out": str(folder), "metrics": metrics, "seconds": seconds, "warnings": cautions})
        return
    _print_imitation(" + ".join(imitates), metrics)
    for note in explainer.learned["notes"]:
        say(f"warning: {note}" if note == caution else note)
    named = [part for value in columns or () for part in ("--columns", value)]
    say(
        f"Kept in {folder} after {seconds:.0f} s. Explain with it: "
        + shlex.join(["didact", "explain", "--model", model, "--data", data, *named, "--method", str(folder)])
    )


def _print_imitation(imitates: str, metrics: dict[str, Any]) -> None:
    """What the kept network reached, the others beside it, and what learning cost."""
    each = ", ".join(_rounded(network["dev_spearman"]) for network in metrics["initialisations"])
    lines = {
        f"rank correlation with {imitates} on held-out rows": _rounded(metrics["dev_spearman"]),
        "shared top units on held-out rows (IoU)": _rounded(metrics["dev_top_iou"]),
        "held-out rows": f"{metrics['dev_rows']:,}",
        "rows learned from": f"{metrics['train_rows']:,}",
        "rank correlation of each network": each,
        "epochs (kept)": f"{metrics['epochs']} ({metrics['epoch']})",
        "seconds to explain, to learn": f"{metrics['collect_seconds']:.1f}, {metrics['train_seconds']:.1f}",
    }
    for label, value in lines.items():
        typer.echo(f"{label}: {value}")


def _rounded(value: float | None) -> str:
    return "–" if value is None else figure(value, ".2f")
