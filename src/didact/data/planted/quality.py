"""Planted translation quality: word-by-word translations. The score depends only on the number of errors."""

from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import REGRESSION
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.texts import replace_spans, split_words, word_at
from didact.data.planted.wording import check_wording, dictionary_wording
from didact.errors import OptionError

# Translations into an invented language.
DICTIONARY: Final = dict(
    entry.split(":")
    for entry in split_words(
        """
        apple:pomira bird:velto boat:sanku bread:krupi bridge:toravel candle:lumeno castle:grodan child:mipsi
        cloud:nevura coat:hadrek dog:wuffin door:portel farmer:agrolo fire:branzi fish:pelko flower:zirela
        forest:dromask garden:hortiva hill:kolmun horse:equando house:domari island:insolek king:regulan
        knife:sekanto lake:lagwen letter:skriptu lion:leonak market:merkada moon:selunda mountain:bergato
        night:noktari queen:reginel rain:pluvimo river:flumani road:vianto ship:navoko snow:nixera
        song:kantilo star:astrelu stone:petrovo storm:tormeka summer:estivan table:tavlino tower:turimo
        tree:arbusta village:vilneso window:fenestu winter:hibrano
        """
    )
)


class Quality(Rules[Texts]):
    """Sources of `shortest` to `longest` different words, and their translations in the same order.

    0 to `most_errors` words are wrong; each number is equally likely. A wrong word is the source word itself, with
    probability `untranslated`, or the translation of a word that is not in the source. The score is
    1 − errors / `most_errors`. `words` is the wording of the dictionary: `english`, `nonce` (both languages are
    invented) or `permuted` (no word keeps its translation); `words_seed` draws another one.
    """

    name = "planted/quality"
    task = REGRESSION
    segments: ClassVar = ("source", "target")

    def __init__(
        self,
        *,
        shortest: int = 6,
        longest: int = 10,
        vocabulary: int = 48,
        most_errors: int = 4,
        untranslated: float = 0.3,
        words: str = "english",
        words_seed: int = 0,
    ) -> None:
        check_wording(words, words_seed)
        check_integers(1, most_errors=most_errors)
        check_integers(most_errors, shortest=shortest)
        check_integers(shortest, longest=longest)
        check_integers(2, len(DICTIONARY), vocabulary=vocabulary)
        check_probabilities(untranslated=untranslated)
        if vocabulary < longest + most_errors:
            least = longest + most_errors
            raise OptionError(
                f"Option 'vocabulary' must be at least longest + most_errors = {least}, not {vocabulary}."
            )
        self.shortest, self.longest, self.most_errors, self.untranslated = shortest, longest, most_errors, untranslated
        self.dictionary = dictionary_wording(words, words_seed, self.name, DICTIONARY)
        self.words = tuple(self.dictionary)[:vocabulary]

    @property
    def step(self) -> float:
        return 1 / self.most_errors

    def draw(self, rng: RandomStream, split: str) -> Texts:  # noqa: ARG002
        source = rng.sample(self.words, rng.integer(self.shortest, self.longest))
        wrong = rng.sample(range(len(source)), rng.integer(0, self.most_errors))
        target = [
            self._wrong_translation(word, source, rng) if index in wrong else self.dictionary[word]
            for index, word in enumerate(source)
        ]
        return " ".join(source), " ".join(target)

    def read(self, inputs: Texts) -> Truth:
        source, target = words(inputs[0], 0), words(inputs[1], 1)
        right = {self.dictionary.get(word_at(inputs, span)) for span in source}
        wrong = [index for index, span in enumerate(target) if word_at(inputs, span) not in right]
        units = [*(source[index] for index in wrong if index < len(source)), *(target[index] for index in wrong)]
        return Truth(max(0.0, 1 - len(wrong) / self.most_errors), tuple(units))

    def redraw(self, inputs: Texts, region: Region, rng: RandomStream) -> Texts:
        rationale = self.read(inputs).rationale
        pairs = list(zip(words(inputs[0], 0), words(inputs[1], 1), strict=True))
        redrawn = [pair for pair in pairs if (pair[0] in rationale) == (region == "rationale")]
        fixed_pairs = [pair for pair in pairs if pair not in redrawn]
        # A new source word must not be the one that a wrong target word translates.
        fixed_words = {word_at(inputs, source) for source, _ in fixed_pairs}
        fixed_translations = {word_at(inputs, target) for _, target in fixed_pairs}
        available = [
            word for word in self.words if word not in fixed_words and self.dictionary[word] not in fixed_translations
        ]
        new_words = rng.sample(available, len(redrawn))
        changes = dict[Span, str]()
        for (source, target), word in zip(redrawn, new_words, strict=True):
            is_error = region == "rationale" and rng.bernoulli(0.5)
            changes[source] = word
            changes[target] = (
                self._wrong_translation(word, [*fixed_words, *new_words], rng) if is_error else self.dictionary[word]
            )
        return replace_spans(inputs, changes)

    def _wrong_translation(self, word: str, source: list[str], rng: RandomStream) -> str:
        """The word itself, or the translation of a word that is not in the source."""
        if rng.bernoulli(self.untranslated):
            return word
        while True:
            candidate = rng.choice(self.words)
            if candidate not in source:
                return self.dictionary[candidate]


quality = generator(Quality)
