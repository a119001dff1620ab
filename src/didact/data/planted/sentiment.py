"""Planted sentiment: the sum of the cues decides. A negator flips its sign; an intensifier doubles the next cue."""

import re
from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import CLASSIFICATION
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.texts import FILLERS, any_word, filler, replace_spans, scatter, split_words, word_at
from didact.data.planted.wording import check_wording, toned_wording
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
_BY_POLARITY: Final = {
    polarity: tuple(word for word, other in INTENSIFIERS.items() if other == polarity) for polarity in (-1, 1)
}


class Sentiment(Rules[Texts]):
    """Sentences of `shortest` to `longest` words with one to `most_cues` cues from `cues` words of each polarity.

    `negation` is the probability of a negator, `intensity` that of an intensifier before a cue. `distractors` is the
    share of sentences with a word that predicts the label in the students' `train` split, and in no other split.
    `words` is the wording of cues, negators and intensifiers: `english`, `nonce` (invented words) or `permuted`
    (English words with exchanged roles); `words_seed` draws another one.
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
        words: str = "english",
        words_seed: int = 0,
    ) -> None:
        check_wording(words, words_seed)
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
        wording = toned_wording(
            words, words_seed, self.name, roles=(NEGATIVE, POSITIVE, NEGATORS, *_BY_POLARITY.values()),
            tones=((*NEGATIVE, *_BY_POLARITY[-1]), (*POSITIVE, *_BY_POLARITY[1])),
        )  # fmt: skip
        self.polarity = {wording[word]: -1 for word in NEGATIVE} | {wording[word]: 1 for word in POSITIVE}
        self.cues = tuple(wording[word] for word in (*NEGATIVE[:cues], *POSITIVE[:cues]))
        self.negators = tuple(wording[word] for word in NEGATORS)
        self.intensifiers = {
            polarity: tuple(wording[word] for word in intensifiers) for polarity, intensifiers in _BY_POLARITY.items()
        }
        # One match is a cue with or without an intensifier, or a negator.
        intensifier = any_word([word for intensifiers in self.intensifiers.values() for word in intensifiers])
        self._units = re.compile(rf"(?:({intensifier})\s+)?({any_word(self.polarity)})|({any_word(self.negators)})")

    def draw(self, rng: RandomStream, split: str) -> Texts:
        label = None
        while label is None:
            phrases = [self._cue(rng) for _ in range(rng.integer(1, self.most_cues))]
            if rng.bernoulli(self.negation):
                phrases.append(rng.choice(self.negators))
            label = self.read((" ".join(phrases),)).label
        if rng.bernoulli(self.distractors):
            is_positive = label if split == "train" else rng.integer(0, 1)
            half = len(DISTRACTORS) // 2
            phrases.append(rng.choice(DISTRACTORS[half:] if is_positive else DISTRACTORS[:half]))
        return (scatter(phrases, rng.integer(self.shortest, self.longest), rng, fillers=self.fillers),)

    def read(self, inputs: Texts) -> Truth:
        total, sign, rationale = 0, 1, list[Span]()
        for match in self._units.finditer(inputs[0]):
            intensifier, cue, negator = match.groups()
            if negator:
                sign = -1
            else:
                total += self.polarity[cue] * (2 if intensifier else 1)
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
            if word in self.polarity:
                changes[span] = rng.choice(self.cues)
                polarity = self.polarity[changes[span]]
            elif word in self.intensifiers[-1] or word in self.intensifiers[1]:
                changes[span] = rng.choice(self.intensifiers[polarity])
            elif word in self.negators:
                changes[span] = rng.choice(self.negators)
            elif word in DISTRACTORS:
                changes[span] = rng.choice(DISTRACTORS)
            else:
                changes[span] = filler(rng, self.fillers)
        return changes

    def _cue(self, rng: RandomStream) -> str:
        cue = rng.choice(self.cues)
        intensifiers = self.intensifiers[self.polarity[cue]]
        return f"{rng.choice(intensifiers)} {cue}" if rng.bernoulli(self.intensity) else cue


sentiment = generator(Sentiment)
