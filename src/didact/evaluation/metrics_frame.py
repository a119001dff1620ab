"""The data frame that `didact.evaluate` gives: it shows itself as metric × method, and is a data frame in all else."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

import pandas

from didact.metrics import METRICS
from didact.registry import parse_spec
from didact.results.evaluation import Evaluation
from didact.viz.tables import Cell, Table

_SHOWN: Final = {"method", "metric", "value", "low", "high", "rows", "skipped", "better"}
_SIGNS: Final = {"higher": "↑", "lower": "↓"}
COLUMNS: Final = ("method", "metric", "value", "low", "high", "rows", "skipped", "better", "how")
OWN: Final = "your own"


def metrics_frame(evaluation: Evaluation) -> "MetricsFrame":
    """A data frame of the summary. Its `attrs` hold the notes, the heading, and the tests as another frame."""
    frame = MetricsFrame([dict(row) for row in evaluation.summary()], columns=list(COLUMNS))
    frame.attrs = {
        "notes": list(evaluation.notes),
        "heading": evaluation.heading,
        "tests": pandas.DataFrame([dict(test) for test in evaluation.tests()]),
    }
    return frame


class MetricsFrame(pandas.DataFrame):
    """One line per method and metric. What lacks the columns for the table is shown as any data frame is."""

    @property
    def _constructor(self) -> Any:
        return MetricsFrame

    def _repr_html_(self) -> str | None:
        if not set(self.columns) >= _SHOWN or self.empty or self.duplicated(["method", "metric"]).any():
            return pandas.DataFrame(self)._repr_html_()  # type: ignore[operator]
        lines = self.to_dict("records")
        cells = {(line["metric"], line["method"]): line for line in lines}
        methods = list(dict.fromkeys(str(line["method"]) for line in lines))
        rooms: dict[str, list[str]] = {}
        for metric in dict.fromkeys(str(line["metric"]) for line in lines):
            rooms.setdefault(self._room(metric), []).append(metric)
        rows = []
        for metric in itertools.chain(*rooms.values()):
            own = {method: cells[metric, method] for method in methods if (metric, method) in cells}
            rows.append(self._line(metric, own, methods))
        notes = [
            "Means over rows; point at one for its 95 % interval. ↑ higher is better, ↓ lower is. Bold: the best mean; "
            "≈ not told apart from it (the interval of the difference, row by row, holds 0).",
            *map(str, self.attrs.get("notes", ())),
        ]
        groups = [(room, len(metrics)) for room, metrics in rooms.items()]
        return Table("metrics", "", ["", *methods], rows, groups=groups).notebook(notes)

    def _room(self, metric: str) -> str:
        name = parse_spec(metric).name
        room = str(METRICS[name].measures) if name in METRICS else OWN
        return str(self.attrs.get("heading", room)) if room == "plausibility" else room

    def _line(self, metric: str, own: Mapping[str, Mapping[Any, Any]], methods: list[str]) -> list[Cell]:
        better = next(iter(own.values()))["better"]
        known = {method: float(line["value"]) for method, line in own.items() if pandas.notna(line["value"])}
        choose = max if better == "higher" else min
        best = choose(known.values()) if known else None
        leader = next((method for method, value in known.items() if value == best), None)
        entry = METRICS.get(parse_spec(metric).name) if self._room(metric) != OWN else None
        found = []
        for method in methods:
            if method not in known:
                found.append(Cell("–", "quiet", "no row has a value" if method in own else "not measured"))
                continue
            line, is_best = own[method], known[method] == best
            near = "" if is_best or not self._is_near(metric, method, leader) else " ≈"
            interval = f"[{_written(line['low'])}, {_written(line['high'])}]"
            title = f"{method}, {metric}: {_written(known[method])} {interval}, {line['rows']} rows"
            title += f", {line['skipped']} skipped" if line["skipped"] else ""
            found.append(Cell(_written(known[method]) + near, "best" if is_best else "", title))
        name = Cell(f"{metric} {_SIGNS.get(better, '')}".strip(), title=entry.summary if entry else "")
        return [name, *found]

    def _is_near(self, metric: str, method: str, leader: str | None) -> bool:
        """Whether the paired difference to the best method may be 0."""
        tests = self.attrs.get("tests")
        if not isinstance(tests, pandas.DataFrame) or tests.empty:
            return False
        pair = {method, leader}
        for test in tests[tests["metric"] == metric].to_dict("records"):
            if {test["method"], test["other"]} == pair:
                return bool(test["low"] <= 0 <= test["high"])
        return False


def _written(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
