"""A control for learned explainers: every word has one score, whatever its context."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from didact.core.batching import row_batches
from didact.core.explainer import Batch, Explainer, Explanation, Kind, Row, Target, Teacher
from didact.core.feature_groups import LEVELS, feature_groups, to_first_positions
from didact.core.resolve_target import resolve_target, target_names
from didact.errors import OptionError, UnsupportedError
from didact.explainers import is_learned
from didact.results.explanations import Explanations

_BATCH = 32


class Lexicon(Explainer):
    """The mean score of each word type in explanations of other rows, by explained class. Unseen words score 0.

    It ignores context, so it is as stable as an explainer can be: a learned explainer that is no better has learned a
    dictionary. The other rows are the background (the split `explain` in a comparison; by default the explained rows),
    explained by `imitate`. Words are compared without case; `level` is token or word.
    """

    version = 2  # 2: occlusion replaces units by the mask token

    def __init__(self, *, imitate: str = "occlusion", level: str = "token") -> None:
        super().__init__()
        if level not in LEVELS:
            raise OptionError(f"Option 'level' must be 'token' or 'word', got {level!r}.")
        if imitate.partition("(")[0].strip() in ("lexicon", "l2e") or is_learned(imitate):
            raise OptionError(
                f"Option 'imitate' of 'lexicon' must be a method with its options, got {imitate!r}. For other methods "
                "use Lexicon.of(explanations), with explanations by that method."
            )
        self.imitate, self.level = imitate, level
        self.kind: Kind = "signed"
        self.scores: dict[tuple[str, str], float] | None = None  # by explained class and word
        self.background: Sequence[Row] = ()
        self.is_fixed = False

    @classmethod
    def of(cls, explanations: Explanations) -> "Lexicon":
        """The lexicon of existing explanations, at their own level, token or word."""
        if explanations.is_image:
            raise UnsupportedError(_NO_WORDS_MESSAGE)
        lexicon = cls(level=str(explanations.options.get("level", "token")))
        lexicon.imitate = explanations.method  # any method, also one without a name
        lexicon.kind = "signed" if explanations.kind == "signed" else "magnitude"
        observations = []
        for explanation in explanations:
            tokens = zip(
                explanation.segments.tolist(), explanation.offsets.tolist(), explanation.scores.tolist(), strict=True
            )
            observations += [
                (explanation.target, explanation.texts[segment][start:end].casefold(), score)
                for segment, (start, end), score in tokens
            ]
        lexicon.scores, lexicon.is_fixed = _mean_scores(observations), True
        return lexicon

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        if not teacher.task.is_text:
            raise UnsupportedError(_NO_WORDS_MESSAGE)
        if teacher.task.is_per_token:
            raise UnsupportedError(_NO_CLASS_MESSAGE.format("a span"))
        if not self.is_fixed:  # explained on first use: a resumed run may not need them
            self.scores, self.background = None, rows

    @property
    def needs_background(self) -> bool:
        return not self.is_fixed

    def _fit(self, teacher: Teacher) -> None:
        from didact.explainers.build import build_explainer, knows_option

        rows = self.background
        options = {"level": self.level} if knows_option(self.imitate.partition("(")[0].strip(), "level") else {}
        explainer = build_explainer(self.imitate, **options).explainer
        assert isinstance(explainer, Explainer)
        explainer.prepare(teacher, rows)
        observations: list[tuple[str, str, float]] = []
        for chosen in row_batches(rows, _BATCH):
            chunk = [rows[index] for index in chosen]
            batch = teacher.encode(chunk).to(teacher.device)
            target = resolve_target(teacher, chunk, batch, teacher.answers(chunk, batch)[0])
            explanation = explainer(teacher, batch, target)
            self.kind = "signed" if explanation.kind == "signed" else "magnitude"
            names = target_names(teacher, chunk, batch, target)
            scores = _sum_by_group(explanation.scores, feature_groups(batch, level=self.level)).tolist()
            for name, words, row_scores in zip(names, _group_words(batch, self.level), scores, strict=True):
                observations += [(name, word, score) for word, score in zip(words, row_scores, strict=False)]
        self.scores = _mean_scores(observations)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        if target.kind not in ("label", "value"):
            raise UnsupportedError(_NO_CLASS_MESSAGE.format(f"a {target.kind}"))
        if self.scores is None:
            self._fit(teacher)
        assert self.scores is not None
        assert batch.rows is not None
        groups = feature_groups(batch, level=self.level)
        scores = torch.zeros(len(batch), int(groups.max()) + 1, dtype=torch.get_default_dtype())
        names = target_names(teacher, batch.rows, batch, target)
        for row, (name, words) in enumerate(zip(names, _group_words(batch, self.level), strict=True)):
            for number, word in enumerate(words):
                scores[row, number] = self.scores.get((name, word), 0.0)
        return Explanation(to_first_positions(scores.to(batch.device), groups), batch.mask, batch.units, self.kind)


_NO_CLASS_MESSAGE = "The control 'lexicon' scores words for a class or a score, and the target is {}. Choose 'random'."
_NO_WORDS_MESSAGE = "The control 'lexicon' scores words, and images have none. Choose 'random'."


def _mean_scores(observations: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    for name, word, score in observations:
        total, count = sums.get((name, word), (0.0, 0))
        sums[name, word] = (total + score, count + 1)
    return {key: total / count for key, (total, count) in sums.items()}


def _sum_by_group(scores: Tensor, groups: Tensor) -> Tensor:
    """The sum over the positions of each feature group."""
    sums = scores.new_zeros(len(scores), int(groups.max()) + 1)
    return sums.scatter_add(1, groups.clamp_min(0), scores * (groups >= 0))


def _group_words(batch: Batch, level: str) -> Iterator[list[str]]:
    """The words of each row, in the order of its feature groups."""
    assert batch.rows is not None
    groups = feature_groups(batch, level=level).tolist()
    tokens = zip(batch.rows, groups, batch.segments.tolist(), batch.offsets.tolist(), strict=True)
    for row, numbers, segments, offsets in tokens:
        spans: dict[int, tuple[int, int, int]] = {}
        for number, segment, (start, end) in zip(numbers, segments, offsets, strict=True):
            if number >= 0:
                spans[number] = (segment, spans.get(number, (segment, start, end))[1], end)
        yield [row.texts[segment][start:end].casefold() for segment, start, end in spans.values()]
