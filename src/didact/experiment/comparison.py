"""What a comparison found: gains with claims, contrasts, ranks, and how far students agree. Read without torch."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from didact.errors import OptionError
from didact.records.atomic import with_folder, write_text
from didact.records.remote import fetched_run, is_url
from didact.records.sealed import damaged, missing_entry, read_json, write_json
from didact.render.grid import Cell, Line, grid
from didact.render.mix import MixView
from didact.stats.contrast import Contrast
from didact.stats.contrast_table import ContrastTable
from didact.stats.modes import modes_sentence

COLUMNS: Final = (
    "explainer", "student", "size", "seeds", "measure", "median", "q25", "q75", "gain", "low", "high", "p", "rank",
    "test_rows",
)  # fmt: skip
MORE: Final = ("mean", "level", "p_reason", "claimed", "is_control", "lost_rows", "low_seeds")
# Where the teacher's own answers are kept among the scores: a correlation is with them.
REFERENCE: Final = ("", "", 0)
ADVICE: Final = (
    "Try more rows to learn from (--sizes), more epochs (--epochs), another student (--students), or a pretrained base "
    "for them (--base)."
)
_AGAIN: Final = "Run the same comparison again: finished runs are kept."
_COUNT, _MAYBE = (int,), (int, float, type(None))
# The entries that a row of a stored table must have, and their types.
_ROW: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("explainer", "student", "measure"), (str,)),
    **dict.fromkeys(("size", "seeds", "test_rows"), _COUNT),
    **dict.fromkeys(("median", "mean", "gain", "low", "high", "p", "rank"), _MAYBE), "p_reason": (str, type(None)),
}  # fmt: skip
FEW: Final = 5  # fewer seeds than these are marked: their intervals say little


@dataclass(frozen=True, eq=False)
class Comparison:
    """One row per explainer, student and size; measures and gains are fractions.

    `gain` is the contrast with `none`: the mean paired difference over seeds and test rows. It is `claimed` if its
    Holm-adjusted `p` is below 0.05, which is so exactly where the interval from `low` to `high` excludes 0 (at `level`;
    docs/compare.md states the rule). p and interval are None with a `p_reason` where nothing can be claimed.
    `low_seeds` counts the seeds that fell into a lower group of their own. `contrasts` holds every two arms of a
    column. `agreement` holds Kendall's τ between the rankings of the columns. `learned` tells what every learned
    explainer became, one entry per student, size and seed. `is_temporary` is true if the folder is
    deleted with this object.
    """

    rows: tuple[Mapping[str, Any], ...]
    failed: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    about: Mapping[str, Any]
    agreement: Mapping[str, Any]
    folder: Path
    learned: tuple[Mapping[str, Any], ...] = ()
    scores: Mapping[tuple[str, str, int], Mapping[int, np.ndarray]] = field(default_factory=dict, repr=False)
    strata: np.ndarray | None = field(default=None, repr=False)  # the teacher's classes of the test rows, if balanced
    contrasts: ContrastTable = field(default_factory=ContrastTable, repr=False)
    is_temporary: bool = False

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} rows, {len(self.failed)} failed cells, {str(self.folder)!r})"

    @property
    def explainers(self) -> list[str]:
        return list(dict.fromkeys(row["explainer"] for row in self.rows))

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Students and sizes."""
        return list(dict.fromkeys((row["student"], row["size"]) for row in self.rows))

    def row(self, explainer: str, student: str | None = None, size: int | None = None) -> Mapping[str, Any]:
        """The one row of this explainer; of this student and size, where there are several."""
        found = [
            row for row in self.rows
            if row["explainer"] == explainer and student in (None, row["student"]) and size in (None, row["size"])
        ]  # fmt: skip
        if len(found) != 1:
            raise OptionError(
                f"{len(found)} rows are of {explainer!r}, student {student!r}, size {size!r}; name just one. "
                f"Explainers: {', '.join(self.explainers)}; students and sizes: {', '.join(map(str, self.columns))}."
            )
        return found[0]

    def _key(self, name: tuple[str, str, int] | str) -> tuple[str, str, int]:
        if not isinstance(name, str):
            return name
        row = self.row(name)
        return row["explainer"], row["student"], row["size"]

    def contrast(self, first: tuple[str, str, int] | str, second: tuple[str, str, int] | str) -> Contrast:
        """The first row minus the second, each (explainer, student, size): difference, standard error, interval, p.

        The name of an explainer is enough where there is one student and one size.
        Rows of one column can always be contrasted. Rows of two columns need the students' answers, which a loaded
        comparison does not have. With one seed the interval is about other test rows alone.
        """
        first, second = self._key(first), self._key(second)
        known = {(row["explainer"], row["student"], row["size"]) for row in self.rows}
        for name in (first, second):
            if name not in known:
                raise OptionError(f"There are no answers of {name}; known are {', '.join(map(str, sorted(known)))}.")
        if first[1:] == second[1:] and (stored := self.contrasts.get(first[0], second[0], first[1:])) is not None:
            return stored
        if not self.scores:
            raise OptionError(
                f"The contrast of {first} and {second} is not stored in {self.folder}. Give the same comparison again "
                "(didact.compare with this folder as out): nothing is trained twice, and the result has it."
            )
        seeds = sorted(self.scores[first].keys() & self.scores[second].keys())
        if not seeds:
            raise OptionError(f"{first} and {second} share no seed.")
        from didact.experiment.summary import contrast_of

        own, other = ([self.scores[name][seed] for seed in seeds] for name in (first, second))
        return contrast_of(own, other, self.scores.get(REFERENCE, {}).get(0), self.strata)

    def mix(self, explainer: str = "smat", student: str | None = None, size: int | None = None) -> MixView:
        """How much each part of a learned explainer counts, mean over seeds: a layer × head map, or bars."""
        found = [
            one for one in self.learned
            if one["explainer"] == explainer and student in (None, one["student"]) and size in (None, one["size"])
        ]  # fmt: skip
        if not found:
            known = sorted({one["explainer"] for one in self.learned})
            raise OptionError(f"Nothing was learned by {explainer!r}; learned were: {', '.join(known) or 'none'}.")
        columns = sorted({(one["student"], one["size"]) for one in found})
        if len(columns) > 1:
            raise OptionError(f"{explainer!r} was learned for several students or sizes; name one of {columns}.")
        weights = np.mean([one["weights"] for one in found], axis=0)
        title = f"{explainer}, mean of {len(found)} seeds" if len(found) > 1 else explainer
        return MixView(tuple(found[0]["names"]), tuple(weights.tolist()), title)

    def ranking(self) -> list[dict[str, Any]]:
        """Explainers from best to worst by their mean rank over all columns; `none` is one of them."""
        found = []
        for name in self.explainers:
            own = [row for row in self.rows if row["explainer"] == name and row["rank"] is not None]
            gains = [row["gain"] for row in own if row["gain"] is not None]
            if own:
                rank = float(np.mean([row["rank"] for row in own]))
                found.append({"explainer": name, "rank": rank, "gain": float(np.mean(gains)) if gains else None})
        return sorted(found, key=lambda one: (one["rank"], one["explainer"]))

    def to_document(self) -> dict[str, Any]:
        """Plain JSON: the rows, the failed cells and what else is to be known."""
        return {
            "rows": [dict(row) for row in self.rows],
            "failed": [dict(one) for one in self.failed],
            "ranking": self.ranking(),
            "agreement": dict(self.agreement),
            "learned": [dict(one) for one in self.learned],
            "contrasts": self.contrasts.to_document(),
            "notes": list(self.notes),
            "about": dict(self.about),
        }

    def to_pandas(self) -> Any:
        """A data frame with one line per row of the table."""
        import pandas

        return pandas.DataFrame([dict(row) for row in self.rows], columns=[*COLUMNS, *MORE])

    def save(self, path: Path | str) -> None:
        """Write the table as .json, .csv or .parquet. The run's own folder holds it already."""
        path = with_folder(Path(path))
        if path.suffix == ".json":
            write_json(path, self.to_document())
        elif path.suffix == ".csv":
            write_text(path, self.to_pandas().to_csv(index=False))
        elif path.suffix == ".parquet":
            from didact.records.atomic import write_bytes

            buffer = io.BytesIO()
            self.to_pandas().to_parquet(buffer, index=False)
            write_bytes(path, buffer.getvalue())
        else:
            raise OptionError(f"A comparison is saved as .json, .csv or .parquet, not {path.name!r}.")

    @classmethod
    def load(cls, folder: Path | str) -> "Comparison":
        """What a run kept in its folder, or in a store (a URL). The students' answers stay where they are."""
        if is_url(folder):
            folder = fetched_run(str(folder))
        path = Path(folder) / "comparison.json"
        try:
            found = read_json(path, advice=_AGAIN)
            _check_rows(found)
            return cls(
                rows=tuple(found["rows"]), failed=tuple(found["failed"]), notes=tuple(found["notes"]),
                about=found["about"], agreement=found["agreement"], folder=Path(folder),
                learned=tuple(found.get("learned", ())),
                contrasts=ContrastTable.from_document(found.get("contrasts")),
            )  # fmt: skip
        except FileNotFoundError:
            raise OptionError(
                f"{folder} holds no finished comparison. Run `didact compare … --out {folder}`."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(path, missing_entry(error), _AGAIN) from error

    def table(self, *, width: int | None = None) -> str:
        """The table for people: one line per explainer, a column per student and size."""
        from rich.console import Console

        # Names and intervals are read and typed: without a width, none is cut.
        console = Console(file=io.StringIO(), width=width or 10_000, highlight=False)
        console.print(self.rich_table())
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join([*(line.rstrip() for line in text.rstrip().splitlines()), *self.remarks()])

    def rich_table(self) -> Any:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("explainer", no_wrap=True)
        for student, size in self.columns:
            table.add_column(Text(self._heading(student, size)), no_wrap=True)
        table.add_column(Text("mean\nrank"), justify="right")
        ranks = {one["explainer"]: one["rank"] for one in self.ranking()}
        cells = self._cells
        for name in self._ordered(ranks):
            line = [Text(name, style="dim" if name in self.about.get("controls", ()) else "")]
            line += [_cell(cells.get((name, *column))) for column in self.columns]
            table.add_row(*line, Text(f"{ranks[name]:.1f}" if name in ranks else "–"))
        return table

    def _repr_html_(self) -> str:
        """The same table for a notebook."""
        ranks = {one["explainer"]: one["rank"] for one in self.ranking()}
        lines = []
        for name in self._ordered(ranks):
            is_control = name in self.about.get("controls", ())
            cells = [_html_cell(self._cells.get((name, *column))) for column in self.columns]
            rank = Cell(f"{ranks[name]:.1f}" if name in ranks else "–")
            lines.append(
                Line(Cell(name, "a control" if is_control else "", "quiet" if is_control else ""), [*cells, rank])
            )
        heads = ["explainer", *(self._heading(*column) for column in self.columns), "mean\nrank"]
        return grid(heads, lines, notes=self.remarks())

    def _heading(self, student: str, size: int) -> str:
        """The name of a column, marked where some of its students failed to learn."""
        failed = any(row.get("low_seeds") for row in self.rows if (row["student"], row["size"]) == (student, size))
        return f"{student}\n{size:,} rows{' ‡' if failed else ''}"

    @property
    def _cells(self) -> dict[tuple[str, str, int], Mapping[str, Any]]:
        return {(row["explainer"], row["student"], row["size"]): row for row in self.rows}

    def _ordered(self, ranks: Mapping[str, float]) -> list[str]:
        """`none` first, then from best to worst."""
        return sorted(self.explainers, key=lambda name: (name != "none", ranks.get(name, np.inf)))

    def remarks(self) -> list[str]:
        """What must be read with the table."""
        measure = str(self.about.get("measure", "")).replace("balanced_accuracy", "balanced agreement")
        percent = "points of 100" if measure != "pearson" else "Pearson's r"
        said = [f"none: {measure} with the teacher's answers alone. All others: gain over none in {percent}"]
        unlearned = [column for column in self.about.get("columns", ()) if column.get("learned") is False]
        has_intervals = any(row["low"] is not None for row in self.rows)
        if has_intervals:
            said[0] += ", with its 95 % interval, corrected for the number of methods (controls: each alone)."
            said.append(
                "▲ claimed better than none, ▼ claimed worse: the interval excludes 0, that is p < 0.05 (Holm)."
            )
        else:
            said[0] += ", without intervals."
        if reason := self.contrasts.why_empty((row["student"], row["size"]) for row in self.rows):
            said.append(reason)
        if any(row["seeds"] < FEW for row in self.rows):
            little = "the interval says little" if has_intervals else "chance alone may have made this ranking"
            said.append(f"° fewer than {FEW} seeds: {little}.")
        reasons = sorted({row["p_reason"] for row in self.rows if row["p_reason"]})
        said += [f"p: {reason}" for reason in reasons]
        for row in self.rows:
            if row.get("low_seeds"):
                sentence = modes_sentence(row["explainer"], row["low_seeds"], row["seeds"])
                said.append(f"‡ {row['student']}, {row['size']:,} rows: {sentence}")
        said += list(self.notes)
        said += [
            f"{column['student']}, {column['size']:,} rows: the students did not learn ({column['reason']}); this "
            "column says nothing about the explanations."
            for column in unlearned
        ]
        if unlearned:
            said.append(ADVICE)
        if self.failed:
            said.append(f"{len(self.failed)} runs failed: the first with {self.failed[0]['error']!r}.")
        return said


def _check_rows(document: Mapping[str, Any]) -> None:
    """A KeyError or TypeError if a row lacks an entry or has one of another type. Files without a checksum may."""
    for row in document["rows"]:
        for name, kinds in _ROW.items():
            if not isinstance(row[name], kinds) or isinstance(row[name], bool):
                raise TypeError(f"{name} of a row is {row[name]!r}")
    for entry, names in (("failed", ("error",)), ("learned", ("explainer", "student", "size", "names", "weights"))):
        for line in document.get(entry, ()):
            for name in names:
                line[name]
    for entry in ("about", "agreement"):
        if not isinstance(document[entry], Mapping):
            raise TypeError(f"{entry} is {document[entry]!r}")


_STYLES: Final = {"above": "bold green", "below": "red", "": ""}


def _cell(row: Mapping[str, Any] | None) -> Any:
    from rich.text import Text

    text, mark = _written(row)
    return Text(text, style=_STYLES[mark])


def _html_cell(row: Mapping[str, Any] | None) -> Cell:
    text, mark = _written(row)
    if row is None or row["median"] is None:
        return Cell(text, "no cell of it ended well", "quiet")
    scale, digits = _scale(row)
    title = f"{row['measure']} {row['mean'] * scale:.{digits}f}, {row['seeds']} seeds, {row['test_rows']:,} test rows"
    return Cell(text, title + (f", p = {row['p']:.2g}" if row["p"] is not None else ""), mark)


def _scale(row: Mapping[str, Any]) -> tuple[float, int]:
    """What a measure is multiplied by where people read it, and its digits."""
    return (1.0, 3) if row["measure"] == "pearson" else (100.0, 1)


def _written(row: Mapping[str, Any] | None) -> tuple[str, str]:
    """A cell for people, and whether its gain is claimed to be above or below 0."""
    if row is None or row["median"] is None:
        return "–", ""
    scale, digits = _scale(row)
    few = ("°" if row["seeds"] < FEW else "") + ("‡" if row.get("low_seeds") else "")
    if row["explainer"] == "none":
        return f"{row['mean'] * scale:.{digits}f}{few}", ""
    if row["gain"] is None:
        return "–", ""
    gain = _signed(row["gain"] * scale, digits)
    if row["low"] is None:
        return f"{gain}{few}", ""
    low, high = _signed(row["low"] * scale, digits), _signed(row["high"] * scale, digits)
    mark = "" if not row.get("claimed") else "above" if row["gain"] > 0 else "below"
    sign = {"above": "▲", "below": "▼", "": " "}[mark]
    text = f"{gain} [{low}, {high}] {sign}{few}"
    return text.rstrip(), mark


def _signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]
