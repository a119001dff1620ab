"""Planted graded sentiment: cues of weight 1, 2 and 4 add up, and a negator flips the sum. The units have a ranking."""

import re
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float

from didact.core.function import FunctionTeacher
from didact.core.row import Span
from didact.core.task import CLASSIFICATION
from didact.core.teacher import Teacher
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.sentiment import NEGATORS
from didact.data.planted.texts import FILLERS, any_word, filler, replace_spans, scatter, split_words, word_at
from didact.data.planted.wording import check_wording, toned_wording
from didact.errors import OptionError

# The cues of each weight.
CUES: Final = {
    -1: split_words("dull silly clumsy stale hollow"),
    -2: split_words("boring painful ugly lousy gloomy"),
    -4: split_words("awful terrible horrible dreadful cruel"),
    1: split_words("pleasant warm gentle tender witty"),
    2: split_words("lovely charming clever funny graceful"),
    4: split_words("amazing brilliant superb great delightful"),
}
NEGATIVE: Final = tuple(word for weight in (-1, -2, -4) for word in CUES[weight])
POSITIVE: Final = tuple(word for weight in (1, 2, 4) for word in CUES[weight])
_MOST_WORDS: Final = len(CUES[1])


class Graded(Rules[Texts]):
    """Sentences of `shortest` to `longest` words with one to `most_cues` cues of weight 1, 2 or 4, for or against.

    The sign of the sum of the weights is the label. `negation` is the probability of a negator, which flips it. `cues`
    is the number of words of each weight and polarity. The sum is never 0. `words` is the wording of cues and negators:
    `english`, `nonce` (invented words) or `permuted` (English words with exchanged roles); `words_seed` draws another
    one.

    The true score of a unit is the change of the signed sum that its removal makes: the weight of a cue, with the sign
    with which it counts in this sentence, and twice the sum for the negator.
    """

    name = "planted/graded"
    task = CLASSIFICATION
    classes: ClassVar = ("negative", "positive")
    segments: ClassVar = ("text",)

    def __init__(
        self,
        *,
        shortest: int = 10,
        longest: int = 20,
        cues: int = 5,
        most_cues: int = 4,
        fillers: int = 200,
        negation: float = 0.2,
        words: str = "english",
        words_seed: int = 0,
    ) -> None:
        check_wording(words, words_seed)
        check_integers(1, shortest=shortest, longest=longest, most_cues=most_cues)
        check_integers(1, _MOST_WORDS, cues=cues)
        check_integers(1, len(FILLERS), fillers=fillers)
        check_probabilities(negation=negation)
        if shortest < most_cues + 2:
            raise OptionError(
                f"Option 'shortest' must be at least {most_cues + 2} for most_cues={most_cues}, not {shortest}."
            )
        if longest < shortest:
            raise OptionError(f"Option 'longest' must be at least shortest={shortest}, not {longest}.")
        self.shortest, self.longest, self.most_cues = shortest, longest, most_cues
        self.fillers, self.negation = fillers, negation
        wording = toned_wording(
            words, words_seed, self.name, roles=(NEGATIVE, POSITIVE, NEGATORS), tones=(NEGATIVE, POSITIVE)
        )
        self.weights = {wording[word]: weight for weight, role in CUES.items() for word in role}
        self.cues = tuple(wording[word] for role in CUES.values() for word in role[:cues])
        self.negators = tuple(wording[word] for word in NEGATORS)
        self._units = re.compile(any_word([*self.weights, *self.negators]))

    def draw(self, rng: RandomStream, split: str) -> Texts:  # noqa: ARG002
        while True:
            phrases = [rng.choice(self.cues) for _ in range(rng.integer(1, self.most_cues))]
            if rng.bernoulli(self.negation):
                phrases.append(rng.choice(self.negators))
            if self.read((" ".join(phrases),)).label is not None:
                return (scatter(phrases, rng.integer(self.shortest, self.longest), rng, fillers=self.fillers),)

    def read(self, inputs: Texts) -> Truth:
        units = list(self._units.finditer(inputs[0]))
        total = self.signed_sum([unit[0] for unit in units])
        removals = [total - self.signed_sum([other[0] for other in units if other is not unit]) for unit in units]
        sign = 1 if total > 0 else -1
        label = int(total > 0) if total else None
        return Truth(
            label, tuple(Span(0, *unit.span()) for unit in units), weights=tuple(sign * change for change in removals)
        )

    def signed_sum(self, units: list[str]) -> float:
        """The sum of the cues, flipped if there is a negator. It is the logit of the oracle."""
        total = float(sum(self.weights.get(word, 0) for word in units))
        return -total if any(word in self.negators for word in units) else total

    def redraw(self, inputs: Texts, region: Region, rng: RandomStream) -> Texts:
        rationale = set(self.read(inputs).rationale)
        redrawn = [span for span in words(inputs[0]) if (span in rationale) == (region == "rationale")]
        while True:
            changes = {span: self._other_word(word_at(inputs, span), rng) for span in redrawn}
            changed = replace_spans(inputs, changes)
            if self.read(changed).label is not None:
                return changed

    def _other_word(self, word: str, rng: RandomStream) -> str:
        """A word of the same category."""
        if word in self.weights:
            return rng.choice(self.cues)
        return rng.choice(self.negators) if word in self.negators else filler(rng, self.fillers)

    def oracle(self) -> Teacher:
        """The labelling function as a teacher. The difference of its logits is the signed sum."""
        return FunctionTeacher(self._logits, self.classes, output="logit", name=f"oracle of {self.name}")

    def _logits(self, texts: list[Any]) -> Float[np.ndarray, "row 2"]:
        sums = [self.signed_sum([unit[0] for unit in self._units.finditer(text)]) for text in texts]
        return np.array(sums).reshape(-1, 1) * [-0.5, 0.5]


graded = generator(Graded)
