"""What methods agree on: a matrix of means over rows, its parts, and how it is shown. Read without torch."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.errors import OptionError
from didact.files.atomic import check_new_file, with_folder, write_bytes
from didact.metrics.agreement import AGREEMENT
from didact.registry import parse_spec, unknown
from didact.render.chart import check_kind
from didact.render.matrix import MatrixView, chart_of, picture_of, written
from didact.results.measured import AgreementMatrix

CAUTION: Final = (
    "Agreement is not correctness. Without a true explanation beside them it tells only whether two rankings are "
    "alike: methods may agree and be wrong, or differ and both have a point (Neely et al. 2022)."
)
EACH: Final = ("task", "group", "length")


@dataclass(frozen=True, eq=False)
class Agreement:
    """One measure of all pairs of methods, row by row; the mean over rows is `matrix`.

    A row is undefined for a pair where the measure has no answer (all scores equal, a single unit): it is counted in
    `skipped` and never taken for 0. `present` says which methods explain a row: those of its group. `by` is `size`
    where scores were compared without their signs, else `signed`.
    """

    methods: tuple[str, ...]
    measure: str
    by: str
    level: str
    values: Float[np.ndarray, "row method method"]
    present: Bool[np.ndarray, "row method"]
    ids: tuple[str, ...]
    tasks: tuple[str, ...]
    groups: tuple[str, ...]
    lengths: Int[np.ndarray, " row"]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Agreement({self.measure!r}, {len(self.methods)} methods, {len(self.ids)} rows)"

    @cached_property
    def matrix(self) -> Float[np.ndarray, "method method"]:
        """The mean over the rows that have an answer; NaN where none has."""
        return _mean(self.values)

    @cached_property
    def sd(self) -> Float[np.ndarray, "method method"]:
        """The standard deviation over rows; NaN with fewer than two."""
        return _sd(self.values)

    @cached_property
    def rows(self) -> Int[np.ndarray, "method method"]:
        """How many rows have an answer."""
        return (~np.isnan(self.values)).sum(0)

    @cached_property
    def skipped(self) -> Int[np.ndarray, "method method"]:
        """How many rows both methods explain, and the measure has no answer for."""
        both = self.present[:, :, None] & self.present[:, None]
        return (both & np.isnan(self.values)).sum(0)

    @cached_property
    def group_sd(self) -> Float[np.ndarray, "method method"]:
        """The standard deviation of the means of groups (teachers, seeds); NaN with fewer than two."""
        return _sd(np.stack([part.matrix for part in self.each("group").values()]))

    def each(self, how: str) -> dict[str, "Agreement"]:
        """The same by `task`, by `group` (teachers, unless groups were named), or by `length`: quarters by units."""
        check_each(how)
        names: Sequence[str] = {"task": self.tasks, "group": self.groups}.get(how) or _quarters(self.lengths)
        if how == "length":
            order = sorted(set(names), key=lambda name: min(self.lengths[[one == name for one in names]]))
        else:
            order = list(dict.fromkeys(names))
        return {name: self._select(np.flatnonzero([one == name for one in names])) for name in order}

    def _select(self, rows: Int[np.ndarray, " part"]) -> "Agreement":
        return replace(
            self,
            values=self.values[rows],
            present=self.present[rows],
            ids=tuple(self.ids[row] for row in rows),
            tasks=tuple(self.tasks[row] for row in rows),
            groups=tuple(self.groups[row] for row in rows),
            lengths=self.lengths[rows],
        )

    def between(self, first: str, second: str) -> float:
        """The mean of these two methods."""
        for name in (first, second):
            if name not in self.methods:
                raise OptionError(unknown("compared method", name, self.methods))
        return float(self.matrix[self.methods.index(first), self.methods.index(second)])

    def to_pandas(self, each: str | None = None) -> Any:
        """A frame with one line per pair: mean, sd, rows, skipped; with `each`, per part of the rows and pair."""
        import pandas

        parts = {"": self} if each is None else self.each(each)
        lines = [
            ({} if each is None else {each: name})
            | {
                "measure": self.measure,
                "first": self.methods[one],
                "second": self.methods[two],
                "mean": float(part.matrix[one, two]),
                "sd": float(part.sd[one, two]),
                "rows": int(part.rows[one, two]),
                "skipped": int(part.skipped[one, two]),
            }
            for name, part in parts.items()
            for one in range(len(self.methods))
            for two in range(one + 1, len(self.methods))
        ]
        return pandas.DataFrame(lines)

    def to_document(self, each: str | None = None) -> dict[str, Any]:
        """Plain JSON. Matrices are lists of lists, NaN where no row has an answer."""
        document = self.to_matrix().to_document()
        if each is not None:
            document["each"] = {each: {name: part._numbers() for name, part in self.each(each).items()}}
        return document

    def to_matrix(self) -> AgreementMatrix:
        """The means over rows, as a run stores them."""
        groups = tuple(dict.fromkeys(self.groups))
        return AgreementMatrix(
            self.methods,
            self.measure,
            **self._numbers(),
            by=self.by,
            level=self.level,
            groups=groups,
            group_sd=self.group_sd.tolist(),
            notes=self.notes,
            caution=CAUTION,
        )

    def _numbers(self) -> dict[str, Any]:
        names = ("matrix", "sd", "rows", "skipped")
        return {name: getattr(self, name).tolist() for name in names}

    def table(self, *, width: int | None = None, caution: bool = True) -> str:
        """The matrix for people: each mean with its standard deviation over rows below it, and what to know of it."""
        return "\n".join([self.grid(width=width), *self.remarks(), *[CAUTION] * caution])

    def grid(self, *, width: int | None = None) -> str:
        """The matrix alone."""
        from rich.console import Console

        console = Console(file=io.StringIO(), width=width or 10_000, highlight=False)
        console.print(self.rich_table())
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in text.rstrip().splitlines())

    def rich_table(self) -> Any:
        """Columns carry the numbers of the methods, so that twelve fit side by side."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(Text(self.measure), no_wrap=True)
        for number in range(len(self.methods)):
            table.add_column(str(number + 1), justify="right", no_wrap=True)
        for number, name in enumerate(self.methods):
            cells = [_cell(mean, sd) for mean, sd in zip(self.matrix[number], self.sd[number], strict=True)]
            cells[number] = cells[number].split("\n")[0]  # with itself a method agrees always alike
            table.add_row(Text(f"{number + 1} {name}"), *map(Text, cells))
        return table

    def remarks(self) -> list[str]:
        """What must be read with the table."""
        entry = AGREEMENT[parse_spec(self.measure).name]
        said = [f"{self.measure}: {entry.about}. {self._about()}; ± over rows."]
        groups = list(dict.fromkeys(self.groups))
        if len(groups) > 1:
            spread = self.group_sd[~np.eye(len(self.methods), dtype=bool)]
            widest = f": at most ±{np.nanmax(spread):.2f} between them" if not np.isnan(spread).all() else ""
            said.append(f"Rows of {len(groups)} groups are pooled ({', '.join(groups)}){widest}.")
        if self.skipped.any():
            said.append(
                f"– and rows left out have no answer ({entry.undefined}): up to {self.skipped.max():,} rows of a pair."
            )
        return [*said, *self.notes]

    def _about(self) -> str:
        counts = self.rows[(self.rows > 0) & ~np.eye(len(self.methods), dtype=bool)]
        least, most = (int(counts.min()), int(counts.max())) if counts.size else (0, 0)
        count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        signs = "scores without their signs" if self.by == "size" else "scores with their signs"
        return f"Mean of {count} rows, {signs}"

    def squares(self, each: str | None = None) -> list[MatrixView]:
        """What a picture shows: one heat map, or one for each part of the rows."""
        low = AGREEMENT[parse_spec(self.measure).name].bounds[0]
        parts = {"": self} if each is None else self.each(each)
        return [
            MatrixView(
                self.methods, part.matrix, low, f"{self.measure}, {name}" if name else self.measure, part._about()
            )
            for name, part in parts.items()
        ]

    def chart(self, each: str | None = None) -> Any:
        """The heat map as an altair chart."""
        return chart_of(self.squares(each), caution=CAUTION)

    def save(self, path: Path | str, each: str | None = None) -> None:
        """Draw the heat map as .png, .svg or .html (or .json, for Vega-Lite)."""
        draw([self], path, each)


