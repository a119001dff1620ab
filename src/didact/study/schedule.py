"""Who sees what in which order. A function of the design and the person's number, so nothing is stored."""

import random
from dataclasses import dataclass

from didact.study.design import Design, Item


@dataclass(frozen=True)
class Step:
    """One page with one answer. `shown` has the methods on it, in order."""

    number: int
    phase: str
    item: Item
    shown: tuple[str, ...]


def steps_of(design: Design, number: int) -> list[Step]:
    """All steps of person `number`, with items and methods in a random order of their own.

    Methods are balanced within blocks of as many pages as there are methods: in a ranking, every method is once in
    every position; in a rating, every method is shown once, and blocks are rotated between people so that every method
    meets every item.
    """
    rng = random.Random(f"{design.seed}/{number}")
    if design.kind == "simulation":
        return _simulation(design, number, rng)
    items = list(design.items)
    rng.shuffle(items)
    if design.kind == "ranking":
        shown = _balanced(design.methods, len(items), rng)
        return [Step(index + 1, "ranking", item, shown[index]) for index, item in enumerate(items)]
    turn = _turns(design)
    methods = [design.methods[(turn[item.id] + number - 1) % len(design.methods)] for item in items]
    return [Step(index + 1, "rating", item, (methods[index],)) for index, item in enumerate(items)]


def _simulation(design: Design, number: int, rng: random.Random) -> list[Step]:
    cohort = design.cohort_of(number)
    shown = (cohort,) if cohort in design.methods else ()
    steps: list[Step] = []
    for phase in ("learning", "test"):
        items = [item for item in design.items if item.phase == phase]
        rng.shuffle(items)
        steps += [
            Step(len(steps) + offset + 1, phase, item, shown if phase == "learning" else ())
            for offset, item in enumerate(items)
        ]
    return steps


def _balanced(methods: tuple[str, ...], count: int, rng: random.Random) -> list[tuple[str, ...]]:
    """`count` orders of the methods. In the rotations of an order, every method is once in every position."""
    orders: list[tuple[str, ...]] = []
    while len(orders) < count:
        order = list(methods)
        rng.shuffle(order)
        block = [(*order[shift:], *order[:shift]) for shift in range(len(order))]
        rng.shuffle(block)
        orders += block
    return orders[:count]


def _turns(design: Design) -> dict[str, int]:
    """The index of the method that the first person sees of each item. Methods are equally frequent."""
    method_turns = list(range(len(design.items)))
    random.Random(f"{design.seed}/turns").shuffle(method_turns)
    return {item.id: method_turns[index] for index, item in enumerate(design.items)}
