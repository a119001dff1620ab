"""`didact agree`: measures how far explanation methods agree with each other."""

from typing import TYPE_CHECKING, Any, Final

import typer

from didact.cli import inputs
from didact.cli.configs import AgreeConfig
from didact.cli.options import Json, configured
from didact.cli.output import echo_stderr, print_json
from didact.errors import OptionError
from didact.registry import parse_spec

if TYPE_CHECKING:
    from didact.results.agreement import Agreement
    from didact.results.explanations import Explanations

EXAMPLES: Final = (
    "didact agree lrp.parquet lime.parquet --measure kendall,sign",
    "didact agree --model my-model --data reviews.csv --methods lrp,lime \\\n    --out agreement.png",
)


@configured(AgreeConfig)
def agree(config: AgreeConfig, as_json: Json = False) -> None:
    """Measure how far explanation methods agree with each other.

    Compares every pair of files, or every pair of --methods, on the same rows. Agreement is not correctness: it only
    shows whether two methods rank units alike.
    """
    from didact.evaluation.agree import SINGLE_GROUP, agreements
    from didact.results.agreement import CAUTION, draw_agreements

    has_foreign = _check(config)
    teacher = None if config.model is None else inputs.open_teacher(config)
    sets = [*config.files, *(_explain_now(teacher, config) if config.methods else ())]
    foreign_data = None
    if has_foreign and config.data is not None:
        is_explained = bool(config.methods or config.rows)
        foreign_data = inputs.data_for_files(
            config, config.split, seed=config.seed or 0, rows=config.rows, is_explained=is_explained
        )
    results = agreements(
        sets, config.measure, groups=SINGLE_GROUP if config.together else None, teacher=teacher, data=foreign_data,
        batch_size=config.batch_size or 64, **config.pick("by", "level"),
    )  # fmt: skip
    if config.out is not None:
        draw_agreements(results, config.out, config.each)
        echo_stderr(f"The heat map is in {config.out}.")
    _print(results, config.each, as_json=as_json)
    if not as_json:
        typer.echo(CAUTION)


def _check(config: AgreeConfig) -> bool:
    """Raise an error for options that exclude each other. Returns True if a file is of another tool."""
    from didact.evaluation.agree import check_measures
    from didact.metrics.agreement import AGREEMENT
    from didact.results.agreement import check_grouping, check_picture

    if config.methods:
        inputs.check_methods(config.methods)
    needs_teacher = any(AGREEMENT[parse_spec(name).name].needs_teacher for name in config.measure)
    has_data, has_model = config.data is not None, config.model is not None
    has_foreign = inputs.check_files(config.files, has_data=has_data)
    is_idle = not has_foreign and (has_data or (has_model and not needs_teacher))
    if is_idle and not config.methods and config.files and not has_data:
        raise OptionError(
            "With files, only the measure `prediction` uses --model. Leave --model out, or add --measure prediction."
        )
    if not (has_data and has_model) if config.methods else is_idle:
        raise OptionError(
            "To explain rows now, give --model, --data and --methods together. Without --methods, --data is only for "
            "files of other tools, and --model only for the measure `prediction`."
        )
    if len(config.files) + len(config.methods) < 2:
        raise OptionError(
            "Agreement compares methods: give at least two files of explanations (didact explain --out FILE), or "
            "--model, --data and --methods with at least two names."
        )
    check_measures(config.measure, by=config.by, level=config.level, has_teacher=has_model)
    check_grouping(config.each)
    if config.out is not None:
        check_picture(config.out, overwrite=config.overwrite)
    return has_foreign


def _explain_now(teacher: Any, config: AgreeConfig) -> "list[Explanations]":
    from didact.cli.explain import needs_labels, rows_to_explain
    from didact.explaining.explain import explain

    options = {
        name: value for name, value in config.pick("preset", "level", "batch_size", "seed").items() if value is not None
    }
    labels = needs_labels(teacher, config.methods, options)
    rows, background = rows_to_explain(teacher, config, needs_labels=labels)
    return [
        explain(teacher, rows, method, background_rows=background, progress=True, **options)
        for method in config.methods
    ]


def _print(results: "list[Agreement]", each: str | None, *, as_json: bool) -> None:
    if as_json:
        documents = [agreement.to_document(each) for agreement in results]
        print_json(documents[0] if len(documents) == 1 else {"measures": documents})
        return
    for agreement in results:
        typer.echo(agreement.table(caution=False) + "\n")
        for name, subset in agreement.each(each).items() if each is not None else ():
            typer.echo(f"{each} {name}: {len(subset.ids):,} rows\n{subset.grid()}\n")
