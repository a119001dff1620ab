"""Agreement of methods: one value per row and pair, means over rows, tables and charts. Needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.errors import OptionError, RecordError
from didact.files.atomic import check_new_file, ensure_parent, write_bytes
from didact.files.table_io import Table, read_table, write_table
from didact.registry import unknown_name_message
from didact.results.documents import DAMAGE_ERRORS, VERSION_KEY, MappingDocument, check_version, plain
from didact.results.documents import number as finite_number
from didact.results.text_table import render_text
from didact.viz.chart import check_kind
from didact.viz.matrix import MatrixView, format_value, matrix_chart, matrix_picture

CAUTION: Final = (
    "Agreement is not correctness. Without a true explanation to compare with, it shows only whether two rankings are "
    "alike: methods may agree and be wrong, or differ and both be right in part (Neely et al. 2022)."
)
GROUPINGS: Final = ("task", "group", "length")
VERSION: Final = 1  # schema version of a saved agreement
_METADATA: Final = ("methods", "measure", "by", "level", "description", "undefined", "lowest", "notes")
_COLUMNS: Final = {
    "id": "string", "task": "string", "group": "string", "length": "int64", "present": "list bool_",
    "values": "list float64",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class AgreementMatrix(MappingDocument):
    """Means over rows of one agreement measure for all pairs of methods, as a run stores them."""

    methods: tuple[str, ...]
    measure: str
    matrix: Sequence[Sequence[float | None]] = ()
    sd: Sequence[Sequence[float | None]] = ()
    rows: Sequence[Sequence[int]] = ()
    skipped: Sequence[Sequence[int]] = ()
    by: str = "size"
    level: str = ""
    groups: tuple[str, ...] = ()
    group_sd: Sequence[Sequence[float | None]] = ()
    notes: tuple[str, ...] = ()
    caution: str = ""

    @cached_property
    def square(self) -> Float[np.ndarray, "method method"] | None:
        """The matrix with NaN for undefined entries; None if it is not square or has fewer than two methods."""
        count = len(self.methods)
        if count < 2 or len(self.matrix) != count or any(len(line) != count for line in self.matrix):
            return None
        return np.array([[finite_number(value) for value in line] for line in self.matrix], dtype=np.float64)

    def spread(self, first: int, second: int) -> float | None:
        """The standard deviation over rows for two methods, by index; None if it is not stored."""
        count = len(self.methods)
        is_square = len(self.sd) == count and len(self.sd[first]) == count
        return finite_number(self.sd[first][second]) if is_square else None


@dataclass(frozen=True, eq=False)
class Agreement:
    """One agreement measure for every row and pair of methods. `matrix` is the mean over rows.

    The measure is undefined for a row and pair if, for example, all scores are equal or there is a single unit. Such a
    row is counted in `skipped` and never treated as 0. `present` is true for the methods that explain a row, which are
    those of its group. `by` is `size` if scores were compared without their signs, otherwise `signed`. `description`,
    `undefined` and `lowest` describe the measure: what it is, when it is undefined, and the lower end of its scale.
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
    description: str = ""
    undefined: str = ""
    lowest: float = -1.0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Agreement({self.measure!r}, {len(self.methods)} methods, {len(self.ids)} rows)"

    @cached_property
    def matrix(self) -> Float[np.ndarray, "method method"]:
        """The mean over rows where the measure is defined; NaN if it is never defined."""
        return _mean(self.values)

    @cached_property
    def sd(self) -> Float[np.ndarray, "method method"]:
        """The standard deviation over rows; NaN for fewer than two rows."""
        return _sd(self.values)

    @cached_property
    def rows(self) -> Int[np.ndarray, "method method"]:
        """The number of rows for which the measure is defined."""
        return (~np.isnan(self.values)).sum(0)

    @cached_property
    def skipped(self) -> Int[np.ndarray, "method method"]:
        """The number of rows that both methods explain and for which the measure is undefined."""
        both = self.present[:, :, None] & self.present[:, None]
        return (both & np.isnan(self.values)).sum(0)

    @cached_property
    def group_sd(self) -> Float[np.ndarray, "method method"]:
        """The standard deviation over the means of groups (teachers, seeds); NaN for fewer than two groups."""
        return _sd(np.stack([group.matrix for group in self.each("group").values()]))

    def each(self, how: str) -> dict[str, "Agreement"]:
        """Split the rows by `task`, `group` (teachers, unless groups were named) or `length` (quartiles of units)."""
        check_grouping(how)
        names: Sequence[str] = {"task": self.tasks, "group": self.groups}.get(how) or _quarters(self.lengths)
        if how == "length":
            order = sorted(set(names), key=lambda name: min(self.lengths[[row_name == name for row_name in names]]))
        else:
            order = list(dict.fromkeys(names))
        return {name: self._select_rows(np.flatnonzero([row_name == name for row_name in names])) for name in order}

    def _select_rows(self, rows: Int[np.ndarray, " part"]) -> "Agreement":
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
        """The mean over rows for these two methods."""
        for name in (first, second):
            if name not in self.methods:
                raise OptionError(unknown_name_message("compared method", name, self.methods))
        return float(self.matrix[self.methods.index(first), self.methods.index(second)])

    def to_pandas(self, each: str | None = None) -> Any:
        """A data frame with one line per pair: mean, sd, rows, skipped. With `each`, one line per subset and pair."""
        import pandas

        subsets = {"": self} if each is None else self.each(each)
        lines = [
            ({} if each is None else {each: name})
            | {
                "measure": self.measure,
                "first": self.methods[first],
                "second": self.methods[second],
                "mean": float(subset.matrix[first, second]),
                "sd": float(subset.sd[first, second]),
                "rows": int(subset.rows[first, second]),
                "skipped": int(subset.skipped[first, second]),
            }
            for name, subset in subsets.items()
            for first in range(len(self.methods))
            for second in range(first + 1, len(self.methods))
        ]
        return pandas.DataFrame(lines)

    def to_document(self, each: str | None = None) -> dict[str, object]:
        """The means as JSON data. Matrices are lists of lists; None where the measure is undefined for all rows."""
        document = self.to_matrix().to_document()
        if each is not None:
            document["each"] = {each: {name: plain(subset._statistics()) for name, subset in self.each(each).items()}}
        return document

    def to_matrix(self) -> AgreementMatrix:
        """The means over rows, in the form that a run stores."""
        groups = tuple(dict.fromkeys(self.groups))
        return AgreementMatrix(
            self.methods,
            self.measure,
            **self._statistics(),
            by=self.by,
            level=self.level,
            groups=groups,
            group_sd=self.group_sd.tolist(),
            notes=self.notes,
            caution=CAUTION,
        )

    def _statistics(self) -> dict[str, Any]:
        names = ("matrix", "sd", "rows", "skipped")
        return {name: getattr(self, name).tolist() for name in names}

    def table(self, *, caution: bool = True) -> str:
        """The matrix as text, with the standard deviation over rows below each mean, followed by remarks."""
        return "\n".join([self.grid(), *self.remarks(), *[CAUTION] * caution])

    def grid(self) -> str:
        """The matrix alone. Column headings are the numbers of the methods, so that twelve columns fit."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(Text(self.measure), no_wrap=True)
        for index in range(len(self.methods)):
            table.add_column(str(index + 1), justify="right", no_wrap=True)
        for index, name in enumerate(self.methods):
            cells = [_format_cell(mean, sd) for mean, sd in zip(self.matrix[index], self.sd[index], strict=True)]
            cells[index] = cells[index].split("\n")[0]  # the diagonal does not vary
            table.add_row(Text(f"{index + 1} {name}"), *map(Text, cells))
        return render_text(table)

    def remarks(self) -> list[str]:
        """What a reader of the table must know."""
        lines = [f"{self.measure}: {self.description}. {self._summary()}; ± over rows."]
        groups = list(dict.fromkeys(self.groups))
        if len(groups) > 1:
            sds = self.group_sd[~np.eye(len(self.methods), dtype=bool)]
            range_text = f": at most ±{np.nanmax(sds):.2f} between them" if not np.isnan(sds).all() else ""
            lines.append(f"Rows of {len(groups)} groups are pooled ({', '.join(groups)}){range_text}.")
        if self.skipped.any():
            lines.append(
                f"– marks pairs without a value. The measure is undefined for some rows ({self.undefined}): up to "
                f"{self.skipped.max():,} rows of a pair are left out."
            )
        return [*lines, *self.notes]

    def _summary(self) -> str:
        counts = self.rows[(self.rows > 0) & ~np.eye(len(self.methods), dtype=bool)]
        fewest, most = (int(counts.min()), int(counts.max())) if counts.size else (0, 0)
        count = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
        signs = "scores without their signs" if self.by == "size" else "scores with their signs"
        return f"Mean of {count} rows, {signs}"

    def matrix_views(self, each: str | None = None) -> list[MatrixView]:
        """The content of a picture: one heat map, or one for each subset of rows."""
        subsets = {self.measure: self}
        if each is not None:
            subsets = {f"{self.measure}, {name}": subset for name, subset in self.each(each).items()}
        return [
            MatrixView(self.methods, subset.matrix, self.lowest, title, subset._summary())
            for title, subset in subsets.items()
        ]

    def chart(self, each: str | None = None) -> Any:
        """The heat map as an Altair chart."""
        return matrix_chart(self.matrix_views(each), caution=CAUTION)

    def save(self, path: Path | str, each: str | None = None) -> None:
        """Write the values of every row (.parquet) or the heat map (.png, .svg, .html, or .json for Vega-Lite)."""
        path = Path(path)
        if path.suffix != ".parquet":
            draw_agreements([self], path, each)
            return
        columns = {
            "id": self.ids, "task": self.tasks, "group": self.groups, "length": self.lengths.tolist(),
            "present": self.present.tolist(), "values": self.values.reshape(len(self.ids), -1).tolist(),
        }  # fmt: skip
        metadata = {VERSION_KEY: VERSION, **{name: getattr(self, name) for name in _METADATA}}
        write_table(path, Table(columns, metadata), types=_COLUMNS)

    @classmethod
    def load(cls, path: Path | str) -> "Agreement":
        """Read a .parquet file that `save` wrote. Raises RecordError if it is damaged."""
        path = Path(path)
        if not path.is_file():
            raise OptionError(f"There is no file {path}. Write one with agreement.save('name.parquet').")
        table = read_table(path)
        try:
            check_version(table.about, VERSION, path)
            metadata = {name: table.about[name] for name in _METADATA}
            metadata |= {name: tuple(metadata[name]) for name in ("methods", "notes")}
            columns = table.columns
            values = np.array(columns["values"], dtype=np.float64)
            return cls(
                **metadata,
                values=values.reshape(-1, len(metadata["methods"]), len(metadata["methods"])),
                present=np.array(columns["present"], dtype=bool).reshape(len(values), -1),
                ids=tuple(columns["id"]),
                tasks=tuple(columns["task"]),
                groups=tuple(columns["group"]),
                lengths=np.array(columns["length"], dtype=np.int64),
            )
        except DAMAGE_ERRORS as error:
            raise RecordError(
                f"{path} does not contain agreement of methods ({error}). Compare the methods again."
            ) from error


def draw_agreements(agreements: Sequence[Agreement], path: Path | str, each: str | None = None) -> None:
    """Draw several measures in one picture: .png, .svg, .html or .json."""
    path = Path(path)
    kind = _picture_kind(path)
    views = [view for agreement in agreements for view in agreement.matrix_views(each)]
    write_bytes(ensure_parent(path), matrix_picture(views, kind, caution=CAUTION))


def check_picture(path: Path, *, overwrite: bool = False) -> None:
    """Raise OptionError if no picture can be written to this path."""
    _picture_kind(path)
    check_new_file(path, overwrite=overwrite)


def _picture_kind(path: Path) -> str:
    kind = path.suffix.removeprefix(".").lower()
    check_kind(kind)
    return kind


def check_grouping(each: str | None) -> None:
    """Raise OptionError unless `each` is None or a known grouping of rows."""
    if each not in (None, *GROUPINGS):
        raise OptionError(unknown_name_message("way to divide rows", str(each), GROUPINGS))


def _mean(values: Float[np.ndarray, "row method method"]) -> Float[np.ndarray, "method method"]:
    count = (~np.isnan(values)).sum(0)
    return np.divide(np.nansum(values, 0), count, out=np.full(count.shape, np.nan), where=count > 0)


def _sd(values: Float[np.ndarray, "row method method"]) -> Float[np.ndarray, "method method"]:
    count = (~np.isnan(values)).sum(0)
    squares = np.nansum((values - _mean(values)) ** 2, 0)
    return np.sqrt(np.divide(squares, count - 1, out=np.full(count.shape, np.nan), where=count > 1))


def _quarters(lengths: Int[np.ndarray, " row"]) -> list[str]:
    """The quartile of each row, named after its shortest and longest row."""
    edges = np.quantile(lengths, [0.25, 0.5, 0.75])
    quarters = np.searchsorted(edges, lengths, side="left")  # a row as long as an edge belongs to the lower quartile
    names = {}
    for quarter in np.unique(quarters):
        quarter_lengths = lengths[quarters == quarter]
        low, high = int(quarter_lengths.min()), int(quarter_lengths.max())
        names[quarter] = f"{low} unit{'s' * (low != 1)}" if low == high else f"{low} to {high} units"
    return [names[quarter] for quarter in quarters]


def _format_cell(mean: float, sd: float) -> str:
    return format_value(mean) if np.isnan(sd) else f"{format_value(mean)}\n±{sd:.2f}"
