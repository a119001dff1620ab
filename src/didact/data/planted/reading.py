"""Planted reading: facts about people, and a question about one of them, by name, trade or position in the passage."""

import re
from typing import ClassVar, Final

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Span
from didact.core.rows import Rows, as_rows
from didact.core.task import READING
from didact.core.teacher import Teacher
from didact.core.words import marked_words, words_of
from didact.data.planted.dataset import generator
from didact.data.planted.rules import RandomStream, Region, Rules, Texts, Truth, check_integers, check_probabilities
from didact.data.planted.texts import any_word, replace_spans, split_words, word_at
from didact.data.planted.wording import check_wording
from didact.errors import UnsupportedError

NAMES: Final = split_words("anna ben clara david emma felix greta henry irene jonas karen louis")
TRADES: Final = split_words("baker barber butcher doctor farmer fisher lawyer miner painter sailor tailor weaver")
ORDER: Final = split_words("first second third fourth fifth sixth seventh eighth ninth tenth")
# Verbs and their objects.
DOINGS: Final = {
    "visit": split_words("athens berlin cairo dublin lisbon london madrid oslo paris rome"),
    "eat": split_words("apples beans bread cheese eggs honey noodles olives rice soup"),
    "play": split_words("banjo cello drums flute guitar harp organ piano trumpet violin"),
    "drive": split_words("bus cab crane ferry lorry sledge tractor train tram van"),
}

_CATEGORY: Final = {word: kind for kind in (NAMES, TRADES, *DOINGS.values()) for word in kind}
_NAME_AND_TRADE: Final = rf"{any_word(NAMES)} the {any_word(TRADES)}"
# For each question word: the phrase that states the answer, and the answer. For "who" both are the same.
_ANSWER_PATTERNS: Final = {
    verb: re.compile(rf"\b({verb}s) ({any_word(values)})") for verb, values in DOINGS.items()
} | {"who": re.compile(rf"(?=({_NAME_AND_TRADE}))({_NAME_AND_TRADE})")}
_QUESTION_WORD: Final = re.compile(any_word(_ANSWER_PATTERNS))
_PERSON: Final = re.compile(rf"({any_word(NAMES)})|(?:\bthe )?({any_word([*TRADES, *ORDER])})")
_FACT: Final = re.compile(r"[^.]+")


