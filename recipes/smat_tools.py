"""What the recipes of SMaT (Fernandes et al. 2022) share: names, teachers, contrasts, and the mix that was learned."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
from recipe_tools import asked_for, fewer, loaded, print_table, say, shortened, teacher_of

import didact
from didact.core.dataset import Dataset
from didact.explainers.mix import ComponentMix
from didact.learned.smat_spec import parse_learner

STATIC = ("gradient_norm", "gradient_input", "integrated_gradients", "attention_all", "attention_last")
# The paper's rows by our names.
NAMES = {
    "none": "No Explainer",
    "gradient_norm": "Gradient L2",
    "gradient_input": "Gradient × Input",
    "integrated_gradients": "Integrated Gradients",
    "attention_all": "Attention (all layers)",
    "attention_last": "Attention (last layer)",
    "smat": "Attention (SMaT)",
    "smat(cotrained)": "Attention (SMaT)",
    "smat(outer=dev)": "Attention (SMaT)",
    "smat(outer=dev, cotrained)": "Attention (SMaT)",
}
# What a learned explainer is measured against.
RIVALS = ("attention_all", "attention_all(sharpened)", "attention_all(matched)", "gradient_norm", "smat(cotrained)")
PAPER_IS_COTRAINED = (
    "The paper's numbers are medians over five seeds. Its SMaT student is the one that the explainer was learned with: "
    "our smat(cotrained), and nearer still smat(outer=dev, cotrained) where it was asked for. Our row smat is of new "
    "students, taught by the finished explainer, and is the fairer one."
)


def smat_options(parser: ArgumentParser, *, sizes: Mapping[str, Sequence[int]]) -> Any:
    """What was asked for. A learned explainer needs rows for two batches, with --quick too."""
    return asked_for(parser, sizes=sizes, seeds=8, quick_size=16)


def smat_data(asked: Any, name: str | None = None) -> Dataset:
    """The data; with --quick enough rows for a teacher whose answers differ, else there is nothing to learn."""
    return fewer(asked, loaded(asked, name), teach=400 if asked.data in ("imdb", "sst") else 800, dev=40)


def static_methods(asked: Any) -> list[str]:
    """The paper's five. Long texts have integrated gradients of 10 steps instead of 50, for time."""
    short = asked.data not in ("imdb", "mlqe_pe", "movie_rationales")
    return [name if short or name != "integrated_gradients" else f"{name}(steps=10)" for name in STATIC]


def training_of(asked: Any) -> dict[str, int]:
    """Nothing but for --quick: there the two batches must come from sixteen rows."""
    return {"batch_size": 4} if asked.quick else {}


def native_teacher(asked: Any, data: Dataset, model: str = "native") -> Any:
    """A small transformer from scratch, taught with all rows of `teach`."""
    return teacher_of(asked, data, model, quick_epochs=6, **({"rate": 3e-3} if asked.quick else {}))


def minilm_teacher(asked: Any, data: Dataset, *, epochs: int = 1) -> Any:
    """A MiniLM that reads 128 pieces, taught in a few minutes."""
    return teacher_of(
        asked, shortened(data, test=500), "minilm", epochs=epochs, batch_size=16, rate=3e-4 if asked.quick else 1e-4,
        max_length=32 if asked.quick else 128, truncate=True,
    )  # fmt: skip


def nearest(size: int, sizes: Sequence[int]) -> int:
    """The paper's size that is nearest to ours."""
    return min(sizes, key=lambda one: abs(one - size))


def is_correlation(found: didact.Comparison) -> bool:
    return bool(found.about["measure"] == "pearson")


def mean_of(found: didact.Comparison, explainer: str, student: str, size: int) -> str:
    """The mean over seeds: in percent, or as a correlation; ▲ ▼ where the gain over none has an interval beside 0."""
    rows = [one for one in found.rows if (one["explainer"], one["student"], one["size"]) == (explainer, student, size)]
    if not rows or rows[0]["mean"] is None:
        return "–"
    low, high, mean = rows[0]["low"], rows[0]["high"], rows[0]["mean"]
    mark = "" if low is None else " ▲" if low > 0 else " ▼" if high < 0 else ""
    return (f"{mean:.3f}" if is_correlation(found) else f"{100 * mean:.1f}") + mark


def interval(found: didact.Comparison, gain: float, low: float, high: float) -> str:
    """A difference with its interval: in points of 100, or in r."""
    if is_correlation(found):
        return f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"{100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def base_name(explainer: str) -> str:
    """A method without its options; a learned one as it is."""
    return explainer if explainer.startswith(("smat", "attention_all")) else explainer.partition("(")[0]


