"""`didact metrics`: what explanations are worth, measured; without files, what can be measured."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import console, figure, interval, print_json, print_table, say
from didact.errors import OptionError
from didact.metrics import METRICS
from didact.registry import parse_spec, split_list

if TYPE_CHECKING:
    from didact.results.measured import MetricRow, MetricTest

EXAMPLES: Final = (
    "didact metrics lrp.parquet lime.parquet --model my-model --tests",
    "didact metrics lrp.parquet --data sst_rationales --metrics roc_auc",
)


def metrics(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files of `didact explain --out`, or (with --data) of another tool."),
    ] = None,
    explanations: Annotated[
        list[Path] | None, option("--explanations", "FILE", "The same as FILE (repeatable).", options.DATA)
    ] = None,
    model: Annotated[
        str | None, option("--model", "MODEL", "Folder or hub name of the model, for faithfulness.", options.MODEL)
    ] = None,
    data: Annotated[
        str | None, option("--data", "DATA", "Data that were explained, for plausibility.", options.DATA)
    ] = None,
    columns: options.Columns = None,
    classes: options.Classes = None,
    split: Annotated[
        str | None, option("--split", "SPLIT", "Split of the data, if ids are in several.", options.DATA)
    ] = None,
    asked: Annotated[
        str | None, option("--metrics", "NAMES", "Comma-separated names (default: all that apply).", options.METHODS)
    ] = None,
    replace: Annotated[
        str | None, option("--replace", "HOW", "Replace units by mask (default), delete, pad, zero.", options.METHODS)
    ] = None,
    remove: Annotated[str | None, option("--remove", "HOW", "Now --replace.", hidden=True)] = None,
    preset: Annotated[
        str | None, option("--preset", "NAME", "Removal of a paper: eraser (delete), l2e (mask).", options.METHODS)
    ] = None,
    level: Annotated[
        str | None, option("--level", "LEVEL", "word joins the pieces of words first.", options.METHODS)
    ] = None,
    encoder: Annotated[
        str | None,
        option("--encoder", "MODEL", "Finds similar rows: minilm (default: the model).", options.METHODS),
    ] = None,
    control: Annotated[bool, flag("--control/--no-control", "Add random scores as a control.", options.METHODS)] = True,
    tests: Annotated[bool, flag("--tests", "Also test the difference of each two methods.", options.OUTPUT)] = False,
    seed: Annotated[int, option("--seed", "N", "Seed of control and planted data.", options.ADVANCED)] = 0,
    batch_size: Annotated[
        int,
        option(
            "--batch-size", "N", "Perturbed rows per forward pass.", options.ADVANCED, min=1, max=options.MOST_AT_ONCE
        ),
    ] = 64,
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
    """Score explanations with metrics, or list the metrics.

    Faithfulness needs --model, plausibility needs --data with rationales; stability is measured, too. Without files,
    lists the metrics.
    """
    given = [*(explanations or []), *(files or [])]
    if not given:
        if model or data or asked:
            raise OptionError("There is nothing to measure: give files of explanations (didact explain --out FILE).")
        _list(as_json)
        return
    named = None if asked is None else split_list(asked)
    for one in named or ():  # a wrong name is told before anything heavy is loaded
        METRICS[parse_spec(one).name]
    options.check_files(given, has_data=data is not None)
    if data is None and (columns or classes):
        raise OptionError("--columns and --classes are about the data. Name them with --data.")

    from didact.experiment.evaluate import evaluated

    loaded = None if data is None else options.data_of(data, split, data_dir=data_dir, seed=seed, columns=columns)
    teacher = None
    if model is not None:
        teacher = options.teacher_of(
            model, threads=threads, task=task, device=device, max_length=length, truncate=truncate, revision=revision,
            trust_remote_code=trust_remote_code,
        )  # fmt: skip
    found = evaluated(
        given, teacher, loaded, metrics=named, replace=replace, remove=remove, preset=preset, level=level,
        encoder=encoder, control=control, seed=seed, batch_size=batch_size, progress=True,
        classes=options.parse_classes(classes),
    )  # fmt: skip
    if as_json:
        print_json(found.to_document())
        return
    _print(found, tests=tests)


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
        say(f"note: {note}")
    if tests:
        columns = ("metric", "method", "other", "difference", "95 % interval", "p (Holm)")
        print_table(columns, [_test(one) for one in found.tests()])


def _test(test: "MetricTest") -> tuple[str, ...]:
    p = "–" if test.p is None else f"{test.p:.2g}"
    ends = interval(test.low, test.high, "+.3f")
    return test.metric, test.method, test.other, figure(test.difference, "+.3f"), ends, p


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(f"{one[0].upper()}{one[1:]}." for one in parts)


def _cell(row: "MetricRow", narrow: bool) -> str:
    if not row.rows:
        return "–"
    mean = figure(row.value, ".3f")
    return mean if narrow else f"{mean} {interval(row.low, row.high, '.3f')}"
