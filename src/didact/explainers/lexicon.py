"""A control for distilled explainers: every word has one score, whatever stands around it."""

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
    """The mean score of each word type in the explanations of other rows, by the class that is explained; unseen words
    score 0.

    It never looks at the text around a word, so it is as stable as an explainer can be: one that is no better has
    learned a dictionary. The rows are those of the background (the split `explain` in a comparison; unless any are
    named, the explained rows themselves), explained by `imitate`. Words are compared whatever their case; `level` is
    token or word.
    """

    version = 2  # 2: occlusion replaces units by the mask token

    def __init__(self, *, imitate: str = "occlusion", level: str = "token") -> None:
        super().__init__()
        if level not in LEVELS:
            raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
        if imitate.partition("(")[0].strip() in ("lexicon", "l2e") or is_learned(imitate):
            raise OptionError(
                f"A lexicon imitates a method that can be named with its options, not {imitate!r}. For others: "
                "Lexicon.of(maps), with maps of rows explained by it."
            )
        self.imitate, self.level = imitate, level
        self.kind: Kind = "signed"
        self.scores: dict[tuple[str, str], float] | None = None  # by what is explained, and word
        self.background: Sequence[Row] = ()
        self.is_given = False

    @classmethod
    def of(cls, maps: Explanations) -> "Lexicon":
        """The lexicon of these explanations, as they are: of tokens or, if they are of words, of words."""
        if maps.is_image:
            raise UnsupportedError(_NO_WORDS)
        found = cls(level=str(maps.options.get("level", "token")))
        found.imitate = maps.method  # by whatever it was made
        found.kind = "signed" if maps.kind == "signed" else "magnitude"
        seen = []
        for one in maps:
            places = zip(one.segments.tolist(), one.offsets.tolist(), one.scores.tolist(), strict=True)
            seen += [(one.target, one.texts[part][start:end].casefold(), score) for part, (start, end), score in places]
        found.scores, found.is_given = _means(seen), True
        return found

    def prepare(self, teacher: Teacher, rows: Sequence[Row]) -> None:
        if not teacher.task.is_text:
            raise UnsupportedError(_NO_WORDS)
        if teacher.task.is_per_token:
            raise UnsupportedError(_NO_CLASS.format("a span"))
        if not self.is_given:  # they are explained when a row asks for it: a run that goes on may need none
            self.scores, self.background = None, rows

    @property
    def needs_background(self) -> bool:
        return not self.is_given

    def _fit(self, teacher: Teacher) -> None:
        from didact.explainers.build import build_explainer, knows_option

        rows = self.background
        asked = {"level": self.level} if knows_option(self.imitate.partition("(")[0].strip(), "level") else {}
        built = build_explainer(self.imitate, **asked).explainer
        assert isinstance(built, Explainer)
        built.prepare(teacher, rows)
        seen: list[tuple[str, str, float]] = []
        for chosen in row_batches(rows, _BATCH):
            here = [rows[index] for index in chosen]
            batch = teacher.encode(here).to(teacher.device)
            target = resolve_target(teacher, here, batch, teacher.answers(here, batch)[0])
            found = built(teacher, batch, target)
            self.kind = "signed" if found.kind == "signed" else "magnitude"
            names = target_names(teacher, here, batch, target)
            scores = _by_player(found.scores, feature_groups(batch, level=self.level)).tolist()
            for name, words, own in zip(names, _words(batch, self.level), scores, strict=True):
                seen += [(name, word, score) for word, score in zip(words, own, strict=False)]
        self.scores = _means(seen)

    def forward(self, teacher: Teacher, batch: Batch, target: Target) -> Explanation:
        if target.kind not in ("label", "value"):
            raise UnsupportedError(_NO_CLASS.format(f"a {target.kind}"))
        if self.scores is None:
            self._fit(teacher)
        assert self.scores is not None
        assert batch.rows is not None
        players = feature_groups(batch, level=self.level)
        found = torch.zeros(len(batch), int(players.max()) + 1, dtype=torch.get_default_dtype())
        names = target_names(teacher, batch.rows, batch, target)
        for row, (name, words) in enumerate(zip(names, _words(batch, self.level), strict=True)):
            for place, word in enumerate(words):
                found[row, place] = self.scores.get((name, word), 0.0)
        return Explanation(to_first_positions(found.to(batch.device), players), batch.mask, batch.units, self.kind)


_NO_CLASS = "The control 'lexicon' knows words by class or for a score, and the target is {}. Choose 'random'."
_NO_WORDS = "The control 'lexicon' is about words, and images have none. Choose 'random'."


def _means(seen: Sequence[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    for name, word, score in seen:
        total, count = sums.get((name, word), (0.0, 0))
        sums[name, word] = (total + score, count + 1)
    return {key: total / count for key, (total, count) in sums.items()}


def _by_player(scores: Tensor, players: Tensor) -> Tensor:
    """The sum over each player's positions."""
    found = scores.new_zeros(len(scores), int(players.max()) + 1)
    return found.scatter_add(1, players.clamp_min(0), scores * (players >= 0))


def _words(batch: Batch, level: str) -> Iterator[list[str]]:
    """The words of each row, in the order of its players."""
    assert batch.rows is not None
    players = feature_groups(batch, level=level).tolist()
    places = zip(batch.rows, players, batch.segments.tolist(), batch.offsets.tolist(), strict=True)
    for row, numbers, segments, offsets in places:
        spans: dict[int, tuple[int, int, int]] = {}
        for number, segment, (start, end) in zip(numbers, segments, offsets, strict=True):
            if number >= 0:
                spans[number] = (segment, spans.get(number, (segment, start, end))[1], end)
        yield [row.texts[segment][start:end].casefold() for segment, start, end in spans.values()]