class Reading(Rules[Texts]):
    """Passages of `facts` sentences. In each, another of `people` people does something with one of `doings` verbs.

    The question refers to a person by trade or by position in the passage, or with probability `by_name` by name. It
    asks for the object of the verb, or with probability `who` for name and trade. Alignments link the person and the
    question word to the passage.

    Measured with a small transformer: it stays at chance for ten epochs if no question refers by position or asks
    `who`, and learns slowly (F1 of 0.76 to 0.79 after ten epochs) if a third of the questions refer by name.

    `words` must be `english`: other wordings raise `UnsupportedError`.
    """

    name = "planted/reading"
    task = READING
    segments: ClassVar = ("question", "passage")

    def __init__(
        self,
        *,
        facts: int = 3,
        people: int = 6,
        doings: int = 4,
        by_name: float = 0.0,
        who: float = 0.25,
        words: str = "english",
        words_seed: int = 0,
    ) -> None:
        check_wording(words, words_seed)
        if words != "english":
            raise UnsupportedError(
                f"Option 'words' is {words!r}, and in {self.name} no word has a meaning that could be exchanged: a row "
                "is answered by finding the words of the question in the passage. Leave words out, or choose "
                "planted/sentiment, planted/graded, planted/inference or planted/quality."
            )
        check_integers(1, len(NAMES), people=people)
        check_integers(1, min(people, len(ORDER)), facts=facts)
        check_integers(1, len(DOINGS), doings=doings)
        check_probabilities(by_name=by_name, who=who)
        self.facts, self.people, self.verbs = facts, people, tuple(DOINGS)[:doings]
        self.by_name, self.who = by_name, who

    def draw(self, rng: RandomStream, split: str) -> Texts:  # noqa: ARG002
        verb = rng.choice(self.verbs)
        categories = NAMES[: self.people], TRADES[: self.people], DOINGS[verb]
        facts = list(zip(ORDER, *(rng.sample(category, self.facts) for category in categories), strict=False))
        sentences = [f"{order} {name} the {trade} {verb}s {thing} ." for order, name, trade, thing in facts]
        order, name, trade, _ = rng.choice(facts)
        # All questions are equally long, so that the position of a fact does not depend on the question.
        if rng.bernoulli(self.by_name):
            person, doing_question, who_question = name, "what does {} {} now ?", "who again is this {} ?"
        else:
            person, doing_question, who_question = (
                rng.choice((trade, order)),
                "what does the {} {} ?",
                "who again is the {} ?",
            )
        return (who_question if rng.bernoulli(self.who) else doing_question).format(person, verb), " ".join(sentences)

    def read(self, inputs: Texts) -> Truth:
        question, passage = inputs
        question_word, person = _QUESTION_WORD.search(question), _PERSON.search(question)
        if not question_word or not person:
            return Truth(None, ())
        for fact in _FACT.finditer(passage):
            stated = _ANSWER_PATTERNS[question_word[0]].search(passage, *fact.span())
            mentions = [match for match in _PERSON.finditer(passage, *fact.span()) if match.groups() == person.groups()]
            if stated and mentions:
                answer, mention = Span(1, *stated.span(2)), Span(1, *mentions[0].span())
                pairs = (Span(0, *person.span()), mention), (Span(0, *question_word.span()), Span(1, *stated.span(1)))
                units = {*pairs[0], *pairs[1], answer}
                if answer.start <= mention.start and mention.end <= answer.end:
                    units.remove(mention)  # the answer contains it
                return Truth((answer,), tuple(sorted(units)), pairs)
        return Truth(None, ())

    def redraw(self, inputs: Texts, region: Region, rng: RandomStream) -> Texts:
        spans = words_of(inputs)
        marked = marked_words(self.read(inputs).rationale, inputs)  # type: ignore[arg-type]
        replacements, used = dict[str, str](), set[str]()
        for span, is_marked in zip(spans, marked, strict=True):
            word = word_at(inputs, span)
            if is_marked == (region == "rationale") and word in _CATEGORY:
                replacements[word] = word
            else:
                used.add(word)
        for word in replacements:
            replacements[word] = rng.choice([other for other in self._same_category(word) if other not in used])
            used.add(replacements[word])
        return replace_spans(
            inputs, {span: replacements.get(word_at(inputs, span), word_at(inputs, span)) for span in spans}
        )

    def _same_category(self, word: str) -> tuple[str, ...]:
        category = _CATEGORY[word]
        return category[: self.people] if category in (NAMES, TRADES) else category

    def oracle(self) -> Teacher:
        return ReadingOracle(self)


class ReadingOracle(Teacher):
    """A teacher that answers with the span of the rules, or an empty span if the rules find no answer."""

    classes = None

    def __init__(self, rules: Reading) -> None:
        self.rules, self.task, self.name = rules, rules.task, f"oracle of {rules.name}"

    def predict(self, rows: Rows, *, batch_size: int = 32) -> Outputs:  # noqa: ARG002
        rows = as_rows(rows)
        spans = [_answer(self.rules.read(row.texts)) for row in rows]
        values = np.array([[span.start, span.end] for span in spans], dtype=np.float64).reshape(-1, 2)
        answers = tuple((row.text_of(span),) for row, span in zip(rows, spans, strict=True))
        return Outputs(self.task, tuple(row.id for row in rows), values, answers)


def _answer(truth: Truth) -> Span:
    answer = truth.label[0] if isinstance(truth.label, tuple) else None
    return answer if isinstance(answer, Span) else Span(1, 0, 0)


reading = generator(Reading)
