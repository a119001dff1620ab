"""`didact explain`: shows which words made a model answer as it does, for texts or a data set."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, no_type_check

import typer

from didact.cli import inputs
from didact.cli.configs import AgreeConfig, CostConfig, ExplainConfig
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, exit_on_interrupt, print_json
from didact.config import DataOptions
from didact.errors import OptionError
from didact.files.atomic import check_different, check_new_file, is_didact_page

if TYPE_CHECKING:
    from didact.core.dataset import Dataset, Split
    from didact.core.teacher import Teacher
    from didact.results.by_class import ByClass
    from didact.results.explanations import Explanations


EXAMPLES: Final = (
    'didact explain --model my-model "A slow start, but a wonderful end."',
    "didact explain --model my-model --data reviews.csv --method lrp,lime \\\n    --html maps.html",
)


@no_type_check  # typer does not export the class of the context that it passes
def _named_model(context: typer.Context, model: str) -> str:
    """Raise an error if --model is missing. Suggests the first text if it is a folder with a model."""
    if model or context.resilient_parsing:
        return model
    first, *others = context.params.get("texts") or [""]
    if first and (Path(first) / "config.json").is_file():
        line = shlex.join(["didact", "explain", "--model", first, *others])
        raise OptionError(f"Option --model is missing. {first!r} is a folder with a model. Did you mean:\n  {line}")
    raise OptionError("Option --model is missing. Give the folder of a model, or its name on the Hugging Face hub.")


@configured(ExplainConfig, {"model": _named_model})
def explain(config: ExplainConfig, as_json: Json = False) -> None:
    """Show which words made the model answer as it does.

    Explains texts from the command line, or rows of a data set. Prints heat maps of the first rows, or JSON. A stopped
    run with --out resumes if you run the same command again.
    """
    _check(config, as_json=as_json)
    if config.stream:
        with exit_on_interrupt():
            _explain_stream(config, as_json=as_json)
        return
    explanations = _explain(config)
    if not config.method:
        first = next(iter(explanations[0].values())) if isinstance(explanations[0], Mapping) else explanations[0]
        echo_stderr(f"note: explained with {first.method}, the default for this model. Choose another with --method.")
    if config.html is not None:
        _write_page(explanations, config.html, config.level or "word")
    if config.out is not None:
        opening = f"didact.Explanations.load({str(config.out)!r})"
        echo_stderr(f"{len(explanations[0]):,} rows are saved in {config.out}. Load them with {opening}.")
    if as_json:
        print_json(_document(explanations[0], summary=config.summary))
    elif config.summary:
        for item in explanations:
            typer.echo(f"{item.summary()}\n")
    elif (config.html is None and config.out is None) or len(explanations[0]) <= 5:
        _show(explanations, config.level or "word")


def _check(config: ExplainConfig, *, as_json: bool) -> None:
    """Raise an error for options that exclude each other, before anything slow is loaded."""
    if config.method:
        inputs.check_methods(config.method)
    if len(config.method) > 1 and (config.out is not None or as_json):
        count = len(config.method)
        raise OptionError(f"--out and --json take one method, got {count}. Run the methods one by one.")
    if bool(config.texts) == (config.data is not None):
        raise OptionError("Give either texts to explain, or --data with a name or a file.")
    if config.data is None and (config.columns or config.classes):
        raise OptionError("--columns and --classes need --data, but texts were given.")
    if not config.stream and (config.shard is not None or config.workers is not None):
        raise OptionError("--shard and --workers need --stream. Add --stream, or leave them out.")
    check_different(out=config.out, html=config.html)
    if config.out is not None:
        from didact.results.explanations_parquet import is_explanations

        check_new_file(config.out, reads=config.data, overwrite=config.overwrite, replaces=is_explanations)
    if config.html is not None:
        check_new_file(config.html, reads=config.data, overwrite=config.overwrite, replaces=is_didact_page)
    if config.stream and (config.data is None or config.out is None or config.html or len(config.method) > 1):
        raise OptionError("--stream needs --data, --out and at most one method, and excludes --html.")


def _explain(config: ExplainConfig) -> "list[Explanations | ByClass]":
    """Explain the rows with each method."""
    from didact.explaining.explain import explain as explained

    teacher = inputs.open_teacher(config)
    methods: Sequence[str | None] = config.method or [None]
    method_options = config.method_options()
    rows: Sequence[Any]
    if config.data is None:
        rows, background = rows_of_texts(teacher, list(config.texts)), None
    else:
        labels = needs_labels(teacher, methods, method_options, preset=config.preset)
        rows, background = rows_to_explain(teacher, config, needs_labels=labels)
    if config.background is not None:
        background_options = DataOptions(data=config.background, data_dir=config.data_dir)
        background = background_of(_data(teacher, background_options, config.seed or 0, uses_splits=True))
    saving = config.pick("preset", "out", "overwrite")
    return [
        explained(teacher, rows, method, background_rows=background, progress=True, **saving, **method_options)
        for method in methods
    ]


def _show(explanations: "Sequence[Explanations | ByClass]", level: str) -> None:
    from didact.results.by_class import ByClass
    from didact.results.views import side_by_side

    by_class = [item for item in explanations if isinstance(item, ByClass)]
    for item in by_class:
        if len(by_class) > 1:
            typer.echo(f"{next(iter(item.values())).method}\n")
        item.show(level=level)
    plain = [item for item in explanations if not isinstance(item, ByClass)]
    if plain:
        side_by_side(plain, level=level)


def _write_page(explanations: "Sequence[Explanations | ByClass]", path: Path, level: str) -> None:
    from didact.results.by_class import ByClass
    from didact.results.views import page

    first = explanations[0]
    if isinstance(first, ByClass):
        if len(explanations) > 1:
            raise OptionError(
                f"--html with --target all takes one method, got {len(explanations)}. Run them one by one."
            )
        first.to_html(path, level=level)
        rows = len(next(iter(first.values())))
    else:
        page([item for item in explanations if not isinstance(item, ByClass)], path, level=level)
        rows = len(first)
    echo_stderr(f"A page with {rows:,} {'row' if rows == 1 else 'rows'} is in {path}.")


def _document(explanations: "Explanations | ByClass", *, summary: bool) -> dict[str, Any]:
    from didact.results.by_class import ByClass

    first = next(iter(explanations.values())) if isinstance(explanations, ByClass) else explanations
    extra = {"summary": explanations.summary().to_documents()} if summary else {}
    return {"method": first.method, "options": dict(first.options), "rows": explanations.to_documents(), **extra}


def _explain_stream(config: ExplainConfig, *, as_json: bool) -> None:
    from didact.data.load import load_data
    from didact.data.stream import check_streamable

    assert config.data is not None
    assert config.out is not None
    check_streamable(config.data)  # reports a missing path before torch is loaded
    from didact.explaining.stream import explain_stream

    background = None
    if config.background is not None:
        background = background_of(load_data(config.background, data_dir=config.data_dir, seed=config.seed or 0))
    streamed = explain_stream(
        config.model, config.data, config.method[0] if config.method else None, split=config.split or "test",
        columns=config.columns or None, classes=list(config.classes) or None, shard=config.shard or 256,
        notes=lambda note: echo_stderr(f"note: {note}"),
        workers=config.workers or 0, threads=config.threads or 1, background_rows=background, loading=config.loading(),
        progress=True, **config.pick("out", "overwrite", "rows", "data_dir", "preset"), **config.method_options(),
    )  # fmt: skip
    if as_json:
        counts = {"rows": streamed.rows, "shards": streamed.shards, "kept": streamed.reused}
        print_json({"out": str(streamed.path), **counts})
        return
    reused = f"; {streamed.reused:,} of {streamed.shards:,} shards were reused" if streamed.reused else ""
    echo_stderr(f"{streamed.rows:,} rows are saved in {streamed.path}{reused}.")


def rows_of_texts(teacher: "Teacher", texts: list[str]) -> "Sequence[Any]":
    """Group texts of the command line into rows, with the number of texts that the model reads."""
    if not teacher.task.is_text:
        raise OptionError("The model reads images. Give them with --data (a .npz file or a data set).")
    texts_per_row = len(teacher.task.segments)
    if texts_per_row == 1 or (teacher.task.fewest_texts == 1 and len(texts) == 1):
        return texts
    if len(texts) % texts_per_row:
        names = " and ".join(teacher.task.segments)
        raise OptionError(
            f"The model reads {names}: give {texts_per_row} texts per row, got {len(texts)} texts in all."
        )
    return [tuple(texts[start : start + texts_per_row]) for start in range(0, len(texts), texts_per_row)]


def rows_to_explain(
    teacher: "Teacher", config: ExplainConfig | AgreeConfig | CostConfig, *, needs_labels: bool
) -> "tuple[Split, Split | None]":
    """The rows to explain (all rows of a file, or a split), and the background to compare them with."""
    loaded = _data(teacher, config, config.seed or 0, uses_splits=config.split not in (None, "all"))
    loaded = inputs.align_to_teacher(loaded, teacher, config.classes, required=needs_labels)
    return loaded[inputs.chosen_split(loaded, config.split)][: config.rows], background_of(loaded)


def background_of(data: "Dataset") -> "Split | None":
    """The background rows: the split `explain`, or all rows of a file too small for splits."""
    rows: Split | None = data.get("explain", data.all_rows)
    return rows


def needs_labels(
    teacher: "Teacher", methods: Sequence[str | None], options: dict[str, Any], *, preset: str | None = None
) -> bool:
    """True if one of the methods (None: the default) explains the gold label, by an option or a preset."""
    from didact.explaining.method_options import resolve_method

    common = {name: value for name, value in options.items() if name not in ("preset", "batch_size", "seed")}
    preset = preset or options.get("preset")
    return any(
        resolve_method(teacher, method or "occlusion", common, preset=preset)[0].target == "gold" for method in methods
    )


def _data(teacher: "Teacher", config: DataOptions, seed: int, *, uses_splits: bool) -> "Dataset":
    loaded: Dataset = inputs.open_data(config, seed=seed, task=teacher.task, uses_splits=uses_splits)
    if loaded.task != teacher.task:
        raise OptionError(
            f"Data set {loaded.name!r} is {loaded.task}, but the model does {teacher.task}. Give data of that task."
        )
    return loaded
