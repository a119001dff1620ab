"""What the recipes share: their options, a teacher that is trained once, and tables."""

import argparse
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import didact
from didact.core.dataset import Dataset
from didact.core.row import Row
from didact.errors import DidactError
from didact.explaining.cache import ExplanationCache

QUICK_ROWS = {"teach": 16, "explain": 8, "train": 24, "dev": 8, "test": 12}


def options_of(doc: str | None, *, data: Sequence[str], sizes: str, seeds: int = 5) -> argparse.ArgumentParser:
    """The options of every recipe. The first line of its docstring is the help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=data[0], choices=data, help=f"default: {data[0]}")
    parser.add_argument("--data-dir", default=None, help="where the real data lie (or the variable DIDACT_DATA)")
    parser.add_argument("--model", default=None, help="a trained teacher's folder; else one is trained")
    parser.add_argument("--sizes", type=int, nargs="+", default=None, help=f"rows a student sees; default: {sizes}")
    parser.add_argument("--seeds", type=int, default=None, help=f"students per cell; default: {seeds}")
    parser.add_argument("--epochs", type=int, default=None, help="of the students; default: what serves their kind")
    parser.add_argument("--rows", type=int, default=None, help="at most so many rows in dev and in test")
    parser.add_argument("--out", default=None, help="a folder that keeps every cell: a stopped run goes on there")
    parser.add_argument("--workers", type=int, default=None, help="processes; default: as many as there are cores")
    parser.add_argument("--quick", action="store_true", help="a few rows, one seed, one epoch: does it run?")
    return parser


def asked_for(
    parser: argparse.ArgumentParser, *, sizes: Mapping[str, Sequence[int]], seeds: int = 5, quick_size: int = 8
) -> Any:
    """What was asked for; what was left open is filled in, by data set."""
    asked = parser.parse_args()
    asked.seeds = asked.seeds or (1 if asked.quick else seeds)
    asked.sizes = asked.sizes or ([quick_size] if asked.quick else list(sizes[asked.data]))
    asked.epochs = asked.epochs or (1 if asked.quick else None)
    asked.workers = 0 if asked.workers is None and asked.quick else asked.workers
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
    return asked


def data_of(asked: Any) -> Dataset:
    """The data set, with fewer rows where that was asked for."""
    return fewer(asked, loaded(asked))


def loaded(asked: Any, name: str | None = None) -> Dataset:
    """The data set with all its rows. What is missing is told in a line."""
    try:
        return didact.load_data(name or asked.data, data_dir=asked.data_dir)
    except DidactError as error:
        raise SystemExit(str(error)) from None


def fewer(asked: Any, data: Dataset, **quick: int) -> Dataset:
    """A few rows with --quick (as many as `quick` says, if it does); in dev and test no more than --rows."""
    if asked.quick:
        data = shortened(data, **(QUICK_ROWS | quick))
    return shortened(data, dev=asked.rows, test=asked.rows) if asked.rows else data


def shortened(data: Dataset, **rows: int) -> Dataset:
    """The same data with the first rows of some splits only."""
    return replace(data, splits={name: split[: rows.get(name, len(split))] for name, split in data.items()})


def teacher_of(asked: Any, data: Dataset, model: str, *, quick_epochs: int = 1, **options: Any) -> Any:
    """The teacher in --model, the one kept in --out, or a new one."""
    if asked.model:
        return didact.load_teacher(asked.model)
    name = f"teacher-{asked.data.replace('/', '-')}{'-quick' * asked.quick}"
    folder = Path(asked.out) / name if asked.out else None
    if folder is not None and (folder / "didact.json").is_file():
        return didact.load_teacher(str(folder))
    began = time.perf_counter()
    if asked.quick:
        options |= {"epochs": quick_epochs}
    teacher = didact.train_teacher(data, model, out=folder, progress=not asked.quick, **options)
    print(f"Teacher {model}, trained in {time.perf_counter() - began:.0f} s: {teacher.record['metrics']}\n", flush=True)
    return teacher


def kept(place: Path, teacher: Any, rows: Sequence[Row], method: str, background: Sequence[Row], **options: Any) -> Any:
    """The explanations of these rows in a folder, made now if they are not there."""
    cache = ExplanationCache(place, teacher, teacher.fingerprint(rows), background, **options)
    return didact.Explanations.load(place / cache.explain(method, rows, label=method).name)


def compared(asked: Any, teacher: Any, data: Dataset, **options: Any) -> didact.Comparison:
    """`didact.compare` with the recipe's sizes, seeds, epochs and folder, unless said otherwise.

    As in the papers: all test rows, drawn as they are. Recipes score metrics themselves.
    """
    training = options.pop("training", {}) | ({"epochs": asked.epochs} if asked.epochs else {})
    said = {"sizes": asked.sizes, "seeds": asked.seeds, "out": asked.out, "workers": asked.workers}
    said |= {"test_rows": 0, "balance": False, "measure": 0}
    return didact.compare(
        teacher, data, **(said | {"training": training, "progress": not asked.quick} | options)
    )  # fmt: skip


def percent(found: didact.Comparison, explainer: str, student: str, size: int) -> str:
    """The mean simulability of a row in percent, ▲ where its gain over none has an interval above 0, ▼ below."""
    rows = [one for one in found.rows if (one["explainer"], one["student"], one["size"]) == (explainer, student, size)]
    if not rows:
        return "–"
    low, high = rows[0]["low"], rows[0]["high"]
    mark = "" if low is None else " ▲" if low > 0 else " ▼" if high < 0 else ""
    return f"{100 * rows[0]['mean']:.1f}{mark}"


def print_table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A Markdown table, its columns aligned."""
    widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]
    print(f"\n{title}\n")
    for line in (head, ["-" * width for width in widths], *lines):
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |")
    print(flush=True)


def points(gain: float, low: float | None, high: float | None) -> str:
    """A gain with its interval, in points of 100. One seed has no interval."""
    if low is None or high is None:
        return f"{100 * gain:+.1f} (no interval)"
    return f"{100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def say(text: str) -> None:
    """A paragraph."""
    print(textwrap.fill(text, 118), flush=True)


def print_notes(found: didact.Comparison) -> None:
    """What must be read with the table."""
    print("Ours: mean simulability over seeds; ▲ ▼ the 95 % interval of the gain over none lies above or below 0.")
    for note in found.notes:
        print(note)
    if found.failed:
        print(f"{len(found.failed)} cells failed: the first with {found.failed[0]['error']!r}.")