def print_beside(
    found: didact.Comparison,
    student: str,
    size: int,
    paper: Mapping[str, Sequence[str]],
    sizes: Sequence[int],
    *,
    table: str,
) -> None:
    """Our means beside the paper's medians for the size nearest to ours."""
    near = nearest(size, sizes)
    place = list(sizes).index(near)
    lines = []
    for name in found.explainers:
        theirs = paper.get(NAMES.get(base_name(name), ""))
        lines.append([name, mean_of(found, name, student, size), theirs[place] if theirs else "–"])
    head = ["explainer", f"ours, {size:,} rows", f"paper, {near:,} rows"]
    print_table(f"{table}: {found.about['data']}, {student}, beside the paper", head, lines)
    say("Ours: mean over seeds; ▲ ▼ the 95 % interval of the gain over none lies above or below 0.")
    say(PAPER_IS_COTRAINED)


def print_contrasts(
    found: didact.Comparison, student: str, size: int, pairs: Sequence[tuple[str, str]], *, title: str = "Differences"
) -> None:
    """Row minus row with intervals, and in words on which side of 0 they lie. Rows that failed are left out."""
    lines, sides = [], dict[str, list[str]](above=[], below=[], open=[])
    for first, second in pairs:
        said = f"{first} − {second}"
        keys = [(name, student, size) for name in (first, second)]
        if any(key not in found.scores for key in keys):
            lines.append([said, "– (no answers)", ""])
            continue
        it = found.contrast(*keys)
        side = "above" if it.low > 0 else "below" if it.high < 0 else "open"
        sides[side].append(said)
        lines.append(
            [said, interval(found, it.difference, it.low, it.high), {"open": "holds 0"}.get(side, f"{side} 0")]
        )
    unit = "Pearson's r" if is_correlation(found) else "points"
    print_table(f"{title}, {student}, {size:,} rows", ["difference", f"{unit}, 95 % interval", "interval"], lines)
    for side, words in (
        ("above", "lies above 0"),
        ("below", "LIES BELOW 0"),
        ("open", "holds 0, so there is NO evidence of a difference,"),
    ):
        if sides[side]:
            say(f"The interval {words} for {'; '.join(sides[side])}.")


def entries_of(found: didact.Comparison, learner: str, student: str, size: int) -> list[Mapping[str, Any]]:
    """What was learned, by seed."""
    wanted = (learner, student, size)
    return [one for one in found.learned if (one["explainer"], one["student"], one["size"]) == wanted]


def print_mix(
    found: didact.Comparison,
    learner: str,
    student: str,
    size: int,
    *,
    out: str | None,
    name: str,
    paper: str = "6 of 48 on IMDb",
) -> None:
    """How much each head counts (the paper's Figure 5), and how many heads do; pictures go into the folder."""
    entries = entries_of(found, learner, student, size)
    if not entries:
        say(f"{learner} was not learned with {student}, {size:,} rows.")
        return
    view = found.mix(learner, student, size)
    print(f"\nHeads that count with {student}, {size:,} rows:")
    print(view.text())
    active = ", ".join(f"seed {one['seed']}: {one['active']}" for one in entries)
    say(f"Active heads of {len(view.names)}, by seed: {active}. (What the paper's authors published: {paper}.)")
    if out:
        for kind in ("png", "svg"):
            (Path(out) / f"{name}.{kind}").write_bytes(view.picture(kind))
        say(f"Pictures: {Path(out) / name}.png and .svg.")


def print_study(
    found: didact.Comparison,
    asked: Any,
    student: str,
    paper: Mapping[str, Sequence[str]],
    sizes: Sequence[int],
    *,
    table: str,
    heads: str,
) -> None:
    """The table, the paper's beside it, what smat is held against, and what it weighs, for each size."""
    print(found.table())
    for size in asked.sizes:
        print_beside(found, student, size, paper, sizes, table=table)
        print_contrasts(found, student, size, [("smat", name) for name in ("none", *RIVALS)])
        name = f"heads{f'-{size}' * (len(asked.sizes) > 1)}"
        print_mix(found, "smat", student, size, out=asked.out, name=name, paper=heads)


def median_seed(found: didact.Comparison, learner: str, student: str, size: int) -> int:
    """The seed whose co-trained student is the median on test (of an even number, the lower one): the paper's model."""
    cells = pandas.read_parquet(found.folder / "results.parquet")
    row = parse_learner(learner).companion_label("cotrained")
    own = cells[
        (cells["status"] == "done") & (cells["explainer"] == row) & (cells["student"] == student)
        & (cells["size"] == size)
    ].sort_values(["value", "seed"])  # fmt: skip
    if own.empty:
        raise SystemExit(f"{learner} could not be learned: {[one['error'] for one in found.failed][:1]}")
    return int(own["seed"].iloc[(len(own) - 1) // 2])


def learned_by_seed(found: didact.Comparison, learner: str, student: str, size: int) -> dict[int, ComponentMix]:
    """The explainers that a comparison learned, one per seed."""
    built = parse_learner(learner)
    return {one["seed"]: built.restored(one) for one in entries_of(found, learner, student, size)}
