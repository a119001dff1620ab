"""Sampling of items, balanced over the model's answers and, in simulation studies, over its errors."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from didact.errors import OptionError
from didact.study.design import Item

PHASES = ("learning", "test")


def sample_items(candidates: Sequence[Item], *, count: int, seed: int) -> list[Item]:
    """`count` items, as balanced over the model's answers as the rows allow. Depends on `seed` and ids only."""
    if count > len(candidates):
        raise OptionError(
            f"{count} items were requested, but only {len(candidates)} distinct rows are explained by every method. "
            f"Request fewer (--items {len(candidates)}), or explain more rows."
        )
    return sorted(_balanced_sample(candidates, count, seed), key=lambda item: _draw_key(item, seed))


def sample_simulation_items(
    candidates: Sequence[Item], *, count: int, learn: int, errors: float, seed: int
) -> list[Item]:
    """`learn` items for learning and the others for the test. In each, the model has a share `errors` wrong.

    Errors are over-sampled, so that people cannot simulate the model by knowing the right answer (Pruthi et al. 2022,
    section 5.5).
    """
    if not 0 < learn < count:
        raise OptionError(
            f"Of {count} items, at least one must be to learn from and one for the test; got learn={learn}."
        )
    unlabelled = sum(item.is_error is None for item in candidates)
    if unlabelled:
        raise OptionError(
            f"A simulation study needs to know where the model is wrong, and {unlabelled} of {len(candidates)} rows "
            "have no gold label. Give data that have labels."
        )
    sizes = {"learning": learn, "test": count - learn}
    error_counts = _error_counts(errors, sizes)
    counts = {True: error_counts, False: {phase: size - error_counts[phase] for phase, size in sizes.items()}}
    picked: list[Item] = []
    for is_error in (True, False):
        pool = [item for item in candidates if item.is_error is is_error]
        _check_enough(pool, counts[is_error], is_error=is_error, sizes=sizes)
        drawn = _balanced_sample(pool, sum(counts[is_error].values()), seed)
        picked += _assign_phases(drawn, counts[is_error])
    return sorted(picked, key=lambda item: (item.phase, _draw_key(item, seed)))


def _error_counts(errors: float, sizes: Mapping[str, int]) -> dict[str, int]:
    """The number of model errors in each phase."""
    return {phase: round(Fraction(errors).limit_denominator() * size) for phase, size in sizes.items()}


def _assign_phases(items: Sequence[Item], needed: Mapping[str, int]) -> list[Item]:
    """Assign each item to the phase that lacks the largest part of its share, so that phases get similar answers."""
    remaining = dict(needed)
    assigned = []
    for item in sorted(items, key=lambda item: item.prediction):
        phase = max(PHASES, key=lambda name: Fraction(remaining[name], max(needed[name], 1)))
        remaining[phase] -= 1
        assigned.append(Item(item.id, item.prediction, item.label, phase))
    return assigned


def _balanced_sample(pool: Sequence[Item], count: int, seed: int) -> list[Item]:
    """One item of each answer in turn, until there are enough.

    The turns follow the random draw, not the alphabet: with more answers than rows to choose (numbers, spans of a
    text), only the first answers of the alphabet would be chosen.
    """
    strata: dict[str, list[Item]] = {}
    for item in sorted(pool, key=lambda item: _draw_key(item, seed)):
        strata.setdefault(item.prediction, []).append(item)
    queues = list(strata.values())
    picked: list[Item] = []
    while len(picked) < count:
        for queue in queues:
            if queue and len(picked) < count:
                picked.append(queue.pop(0))
    return picked


def _check_enough(pool: Sequence[Item], needed: Mapping[str, int], *, is_error: bool, sizes: Mapping[str, int]) -> None:
    needed_total, count = sum(needed.values()), sum(sizes.values())
    if needed_total <= len(pool):
        return
    shares = {percent / 100: sum(_error_counts(percent / 100, sizes).values()) for percent in range(101)}
    feasible_share = max(
        (share for share, errors in shares.items() if errors <= len(pool)),
        key=lambda share: (shares[share], -abs(share - len(pool) / count)),
    )
    description = "that the model gets wrong" if is_error else "that the model gets right"
    answer_counts = ", ".join(
        f"{number} {name!r}" for name, number in sorted(Counter(item.prediction for item in pool).items())
    )
    advice = (
        f"--errors {feasible_share:g} asks for fewer of them, --items for fewer in all; or explain more rows."
        if is_error
        else "Ask for fewer items (--items), or explain more rows."
    )
    raise OptionError(
        f"A simulation study of {count} items needs {needed_total} rows {description}, and there are {len(pool)}"
        f"{f' ({answer_counts})' if answer_counts else ''}. {advice}"
    )


def _draw_key(item: Item, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{item.id}".encode()).hexdigest()
