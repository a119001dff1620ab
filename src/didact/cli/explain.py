"""`didact explain`: why a model answers as it does, for a sentence or a data set."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, no_type_check

import typer

from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import going_on, print_json, say, say_notes
from didact.errors import OptionError
from didact.records.atomic import check_different, check_new_file, is_page

if TYPE_CHECKING:
    from didact.core.dataset import Dataset, Split
    from didact.core.teacher import Teacher
    from didact.records.by_class import ByClass
    from didact.records.explanations import Explanations


EXAMPLES: Final = (
    'didact explain --model my-model "A slow start, but a wonderful end."',
    "didact explain --model my-model --data reviews.csv --method lrp,lime \\\n    --html maps.html",
)


@no_type_check  # typer hands over a context of the click that it carries, whose class it does not name
def _named_model(context: typer.Context, model: str) -> str:
    """An error where --model is missing; the first text may be what was meant."""
    if model or context.resilient_parsing:
        return model
    first, *others = context.params.get("texts") or [""]
    if first and (Path(first) / "config.json").is_file():
        line = shlex.join(["didact", "explain", "--model", first, *others])
        raise OptionError(f"Option --model is missing. {first!r} is a folder with a model; did you mean:\n  {line}")
    raise OptionError("Option --model is missing. Name the folder of a model, or its name on the Hugging Face hub.")


def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to explain; two per row for a model of pairs.")
    ] = None,
    model: Annotated[
        str,
        option("--model", "MODEL", "Folder or hub name of the model (required).", options.MODEL, callback=_named_model),
    ] = "",
    method: Annotated[
        str | None,
        option(
            "--method",
            "NAMES",
            "Names from `didact methods`, or folders of learned explainers (default: lrp where its scores add up, "
            "else integrated_gradients).",
            options.METHOD,
        ),
    ] = None,
    data: Annotated[
        str | None,
        option(
            "--data",
            "DATA",
            "A file, or a name from `didact data list`; with --stream also owner/name on the hub.",
            options.DATA,
        ),
    ] = None,
    columns: options.Columns = None,
    classes: options.Classes = None,
    split: Annotated[
        str | None,
        option(
            "--split",
            "SPLIT",
            "teach, explain, train, dev, test or all; on the hub one of its splits (default: all rows of a file, else "
            "test).",
            options.DATA,
        ),
    ] = None,
    rows: options.FirstRows = None,
    background: Annotated[
        str | None,
        option("--background", "DATA", "Background of gradient_shap etc. (default: --data).", options.DATA),
    ] = None,
    out: Annotated[Path | None, option("--out", "FILE", "Write the scores to a Parquet file.", options.OUTPUT)] = None,
    html: Annotated[Path | None, option("--html", "FILE", "Write a page with heat maps.", options.OUTPUT)] = None,
    overwrite: options.OverwriteFile = False,
    stream: Annotated[
        bool, flag("--stream", "Explain data larger than memory, shard by shard.", options.ADVANCED)
    ] = False,
    shard: Annotated[
        int | None, option("--shard", "N", "Rows per shard with --stream (default: 256).", options.ADVANCED, min=1)
    ] = None,
    workers: Annotated[
        int | None,
        option("--workers", "N", "Worker processes with --stream (default: 0, none).", options.ADVANCED, min=0),
    ] = None,
    target: Annotated[
        str | None,
        option("--target", "TARGET", "predicted (default), gold, contrast, a class or all.", options.METHOD),
    ] = None,
    scale: Annotated[
        str | None, option("--scale", "SCALE", "logit, probability or log_probability.", options.METHOD)
    ] = None,
    level: Annotated[
        str | None,
        option(
            "--level",
            "LEVEL",
            "Score token (default, shown as words) or word; --level token shows the pieces.",
            options.METHOD,
        ),
    ] = None,
    special: Annotated[bool | None, flag("--special/--no-special", "Score special tokens too.", options.METHOD)] = None,
    absolute: Annotated[
        bool | None, flag("--absolute/--signed", "Drop the signs of scores, or keep them.", options.METHOD)
    ] = None,
    normalise: Annotated[
        str | None,
        option("--normalise", "HOW", "raw (default), softmax(temperature=1), top(k=0.1).", options.METHOD),
    ] = None,
    preset: options.Preset = None,
    batch_size: options.PassSize = None,
    seed: options.DrawSeed = None,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: Annotated[
        int | None,
        option(
            "--threads",
            "N",
            "CPU threads (per process with --stream, default 1). Another number changes the last digits.",
            options.ADVANCED,
            min=1,
            max=options.MOST,
        ),
    ] = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    summary: Annotated[bool, flag("--summary", "Print the strongest words of each class.", options.OUTPUT)] = False,
    as_json: options.Json = False,
) -> None:
    """Show which words made the model answer as it does.

    Explains texts given on the command line, or rows of a data set. Prints heat maps of the first rows, or JSON. The
    same command resumes a run with --out that was stopped.
    """
    asked: Sequence[str | None] = [None] if method is None else options.methods_of(method)
    if len(asked) > 1 and (out is not None or as_json):
        raise OptionError(f"--out and --json keep one method, and {len(asked)} were named. Run them one by one.")
    if bool(texts) == (data is not None):
        raise OptionError("Give texts to explain, or --data with a name or a file; one of the two.")
    options.parse_columns(columns)  # what is written wrongly is told before anything heavy is loaded
    if data is None and (columns or classes):
        raise OptionError("--columns and --classes are about --data, and texts were given.")

    if not stream and (shard is not None or workers is not None):
        raise OptionError("--shard and --workers are about data explained shard by shard: say --stream, too.")
    check_different(out=out, html=html)
    if out is not None:
        from didact.records.parquet import is_explanations

        check_new_file(out, reads=data, overwrite=overwrite, replaces=is_explanations)
    if html is not None:
        check_new_file(html, reads=data, overwrite=overwrite, replaces=is_page)
    common: dict[str, Any] = {
        "target": target, "scale": scale, "level": level, "special": special, "absolute": absolute,
        "normalise": normalise, "batch_size": batch_size, "seed": seed, "precision": precision,
    }  # fmt: skip
    said = {name: value for name, value in common.items() if value is not None}  # the rest is a preset's to say
    keeping: dict[str, Any] = {"out": out, "overwrite": overwrite}
    if stream:
        if data is None or out is None or html is not None or len(asked) > 1:
            raise OptionError("--stream explains --data with one method into --out, and draws nothing.")
        loading = {
            "task": task, "device": device, "max_length": length, "truncate": truncate, "revision": revision,
            "trust_remote_code": trust_remote_code,
        }  # fmt: skip
        with going_on():
            _stream(
                model, data, asked[0], keeping, loading, said | {"preset": preset}, split=split or "test",
                columns=options.parse_columns(columns), classes=options.parse_classes(classes),
                shard=shard or 256, rows=rows, workers=workers or 0, threads=threads, background=background,
                data_dir=data_dir, as_json=as_json,
            )  # fmt: skip
        return

    from didact.experiment.explain import explain as explained

    teacher = options.teacher_of(
        model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    chosen: Sequence[Any]
    if data is None:
        chosen, others = given_texts(teacher, texts or []), None
    else:
        chosen, others = chosen_rows(
            teacher, data, split, rows, columns=columns, classes=classes, data_dir=data_dir, seed=seed or 0,
            needs_labels=needs_labels(teacher, asked, said, preset=preset),
        )  # fmt: skip
    if background is not None:
        others = compared_with(_data(teacher, background, None, data_dir, seed or 0, uses_splits=True))
    maps: list[Explanations | ByClass] = [
        explained(teacher, chosen, one, preset=preset, background_rows=others, progress=True, **keeping, **said)
        for one in asked
    ]
    if method is None:
        first = next(iter(maps[0].values())) if isinstance(maps[0], Mapping) else maps[0]
        say(f"note: explained with {first.method}, the default for this model. --method names another.")
    if html is not None:
        _page(maps, html, level or "word")
    if out is not None:
        say(f"{len(maps[0]):,} rows are kept in {out}. Open them with didact.Explanations.load({str(out)!r}).")
    if as_json:
        print_json(_document(maps[0], summary=summary))
        return
    if summary:
        for one in maps:
            typer.echo(f"{one.summary()}\n")
    elif (html is None and out is None) or len(chosen) <= 5:
        _show(maps, level or "word")


def _show(maps: "Sequence[Explanations | ByClass]", level: str) -> None:
    from didact.records.by_class import ByClass
    from didact.records.views import side_by_side

    several = [one for one in maps if isinstance(one, ByClass)]
    for one in several:
        if len(several) > 1:
            typer.echo(f"{next(iter(one.values())).method}\n")
        one.show(level=level)
    plain = [one for one in maps if not isinstance(one, ByClass)]
    if plain:
        side_by_side(plain, level=level)


def _page(maps: "Sequence[Explanations | ByClass]", path: Path, level: str) -> None:
    from didact.records.by_class import ByClass
    from didact.records.views import page

    first = maps[0]
    if isinstance(first, ByClass):
        if len(maps) > 1:
            raise OptionError(f"--html with --target all draws one method, and {len(maps)} were named.")
        first.to_html(path, level=level)
        rows = len(next(iter(first.values())))
    else:
        page([one for one in maps if not isinstance(one, ByClass)], path, level=level)
        rows = len(first)
    say(f"A page with {rows:,} {'row' if rows == 1 else 'rows'} is in {path}.")


def _document(maps: "Explanations | ByClass", *, summary: bool) -> dict[str, Any]:
    from didact.records.by_class import ByClass

    first = next(iter(maps.values())) if isinstance(maps, ByClass) else maps
    words = {"summary": maps.summary().to_documents()} if summary else {}
    return {"method": first.method, "options": dict(first.options), "rows": maps.to_documents(), **words}


def _stream(
    model: str,
    data: str,
    method: str | None,
    keeping: dict[str, Any],
    loading: dict[str, Any],
    said: dict[str, Any],
    *,
    split: str,
    columns: dict[str, str | None],
    classes: list[str] | None,
    shard: int,
    rows: int | None,
    workers: int,
    threads: int | None,
    background: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    from didact.data.load import load_data
    from didact.data.stream import check_source

    check_source(data)  # a path that is not there is told before torch is loaded
    from didact.experiment.stream import explain_stream

    others = None if background is None else load_data(background, data_dir=data_dir, seed=said.get("seed") or 0)
    found = explain_stream(
        model, data, method, **keeping, split=split, columns=columns or None, classes=classes, notes=_note,
        shard=shard, rows=rows, workers=workers, threads=threads or 1,
        background_rows=None if others is None else compared_with(others), data_dir=data_dir, loading=loading,
        progress=True, **said,
    )  # fmt: skip
    if as_json:
        print_json({"out": str(found.path), "rows": found.rows, "shards": found.shards, "kept": found.kept})
        return
    before = f"; {found.kept:,} of {found.shards:,} shards had been kept before" if found.kept else ""
    say(f"{found.rows:,} rows are kept in {found.path}{before}.")


def given_texts(teacher: "Teacher", texts: list[str]) -> "Sequence[Any]":
    """Texts of the command line, as many for each row as the model reads."""
    if not teacher.task.is_text:
        raise OptionError("The model reads images: give them as --data (a .npz file or a data set).")
    several = len(teacher.task.segments)
    if several == 1 or (teacher.task.fewest_texts == 1 and len(texts) == 1):
        return texts
    if len(texts) % several:
        names = " and ".join(teacher.task.segments)
        raise OptionError(f"The model reads {names}: give {several} texts for each row, not {len(texts)} in all.")
    return [tuple(texts[start : start + several]) for start in range(0, len(texts), several)]


def chosen_rows(
    teacher: "Teacher",
    data: str,
    split: str | None,
    count: int | None,
    *,
    columns: list[str] | None,
    classes: str | None,
    data_dir: str | None,
    seed: int,
    needs_labels: bool,
) -> "tuple[Split, Split | None]":
    """What to explain, and what to compare it with: all rows of a file, or a split; and the split `explain`."""
    loaded = _data(teacher, data, columns, data_dir, seed, uses_splits=split not in (None, "all"))
    loaded = options.aligned(loaded, teacher, classes, required=needs_labels)
    return loaded[options.chosen_split(loaded, split)][:count], compared_with(loaded)


def compared_with(data: "Dataset") -> "Split | None":
    """The rows that methods compare with: the split `explain`, or all rows of a file too small for splits."""
    rows: Split | None = data.get("explain", data.all_rows)
    return rows


def needs_labels(
    teacher: "Teacher", methods: Sequence[str | None], said: dict[str, Any], *, preset: str | None = None
) -> bool:
    """Whether one of the methods (None: the default) explains the gold label, by an option or by a preset."""
    from didact.experiment.explain import resolve

    common = {name: value for name, value in said.items() if name not in ("preset", "batch_size", "seed")}
    preset = preset or said.get("preset")
    return any(resolve(teacher, method or "occlusion", common, preset=preset)[0].target == "gold" for method in methods)


def _data(
    teacher: "Teacher", name: str, columns: list[str] | None, data_dir: str | None, seed: int, *, uses_splits: bool
) -> "Dataset":
    loaded: Dataset = options.loaded_data(
        name, columns=columns, data_dir=data_dir, seed=seed, task=teacher.task, uses_splits=uses_splits
    )
    if loaded.task != teacher.task:
        raise OptionError(f"Data set {loaded.name!r} is {loaded.task}, and the model does {teacher.task}.")
    return loaded


def _note(note: str) -> None:
    say_notes([note])
