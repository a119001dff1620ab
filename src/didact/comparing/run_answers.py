"""The answers of teacher and students in the folder of a finished run, for statistics over several runs."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from didact.comparing.run_inputs import LabelledSplit, read_rows
from didact.comparing.statistics import REFERENCE, contrast_of_arms, row_contributions, scores_by_arm
from didact.comparing.summarise import RESULTS
from didact.core.row import Row
from didact.errors import OptionError, RecordError
from didact.files.remote import fetch_run, is_url
from didact.files.store import Store
from didact.files.table_io import read_table
from didact.results.comparison import Arm, Comparison
from didact.results.gains import NONE
from didact.results.target_normalisation import band_arm
from didact.results.training_record import TrainingRecord

_TOLERANCE: Final = 1e-9  # how far a stored gain may differ from that of the answers
_AGAIN: Final = "Run the same comparison again: nothing is trained twice."


@dataclass(frozen=True)
class FinishedCell:
    """A line of results.parquet: one student that was trained."""

    key: str
    explainer: str
    student: str
    size: int
    seed: int


@dataclass(frozen=True, eq=False)
class RunAnswers:
    """A finished comparison with what its measure is computed from.

    `contributions` has by arm and seed one number per test row; their mean is the measure. `row_keys` name the test
    rows by content, so that other runs can have the same. `strata` are the teacher's classes if all have one weight.
    """

    comparison: Comparison
    contributions: Mapping[Arm, Mapping[int, Float[np.ndarray, " row"]]]
    row_keys: tuple[Hashable, ...]
    strata: Int[np.ndarray, " row"] | None

    @classmethod
    def load(cls, source: Comparison | Path | str) -> "RunAnswers":
        """Read the answers of a run by its folder, URL or comparison.

        Raises:
            OptionError: there is no finished run, an older didact made it, or its answers are missing.
            RecordError: a file is damaged.
        """
        if isinstance(source, Comparison):
            comparison = source
        else:
            folder = fetch_run(source, with_answers=True) if isinstance(source, str) and is_url(source) else source
            comparison = Comparison.load(folder)
        if not comparison.contrasts:
            raise OptionError(f"{comparison.folder}: {comparison.why_no_contrasts}")
        return _read_answers(comparison)


def _read_answers(comparison: Comparison) -> RunAnswers:
    """Read the answers. Of several files with the teacher's answers, the one that the comparison was computed from."""
    folder = comparison.folder
    if not (folder / RESULTS).is_file():
        raise OptionError(f"{folder} has no {RESULTS}, so the students' answers cannot be read. {_AGAIN}")
    lines = read_table(folder / RESULTS).columns
    names = ("key", "explainer", "student", "size", "seed")
    done = [
        FinishedCell(*values)
        for status, *values in zip(lines["status"], *(lines[name] for name in names), strict=True)
        if status == "done"
    ]
    done = _at_best_temperature(comparison, done)
    store = Store(folder / "cells")
    try:
        records = {cell.key: TrainingRecord.load(store, cell.key) for cell in done}
        for path in sorted((folder / "classroom").glob("rows-*.parquet")):
            test = read_rows(path)["test"]
            if len(test.rows) == comparison.about.test_rows:
                scores = scores_by_arm(done, records, store, test)
                strata = test.outputs.labels if comparison.is_balanced else None
                if _reproduces(comparison, scores, strata):
                    return _run_answers(comparison, scores, test, strata)
    except RecordError as error:
        raise RecordError(f"The students' answers in {folder} cannot be read: {error} {_AGAIN}") from error
    raise OptionError(
        f"{folder} has no answers of the teacher that give its table (classroom/rows-*.parquet). {_AGAIN}"
    )


def _at_best_temperature(comparison: Comparison, cells: Sequence[FinishedCell]) -> list[FinishedCell]:
    """The cells under the names of the table. A row with a band shows the students of its best temperature."""
    method_of = {
        (band_arm(row.explainer, row.best_point.temperature), *row.column): row.explainer
        for row in comparison.rows
        if row.best_point is not None
    }
    return [
        replace(cell, explainer=method_of.get((cell.explainer, cell.student, cell.size), cell.explainer))
        for cell in cells
    ]


def _run_answers(
    comparison: Comparison,
    scores: Mapping[Arm, Mapping[int, Float[np.ndarray, " row"]]],
    test: LabelledSplit,
    strata: Int[np.ndarray, " row"] | None,
) -> RunAnswers:
    reference = scores.get(REFERENCE, {}).get(0)
    contributions = {
        arm: {seed: row_contributions(row, reference, strata) for seed, row in by_seed.items()}
        for arm, by_seed in scores.items()
        if arm != REFERENCE
    }
    return RunAnswers(comparison, contributions, row_keys(test.rows), strata)


def _reproduces(
    comparison: Comparison,
    scores: Mapping[Arm, Mapping[int, Float[np.ndarray, " row"]]],
    strata: Int[np.ndarray, " row"] | None,
) -> bool:
    """Whether these answers give the gains of the table."""
    for row in comparison.rows:
        arm, none = (row.explainer, *row.column), (NONE, *row.column)
        if row.gain is None or row.explainer == NONE:
            continue
        if arm not in scores or none not in scores:
            return False
        if abs(contrast_of_arms(scores, strata, arm, none).difference - row.gain) > _TOLERANCE:
            return False
    return True


def row_keys(rows: Sequence[Row]) -> tuple[Hashable, ...]:
    """A name for the content of each row; equal rows are numbered."""
    seen: Counter[Hashable] = Counter()
    keys: list[Hashable] = []
    for row in rows:
        content = row.texts if row.image is None else (row.image.shape, row.image.tobytes())
        keys.append((content, seen[content]))
        seen[content] += 1
    return tuple(keys)
