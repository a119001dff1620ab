"""Planted sentiment: the sum of the cues decides. A negator flips its sign; an intensifier doubles the next cue."""

import re
from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import CLASSIFICATION
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.texts import FILLERS, any_word, filler, replace_spans, scatter, split_words, word_at
from didact.errors import OptionError

NEGATIVE: Final = split_words(
    "awful boring clumsy cruel dreadful dull gloomy hollow horrible lousy painful silly stale terrible ugly"
)
POSITIVE: Final = split_words(
    "amazing brilliant charming clever delightful funny gentle graceful great lovely pleasant superb tender warm witty"
)
NEGATORS: Final = ("not", "never")
# Each intensifier precedes cues of one polarity. If it preceded any cue, word order would decide some sentences, and a
# small transformer does not learn that from 12,000 rows (measured: 40–50 % of such sentences right).
INTENSIFIERS: Final = {"utterly": -1, "hopelessly": -1, "truly": 1, "wonderfully": 1}
# Words without meaning. In the split `train` the first four occur with negative, the others with positive.
DISTRACTORS: Final = ("monday", "tuesday", "april", "june", "friday", "saturday", "october", "december")

_POLARITY: Final = dict.fromkeys(NEGATIVE, -1) | dict.fromkeys(POSITIVE, 1)
_UNITS: Final = re.compile(
    # one match holds a cue or a negator
    rf"(?:({any_word(INTENSIFIERS)})\s+)?({any_word(_POLARITY)})|({any_word(NEGATORS)})"
)


class Sentiment(Rules[Texts]):
    """Sentences of `shortest` to `longest` words with one to `most_cues` cues from `cues` words of each polarity.

    `negation` is the probability of a negator, `intensity` that of an intensifier before a cue. `distractors` is the
    share of sentences with a word that predicts the label in the students' `train` split, and in no other split.
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
        check_integers(1, shortest=shortest, longest=longest, most_cues=most_cues)
        check_integers(1, len(POSITIVE), cues=cues)
        check_integers(1, len(FILLERS), fillers=fillers)
        check_probabilities(negation=negation, intensity=intensity, distractors=distractors)
        min_length = 2 * most_cues + 2
        if shortest < min_length:
            raise OptionError(
                f"Option 'shortest' must be at least {min_length} for most_cues={most_cues}, not {shortest}."
            )
        if longest < shortest:
            raise OptionError(f"Option 'longest' must be at least shortest={shortest}, not {longest}.")
        self.shortest, self.longest, self.most_cues, self.fillers = shortest, longest, most_cues, fillers
        self.negation, self.intensity, self.distractors = negation, intensity, distractors
        self.cues = (*NEGATIVE[:cues], *POSITIVE[:cues])

    def draw(self, rng: RandomStream, split: str) -> Texts:
        label = None
        while label is None:
            phrases = [self._cue(rng) for _ in range(rng.integer(1, self.most_cues))]
            if rng.bernoulli(self.negation):
                phrases.append(rng.choice(NEGATORS))
            label = self.read((" ".join(phrases),)).label
        if rng.bernoulli(self.distractors):
            is_positive = label if split == "train" else rng.integer(0, 1)
            half = len(DISTRACTORS) // 2
            phrases.append(rng.choice(DISTRACTORS[half:] if is_positive else DISTRACTORS[:half]))
        return (scatter(phrases, rng.integer(self.shortest, self.longest), rng, fillers=self.fillers),)

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

    def redraw(self, inputs: Texts, region: Region, rng: RandomStream) -> Texts:
        rationale = set(self.read(inputs).rationale)
        redrawn = [span for span in words(inputs[0]) if (span in rationale) == (region == "rationale")]
        while True:
            changed = replace_spans(inputs, self._changes(inputs, redrawn, rng))
            if self.read(changed).label is not None:
                return changed

    def _changes(self, inputs: Texts, spans: list[Span], rng: RandomStream) -> dict[Span, str]:
        changes = dict[Span, str]()
        polarity = 1
        for span in reversed(spans):  # an intensifier must fit the cue after it
            word = word_at(inputs, span)
            if word in _POLARITY:
                changes[span] = rng.choice(self.cues)
                polarity = _POLARITY[changes[span]]
            elif word in INTENSIFIERS:
                changes[span] = _intensifier(polarity, rng)
            elif word in NEGATORS:
                changes[span] = rng.choice(NEGATORS)
            elif word in DISTRACTORS:
                changes[span] = rng.choice(DISTRACTORS)
            else:
                changes[span] = filler(rng, self.fillers)
        return changes

    def _cue(self, rng: RandomStream) -> str:
        cue = rng.choice(self.cues)
        return f"{_intensifier(_POLARITY[cue], rng)} {cue}" if rng.bernoulli(self.intensity) else cue


def _intensifier(polarity: int, rng: RandomStream) -> str:
    return rng.choice([word for word, cue_polarity in INTENSIFIERS.items() if cue_polarity == polarity])


sentiment = generator(Sentiment)
