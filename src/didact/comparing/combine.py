"""`didact.combine`: gains and contrasts of methods over several teachers, from one comparison with each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path

import numpy as np

from didact.comparing.run_answers import RunAnswers
from didact.core.measure import BALANCED
from didact.errors import DidactError, PlanError
from didact.results.combined import ALL_COLUMNS, CombinedComparison, CombinedRow, CombinedTeacher
from didact.results.comparison import Comparison
from didact.results.contrast import Column, TeacherContrast
from didact.results.gains import NONE, column_name
from didact.stats.claims import claims
from didact.stats.teachers import TeacherTable, teacher_contrast


def combine(results: Sequence[Comparison | Path | str], *, average: bool = False) -> CombinedComparison:
    """Combine comparisons of the same methods and students with different teachers.

    The intervals hold for teachers in general: they cover the choice of teachers, of test rows and of seeds. They are
    Student's t over teachers, with the covariance of teachers that share test rows or training rows added
    (docs/combine.md). Two or three teachers give very wide intervals.

    Args:
        results: Folders or URLs that `didact compare` wrote, or `Comparison` objects: one per teacher. They must have
            the same students, sizes and measure. Methods that are not in all of them are left out, with a note.
        average: Also combine the mean over all columns (student and size).

    Returns:
        A `CombinedComparison`: gains over `none` and contrasts of methods in each column. With one run, they hold for
        its teacher only.

    Raises:
        PlanError: The runs cannot be combined. The message lists all faults.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        results = [
            didact.compare(teacher, data, ["occlusion"], ["pool/attention"], seeds=8, balance=False)
            for teacher in (didact.load_teacher("runs/demo/teacher"), data.oracle())
        ]
        combined = didact.combine(results)
        print(combined.table())
        ```
    """
    runs = _load(results)
    teachers = _Teachers(runs)
    columns = teachers.columns
    gains, pairs = [], []
    for column in [ALL_COLUMNS, *columns] if average else columns:
        column_gains, column_pairs = _column_rows(teachers, column)
        gains += column_gains
        pairs += column_pairs
    first = runs[0]
    shared = set(first.row_keys).intersection(*(run.row_keys for run in runs[1:]))
    return CombinedComparison(
        teachers=teachers.records,
        gains=tuple(gains),
        pairs=tuple(pairs),
        measure=first.comparison.measure,
        shared_rows=len(shared),
        shares_seeds=teachers.share_seeds,
        notes=tuple(teachers.notes),
    )


def _load(results: Sequence[Comparison | Path | str]) -> list[RunAnswers]:
    """Read all runs and check that they can be combined. Raises PlanError with all faults."""
    sources = [results] if isinstance(results, Comparison | Path | str) else list(results)
    runs, faults = [], [] if sources else ["there is no run: pass the folder of at least one comparison"]
    for source in sources:
        try:
            runs.append(RunAnswers.load(source))
        except DidactError as error:
            faults.append(str(error))
    faults += _differences(runs)
    if faults:
        raise PlanError("These comparisons cannot be combined:", faults)
    return runs


def _differences(runs: Sequence[RunAnswers]) -> list[str]:
    """What keeps runs from being combined: other measures, students or sizes, no method in common, equal teachers."""
    if not runs:
        return []
    faults, first = [], runs[0].comparison
    for run in runs[1:]:
        other = run.comparison
        if other.measure != first.measure:
            advice = (
                ": compare all with --balance yes, or all with no" if BALANCED in (other.measure, first.measure) else ""
            )
            faults.append(
                f"{other.folder} measures {other.measure}, and {first.folder} measures {first.measure}{advice}"
            )
        if set(other.columns) != set(first.columns):
            names = ["; ".join(map(column_name, comparison.columns)) for comparison in (other, first)]
            faults.append(f"{other.folder} has the students and sizes {names[0]}, and {first.folder} has {names[1]}")
    for run, other_run in combinations(runs, 2):
        one_teacher = run.comparison.about.teacher_fingerprint
        if one_teacher and one_teacher == other_run.comparison.about.teacher_fingerprint:
            faults.append(
                f"{run.comparison.folder} and {other_run.comparison.folder} have the same teacher, which would count "
                "twice: give one of them"
            )
    methods = set(first.explainers).intersection(*(run.comparison.explainers for run in runs[1:]))
    if len(methods) < 2 or NONE not in methods:
        faults.append(f"no explainer and {NONE!r} are in all runs: compare the same methods with every teacher")
    return faults


@dataclass(frozen=True, eq=False)
class _Teachers:
    """The runs, one per teacher, with the tables of paired differences of any two arms."""

    runs: Sequence[RunAnswers]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        return [run.comparison for run in self.runs]

    @cached_property
    def explainers(self) -> list[str]:
        """The methods and controls that all runs have, without `none`."""
        shared = set.intersection(*(set(comparison.explainers) for comparison in self.comparisons))
        return [name for name in self.comparisons[0].explainers if name in shared and name != NONE]

    @cached_property
    def controls(self) -> set[str]:
        return set.union(*(comparison.controls for comparison in self.comparisons))

    @property
    def columns(self) -> list[Column]:
        return self.comparisons[0].columns

    @cached_property
    def share_seeds(self) -> bool:
        """Whether any two runs have the same data, so that students of one seed learn from the same rows."""
        fingerprints = [run.comparison.about.data_fingerprint for run in self.runs]
        return len(set(fingerprints)) < len(fingerprints) and all(fingerprints)

    @cached_property
    def records(self) -> tuple[CombinedTeacher, ...]:
        return tuple(
            CombinedTeacher(
                name=comparison.name,
                run=comparison.folder.name,
                fingerprint=comparison.about.teacher_fingerprint,
                data=_name(comparison.about.data),
                seeds=len(comparison.about.seeds) or comparison.least_seeds,
                test_rows=len(run.row_keys),
            )
            for run, comparison in zip(self.runs, self.comparisons, strict=True)
        )

    @property
    def notes(self) -> Iterator[str]:
        names = list(dict.fromkeys(name for comparison in self.comparisons for name in comparison.explainers))
        if missing := [name for name in names if name not in self.explainers and name != NONE]:
            yield f"Left out, since not every run has them: {', '.join(missing)}."
        for column in self.columns:
            if absent := [name for name in self.explainers if not self.has(name, column)]:
                yield f"{column_name(column)}: no seed of {', '.join(absent)} succeeded with every teacher."
        for number, comparison in enumerate(self.comparisons, 1):
            for column in comparison.unlearned:
                yield f"{column_name(column)}: the students of teacher {number} learned nothing, so do not rely on it."

    def has(self, explainer: str, column: Column) -> bool:
        """Whether this arm and `none` share a seed with every teacher in this column."""
        columns = self.columns if column == ALL_COLUMNS else [column]
        return all(self._seeds(run, explainer, NONE, columns) for run in self.runs)

    def contrast(self, first: str, second: str, column: Column) -> TeacherContrast | None:
        """The contrast of two arms over teachers; None if they share no seed with some teacher."""
        columns = self.columns if column == ALL_COLUMNS else [column]
        tables = []
        for run in self.runs:
            seeds = self._seeds(run, first, second, columns)
            if not seeds:
                return None
            differences = [
                np.stack(
                    [run.contributions[first, *each][seed] - run.contributions[second, *each][seed] for seed in seeds]
                )
                for each in columns
            ]
            data = run.comparison.about.data_fingerprint
            seed_keys = tuple((data, seed) for seed in seeds) if data else None
            tables.append(TeacherTable(np.mean(differences, axis=0), run.row_keys, seed_keys, run.strata))
        return teacher_contrast(tables)

    def _seeds(self, run: RunAnswers, first: str, second: str, columns: Sequence[Column]) -> list[int]:
        """The seeds that both arms have in all these columns."""
        arms = [(name, *column) for name, column in product((first, second), columns)]
        return sorted(set.intersection(*(set(run.contributions.get(arm, {})) for arm in arms)))


def _column_rows(teachers: _Teachers, column: Column) -> tuple[list[CombinedRow], list[CombinedRow]]:
    """The gains of a column, and the contrasts of its methods with each other and with the controls.

    Families for claims: the gains of all methods; the contrasts of all methods with each other; each control's gain;
    the contrasts of all methods with one control.
    """
    names = [name for name in teachers.explainers if teachers.has(name, column)]
    contrasts = {name: teachers.contrast(name, NONE, column) for name in names}
    gains = {name: contrast for name, contrast in contrasts.items() if contrast is not None}
    controls = [name for name in gains if name in teachers.controls]
    methods = sorted((name for name in gains if name not in controls), key=lambda name: (-gains[name].difference, name))
    families = [[(name, NONE) for name in methods], *([(name, NONE)] for name in controls)]
    families += [list(combinations(methods, 2)), *([(name, control) for name in methods] for control in controls)]
    best = np.max([gains[name].by_teacher for name in methods], axis=0) if methods else np.array([])
    over_seeds = len(teachers.runs) == 1 or teachers.share_seeds
    limit = 2.0 if teachers.comparisons[0].is_correlation else 1.0
    rows: dict[tuple[str, str], CombinedRow] = {}
    for family in families:
        members = {
            pair: contrast
            for pair in family
            if (contrast := gains[pair[0]] if pair[1] == NONE else teachers.contrast(*pair, column)) is not None
        }
        for row in _rows(members, column, controls, over_seeds=over_seeds, limit=limit):
            rows[row.explainer, row.against] = row
    result = [rows[name, NONE] for name in gains]
    for index, row in enumerate(result):
        if row.explainer in methods:
            leads = float(np.mean(np.array(row.by_teacher) >= best))
            result[index] = CombinedRow(**{**row, "leads": leads})
    return result, [row for (_, against), row in rows.items() if against != NONE]


def _rows(
    family: dict[tuple[str, str], TeacherContrast],
    column: Column,
    controls: Sequence[str],
    *,
    over_seeds: bool,
    limit: float,
) -> Iterator[CombinedRow]:
    """The contrasts of a family with their claims. `over_seeds`: one seed does not allow a claim.

    Intervals are clipped to the possible range of a difference, from -`limit` to `limit`.
    """
    contrasts = list(family.values())
    for (first, second), contrast, claim in zip(
        family, contrasts, claims(contrasts, over_seeds=over_seeds), strict=True
    ):
        yield CombinedRow(
            explainer=first,
            against=second,
            student=column[0],
            size=column[1],
            difference=contrast.difference,
            se=contrast.se,
            df=contrast.df,
            low=None if claim.low is None else max(claim.low, -limit),
            high=None if claim.high is None else min(claim.high, limit),
            level=claim.level,
            p=claim.p,
            p_reason=claim.reason,
            claimed=claim.claimed,
            is_control=(first if second == NONE else second) in controls,
            teachers=contrast.teachers,
            seeds=contrast.seeds,
            test_rows=contrast.rows,
            teacher_sd=contrast.teacher_sd,
            ahead=float(np.mean(np.array(contrast.by_teacher) > 0)),
            by_teacher=contrast.by_teacher,
            teacher_variance=contrast.teacher_variance,
            seed_variance=contrast.seed_variance,
            row_variance=contrast.row_variance,
            cell_variance=contrast.cell_variance,
        )


def _name(data: str) -> str:
    """The name of the data. An absolute path is reduced to its last part, since results are passed on to others."""
    return Path(data).name if Path(data).is_absolute() else data
