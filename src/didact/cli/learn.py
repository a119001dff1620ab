"""`didact learn smat` and `didact learn l2e`: learn explainers."""

import shlex
import time
import warnings
from pathlib import Path
from typing import Any

import typer

from didact.cli import inputs
from didact.cli.configs import L2eConfig, SmatConfig
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, exit_on_interrupt, format_number, print_json, print_metrics

app = typer.Typer(
    cls=HelpGroup,
    help="Learn explainers that teach (smat) or explain fast (l2e).",
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
@configured(SmatConfig)
def smat(config: SmatConfig, as_json: Json = False) -> None:
    """Learn explanations that teach a student to predict the model.

    Trains an explainer so that a student learns most from its explanations (SMaT). Use the folder as a method:
    `didact explain --method FOLDER`, `didact compare --explainers FOLDER`. Run the same command again to resume a
    stopped run.
    """
    start = time.monotonic()
    from didact.explaining.input_rows import explains_gold_label
    from didact.learned.smat_spec import learner_of

    settings = config.learner()
    learner = learner_of(settings)  # reports bad options before anything is loaded
    loaded, folder = _open(config, "smat")
    from didact.learned.smat import check_smat, checked_training, learn_smat

    check_smat(loaded, learner, training=checked_training(config.training), **config.pick("student", "size"))
    teacher = inputs.open_teacher(config)
    loaded = inputs.align_to_teacher(loaded, teacher, config.classes, required=explains_gold_label(settings))
    with exit_on_interrupt("Stopped. Run the same command again to resume after the last finished epoch."):
        explainer = learn_smat(
            teacher, loaded, out=folder, progress=True, training=config.training, **settings,
            **config.pick("student", "size", "seed", "base", "overwrite", "trust_remote_code"),
        )  # fmt: skip
    seconds = round(time.monotonic() - start, 1)
    metrics, notes = explainer.learned["metrics"], explainer.learned["notes"]
    if as_json:
        print_json({"out": str(folder), "metrics": metrics, "notes": notes, "seconds": seconds})
        return
    explainer.view(f"What {folder} weighs").show()
    print_metrics(metrics)
    for note in notes:
        echo_stderr(note)
    echo_stderr(
        f"Saved in {folder} after {seconds:.0f} s. The metrics are those of the student used in training. To see "
        "whether the explainer teaches other students better than its components, run: "
        f"didact compare --explainers {folder},attention_all"
    )


def _open(config: SmatConfig | L2eConfig, name: str) -> tuple[Any, Path]:
    """Load the data and check the new folder."""
    from didact.files.atomic import check_new_folder

    inputs.check_device(config.device)
    loaded = inputs.open_data(config, seed=config.data_seed)
    folder = config.out or Path("runs") / f"{name}-{loaded.name.replace('/', '-')}"
    check_new_folder(folder, overwrite=config.overwrite)
    return loaded, folder


@command(
    app,
    "l2e",
    "didact learn l2e --model my-model --data reviews.csv --out runs/l2e",
    "didact learn l2e --model my-model --data sst --imitate lime,kernel_shap",
)
@configured(L2eConfig)
def l2e(config: L2eConfig, as_json: Json = False) -> None:
    """Make a slow explainer fast: train a small network to imitate it.

    The network explains in one pass (L2E). Use the folder as a method: `didact explain --method FOLDER`, `didact
    compare --explainers FOLDER`. Run the same command again to resume a stopped run; it reuses finished explanations.
    """
    start = time.monotonic()
    from didact.explaining.input_rows import explains_gold_label
    from didact.learned.l2e import ImitationWarning, check_l2e, learn_l2e

    imitate = list(config.imitate)
    learning = config.pick("formulation", "combine", "preset", "training") | config.options
    check_l2e(imitate, **learning)
    loaded, folder = _open(config, "l2e")
    teacher = inputs.open_teacher(config)
    loaded = inputs.align_to_teacher(loaded, teacher, config.classes, required=explains_gold_label(",".join(imitate)))
    interruptible = exit_on_interrupt("Stopped. Finished explanations are saved. Run the same command again to resume.")
    with interruptible, warnings.catch_warnings():
        warnings.simplefilter("ignore", ImitationWarning)  # printed below
        explainer = learn_l2e(
            teacher, loaded, imitate=imitate, out=folder, progress=True, **learning,
            **config.pick("size", "initialisations", "seed", "overwrite"),
        )  # fmt: skip
    _show_l2e(explainer, config, folder, round(time.monotonic() - start, 1), as_json=as_json)


def _show_l2e(explainer: Any, config: L2eConfig, folder: Path, seconds: float, *, as_json: bool) -> None:
    from didact.learned.l2e import imitation_warning

    metrics, imitates = explainer.learned["metrics"], explainer.learned["imitates"]
    caution = imitation_warning(imitates, metrics)
    if as_json:
        cautions = [] if caution is None else [caution]
        print_json({"out": str(folder), "metrics": metrics, "seconds": seconds, "warnings": cautions})
        return
    _print_imitation(" + ".join(imitates), metrics)
    for note in explainer.learned["notes"]:
        echo_stderr(f"warning: {note}" if note == caution else note)
    columns = ",".join(f"{role}={column or 'none'}" for role, column in config.columns.items())
    options = ["--columns", columns] if columns else []
    echo_stderr(
        f"Saved in {folder} after {seconds:.0f} s. Explain with it: "
        + shlex.join(
            ["didact", "explain", "--model", config.model, "--data", config.data, *options, "--method", str(folder)]
        )
    )


def _print_imitation(imitates: str, metrics: dict[str, Any]) -> None:
    """Print the scores of the saved network and of the others, and what learning cost."""
    correlations = ", ".join(_format_correlation(network["dev_spearman"]) for network in metrics["initialisations"])
    lines = {
        f"rank correlation with {imitates} on held-out rows": _format_correlation(metrics["dev_spearman"]),
        "shared top units on held-out rows (IoU)": _format_correlation(metrics["dev_top_iou"]),
        "held-out rows": f"{metrics['dev_rows']:,}",
        "rows learned from": f"{metrics['train_rows']:,}",
        "rank correlation of each network": correlations,
        "epochs (chosen)": f"{metrics['epochs']} ({metrics['epoch']})",
        "seconds to explain, to learn": f"{metrics['collect_seconds']:.1f}, {metrics['train_seconds']:.1f}",
    }
    for label, value in lines.items():
        typer.echo(f"{label}: {value}")


def _format_correlation(value: float | None) -> str:
    return "–" if value is None else format_number(value, ".2f")
