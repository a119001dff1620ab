"""Sentences about an analysis: the order of methods, small samples, and how many people a study needs."""

from dataclasses import asdict
from typing import Any, Final

import numpy as np

from didact.results.number_format import join_names
from didact.stats.crossed import CrossedAnswers
from didact.stats.power import detectable_difference, people_needed
from didact.study.contrasts import Contrasts

POWER: Final = 0.8
FEW: Final = 5  # with fewer people, a note explains the wide intervals


def order_text(contrasts: Contrasts, cells: CrossedAnswers, *, verb: str, noun: str) -> str:
    """The order of methods in one or two sentences."""
    who = f"{count_text(cells.people, 'person', 'people')}, {count_text(cells.items, 'item', 'items')}"
    rows = contrasts.order()
    if len(rows) < 2:
        return f"{who}: there is only {rows[0].method}, so nothing can be compared."
    claimed = [row for row in rows if row.beats]
    if not claimed:
        leader = next((row for row in contrasts.order(fixed_people=True) if row.beats), None)
        rest = (
            f" Among these people, {leader.method} is ahead of {join_names(leader.beats)}; whether other people "
            "would agree is unknown."
            if leader is not None and cells.people > 1
            else ""
        )
        return f"{who}: the answers do not show which {noun} people {verb}.{rest}"
    claims = "; ".join(f"{row.method} is better than {join_names(row.beats)}" for row in claimed)
    first = [row.method for row in rows if row.rank == 1]
    top = f" {join_names(first)} cannot be distinguished at the top." if len(first) > 1 else ""
    return f"{who}: {claims}.{top}"


def sample_size_notes(cells: CrossedAnswers) -> list[str]:
    """Notes on intervals from few people or items."""
    smallest = min((len(members) for members in cells.members()), default=0)
    has_cohorts = len(cells.members()) > 1
    where = " in some cohort" if has_cohorts else ""
    if cells.people < 2 and cells.items < 2:
        return ["One answer of one person about one item: there are no intervals."]
    if smallest < 2:
        return [
            f"There is only one person{where}: intervals are about items only, and say nothing about other people"
            f"{' there' if has_cohorts else ''}."
        ]
    if cells.items < 2:
        return ["There is only one item: intervals are about people only, and say nothing about other items."]
    if smallest < FEW:
        return [
            f"With {smallest} people{where}, intervals are wide, because the variation between people is poorly known."
        ]
    return []


def power_analysis(contrasts: Contrasts, *, difference: float | None, level: float) -> dict[str, Any]:
    """The number of people needed to detect the smallest measured difference and the requested one."""
    cells = contrasts.cells
    people = int(np.mean([len(members) for members in cells.members()]).round())
    if len(contrasts.names) < 2 or people < 2 or cells.items < 2:
        return {"reason": "estimating how many people are needed takes at least 2 people, 2 items and 2 methods"}
    components = contrasts.mean_components()
    if components.person + components.item + components.cell <= 0:
        return {"reason": "all answers are the same, so nothing varies"}
    size = {"power": POWER, "level": 1 - level}
    smallest = float(np.abs(contrasts.differences).min())
    rows = []
    for label, target in (("smallest", smallest if smallest > 1e-9 else None), ("asked", difference)):
        if target is not None:
            needed = people_needed(components, difference=target, items=cells.items, **size)
            more = None if needed.people is None else max(0, needed.people - people)
            rows.append({"what": label, **asdict(needed), "more": more})
    return {
        **size, "people": people, "items": cells.items, "groups": components.groups,
        "detectable": detectable_difference(components, people=people, items=cells.items, **size),
        "person_sd": float(np.sqrt(components.person)), "item_sd": float(np.sqrt(components.item)),
        "cell_sd": float(np.sqrt(components.cell)), "rows": rows, "reason": "",
    }  # fmt: skip


def count_text(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
