"""Planted inference: the hypothesis repeats the premise, contradicts it, or states what the premise leaves open."""

import re
from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import PAIR
from didact.core.words import words_of
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.texts import FILLERS, any_word, filler, replace_spans, scatter, word_at
from didact.data.planted.wording import check_wording, paired_wording
from didact.errors import OptionError

ATTRIBUTES: Final = (
    ("hot", "cold"),
    ("big", "small"),
    ("old", "young"),
    ("rich", "poor"),
    ("fast", "slow"),
    ("loud", "quiet"),
    ("heavy", "light"),
    ("clean", "dirty"),
)
NEGATORS: Final = ("not", "never")
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


class Inference(Rules[Texts]):
    """Premises state two to `stated` of the `attributes`, each with one of two opposite values; hypotheses state one.

    `negation` is the probability of a negator in the hypothesis, which swaps entailment and contradiction. Classes are
    equally frequent, and no single word of either text is correlated with them. `words` is the wording of attributes
    and negators: `english`, `nonce` (invented words) or `permuted` (English words paired again, so that no two
    opposites stay opposites); `words_seed` draws another one.
    """

    name = "planted/inference"
    task = PAIR
    classes: ClassVar = ("entailment", "neutral", "contradiction")
    segments: ClassVar = ("premise", "hypothesis")

    def __init__(
        self,
        *,
        attributes: int = 6,
        stated: int = 4,
        fillers: int = 50,
        negation: float = 0.2,
        words: str = "english",
        words_seed: int = 0,
    ) -> None:
        check_wording(words, words_seed)
        check_integers(3, len(ATTRIBUTES), attributes=attributes)
        check_integers(2, stated=stated)
        check_integers(1, len(FILLERS), fillers=fillers)
        check_probabilities(negation=negation)
        if stated >= attributes:
            raise OptionError(f"Option 'stated' must be less than attributes={attributes}, not {stated}.")
        wording = paired_wording(words, words_seed, self.name, (*ATTRIBUTES, NEGATORS))
        pairs = [(wording[first], wording[second]) for first, second in ATTRIBUTES]
        self.attributes, self.stated = tuple(pairs[:attributes]), stated
        self.fillers, self.negation = fillers, negation
        self.negators = tuple(wording[word] for word in NEGATORS)
        self.pair_of = {word: pair for pair in pairs for word in pair}
        self._units = re.compile(any_word([*self.pair_of, *self.negators]))

    def draw(self, rng: RandomStream, split: str) -> Texts:  # noqa: ARG002
        count = rng.integer(2, self.stated)
        premise = [rng.choice(pair) for pair in rng.sample(self.attributes, count)]
        negators = [rng.choice(self.negators)] if rng.bernoulli(self.negation) else []
        return (
            scatter(premise, count + rng.integer(3, 6), rng, fillers=self.fillers),
            scatter([self._claim(premise, rng), *negators], 2 + rng.integer(1, 3), rng, fillers=self.fillers),
        )

    def read(self, inputs: Texts) -> Truth:
        stated, claims = (
            {match[0]: Span(segment, *match.span()) for match in self._units.finditer(text)}
            for segment, text in enumerate(inputs)
        )
        claim = next((word for word in claims if word in self.pair_of), None)
        if claim is None:
            return Truth(None, ())
        stated_word = next((word for word in stated if word in self.pair_of[claim]), None)
        if stated_word is None:
            return Truth(NEUTRAL, (claims[claim],))
        negators = [span for word, span in claims.items() if word in self.negators]
        agree = (stated_word == claim) != bool(negators)
        return Truth(ENTAILMENT if agree else CONTRADICTION, (stated[stated_word], *sorted([claims[claim], *negators])))

    def redraw(self, inputs: Texts, region: Region, rng: RandomStream) -> Texts:
        rationale = set(self.read(inputs).rationale)
        redrawn = [span for span in words_of(inputs) if (span in rationale) == (region == "rationale")]
        *stated, claim = [span for span in words_of(inputs) if word_at(inputs, span) in self.pair_of]
        # The premise states no attribute twice. A redrawn rest does not state the attribute of the hypothesis.
        fixed = [claim] if region == "rest" else [span for span in stated if span not in rationale]
        taken_pairs = [self.pair_of[word_at(inputs, span)] for span in fixed]
        moved = [span for span in stated if span in redrawn]
        pairs = rng.sample([pair for pair in self.attributes if pair not in taken_pairs], len(moved))
        changes = {span: rng.choice(pair) for span, pair in zip(moved, pairs, strict=True)}
        if region == "rationale":
            changes[claim] = self._claim([changes.get(span, word_at(inputs, span)) for span in stated], rng)
        for span in redrawn:
            if span not in changes:
                negates = word_at(inputs, span) in self.negators
                changes[span] = rng.choice(self.negators) if negates else filler(rng, self.fillers)
        return replace_spans(inputs, changes)

    def _claim(self, premise: list[str], rng: RandomStream) -> str:
        """A word for the hypothesis. With probability 1/3 its attribute is one that the premise leaves open."""
        stated = [self.pair_of[word] for word in premise]
        unstated = [pair for pair in self.attributes if pair not in stated]
        return rng.choice(rng.choice(unstated if rng.bernoulli(1 / 3) else stated))


inference = generator(Inference)
