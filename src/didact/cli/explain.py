"""`didact explain`: why a model answers as it does, for a sentence or a data set."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from didact.cli import options
from didact.cli.output import going_on, print_json, say
from didact.errors import OptionError
from didact.records.atomic import check_new_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from didact.core.dataset import Dataset
    from didact.core.row import Row
    from didact.core.teacher import Teacher


def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT…", help="Texts; two for each row of a model that reads pairs.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="A folder or a hub name.")] = ...,  # type: ignore[assignment]
    method: Annotated[
        str,
        typer.Option(
            "--method", help="A name from `didact methods`, with options; a learned one's folder; or several."
        ),
    ] = "integrated_gradients",
    data: Annotated[
        str | None,
        typer.Option("--data", help="A name from `didact data list`, or a file; with --stream owner/name on the hub."),
    ] = None,
    split: Annotated[str, typer.Option(help="teach, explain, train, dev or test; on the hub, one it has.")] = "test",
    rows: Annotated[int | None, typer.Option(min=1, help="Only the first rows.")] = None,
    background: Annotated[
        str | None, typer.Option("--background", help="Data to compare with (gradient_shap, lexicon …); its `explain`.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Keep the scores here, as Parquet.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="A page to look at, in one file.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Data larger than memory: read, explain and keep some rows at a time.")
    ] = False,
    shard: Annotated[int | None, typer.Option(min=1, help="With --stream: rows kept together; 256.")] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="With --stream: processes; 0: this one alone.")] = None,
    target: Annotated[str | None, typer.Option(help="predicted (default), gold, contrast, or a class.")] = None,
    scale: Annotated[str | None, typer.Option(help="logit, probability or log_probability.")] = None,
    level: Annotated[str | None, typer.Option(help="token (default) or word.")] = None,
    special: Annotated[bool | None, typer.Option("--special/--no-special", help="Score special tokens too.")] = None,
    absolute: Annotated[bool | None, typer.Option("--absolute/--signed", help="Sizes without signs.")] = None,
    normalise: Annotated[
        str | None, typer.Option(help="raw (default), softmax(temperature=1.0) or top(k=0.1).")
    ] = None,
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
    precision: options.Precision = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads. With --stream: of each process, 1; others, other digits.")
    ] = None,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    as_json: options.Json = False,
) -> None:
    """Score the words of texts, or of a data set's rows, by how they made the model answer.

    Prints heat maps of the first rows, or JSON. A run with --out that was stopped goes on where it was.
    """
    asked = options.methods_of(method)
    if len(asked) > 1 and (out is not None or as_json):
        raise OptionError(f"--out and --json keep one method, and {len(asked)} were named. Run them one by one.")
    if bool(texts) == (data is not None):
        raise OptionError("Give texts to explain, or --data with a name or a file; one of the two.")

    if not stream and (shard is not None or workers is not None):
        raise OptionError("--shard and --workers are about data explained shard by shard: say --stream, too.")
    for path in (out, html):
        if path is not None:
            check_new_file(path, reads=data)
    common: dict[str, Any] = {
        "target": target, "scale": scale, "level": level, "special": special, "absolute": absolute,
        "normalise": normalise, "batch_size": batch_size, "seed": seed, "precision": precision,
    }  # fmt: skip
    said = {name: value for name, value in common.items() if value is not None}  # the rest is a preset's to say
    if stream:
        if data is None or out is None or html is not None or len(asked) > 1:
            raise OptionError("--stream explains --data with one method into --out, and draws nothing.")
        loading = {
            "task": task, "device": device, "max_length": length, "truncate": truncate, "revision": revision,
            "trust_remote_code": trust_remote_code,
        }  # fmt: skip
        with going_on():
            _stream(
                model, data, asked[0], out, loading, said | {"preset": preset}, split=split,
                shard=shard or 256, rows=rows, workers=workers or 0, threads=threads, background=background,
                data_dir=data_dir, as_json=as_json,
            )  # fmt: skip
        return

    from didact.experiment.explain import explain as explained
    from didact.records.views import page, side_by_side

    teacher = options.teacher_of(
        model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    chosen, others = chosen_rows(teacher, texts, data, split, rows, data_dir, seed or 0)
    if background is not None:
        others = _data(teacher, background, data_dir, seed or 0)["explain"]
    maps = [
        explained(teacher, chosen, one, preset=preset, background_rows=others, out=out, progress=True, **said)
        for one in asked
    ]
    if html is not None:
        page(maps, html)
        say(f"A page with {len(maps[0]):,} rows is in {html}.")
    if out is not None:
        say(f"{len(maps[0]):,} rows are kept in {out}. Open them with didact.Explanations.load({str(out)!r}).")
    if as_json:
        first = maps[0]
        print_json({"method": first.method, "options": dict(first.options), "rows": first.to_documents()})
    elif len(maps) > 1:
        side_by_side(maps)
    elif (html is None and out is None) or len(maps[0]) <= 5:
        maps[0].show()


def _stream(
    model: str,
    data: str,
    method: str,
    out: Path,
    loading: dict[str, Any],
    said: dict[str, Any],
    *,
    split: str,
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
        model, data, method, out=out, split=split, shard=shard, rows=rows, workers=workers, threads=threads or 1,
        background_rows=None if others is None else others["explain"], data_dir=data_dir, loading=loading,
        progress=True, **said,
    )  # fmt: skip
    if as_json:
        print_json({"out": str(found.path), "rows": found.rows, "shards": found.shards, "kept": found.kept})
        return
    before = f"; {found.kept:,} of {found.shards:,} shards had been kept before" if found.kept else ""
    say(f"{found.rows:,} rows are kept in {found.path}{before}.")


def chosen_rows(
    teacher: "Teacher",
    texts: list[str] | None,
    data: str | None,
    split: str,
    count: int | None,
    data_dir: str | None,
    seed: int,
) -> "tuple[Sequence[Any], Sequence[Row] | None]":
    """What to explain, and what to compare it with: the split `explain` of a data set."""
    if data is not None:
        loaded = _data(teacher, data, data_dir, seed)
        return _labelled(teacher, loaded, loaded[split][:count]), loaded.get("explain")
    assert texts is not None
    if not teacher.task.is_text:
        raise OptionError("The model reads images: give them as --data (a .npz file or a data set).")
    several = len(teacher.task.segments)
    if several == 1 or (teacher.task.fewest_texts == 1 and len(texts) == 1):
        return texts, None
    if len(texts) % several:
        names = " and ".join(teacher.task.segments)
        raise OptionError(f"The model reads {names}: give {several} texts for each row, not {len(texts)} in all.")
    return [tuple(texts[start : start + several]) for start in range(0, len(texts), several)], None


def _data(teacher: "Teacher", name: str, data_dir: str | None, seed: int) -> "Dataset":
    from didact.data.load import load_data

    loaded = load_data(name, data_dir=data_dir, seed=seed)
    if loaded.task != teacher.task:
        raise OptionError(f"Data set {loaded.name!r} is {loaded.task}, and the model does {teacher.task}.")
    return loaded


def _labelled(teacher: "Teacher", data: "Dataset", rows: "Sequence[Row]") -> "Sequence[Row]":
    """The rows with labels in the order of the model's classes, where both use the same names."""
    if teacher.classes is None or data.classes is None or teacher.classes == data.classes:
        return rows
    if sorted(teacher.classes) != sorted(data.classes):
        names = ", ".join(data.classes), ", ".join(teacher.classes)
        say(f"note: the data's classes {names[0]} are taken for the model's {names[1]}, in this order.")
        return rows
    order = [teacher.classes.index(name) for name in data.classes]
    return [replace(row, label=order[int(row.label)]) if isinstance(row.label, int) else row for row in rows]