def draw(many: Sequence[Agreement], path: Path | str, each: str | None = None) -> None:
    """Several measures in one picture: .png, .svg, .html or .json."""
    path = Path(path)
    kind = _picture_kind(path)
    squares = [square for one in many for square in one.squares(each)]
    write_bytes(with_folder(path), picture_of(squares, kind, caution=CAUTION))


def check_picture(path: Path, *, overwrite: bool = False) -> None:
    """An error if no picture can be written there."""
    _picture_kind(path)
    check_new_file(path, overwrite=overwrite)


def _picture_kind(path: Path) -> str:
    kind = path.suffix.removeprefix(".").lower()
    check_kind(kind)
    return kind


def check_each(each: str | None) -> None:
    """An error for a way to divide rows that there is not."""
    if each not in (None, *EACH):
        raise OptionError(unknown("way to divide rows", str(each), EACH))


def _mean(values: Float[np.ndarray, "row method method"]) -> Float[np.ndarray, "method method"]:
    count = (~np.isnan(values)).sum(0)
    return np.divide(np.nansum(values, 0), count, out=np.full(count.shape, np.nan), where=count > 0)


def _sd(values: Float[np.ndarray, "row method method"]) -> Float[np.ndarray, "method method"]:
    count = (~np.isnan(values)).sum(0)
    squares = np.nansum((values - _mean(values)) ** 2, 0)
    return np.sqrt(np.divide(squares, count - 1, out=np.full(count.shape, np.nan), where=count > 1))


def _quarters(lengths: Int[np.ndarray, " row"]) -> list[str]:
    """For each row the quarter it belongs to, named after its shortest and longest row."""
    edges = np.quantile(lengths, [0.25, 0.5, 0.75])
    numbers = np.searchsorted(edges, lengths, side="left")  # rows as long as an edge belong below it
    names = {}
    for number in np.unique(numbers):
        inside = lengths[numbers == number]
        low, high = int(inside.min()), int(inside.max())
        names[number] = f"{low} unit{'s' * (low != 1)}" if low == high else f"{low} to {high} units"
    return [names[number] for number in numbers]


def _cell(mean: float, sd: float) -> str:
    return written(mean) if np.isnan(sd) else f"{written(mean)}\n±{sd:.2f}"
