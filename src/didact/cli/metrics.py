"""`didact metrics`: what explanations are worth, measured; without files, what can be measured."""

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

    Faithfulness needs --model, plausibility needs --data with rationales; stability is measured, too. Without files,
    lists the metrics.
    """
    files = [*config.explanations, *config.files]
    if not files:
        if config.model or config.data or config.metrics:
            raise OptionError("There is nothing to measure: give files of explanations (didact explain --out FILE).")
        _list(as_json)
        return
    for name in config.metrics:  # a wrong name is told before anything heavy is loaded
        METRICS[parse_spec(name).name]
    inputs.check_files(files, has_data=config.data is not None)
    if config.data is None and (config.columns or config.classes):
        raise OptionError("--columns and --classes are about the data. Name them with --data.")

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
                "name": name, "measures": one.measures, "bounds": list(one.bounds), "better": one.better,
                "needs": list(one.needs), "paper": one.paper, "summary": one.summary,
            }
            for name, one in METRICS.items()
        ]  # fmt: skip
        print_json({"rows": rows})
        return
    columns = ("name", "measures", "better", "needs", "what", "paper")
    print_table(
        columns, [(n, e.measures, e.better, ", ".join(e.needs), e.summary, e.paper) for n, e in METRICS.items()]
    )
    typer.echo("Options go in brackets: didact metrics a.parquet --metrics 'comprehensiveness(k=0.2),roc_auc'.")


def _print(found: Any, *, tests: bool) -> None:
    """Metrics down, methods across: the mean with its interval, where the terminal is wide enough for it."""
    cells = {(row.metric, row.method): row for row in found.summary()}
    rooms: dict[str, list[str]] = {}
    for metric in found.metrics:
        rooms.setdefault(METRICS[parse_spec(metric).name].measures, []).append(metric)
    narrow = console().width < 28 + 24 * len(found.methods)
    for room, names in rooms.items():
        heading = found.heading if room == "plausibility" else room
        rows = []
        for name in names:
            entry = METRICS[parse_spec(name).name]
            own = [cells[name, method] for method in found.methods]
            counts = sorted({(row.rows, row.skipped) for row in own}, reverse=True)
            measured = ", ".join(f"{known} ({skipped})" if skipped else str(known) for known, skipped in counts)
            sign = "↑" if entry.better == "higher" else "↓"
            rows.append([f"{name} {sign}", *(_cell(row, narrow) for row in own), measured])
        print_table((heading, *found.methods, "rows (skipped)"), rows)
    said = dict.fromkeys(found.how[name] for name in found.metrics if found.how.get(name))
    intervals = "; 95 % intervals with --json, or in a wider window" if narrow else ", with 95 % intervals over rows"
    typer.echo(f"Means over rows{intervals}. ↑ higher is better, ↓ lower is. {_sentences(said)}")
    for note in found.notes:
        echo_stderr(f"note: {note}")
    if tests:
        columns = ("metric", "method", "other", "difference", "95 % interval", "p (Holm)")
        print_table(columns, [_test(one) for one in found.tests()])


def _test(test: "MetricTest") -> tuple[str, ...]:
    p = "–" if test.p is None else f"{test.p:.2g}"
    ends = format_interval(test.low, test.high, "+.3f")
    return test.metric, test.method, test.other, format_number(test.difference, "+.3f"), ends, p


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(f"{one[0].upper()}{one[1:]}." for one in parts)


def _cell(row: "MetricRow", narrow: bool) -> str:
    if not row.rows:
        return "–"
    mean = format_number(row.value, ".3f")
    return mean if narrow else f"{mean} {format_interval(row.low, row.high, '.3f')}"
