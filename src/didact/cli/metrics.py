"""`didact metrics`: scores explanations with metrics; without files, lists the metrics."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import typer

from didact.cli import inputs
from didact.cli.configs import MetricsConfig
from didact.cli.options import Json, configured
from didact.cli.output import console, echo_stderr, format_interval, format_number, print_json, print_table
from didact.errors import OptionError
from didact.metrics import METRICS
from didact.registry import parse_spec

if TYPE_CHECKING:
    from didact.results.evaluation import MetricRow, MetricTest

EXAMPLES: Final = (
    "didact metrics lrp.parquet lime.parquet --model my-model --tests",
    "didact metrics lrp.parquet --data sst_rationales --metrics roc_auc",
)


@configured(MetricsConfig)
def metrics(config: MetricsConfig, as_json: Json = False) -> None:
    """Score explanations with metrics, or list the metrics.

    Faithfulness needs --model and plausibility needs --data with rationales. Of stability, iou_lexical needs neither;
    iou_semantic needs --model or --encoder. Without files, lists the metrics.
    """
    files = [*config.explanations, *config.files]
    if not files:
        if config.model or config.data or config.metrics:
            raise OptionError("There is nothing to score: give files of explanations (didact explain --out FILE).")
        _list(as_json)
        return
    for name in config.metrics:  # reports a wrong name before anything slow is loaded
        METRICS[parse_spec(name).name]
    inputs.check_files(files, has_data=config.data is not None)
    if config.data is None and (config.columns or config.classes):
        raise OptionError("--columns and --classes need --data.")

    from didact.evaluation.evaluate import run_evaluation

    data = None if config.data is None else inputs.data_for_files(config, config.split, seed=config.seed)
    result = run_evaluation(
        files, None if config.model is None else inputs.open_teacher(config), data, metrics=config.metrics or None,
        classes=config.classes or None, progress=True,
        **config.pick("replace", "preset", "level", "encoder", "control", "seed", "batch_size"),
    )  # fmt: skip
    print_json(result.to_document()) if as_json else _print(result, tests=config.tests)


def _list(as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "name": name, "measures": entry.measures, "bounds": list(entry.bounds), "better": entry.better,
                "needs": list(entry.needs), "paper": entry.paper, "summary": entry.summary, "default": entry.is_default,
            }
            for name, entry in METRICS.items()
        ]  # fmt: skip
        print_json({"rows": rows})
        return
    columns = ("name", "measures", "better", "needs", "what", "paper")
    print_table(
        columns, [(n, e.measures, e.better, ", ".join(e.needs), e.summary, e.paper) for n, e in METRICS.items()]
    )
    only_by_name = [name for name, entry in METRICS.items() if not entry.is_default]
    typer.echo(f"Computed only if they are named: {', '.join(only_by_name)}.")
    typer.echo("Options go in brackets: didact metrics a.parquet --metrics 'comprehensiveness(k=0.2),roc_auc'.")


def _print(evaluation: Any, *, tests: bool) -> None:
    """Print metrics as rows and methods as columns. Intervals are shown if the terminal is wide enough."""
    cells = {(row.metric, row.method): row for row in evaluation.summary()}
    families: dict[str, list[str]] = {}
    for metric in evaluation.metrics:
        families.setdefault(METRICS[parse_spec(metric).name].measures, []).append(metric)
    narrow = console().width < 28 + 24 * len(evaluation.methods)
    for family, names in families.items():
        heading = evaluation.heading if family == "plausibility" else family
        rows = []
        for name in names:
            entry = METRICS[parse_spec(name).name]
            method_rows = [cells[name, method] for method in evaluation.methods]
            counts = sorted({(row.rows, row.skipped) for row in method_rows}, reverse=True)
            measured = ", ".join(
                f"{rows_with_value} ({skipped})" if skipped else str(rows_with_value)
                for rows_with_value, skipped in counts
            )
            sign = "↑" if entry.better == "higher" else "↓"
            rows.append([f"{name} {sign}", *(_cell(row, narrow) for row in method_rows), measured])
        print_table((heading, *evaluation.methods, "rows (skipped)"), rows)
    descriptions = dict.fromkeys(evaluation.how[name] for name in evaluation.metrics if evaluation.how.get(name))
    intervals = "; 95 % intervals with --json or in a wider window" if narrow else ", with 95 % intervals over rows"
    typer.echo(f"Means over rows{intervals}. ↑ higher is better, ↓ lower is. {_sentences(descriptions)}")
    for note in evaluation.notes:
        echo_stderr(f"note: {note}")
    if tests:
        columns = ("metric", "method", "other", "difference", "95 % interval", "p (Holm)")
        print_table(columns, [_test_cells(test) for test in evaluation.tests()])


def _test_cells(test: "MetricTest") -> tuple[str, ...]:
    p = "–" if test.p is None else f"{test.p:.2g}"
    ends = format_interval(test.low, test.high, "+.3f")
    return test.metric, test.method, test.other, format_number(test.difference, "+.3f"), ends, p


def _sentences(texts: Iterable[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in texts)


def _cell(row: "MetricRow", narrow: bool) -> str:
    if not row.rows:
        return "–"
    mean = format_number(row.value, ".3f")
    return mean if narrow else f"{mean} {format_interval(row.low, row.high, '.3f')}"
