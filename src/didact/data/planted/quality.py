"""Translations, word by word, with planted errors: the score depends on their number alone."""

from typing import ClassVar, Final

from didact.core.row import Span
from didact.core.task import REGRESSION
from didact.core.words import words
from didact.data.planted.dataset import generator
from didact.data.planted.rules import Part, RandomStream, Rules, Texts, Truth, chance, whole
from didact.data.planted.texts import listed, spliced, word_at
from didact.errors import OptionError

# The words of a language that nobody speaks.
DICTIONARY: Final = dict(
    entry.split(":")
    for entry in listed(
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
    """Sources of `shortest` to `longest` different words and their translation in the same order.

    Up to `most_errors` words are wrong, each number equally often: with chance `untranslated` the source word itself,
    else the translation of a word that is not there. The score is 1 − errors / `most_errors`.
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
    ) -> None:
        whole(1, most_errors=most_errors)
        whole(most_errors, shortest=shortest)
        whole(shortest, longest=longest)
        whole(2, len(DICTIONARY), vocabulary=vocabulary)
        chance(untranslated=untranslated)
        if vocabulary < longest + most_errors:
            least = longest + most_errors
            raise OptionError(
                f"Option 'vocabulary' must be at least longest + most_errors = {least}, not {vocabulary}."
            )
        self.shortest, self.longest, self.most_errors, self.untranslated = shortest, longest, most_errors, untranslated
        self.words = tuple(DICTIONARY)[:vocabulary]

    @property
    def step(self) -> float:
        return 1 / self.most_errors

    def draw(self, dice: RandomStream, split: str) -> Texts:  # noqa: ARG002
        source = dice.sample(self.words, dice.between(self.shortest, self.longest))
        wrong = dice.sample(range(len(source)), dice.between(0, self.most_errors))
        target = [
            self._wrong(word, source, dice) if place in wrong else DICTIONARY[word] for place, word in enumerate(source)
        ]
        return " ".join(source), " ".join(target)

    def read(self, inputs: Texts) -> Truth:
        source, target = words(inputs[0], 0), words(inputs[1], 1)
        right = {DICTIONARY.get(word_at(inputs, span)) for span in source}
        wrong = [place for place, span in enumerate(target) if word_at(inputs, span) not in right]
        units = [*(source[place] for place in wrong if place < len(source)), *(target[place] for place in wrong)]
        return Truth(max(0.0, 1 - len(wrong) / self.most_errors), tuple(units))

    def redraw(self, inputs: Texts, part: Part, dice: RandomStream) -> Texts:
        rationale = self.read(inputs).rationale
        pairs = list(zip(words(inputs[0], 0), words(inputs[1], 1), strict=True))
        chosen = [pair for pair in pairs if (pair[0] in rationale) == (part == "rationale")]
        kept = [pair for pair in pairs if pair not in chosen]
        # A new source word must not happen to be the one that a wrong target word translates.
        known = {word_at(inputs, source) for source, _ in kept}
        barred = {word_at(inputs, target) for _, target in kept}
        free = [word for word in self.words if word not in known and DICTIONARY[word] not in barred]
        drawn = dice.sample(free, len(chosen))
        changes = dict[Span, str]()
        for (source, target), word in zip(chosen, drawn, strict=True):
            spoil = part == "rationale" and dice.chance(0.5)
            changes[source] = word
            changes[target] = self._wrong(word, [*known, *drawn], dice) if spoil else DICTIONARY[word]
        return spliced(inputs, changes)

    def _wrong(self, word: str, source: list[str], dice: RandomStream) -> str:
        """The word left as it was, or the translation of a word that the source does not hold."""
        if dice.chance(self.untranslated):
            return word
        while True:
            other = dice.choice(self.words)
            if other not in source:
                return DICTIONARY[other]


quality = generator(Quality)
