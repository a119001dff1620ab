"""`didact agree`: how far explanation methods agree with one another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import print_json, say
from didact.errors import OptionError
from didact.registry import parse_spec, split_list

if TYPE_CHECKING:
    from didact.records.explanations import Explanations

EXAMPLES: Final = (
    "didact agree lrp.parquet lime.parquet --measure kendall,sign",
    "didact agree --model my-model --data reviews.csv --methods lrp,lime \\\n    --out agreement.png",
)


def agree(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files of `didact explain --out`, or (with --data) of another tool."),
    ] = None,
    measure: Annotated[
        str,
        option(
            "--measure",
            "NAMES",
            "kendall, spearman, pearson, weighted_tau, top_overlap(k=0.1), top_tau(k=0.1), sign, or (with --model) "
            "prediction(k=0.3, remove=mask).",
            options.STATISTICS,
        ),
    ] = "kendall",
    by: Annotated[
        str,
        option(
            "--by",
            "WHAT",
            "size, signed, or auto (default): size except for sign and prediction.",
            options.STATISTICS,
            show_default=False,
        ),
    ] = "auto",
    level: Annotated[
        str | None,
        option("--level", "LEVEL", "word joins word pieces first; token refuses words.", options.STATISTICS),
    ] = None,
    each: Annotated[
        str | None,
        option("--each", "PART", "Also by task, group (teachers) or length of rows.", options.STATISTICS),
    ] = None,
    together: Annotated[
        bool, flag("--together", "Compare explanations of different teachers.", options.STATISTICS)
    ] = False,
    out: Annotated[
        Path | None, option("--out", "FILE", "Draw the heat map: .png, .svg or .html.", options.OUTPUT)
    ] = None,
    overwrite: options.OverwriteFile = False,
    model: Annotated[
        str | None,
        option("--model", "MODEL", "Model to explain with --methods, or for prediction.", options.MODEL),
    ] = None,
    data: Annotated[
        str | None, option("--data", "DATA", "Data to explain, or that foreign files are about.", options.DATA)
    ] = None,
    columns: options.Columns = None,
    classes: options.Classes = None,
    methods: Annotated[
        str | None, option("--methods", "NAMES", "Explain with these names from `didact methods`.", options.METHOD)
    ] = None,
    split: Annotated[
        str | None,
        option(
            "--split",
            "SPLIT",
            "teach, explain, train, dev, test or all (default to explain: all rows of a file, else test).",
            options.DATA,
        ),
    ] = None,
    rows: options.FirstRows = None,
    preset: options.Preset = None,
    batch_size: options.PassSize = None,
    seed: options.DrawSeed = None,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    threads: options.Threads = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Measure how far explanation methods agree with one another.

    Compares every pair of files, or every pair of --methods, on the same rows. Agreement is not correctness: it only
    says whether two rankings are alike.
    """
    from didact.experiment.agree import TOGETHER, agreements, check_asked
    from didact.experiment.agreement import CAUTION, check_each, check_picture, draw
    from didact.metrics.agreement import AGREEMENT

    asked = options.methods_of(methods) if methods else []
    measures = split_list(measure)
    asks = any(AGREEMENT[parse_spec(one).name].needs_teacher for one in measures)
    given = files or []
    foreign = options.check_files(given, has_data=data is not None)
    idle = not foreign and (data is not None or (model is not None and not asks))
    if idle and not asked and given and data is None:
        raise OptionError(
            "--model is used by the measure `prediction` alone when files are compared. Leave it out, or ask for "
            "--measure prediction."
        )
    if (data is None or model is None) if asked else idle:
        raise OptionError(
            "To explain now, --model, --data and --methods go together. Without --methods, --data are what files of "
            "another tool are about, and --model is asked for `prediction`."
        )
    if len(given) + len(asked) < 2:
        raise OptionError(
            "Agreement is between methods: give two files of explanations or more (didact explain --out FILE), or "
            "--model, --data and --methods with two names or more."
        )
    check_asked(measures, by=by, level=level, has_teacher=model is not None)  # before anything is explained
    check_each(each)
    if out is not None:
        check_picture(out, overwrite=overwrite)

    sets: list[Explanations | str | Path] = list(given)
    teacher = None
    if model is not None:
        teacher = options.teacher_of(
            model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
            trust_remote_code=trust_remote_code,
        )  # fmt: skip
    if asked:
        assert data is not None
        said = {"preset": preset, "level": level, "batch_size": batch_size, "seed": seed}
        sets += _explained(
            teacher, asked, said, data=data, split=split, rows=rows, data_dir=data_dir, columns=columns, classes=classes
        )
    about = None
    if foreign and data is not None:
        about = options.data_of(
            data, split, data_dir=data_dir, seed=seed or 0, rows=rows, columns=columns, is_explained=bool(asked or rows)
        )
    found = agreements(
        sets, measures, by=by, level=level, groups=TOGETHER if together else None, teacher=teacher, data=about,
        batch_size=batch_size or 64,
    )  # fmt: skip
    if out is not None:
        draw(found, out, each)
        say(f"The heat map is in {out}.")
    if as_json:
        documents = [one.to_document(each) for one in found]
        print_json(documents[0] if len(documents) == 1 else {"measures": documents})
        return
    for one in found:
        typer.echo(one.table(caution=False) + "\n")
        for name, part in one.each(each).items() if each is not None else ():
            typer.echo(f"{each} {name}: {len(part.ids):,} rows\n{part.grid()}\n")
    typer.echo(CAUTION)


def _explained(
    teacher: Any,
    asked: list[str],
    common: dict[str, Any],
    *,
    data: str,
    split: str | None,
    rows: int | None,
    data_dir: str | None,
    columns: list[str] | None,
    classes: str | None,
) -> "list[Explanations]":
    from didact.cli.explain import chosen_rows, needs_labels
    from didact.experiment.explain import explain

    said = {name: value for name, value in common.items() if value is not None}
    chosen, others = chosen_rows(
        teacher, data, split, rows, columns=columns, classes=classes, data_dir=data_dir, seed=common["seed"] or 0,
        needs_labels=needs_labels(teacher, asked, said),
    )  # fmt: skip
    return [explain(teacher, chosen, one, background_rows=others, progress=True, **said) for one in asked]
