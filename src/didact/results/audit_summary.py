"""How evaluators did in audits of several teachers: shares of right answers with intervals, and a table of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from didact.files.atomic import ensure_parent, write_text
from didact.results.comparison_table import grid_text
from didact.results.documents import Document, MappingDocument, load_document, save_document
from didact.results.number_format import UNKNOWN, NumberFormat
from didact.viz.tables import Cell, Table

VERSION: Final = 1
# The goals that an evaluator must reach to be trusted.
MIN_STEPS_RIGHT: Final = 0.90
MAX_EQUAL_DIFFER: Final = 0.05
MAX_MOVE: Final = 0.015
# A step of damage counts if it costs at least this much in true AUC.
MIN_DROP: Final = 0.02
_NUMBER: Final = NumberFormat(100.0, 1, ascii_minus=True)


@dataclass(frozen=True, eq=False)
class Mean(Document):
    """A mean over audits, with the 95 % interval of Student's t over them; None with a single audit."""

    value: float
    low: float | None = None
    high: float | None = None
    by_audit: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class EvaluatorScore(MappingDocument):
    """How one evaluator answered the questions of all audits that it took part in.

    Attributes:
        steps, steps_right, steps_wrong: steps of damage that count; those in the right order; those in the wrong order
            with an interval that excludes 0.
        equal, equal_differ: pairs of equal explanations; those that differ with an interval that excludes 0.
        by_construction: pairs of equal explanations that the evaluator is given in the same form. They do not count.
        less, less_win: explanations that can only have lost information; those ahead of their base, by the interval.
        leaks, leaks_win: leaks; those ahead of `none` (metrics: of `random`), by the interval.
        right, differ, move, tau, span: means over audits: the share of steps in the right order, the share of equal
            pairs that differ, the mean distance of equal pairs, Kendall's τ between the values of methods and their
            true AUC, and the distance of the best from the worst method. None where there is nothing to count.
        tau_lead: the mean of τ minus that of the best faithfulness metric, paired over audits; None for metrics.
        reference, seconds: means of the evaluator's.
        methods: the fewest methods that it ranked.
        unlearned: audits in which its students learned nothing without explanations.
    """

    name: str
    student: str = ""
    normalisation: str = ""
    test_set: str = ""
    is_metric: bool = False
    audits: int = 0
    steps: int = 0
    steps_right: int = 0
    steps_wrong: int = 0
    equal: int = 0
    equal_differ: int = 0
    by_construction: int = 0
    less: int = 0
    less_win: int = 0
    leaks: int = 0
    leaks_win: int = 0
    right: Mean | None = None
    differ: Mean | None = None
    move: Mean | None = None
    tau: Mean | None = None
    tau_lead: Mean | None = None
    span: float | None = None
    reference: float | None = None
    seconds: float | None = None
    methods: int = 0
    unlearned: int = 0

    @cached_property
    def missed(self) -> tuple[str, ...]:
        """The goals that this evaluator misses, or that could not be judged."""
        return tuple(goal for goal, reached in self.goals().items() if not reached)

    def goals(self) -> dict[str, bool]:
        """Whether each goal is reached. A metric has no goal for its moves, which are not in points of agreement."""
        steps = self.steps > 0 and self.steps_right >= MIN_STEPS_RIGHT * self.steps
        equal = self.equal_differ <= MAX_EQUAL_DIFFER * self.equal and self.equal + self.by_construction > 0
        move = self.is_metric or self.move is None or self.move.value <= MAX_MOVE
        leaks = self.leaks > 0 and self.leaks_win == 0 and self.less_win == 0
        lead = self.is_metric or (self.tau_lead is not None and self.tau_lead.value > 0)
        return {"steps": steps, "equal": equal, "move": move, "leaks": leaks, "tau": lead}

    @property
    def passes(self) -> bool:
        return not self.missed


