"""Sentences with cues, whose sum decides. A negator anywhere turns it, an intensifier doubles the cue after it."""

import re
from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import CLASSIFICATION
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import Part, RandomStream, Rules, Texts, Truth, chance, whole
from didact.data.planted.texts import FILLERS, either, filler, listed, scatter, spliced, word_at
from didact.errors import OptionError

NEGATIVE: Final = listed(
    "awful boring clumsy cruel dreadful dull gloomy hollow horrible lousy painful silly stale terrible ugly"
)
POSITIVE: Final = listed(
    "amazing brilliant charming clever delightful funny gentle graceful great lovely pleasant superb tender warm witty"
)
NEGATORS: Final = ("not", "never")
# Each goes with cues of one polarity. Intensifiers that go with any cue would decide a sentence by the order of its
# words, which a small transformer does not learn from 12,000 rows (ran: 40–50 % of such sentences right).
INTENSIFIERS: Final = {"utterly": -1, "hopelessly": -1, "truly": 1, "wonderfully": 1}
# Without meaning; in the students' `train` the first four come with the class negative, the others with positive.
DISTRACTORS: Final = ("monday", "tuesday", "april", "june", "friday", "saturday", "october", "december")

_POLARITY: Final = dict.fromkeys(NEGATIVE, -1) | dict.fromkeys(POSITIVE, 1)
_UNITS: Final = re.compile(
    rf"(?:({either(INTENSIFIERS)})\s+)?({either(_POLARITY)})|({either(NEGATORS)})"  # one match holds a cue or a negator
)


class Sentiment(Rules[Texts]):
    """Sentences of `shortest` to `longest` words with one to `most_cues` cues, out of `cues` for each polarity.

    `negation` is the chance of a negator, `intensity` that of an intensifier before a cue. `distractors` is the share
    of sentences with a word that tells the label in the students' `train` split, and nothing in all others.
    """

    name = "planted/sentiment"
    task = CLASSIFICATION
    classes: ClassVar = ("negative", "positive")
    segments: ClassVar = ("text",)

    def __init__(
        self,
        *,
        shortest: int = 10,
        longest: int = 20,
        cues: int = 15,
        most_cues: int = 3,
        fillers: int = 200,
        negation: float = 0.2,
        intensity: float = 0.1,
        distractors: float = 0.0,
    ) -> None:
        whole(1, shortest=shortest, longest=longest, most_cues=most_cues)
        whole(1, len(POSITIVE), cues=cues)
        whole(1, len(FILLERS), fillers=fillers)
        chance(negation=negation, intensity=intensity, distractors=distractors)
        room = 2 * most_cues + 2
        if shortest < room:
            raise OptionError(f"Option 'shortest' must be at least {room} for most_cues={most_cues}, not {shortest}.")
        if longest < shortest:
            raise OptionError(f"Option 'longest' must be at least shortest={shortest}, not {longest}.")
        self.shortest, self.longest, self.most_cues, self.fillers = shortest, longest, most_cues, fillers
        self.negation, self.intensity, self.distractors = negation, intensity, distractors
        self.cues = (*NEGATIVE[:cues], *POSITIVE[:cues])

    def draw(self, dice: RandomStream, split: str) -> Texts:
        label = None
        while label is None:
            phrases = [self._cue(dice) for _ in range(dice.between(1, self.most_cues))]
            if dice.chance(self.negation):
                phrases.append(dice.choice(NEGATORS))
            label = self.read((" ".join(phrases),)).label
        if dice.chance(self.distractors):
            side = label if split == "train" else dice.between(0, 1)
            half = len(DISTRACTORS) // 2
            phrases.append(dice.choice(DISTRACTORS[half:] if side else DISTRACTORS[:half]))
        return (scatter(phrases, dice.between(self.shortest, self.longest), dice, fillers=self.fillers),)

    def read(self, inputs: Texts) -> Truth:
        total, sign, rationale = 0, 1, list[Span]()
        for match in _UNITS.finditer(inputs[0]):
            intensifier, cue, negator = match.groups()
            if negator:
                sign = -1
            else:
                total += _POLARITY[cue] * (2 if intensifier else 1)
            rationale += [Span(0, *match.span(group)) for group in (1, 2, 3) if match[group]]
        return Truth(int(total * sign > 0) if total else None, tuple(rationale))

    def redraw(self, inputs: Texts, part: Part, dice: RandomStream) -> Texts:
        rationale = set(self.read(inputs).rationale)
        chosen = [span for span in words(inputs[0]) if (span in rationale) == (part == "rationale")]
        while True:
            changed = spliced(inputs, self._changes(inputs, chosen, dice))
            if self.read(changed).label is not None:
                return changed

    def _changes(self, inputs: Texts, chosen: list[Span], dice: RandomStream) -> dict[Span, str]:
        changes = dict[Span, str]()
        polarity = 1
        for span in reversed(chosen):  # an intensifier is fitted to its cue
            word = word_at(inputs, span)
            if word in _POLARITY:
                changes[span] = dice.choice(self.cues)
                polarity = _POLARITY[changes[span]]
            elif word in INTENSIFIERS:
                changes[span] = _intensifier(polarity, dice)
            elif word in NEGATORS:
                changes[span] = dice.choice(NEGATORS)
            elif word in DISTRACTORS:
                changes[span] = dice.choice(DISTRACTORS)
            else:
                changes[span] = filler(dice, self.fillers)
        return changes

    def _cue(self, dice: RandomStream) -> str:
        cue = dice.choice(self.cues)
        return f"{_intensifier(_POLARITY[cue], dice)} {cue}" if dice.chance(self.intensity) else cue


def _intensifier(polarity: int, dice: RandomStream) -> str:
    return dice.choice([word for word, side in INTENSIFIERS.items() if side == polarity])


sentiment = generator(Sentiment)
