"""Facts about people, and a question that names one of them by name or by trade."""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from didact.core.outputs import Outputs
from didact.core.row import Row, Span
from didact.core.task import READING
from didact.core.teacher import Teacher
from didact.core.words import marked_words, words_of
from didact.data.planted.dataset import PlantedDataset, plant
from didact.data.planted.dice import Dice
from didact.data.planted.options import chance, whole
from didact.data.planted.rules import Part, Rules, Texts, Truth
from didact.data.planted.texts import either, listed, spliced, word_at


class Relation(NamedTuple):
    """How a kind of fact is asked for and stated, and what it may state."""

    asks: str
    verb: str
    states: str
    values: tuple[str, ...]


NAMES: Final = listed("anna ben clara david emma felix greta henry irene jonas karen louis")
TRADES: Final = listed("baker barber butcher doctor farmer fisher lawyer miner painter sailor tailor weaver")
RELATIONS: Final = (
    Relation("where", "live", "lives in", listed("athens berlin cairo dublin lisbon london madrid oslo paris rome")),
    Relation("what", "eat", "eats some", listed("apples beans bread cheese eggs honey noodles olives rice soup")),
    Relation("what", "play", "plays the", listed("banjo cello drums flute guitar harp organ piano trumpet violin")),
    Relation("what", "drive", "drives a", listed("bus cab crane ferry lorry sledge tractor train tram van")),
)

_KINDS: Final = (NAMES, TRADES, *(relation.values for relation in RELATIONS))
_KIND: Final = {word: kind for kind in _KINDS for word in kind}
_NAMED: Final = rf"{either(NAMES)} the {either(TRADES)}"
# What is asked: two groups, the phrase that states it and the answer. Who somebody is, the answer states itself.
_STATED: Final = {
    relation.verb: re.compile(rf"\b({relation.states}) ({either(relation.values)})") for relation in RELATIONS
} | {"who": re.compile(rf"(?=({_NAMED}))({_NAMED})")}
_ASKED: Final = re.compile(either(_STATED))
_PERSON: Final = re.compile(rf"({either(NAMES)})|(?:\bthe )?({either(TRADES)})")
_FACT: Final = re.compile(r"[^.]+")


class Reading(Rules[Texts]):
    name = "planted/reading"
    task = READING
    segments: ClassVar = ("question", "passage")

    def __init__(self, *, facts: int, people: int, kinds: int, told: int, by_trade: float, who: float) -> None:
        whole(1, len(NAMES), people=people)
        whole(1, people, facts=facts)
        whole(1, len(RELATIONS), kinds=kinds)
        whole(1, kinds, told=told)
        chance(by_trade=by_trade, who=who)
        self.facts, self.people, self.kinds, self.told = facts, people, kinds, told
        self.by_trade, self.who = by_trade, who

    def draw(self, dice: Dice, split: str) -> Texts:  # noqa: ARG002
        names, trades = dice.sample(NAMES[: self.people], self.facts), dice.sample(TRADES[: self.people], self.facts)
        told = dice.sample(RELATIONS[: self.kinds], self.told)
        values = [dice.sample(relation.values, self.facts) for relation in told]
        facts = []
        for name, trade, *known in zip(names, trades, *values, strict=True):
            parts = [f"{relation.states} {value}" for relation, value in zip(told, known, strict=True)]
            facts.append(f"{name} the {trade} {' and '.join(dice.sample(parts, self.told))} .")
        about, asked = dice.between(0, self.facts - 1), dice.choice(told)
        # Questions are equally long, so that a fact's place does not hang on what is asked.
        if dice.chance(self.by_trade):
            who, forms = trades[about], ("who again is the {who} ?", "{asks} does the {who} {verb} ?")
        else:
            who, forms = names[about], ("who again is this {who} ?", "{asks} does {who} {verb} now ?")
        form = forms[0] if dice.chance(self.who) else forms[1]
        return form.format(who=who, asks=asked.asks, verb=asked.verb), " ".join(facts)

    def read(self, inputs: Texts) -> Truth:
        question, passage = inputs
        asked, person = _ASKED.search(question), _PERSON.search(question)
        if not asked or not person:
            return Truth(None, ())
        for fact in _FACT.finditer(passage):
            stated = _STATED[asked[0]].search(passage, *fact.span())
            same = [one for one in _PERSON.finditer(passage, *fact.span()) if one.groups() == person.groups()]
            if stated and same:
                answer = Span(1, *stated.span(2))
                pairs = (
                    (Span(0, *person.span()), Span(1, *same[0].span())),
                    (Span(0, *asked.span()), Span(1, *stated.span(1))),
                )
                units = {*pairs[0], *pairs[1], answer}
                if asked[0] == "who":
                    units -= {pairs[0][1]}  # the answer holds it
                return Truth((answer,), tuple(sorted(units)), pairs)
        return Truth(None, ())

    def redraw(self, inputs: Texts, part: Part, dice: Dice) -> Texts:
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
        return _KIND[word][: self.people] if word in NAMES or word in TRADES else _KIND[word]

    def oracle(self) -> Teacher:
        return ReadingOracle(self)


class ReadingOracle:
    """Answers with the span that the rules find; with an empty one where they find none."""

    classes: tuple[str, ...] | None = None

    def __init__(self, rules: Reading) -> None:
        self.rules, self.task, self.name = rules, rules.task, f"oracle of {rules.name}"

    def predict(self, rows: Sequence[Row], *, batch_size: int = 32) -> Outputs:  # noqa: ARG002
        spans = [_answer(self.rules.read(row.texts)) for row in rows]
        values = np.array([[span.start, span.end] for span in spans], dtype=np.float64).reshape(-1, 2)
        answers = tuple((row.text_of(span),) for row, span in zip(rows, spans, strict=True))
        return Outputs(self.task, tuple(row.id for row in rows), values, answers)


def _answer(truth: Truth) -> Span:
    return truth.label[0] if isinstance(truth.label, tuple) else Span(1, 0, 0)


def reading(
    *,
    seed: int = 0,
    teach: int = 12_000,
    explain: int = 2_000,
    train: int = 2_000,
    dev: int = 400,
    test: int = 2_000,
    facts: int = 3,
    people: int = 6,
    kinds: int = 4,
    told: int = 2,
    by_trade: float = 0.5,
    who: float = 0.25,
) -> PlantedDataset:
    """Passages of `facts` sentences, each telling the same `told` kinds of fact, out of `kinds`, of another person.

    The question asks one of them about one person: with chance `by_trade` by trade, else by name. Aligned are the
    person and what is asked.
    """
    rules = Reading(facts=facts, people=people, kinds=kinds, told=told, by_trade=by_trade, who=who)
    return plant(rules, seed=seed, teach=teach, explain=explain, train=train, dev=dev, test=test)
