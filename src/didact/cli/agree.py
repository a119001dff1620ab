"""`didact agree`: how far explanation methods agree with one another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from didact.cli import options
from didact.cli.output import print_json, say
from didact.errors import OptionError
from didact.registry import parse_spec, split_list

if TYPE_CHECKING:
    from didact.records.explanations import Explanations


def agree(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="What `didact explain --out` kept, or (with --data) another tool wrote."),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            help="kendall, spearman, pearson, weighted_tau, top_overlap(k=0.1), top_tau(k=0.1), sign, or (with "
            "--model) prediction(k=0.3, remove=mask); or several.",
        ),
    ] = "kendall",
    by: Annotated[
        str, typer.Option(help="size: scores without signs (default but for `sign` and `prediction`); signed.")
    ] = "auto",
    level: Annotated[
        str | None, typer.Option(help="word joins the pieces of words first; token refuses words.")
    ] = None,
    each: Annotated[
        str | None, typer.Option(help="Also by parts of the rows: task, group (teachers) or length.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="Compare explanations of different teachers with one another.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Draw the heat map: .png, .svg or .html.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A folder or a hub name: to explain now, or to ask for `prediction`.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="What to explain now, or what files of another tool are about.")
    ] = None,
    columns: options.Columns = None,
    classes: options.Classes = None,
    methods: Annotated[str | None, typer.Option("--methods", help="Names from `didact methods`, with options.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Of the data: teach, explain, train, dev; to explain now, by default all of a file, or test."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Only the first rows.")] = None,
    preset: Annotated[str | None, typer.Option(help="What a paper used: pruthi, smat, l2e or neely.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Altered rows that pass through the model at once; 64.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides random draws and planted data; 0.")] = None,
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
    """Say how far methods agree about the same rows, for every pair of them: files, or methods to explain with now.

    Agreement is not correctness: it tells only whether two rankings are alike.
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
        check_picture(out)

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
