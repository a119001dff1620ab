"""Facts about people, and a question about one of them: by name, by trade or by place in the passage."""

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
from didact.data.planted.rules import Part, RandomStream, Rules, Texts, Truth, chance, whole
from didact.data.planted.texts import either, listed, spliced, word_at

NAMES: Final = listed("anna ben clara david emma felix greta henry irene jonas karen louis")
TRADES: Final = listed("baker barber butcher doctor farmer fisher lawyer miner painter sailor tailor weaver")
ORDER: Final = listed("first second third fourth fifth sixth seventh eighth ninth tenth")
# What people do, and to what.
DOINGS: Final = {
    "visit": listed("athens berlin cairo dublin lisbon london madrid oslo paris rome"),
    "eat": listed("apples beans bread cheese eggs honey noodles olives rice soup"),
    "play": listed("banjo cello drums flute guitar harp organ piano trumpet violin"),
    "drive": listed("bus cab crane ferry lorry sledge tractor train tram van"),
}

_KIND: Final = {word: kind for kind in (NAMES, TRADES, *DOINGS.values()) for word in kind}
_NAMED: Final = rf"{either(NAMES)} the {either(TRADES)}"
# By the word that asks: the phrase that states the answer, and the answer. Who somebody is, the answer states itself.
_STATED: Final = {verb: re.compile(rf"\b({verb}s) ({either(values)})") for verb, values in DOINGS.items()} | {
    "who": re.compile(rf"(?=({_NAMED}))({_NAMED})")
}
_ASKS: Final = re.compile(either(_STATED))
_PERSON: Final = re.compile(rf"({either(NAMES)})|(?:\bthe )?({either([*TRADES, *ORDER])})")
_FACT: Final = re.compile(r"[^.]+")


class Reading(Rules[Texts]):
    """Passages of `facts` sentences, in each of which another person, out of `people`, does one of `doings` things.

    The question means a person by trade or by place in the passage, with chance `by_name` by name, and asks for what
    the fact tells of that person; with chance `who` it asks for name and trade. Aligned are the person, and what is
    asked. A small transformer stays at chance for ten epochs if no question goes by place or asks `who`, and learns
    slowly (F1 of 0.76 to 0.79 after ten) if a third of the questions go by name (ran).
    """

    name = "planted/reading"
    task = READING
    segments: ClassVar = ("question", "passage")

    def __init__(
        self, *, facts: int = 3, people: int = 6, doings: int = 4, by_name: float = 0.0, who: float = 0.25
    ) -> None:
        whole(1, len(NAMES), people=people)
        whole(1, min(people, len(ORDER)), facts=facts)
        whole(1, len(DOINGS), doings=doings)
        chance(by_name=by_name, who=who)
        self.facts, self.people, self.verbs = facts, people, tuple(DOINGS)[:doings]
        self.by_name, self.who = by_name, who

    def draw(self, dice: RandomStream, split: str) -> Texts:  # noqa: ARG002
        verb = dice.choice(self.verbs)
        kinds = NAMES[: self.people], TRADES[: self.people], DOINGS[verb]
        told = list(zip(ORDER, *(dice.sample(kind, self.facts) for kind in kinds), strict=False))
        facts = [f"{order} {name} the {trade} {verb}s {thing} ." for order, name, trade, thing in told]
        order, name, trade, _ = dice.choice(told)
        # Questions are equally long, so that a fact's place does not hang on what is asked.
        if dice.chance(self.by_name):
            person, what, who = name, "what does {} {} now ?", "who again is this {} ?"
        else:
            person, what, who = dice.choice((trade, order)), "what does the {} {} ?", "who again is the {} ?"
        return (who if dice.chance(self.who) else what).format(person, verb), " ".join(facts)

    def read(self, inputs: Texts) -> Truth:
        question, passage = inputs
        asks, person = _ASKS.search(question), _PERSON.search(question)
        if not asks or not person:
            return Truth(None, ())
        for fact in _FACT.finditer(passage):
            stated = _STATED[asks[0]].search(passage, *fact.span())
            same = [one for one in _PERSON.finditer(passage, *fact.span()) if one.groups() == person.groups()]
            if stated and same:
                answer, met = Span(1, *stated.span(2)), Span(1, *same[0].span())
                pairs = (Span(0, *person.span()), met), (Span(0, *asks.span()), Span(1, *stated.span(1)))
                units = {*pairs[0], *pairs[1], answer}
                if answer.start <= met.start and met.end <= answer.end:
                    units.remove(met)  # the answer holds it already
                return Truth((answer,), tuple(sorted(units)), pairs)
        return Truth(None, ())

    def redraw(self, inputs: Texts, part: Part, dice: RandomStream) -> Texts:
        spans = words_of(inputs)
        marked = marked_words(self.read(inputs).rationale, inputs)  # type: ignore[arg-type]
        moved, kept = dict[str, str](), set[str]()
        for span, inside in zip(spans, marked, strict=True):
            word = word_at(inputs, span)
            if inside == (part == "rationale") and word in _KIND:
                moved[word] = word
            else:
                kept.add(word)
        for word in moved:
            moved[word] = dice.choice([other for other in self._like(word) if other not in kept])
            kept.add(moved[word])
        return spliced(inputs, {span: moved.get(word_at(inputs, span), word_at(inputs, span)) for span in spans})

    def _like(self, word: str) -> tuple[str, ...]:
        kind = _KIND[word]
        return kind[: self.people] if kind in (NAMES, TRADES) else kind

    def oracle(self) -> Teacher:
        return ReadingOracle(self)


class ReadingOracle(Teacher):
    """Answers with the span that the rules find; with an empty one where they find none."""

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