@dataclass(frozen=True, eq=False)
class AuditSummary(Document):
    """The scores of all evaluators over some audits, students first, each from the best to the worst.

    `audits` has their names, `teachers` counts their teachers and `tasks` lists their kinds of task. `left_out` names
    the series whose damage did not lower the true AUC at every step.
    """

    scores: tuple[EvaluatorScore, ...]
    audits: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    teachers: int = 0
    seeds: int = 0
    knows_truth: bool = True
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def score(self, name: str) -> EvaluatorScore | None:
        """The score of the evaluator with this name, or None."""
        return next((score for score in self.scores if score.name == name), None)

    def save(self, path: Path | str) -> None:
        """Write the summary as .json, or one line per evaluator as .csv."""
        path = ensure_parent(Path(path))
        if path.suffix == ".csv":
            write_text(path, self.to_pandas().to_csv(index=False))
        else:
            save_document(path, self.to_document(), VERSION)

    @classmethod
    def load(cls, path: Path | str) -> "AuditSummary":
        """Read a file that `save` wrote. Raises RecordError if it is damaged."""
        return load_document(
            Path(path), VERSION, cls.from_document, advice="Summarise the audits again.",
            missing=f"There is no file {path}. Write one with `didact audit table AUDIT.json --out {Path(path).name}`.",
        )  # fmt: skip

    def to_pandas(self) -> Any:
        """A data frame with one line per evaluator."""
        import pandas

        lines = []
        for score in self.scores:
            line = {name: value for name, value in score.items() if not isinstance(value, Mean)}
            for name in ("right", "differ", "move", "tau", "tau_lead"):
                mean = score[name]
                line |= {name: None, f"{name}_low": None, f"{name}_high": None}
                if mean is not None:
                    line |= {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
            lines.append({**line, "missed": ", ".join(score.missed)})
        return pandas.DataFrame(lines)

    # -- display ------------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """The scores as text, with what a reader must know."""
        tables = [table for kind in (False, True) if (table := self.grid(is_metric=kind)).rows]
        blocks = [grid_text(table, right=range(1, len(table.heads))) for table in tables]
        return "\n".join([*blocks, *self.remarks()])

    def grid(self, *, is_metric: bool) -> Table:
        """The table of students, or of metrics."""
        heads = ["metric" if is_metric else "student, sent, tested on", "steps right", "equal differ", "move / span"]
        heads += ["lost info ahead", "leaks ahead", "τ with true AUC", "none" if not is_metric else "random", "seconds"]
        rows: list[list[Cell | str]] = [_line(score) for score in self.scores if score.is_metric == is_metric]
        return Table("audit-metrics" if is_metric else "audit-students", "", [*heads, "misses"], rows)

    def remarks(self) -> list[str]:
        """What a reader of the table must know."""
        lines = [
            f"{_count(len(self.audits), 'audit')} of {_count(self.teachers, 'teacher')} on {', '.join(self.data)}; "
            f"{_count(self.seeds, 'seed')}.",
            f"steps right: steps of damage that cost at least {MIN_DROP:g} in true AUC, in the right order (goal: "
            f"{MIN_STEPS_RIGHT:.0%}). equal differ: pairs of equal explanations whose paired 95 % interval excludes 0 "
            f"(goal: at most {MAX_EQUAL_DIFFER:.0%}); (+n) pairs that are the same to the evaluator by construction. "
            f"move: mean distance of equal pairs (goal: {100 * MAX_MOVE:g} points), beside the span of the methods.",
            "lost info ahead, leaks ahead: explanations that lost information and are ahead of their base, and leaks "
            "ahead of none (metrics: of random scores), by their intervals (goal: none). τ: Kendall's between the "
            "values of methods and their true AUC (goal: above every faithfulness metric). Intervals: Student's t over "
            "the audits.",
        ]
        if self.left_out:
            lines.append(
                f"Left out, since damage did not lower their true AUC at each step: {'; '.join(self.left_out)}."
            )
        unlearned = [f"{score.name} ({score.unlearned})" for score in self.scores if score.unlearned]
        if unlearned:
            lines.append(f"Students learned nothing without explanations in some audits: {'; '.join(unlearned)}.")
        if not self.knows_truth:
            lines.append("The true AUC is unknown here: all steps of damage count, and there is no τ.")
        passing = [score.name for score in self.scores if score.passes and not score.is_metric]
        if self.knows_truth:
            lines.append(f"All goals are reached by: {'; '.join(passing) or 'no evaluator'}.")
        return [*lines, *self.notes]

    def _repr_html_(self) -> str:
        """The tables as HTML for a notebook."""
        tables = [table for kind in (False, True) if (table := self.grid(is_metric=kind)).rows]
        return "\n".join(table.notebook(self.remarks() if table is tables[-1] else ()) for table in tables)


def _line(score: EvaluatorScore) -> list[Cell | str]:
    unit = NumberFormat(1.0, 3, ascii_minus=True) if score.is_metric else _NUMBER
    tau = NumberFormat(1.0, 2, ascii_minus=True)
    constructed = f" (+{score.by_construction})" if score.by_construction else ""
    move = UNKNOWN if score.move is None else unit.plain(score.move.value)
    seconds = UNKNOWN if score.seconds is None else f"{score.seconds:.2g}"
    return [
        Cell(score.name, longest=200),
        f"{score.steps_right}/{score.steps}{_percent(score.right)}",
        f"{score.equal_differ}/{score.equal}{constructed}{_percent(score.differ)}",
        f"{move} / {unit.plain(score.span)}",
        f"{score.less_win}/{score.less}",
        f"{score.leaks_win}/{score.leaks}",
        UNKNOWN if score.tau is None else f"{tau.plain(score.tau.value)} {_interval(score.tau, tau)}".rstrip(),
        unit.plain(score.reference),
        seconds,
        ", ".join(score.missed) or "nothing",
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _percent(mean: Mean | None) -> str:
    return "" if mean is None else f" = {mean.value:.0%}"


def _interval(mean: Mean, number: NumberFormat) -> str:
    return "" if mean.low is None or mean.high is None else f"[{number.plain(mean.low)}, {number.plain(mean.high)}]"


def best_first(scores: Sequence[EvaluatorScore]) -> tuple[EvaluatorScore, ...]:
    """Students before metrics; those that miss fewer goals first, then by the share of steps in the right order."""

    def key(score: EvaluatorScore) -> tuple[bool, int, float, str]:
        return score.is_metric, len(score.missed), -(score.steps_right / score.steps if score.steps else 0), score.name

    return tuple(sorted(scores, key=key))
