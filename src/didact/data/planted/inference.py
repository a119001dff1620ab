"""Two texts: the hypothesis states what the premise states, the opposite of it, or what the premise leaves open."""

import re
from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import PAIR
from didact.core.words import words_of
from didact.data.planted.dataset import generator
from didact.data.planted.rules import Part, RandomStream, Rules, Texts, Truth, chance, whole
from didact.data.planted.texts import FILLERS, either, filler, scatter, spliced, word_at
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

_ATTRIBUTE: Final = {word: pair for pair in ATTRIBUTES for word in pair}
_UNITS: Final = re.compile(either([*_ATTRIBUTE, *NEGATORS]))


class Inference(Rules[Texts]):
    """Premises state two to `stated` of the `attributes`, each of two opposite values; hypotheses state one.

    `negation` is the chance of a negator in the hypothesis: it exchanges entailment and contradiction. Classes are
    equally frequent, and no word of either text tells anything of them.
    """

    name = "planted/inference"
    task = PAIR
    classes: ClassVar = ("entailment", "neutral", "contradiction")
    segments: ClassVar = ("premise", "hypothesis")

    def __init__(self, *, attributes: int = 6, stated: int = 4, fillers: int = 50, negation: float = 0.2) -> None:
        whole(3, len(ATTRIBUTES), attributes=attributes)
        whole(2, stated=stated)
        whole(1, len(FILLERS), fillers=fillers)
        chance(negation=negation)
        if stated >= attributes:
            raise OptionError(f"Option 'stated' must be less than attributes={attributes}, not {stated}.")
        self.attributes, self.stated = ATTRIBUTES[:attributes], stated
        self.fillers, self.negation = fillers, negation

    def draw(self, dice: RandomStream, split: str) -> Texts:  # noqa: ARG002
        count = dice.between(2, self.stated)
        premise = [dice.choice(pair) for pair in dice.sample(self.attributes, count)]
        negators = [dice.choice(NEGATORS)] if dice.chance(self.negation) else []
        return (
            scatter(premise, count + dice.between(3, 6), dice, fillers=self.fillers),
            scatter([self._claim(premise, dice), *negators], 2 + dice.between(1, 3), dice, fillers=self.fillers),
        )

    def read(self, inputs: Texts) -> Truth:
        stated, claims = (
            {match[0]: Span(segment, *match.span()) for match in _UNITS.finditer(text)}
            for segment, text in enumerate(inputs)
        )
        claim = next((word for word in claims if word in _ATTRIBUTE), None)
        if claim is None:
            return Truth(None, ())
        known = next((word for word in stated if word in _ATTRIBUTE[claim]), None)
        if known is None:
            return Truth(NEUTRAL, (claims[claim],))
        negators = [span for word, span in claims.items() if word in NEGATORS]
        agree = (known == claim) != bool(negators)
        return Truth(ENTAILMENT if agree else CONTRADICTION, (stated[known], *sorted([claims[claim], *negators])))

    def redraw(self, inputs: Texts, part: Part, dice: RandomStream) -> Texts:
        rationale = set(self.read(inputs).rationale)
        chosen = [span for span in words_of(inputs) if (span in rationale) == (part == "rationale")]
        *stated, claim = [span for span in words_of(inputs) if word_at(inputs, span) in _ATTRIBUTE]
        # The premise states no attribute twice, and a new rest nothing of what the hypothesis is about.
        fixed = [claim] if part == "rest" else [span for span in stated if span not in rationale]
        taken = [_ATTRIBUTE[word_at(inputs, span)] for span in fixed]
        moved = [span for span in stated if span in chosen]
        pairs = dice.sample([pair for pair in self.attributes if pair not in taken], len(moved))
        changes = {span: dice.choice(pair) for span, pair in zip(moved, pairs, strict=True)}
        if part == "rationale":
            changes[claim] = self._claim([changes.get(span, word_at(inputs, span)) for span in stated], dice)
        for span in chosen:
            if span not in changes:
                negates = word_at(inputs, span) in NEGATORS
                changes[span] = dice.choice(NEGATORS) if negates else filler(dice, self.fillers)
        return spliced(inputs, changes)

    def _claim(self, premise: list[str], dice: RandomStream) -> str:
        """A word for the hypothesis: one time in three of an attribute that the premise leaves open."""
        stated = [_ATTRIBUTE[word] for word in premise]
        unstated = [pair for pair in self.attributes if pair not in stated]
        return dice.choice(dice.choice(unstated if dice.chance(1 / 3) else stated))


inference = generator(Inference)
