"""`didact learn`: explainers that are learned."""

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from didact.cli import options
from didact.cli.output import figure, going_on, print_json, print_metrics, say
from didact.registry import parse_spec, split_list

app = typer.Typer(
    help="Learn explainers: smat (explanations that teach), l2e (slow ones made fast).", no_args_is_help=True
)


@app.callback()
def learn() -> None:
    """Learn an explainer of a model from data."""


@app.command("smat")
def smat(
    model: Annotated[str, typer.Option("--model", help="The teacher: a folder or a hub name.")],
    data: Annotated[str, typer.Option("--data", help="A name from `didact data list`, or a file or folder.")],
    columns: options.Columns = None,
    classes: options.Classes = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the explainer; else runs/smat-DATA.")] = None,
    family: Annotated[str, typer.Option(help="attention_mix, gradient_mix or blend.")] = "attention_mix",
    outer: Annotated[str, typer.Option(help="Rows that judge each step: train, or dev as in the paper.")] = "train",
    student: Annotated[str | None, typer.Option(help="architecture/attention; default by the teacher's kind.")] = None,
    size: Annotated[int, typer.Option(min=1, help="How many rows to learn from.")] = 500,
    option: Annotated[
        str | None,
        typer.Option("--options", help="More of them: normaliser=softmax,outer_rate=0.001,members='lime + occlusion'."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Of the student; default by its kind.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    rate: Annotated[float | None, typer.Option(help="The student's learning rate.")] = None,
    outer_rate: Annotated[float | None, typer.Option(help="The explainer's; default 0.04 over its parts.")] = None,
    outer_batch: Annotated[int | None, typer.Option(help="Rows that judge a step; default batch_size.")] = None,
    pilot: Annotated[bool, typer.Option("--pilot/--no-pilot", help="Look one step further, as in the paper.")] = True,
    seed: Annotated[int, typer.Option(help="Decides rows, weights and order.")] = 0,
    base: Annotated[str | None, typer.Option(help="Base model of `same` and `embeddings=base`, if unrecorded.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    task: Annotated[str | None, typer.Option(help="If the model does not say: `pair` for one that reads two.")] = None,
    length: Annotated[int | None, typer.Option(help="The teacher reads so many tokens at most.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut rows too long for the teacher.")] = False,
    data_dir: Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")] = None,
    data_seed: Annotated[int, typer.Option(help="Of planted data.")] = 0,
    device: options.TeacherDevice = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; another number gives other weights.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run a model's own code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Learn explanations that teach: a student is taught, and the explanation changes until it helps.

    The folder that is written is a method for `didact explain --method FOLDER` and an explainer for `didact compare`.
    A command that was stopped goes on when it is given again.
    """
    began = time.monotonic()
    said: dict[str, Any] = dict(parse_spec(f"options({option})").options) if option else {}
    family = said.pop("family", family)
    given = {"outer": outer, "outer_rate": outer_rate, "outer_batch": outer_batch, "pilot": pilot}
    defaults = {"outer": "train", "outer_rate": None, "outer_batch": None, "pilot": True}
    said |= {name: value for name, value in given.items() if value != defaults[name]}
    training = {"epochs": epochs, "batch_size": batch_size, "rate": rate}
    training = {name: value for name, value in training.items() if value is not None}

    from didact.experiment.learner import learner_of
    from didact.records.atomic import check_new_folder

    learner_of({"family": family, **said})  # what cannot be learned is told before anything is loaded

    options.check_device(device)
    loaded = options.loaded_data(data, columns=columns, data_dir=data_dir, seed=data_seed)
    folder = out or Path("runs") / f"smat-{loaded.name.replace('/', '-')}"
    check_new_folder(folder, overwrite=overwrite)

    from didact.experiment.learn import learn_smat
    from didact.experiment.rows import asks_for_gold

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
        print_json({"out": str(folder), "metrics": metrics, "seconds": seconds})
        return
    explainer.view(f"What {folder} weighs").show()
    print_metrics(metrics)
    for note in explainer.learned["notes"]:
        say(note)
    say(
        f"Kept in {folder} after {seconds:.0f} s. The measures are of the student it learned with; whether it teaches "
        f"others better than what it is made of, `didact compare --explainers {folder},attention_all` tells."
    )


@app.command("l2e")
def l2e(
    model: Annotated[str, typer.Option("--model", help="The teacher: a folder or a hub name.")],
    data: Annotated[str, typer.Option("--data", help="A name from `didact data list`, or a file or folder.")],
    columns: options.Columns = None,
    classes: options.Classes = None,
    imitate: Annotated[
        str, typer.Option(help="Methods, folders of learned explainers, or files of scores; several with commas.")
    ] = "kernel_shap",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the explainer; else runs/l2e-DATA.")] = None,
    formulation: Annotated[str, typer.Option(help="labelling, ranking or regression.")] = "labelling",
    combine: Annotated[str, typer.Option(help="Several: their mean ranks, or heads of their own (heads).")] = "ranks",
    preset: Annotated[str, typer.Option(help="default, or paper: as the paper's code trains.")] = "default",
    size: Annotated[int | None, typer.Option(min=2, help="How many rows to learn from; default all.")] = None,
    option: Annotated[
        str | None, typer.Option("--options", help="Of the network: width=256,positions=false,level=word.")
    ] = None,
    initialisations: Annotated[
        int, typer.Option(min=1, help="Networks to learn; the best on held-out rows is kept.")
    ] = 3,
    epochs: Annotated[int | None, typer.Option(help="At most; it stops when held-out rows gain nothing.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    rate: Annotated[float | None, typer.Option(help="The learning rate.")] = None,
    seed: Annotated[int, typer.Option(help="Decides rows, weights and order.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    task: Annotated[str | None, typer.Option(help="If the model does not say: `pair` for one that reads two.")] = None,
    length: Annotated[int | None, typer.Option(help="The teacher reads so many tokens at most.")] = None,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut rows too long for the teacher.")] = False,
    data_dir: Annotated[str | None, typer.Option(help="Folder with real data; default: DIDACT_DATA.")] = None,
    data_seed: Annotated[int, typer.Option(help="Of planted data.")] = 0,
    device: options.TeacherDevice = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; another number gives other weights.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Run a model's own code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Make a slow explainer fast: a small network learns to explain as it does, in one pass.

    The folder that is written is a method for `didact explain --method FOLDER` and an explainer for `didact compare`.
    A command that was stopped goes on when it is given again: explanations that were made are kept.
    """
    began = time.monotonic()
    said: dict[str, Any] = dict(parse_spec(f"options({option})").options) if option else {}
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
    say(
        f"Kept in {folder} after {seconds:.0f} s. Explain with it: "
        f"didact explain --model {model} --data {data} --method {folder}"
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
