"""What learned explainers learned: the weight of each attention head or each member of a blend."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from didact.errors import DidactError
from didact.reports.figure import Figure
from didact.reports.section import Details, Group, Notes, Section, lead, missing
from didact.results.comparison import Comparison
from didact.results.gains import LearnedWeights, column_name
from didact.results.number_format import minus
from didact.viz.colours import shade
from didact.viz.tables import Cell, Table
from didact.viz.weights_chart import WeightsView

_SHOWN = 4  # tables; a click unfolds the others


def section(run: Comparison) -> Section | None:
    """The section, or None if the run learned no explainer."""
    title = "What was learned"
    if not run.learned:
        return None
    groups, broken = [], []
    for (explainer, student, size), seed_mixes in _groups(run.learned).items():
        name = f"{explainer} for {column_name((student, size))}"
        try:
            groups.append((name, seed_mixes, _view(name, seed_mixes)))
        except (DidactError, LookupError, TypeError, ValueError) as error:
            broken.append(f"What {name} learned cannot be shown: {error}")
    if not groups:
        return Section("learned", title, [missing("Nothing that was learned can be shown."), Notes(broken)])
    tables = [_table(name, seed_mixes, view) for name, seed_mixes, view in groups]
    intro = (
        "An explainer that learns to teach weighs parts of the model. A darker cell is a larger weight, the mean over "
        "seeds. Weights differ between seeds: point at a number for the standard deviation."
    )
    remarks = [line for name, seed_mixes, _ in groups for line in _remarks(name, seed_mixes)]
    shown = Group("maps", [Group("panel", [table]) for table in tables[:_SHOWN]])
    more = Details(f"{len(tables) - _SHOWN} more", tables[_SHOWN:])
    charts = [Figure(f"learned-{name}", view.summary, _draw_view(view), (0,)) for name, _, view in groups]
    return Section("learned", title, [lead(intro), shown, more, Notes(remarks + broken)], charts=charts)


def _groups(learned: Sequence[LearnedWeights]) -> dict[tuple[str, str, int], list[LearnedWeights]]:
    """The learned weights of each seed, by explainer, student and training size."""
    groups: dict[tuple[str, str, int], list[LearnedWeights]] = {}
    for mix in learned:
        key = (mix.explainer, mix.student, mix.size)
        groups.setdefault(key, []).append(mix)
    return groups


def _remarks(name: str, seed_mixes: Sequence[LearnedWeights]) -> list[str]:
    """Notes from learning, such as a mix that collapsed to one component. Equal notes of several seeds appear once."""
    seeds: dict[str, list[str]] = {}
    for mix in seed_mixes:
        for note in mix.notes:
            seeds.setdefault(note, []).append(str(mix.seed))
    return [f"{name}, seed {', '.join(numbers)}: {note}" for note, numbers in seeds.items()]


def _view(name: str, seed_mixes: Sequence[LearnedWeights]) -> WeightsView:
    weights = np.mean([mix.weights for mix in seed_mixes], axis=0)
    return WeightsView(seed_mixes[0].names, tuple(map(float, weights)), title=name)


def _draw_view(view: WeightsView) -> Any:
    return lambda _: view.chart()


def _table(name: str, seed_mixes: Sequence[LearnedWeights], view: WeightsView) -> Table:
    spread = dict(zip(view.names, np.std([mix.weights for mix in seed_mixes], axis=0), strict=True))
    scale = 1.25 * (max(map(abs, view.weights)) or 1.0)
    kind = "signed" if min(view.weights) < 0 else "magnitude"

    def cell(member: str, weight: float) -> Cell:
        step = shade(weight, scale, kind)
        seeds = f" ± {100 * spread[member]:.1f} over {len(seed_mixes)} seeds" if len(seed_mixes) > 1 else ""
        text = "0" if not weight else minus(f"{100 * weight:.1f}")
        return Cell(text, step.look, f"{member}: {text} %{seeds}")

    caption = f"{name}: weights in %; {view.summary}"
    data = [
        {"part": member, "weight": weight, "sd": float(spread[member])}
        for member, weight in zip(view.names, view.weights, strict=True)
    ]
    if view.grid is not None:
        layers, heads, weights = view.grid
        rows: list[list[Cell | str]] = [
            [f"layer {layer}", *(cell(f"{layer}.{head}", float(weights[i, j])) for j, head in enumerate(heads))]
            for i, layer in enumerate(layers)
        ]
        return Table(f"learned-{name}", caption, ["", *(f"head {head}" for head in heads)], rows, "square", data=data)
    ranked = sorted(zip(view.names, view.weights, strict=True), key=lambda member_weight: -member_weight[1])
    rows = [[member, cell(member, weight)] for member, weight in ranked]
    return Table(f"learned-{name}", caption, ["part", "weight"], rows, "square", data=data)
