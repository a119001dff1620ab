"""Which rows people are asked about: equally many of each answer of the model, and of its errors where they count."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from didact.errors import OptionError
from didact.study.design import Item

PHASES = ("learning", "test")


def sample_items(candidates: Sequence[Item], *, count: int, seed: int) -> list[Item]:
    """`count` items, as evenly over the model's answers as there are rows, drawn by `seed` and their ids alone."""
    if count > len(candidates):
        raise OptionError(
            f"{count} items were asked for, and only {len(candidates)} different rows are explained by every method. "
            f"Ask for fewer (--items {len(candidates)}), or explain more rows."
        )
    return sorted(_evenly(candidates, count, seed), key=lambda item: _draw(item, seed))


def sample_simulation_items(
    candidates: Sequence[Item], *, count: int, learn: int, errors: float, seed: int
) -> list[Item]:
    """`learn` items to learn from and the others to be tested with; in both a share `errors` that the model has wrong.

    Errors are over-sampled, so that people cannot simulate the model by knowing the right answer (Pruthi et al. 2022,
    section 5.5).
    """
    if not 0 < learn < count:
        raise OptionError(f"Of {count} items at least one is to learn from and one to be tested with, not {learn}.")
    unknown = sum(item.is_error is None for item in candidates)
    if unknown:
        raise OptionError(
            f"A simulation study needs to know where the model is wrong, and {unknown} of {len(candidates)} rows have "
            "no gold label. Give data that have labels."
        )
    sizes = {"learning": learn, "test": count - learn}
    wrong = _share(errors, sizes)
    wanted = {True: wrong, False: {phase: size - wrong[phase] for phase, size in sizes.items()}}
    found: list[Item] = []
    for is_error in (True, False):
        pool = [item for item in candidates if item.is_error is is_error]
        _check_enough(pool, wanted[is_error], is_error=is_error, sizes=sizes)
        taken = _evenly(pool, sum(wanted[is_error].values()), seed)
        found += _in_phases(taken, wanted[is_error])
    return sorted(found, key=lambda item: (item.phase, _draw(item, seed)))


def _share(errors: float, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many errors each phase has."""
    return {phase: round(Fraction(errors).limit_denominator() * size) for phase, size in sizes.items()}


def _in_phases(items: Sequence[Item], needed: Mapping[str, int]) -> list[Item]:
    """Each item into the phase that lacks most of its share, answer by answer: so each phase has all answers."""
    left = dict(needed)
    found = []
    for item in sorted(items, key=lambda item: item.prediction):
        phase = max(PHASES, key=lambda name: Fraction(left[name], max(needed[name], 1)))
        left[phase] -= 1
        found.append(Item(item.id, item.prediction, item.label, phase))
    return found


def _evenly(pool: Sequence[Item], count: int, seed: int) -> list[Item]:
    """One of each answer in turn, until there are enough or an answer has no more rows.

    Turns go by the draw and not by name: where there are more answers than rows to choose (numbers, spans of a text),
    those that are first in the alphabet would be all that is chosen.
    """
    strata: dict[str, list[Item]] = {}
    for item in sorted(pool, key=lambda item: _draw(item, seed)):
        strata.setdefault(item.prediction, []).append(item)
    queues = list(strata.values())
    found: list[Item] = []
    while len(found) < count:
        for queue in queues:
            if queue and len(found) < count:
                found.append(queue.pop(0))
    return found


def _check_enough(pool: Sequence[Item], needed: Mapping[str, int], *, is_error: bool, sizes: Mapping[str, int]) -> None:
    asked, count = sum(needed.values()), sum(sizes.values())
    if asked <= len(pool):
        return
    shares = {percent / 100: sum(_share(percent / 100, sizes).values()) for percent in range(101)}
    enough = max(
        (share for share, errors in shares.items() if errors <= len(pool)),
        key=lambda share: (shares[share], -abs(share - len(pool) / count)),
    )
    what = "that the model has wrong" if is_error else "that the model has right"
    said = ", ".join(f"{number} {name!r}" for name, number in sorted(Counter(one.prediction for one in pool).items()))
    help = (
        f"--errors {enough:g} asks for fewer of them, --items for fewer in all; or explain more rows."
        if is_error
        else "Ask for fewer items (--items), or explain more rows."
    )
    raise OptionError(
        f"A simulation study of {count} items needs {asked} rows {what}, and there are {len(pool)}"
        f"{f' ({said})' if said else ''}. {help}"
    )


def _draw(item: Item, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{item.id}".encode()).hexdigest()
