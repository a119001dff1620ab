"""What an evaluator answers: contrasts of any two explanations, and the value of each."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from didact.results.audit import AuditedEvaluator, AuditedPair, AuditedValue, Relation
from didact.results.contrast import Contrast


@dataclass(frozen=True, eq=False)
class EvaluatorAnswers:
    """An evaluator with its contrasts. `contrast` is None where two explanations were not both judged.

    `reference` names what values are relative to: `none` for students, `random` for metrics. `by_seed` has the value of
    an explanation with each seed.
    """

    evaluator: AuditedEvaluator
    reference: str
    contrast: Callable[[str, str], Contrast | None]
    by_seed: Callable[[str], tuple[float, ...]] = field(default=lambda _: ())

    def values(self, explainers: Collection[str]) -> Iterator[AuditedValue]:
        for name in explainers:
            contrast = self.contrast(name, self.reference)
            if contrast is not None:
                yield AuditedValue(
                    self.evaluator.name, name, contrast.difference, contrast.low, contrast.high, self.by_seed(name)
                )

    def pairs(self, questions: Iterable[tuple[Relation, str, str, str, str]]) -> Iterator[AuditedPair]:
        """What the evaluator says about pairs of explanations.

        Equal explanations between which not one answer of a student, or value of a metric, differs are given to the
        evaluator in the same form, by construction.
        """
        for relation, first, second, base, damaged in questions:
            contrast = self.contrast(first, second)
            if contrast is not None:
                yield AuditedPair(
                    evaluator=self.evaluator.name,
                    relation=relation,
                    first=first,
                    second=second,
                    base=base,
                    difference=contrast.difference,
                    low=contrast.low,
                    high=contrast.high,
                    damaged=damaged,
                    by_construction=relation == Relation.EQUAL and contrast.difference == 0 and contrast.se == 0,
                )
