"""The data frame of `didact.evaluate`: notebooks show it as a table of metrics and methods."""

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
CUSTOM: Final = "your own"


def metrics_frame(evaluation: Evaluation) -> "MetricsFrame":
    """Make a data frame of the summary. Its `attrs` hold the notes, the heading, and the tests as another frame."""
    frame = MetricsFrame([dict(row) for row in evaluation.summary()], columns=list(COLUMNS))
    frame.attrs = {
        "notes": list(evaluation.notes),
        "heading": evaluation.heading,
        "tests": pandas.DataFrame([dict(test) for test in evaluation.tests()]),
    }
    return frame


class MetricsFrame(pandas.DataFrame):
    """One line per method and metric. A selection without the columns of the table is shown like any data frame."""

    @property
    def _constructor(self) -> Any:
        return MetricsFrame

    def _repr_html_(self) -> str | None:
        if not set(self.columns) >= _SHOWN or self.empty or self.duplicated(["method", "metric"]).any():
            return pandas.DataFrame(self)._repr_html_()  # type: ignore[operator]
        lines = self.to_dict("records")
        cells = {(line["metric"], line["method"]): line for line in lines}
        methods = list(dict.fromkeys(str(line["method"]) for line in lines))
        metrics_by_family: dict[str, list[str]] = {}
        for metric in dict.fromkeys(str(line["metric"]) for line in lines):
            metrics_by_family.setdefault(self._family(metric), []).append(metric)
        rows = []
        for metric in itertools.chain(*metrics_by_family.values()):
            by_method = {method: cells[metric, method] for method in methods if (metric, method) in cells}
            rows.append(self._line(metric, by_method, methods))
        notes = [
            "Means over rows; hover over one for its 95 % interval. ↑ higher is better, ↓ lower is. Bold: best mean; "
            "≈ not distinguishable from it (the interval of the paired difference includes 0).",
            *map(str, self.attrs.get("notes", ())),
        ]
        groups = [(family, len(metrics)) for family, metrics in metrics_by_family.items()]
        return Table("metrics", "", ["", *methods], rows, groups=groups).notebook(notes)

    def _family(self, metric: str) -> str:
        name = parse_spec(metric).name
        family = str(METRICS[name].measures) if name in METRICS else CUSTOM
        return str(self.attrs.get("heading", family)) if family == "plausibility" else family

    def _line(self, metric: str, by_method: Mapping[str, Mapping[Any, Any]], methods: list[str]) -> list[Cell]:
        better = next(iter(by_method.values()))["better"]
        values = {method: float(line["value"]) for method, line in by_method.items() if pandas.notna(line["value"])}
        choose = max if better == "higher" else min
        best = choose(values.values()) if values else None
        leader = next((method for method, value in values.items() if value == best), None)
        entry = METRICS.get(parse_spec(metric).name) if self._family(metric) != CUSTOM else None
        cells = []
        for method in methods:
            if method not in values:
                cells.append(Cell("–", "quiet", "no row has a value" if method in by_method else "not measured"))
                continue
            line, is_best = by_method[method], values[method] == best
            sign = "" if is_best or not self._is_near(metric, method, leader) else " ≈"
            interval = f"[{_format(line['low'])}, {_format(line['high'])}]"
            title = f"{method}, {metric}: {_format(values[method])} {interval}, {line['rows']} rows"
            title += f", {line['skipped']} skipped" if line["skipped"] else ""
            cells.append(Cell(_format(values[method]) + sign, "best" if is_best else "", title))
        name = Cell(f"{metric} {_SIGNS.get(better, '')}".strip(), title=entry.summary if entry else "")
        return [name, *cells]

    def _is_near(self, metric: str, method: str, leader: str | None) -> bool:
        """True if the interval of the paired difference to the best method includes 0."""
        tests = self.attrs.get("tests")
        if not isinstance(tests, pandas.DataFrame) or tests.empty:
            return False
        pair = {method, leader}
        for test in tests[tests["metric"] == metric].to_dict("records"):
            if {test["method"], test["other"]} == pair:
                return bool(test["low"] <= 0 <= test["high"])
        return False


def _format(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
