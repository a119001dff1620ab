"""Do people's rationales help students, and do worse ones help less? (Pruthi et al. 2022, Table 3 and section 4.)

    python recipes/pruthi_human.py [--part table|noise|both] [--how drop|swap] [--data movie_rationales] [--quick]

The teacher is `human`: gold labels, with the words people marked. `table` teaches by attention regularisation and by
multitask learning; `noise` spoils the marks more and more, each marked word with a chance of 0, 0.1 … 1 lost (drop) or
moved to another word (swap), and asks whether simulability falls with it.

Planted sentences by default: their marks are the words that decide, and the students small transformers from scratch.
movie_rationales are the paper's reviews. Students there read with MiniLM's frozen word embeddings, 512 pieces at most;
600 reviews are all its train split has here (the others are kept for teachers), so the paper's 900 and 1,200 cannot be.
"""

from pathlib import Path

import numpy as np
from recipe_tools import asked_for, compared, data_of, options_of, percent, points, print_notes, print_table, say
from scipy.stats import pearsonr

STUDENTS = {
    "planted/sentiment": ("native/multitask", "native/attention(send=top, side=cls)"),
    "movie_rationales": (
        "bilstm_attention(embeddings=minilm, length=512, width=64)/multitask",
        "bilstm_attention(embeddings=minilm, length=512, width=64)/attention",
    ),
}
SIZES = {"planted/sentiment": [600, 900, 1200], "movie_rationales": [300, 600]}
PAPER_SIZES = (600, 900, 1200)
PAPER = {
    "none": ("75.5", "79.0", "81.1"),
    "multitask learning": ("75.2", "80.0", "82.5"),
    "attention regularisation": ("81.5", "83.1", "84.0"),
}
PAPER_R = -0.72


def table(asked, data) -> None:
    """Table 3: with and without rationales, by size."""
    multitask, attention = STUDENTS[asked.data]
    found = compared(asked, "human", data, explainers=["human"], students=[multitask, attention])
    if asked.out:
        found.save(Path(asked.out) / "pruthi-human.json")
    shown = {
        "none": ("none", attention), "multitask learning": ("human", multitask),
        "attention regularisation": ("human", attention), "random words, multitask": ("random", multitask),
        "random words, attention": ("random", attention),
    }  # fmt: skip
    lines = [
        [name, *(percent(found, *cell, size) for size in asked.sizes), *PAPER.get(name, ("–",) * len(PAPER_SIZES))]
        for name, cell in shown.items()
    ]
    head = ["student", *(f"{size:,}" for size in asked.sizes), *(f"paper {size:,}" for size in PAPER_SIZES)]
    print_table(f"Table 3: simulation accuracy with people as teachers, {asked.data}", head, lines)
    print_notes(found)
    for size in asked.sizes:
        row = found.row("human", attention, size)
        gain = points(row["gain"], row["low"], row["high"])
        say(f"Attention with {size:,} rows: {gain} points over none.")
    say("The paper: +6.0 at 600, +4.1 at 900, +2.9 at 1,200; multitask learning −0.3, +1.0, +1.4.")
    say("What differs: the paper's student is a pretrained BERT-base, ours learns nearly all of it from these rows.")


def noise(asked, data) -> None:
    """Section 4: the more the rationales are spoilt, the less they teach."""
    student, size = STUDENTS[asked.data][1], asked.sizes[0]
    levels = [0.0, 0.5, 1.0] if asked.quick else [step / 10 for step in range(11)]
    labels = ["human", *(f"human(how={asked.how}, noise={level})" for level in levels[1:])]
    found = compared(asked, "human", data, explainers=labels, students=[student], sizes=[size])
    if asked.out:
        found.save(Path(asked.out) / f"pruthi-noise-{asked.how}.json")
    rows = [found.row(label, student, size) for label in labels]
    lines = [["none", f"{100 * found.row('none', student, size)['mean']:.1f}", ""]]
    for level, row in zip(levels, rows, strict=True):
        gain = points(row["gain"], row["low"], row["high"])
        lines.append([f"{level:.1f}", f"{100 * row['mean']:.1f}", gain])
    print_table(
        f"Noise ({asked.how}): {asked.data}, {student}, {size:,} rows, {asked.seeds} seeds",
        ["noise", "simulability", "gain over none"],
        lines,
    )
    print_notes(found)
    means = [row["mean"] for row in rows]
    runs = [
        (level, found.scores[label, student, size][seed].mean())
        for level, label in zip(levels, labels, strict=True)
        for seed in found.scores[label, student, size]
    ]
    say(
        f"Pearson's r of noise and simulability: {correlation(levels, means):.2f} over the {len(levels)} means, "
        f"{correlation(*zip(*runs, strict=True)):.2f} over the {len(runs)} students. The paper: {PAPER_R}, of which of "
        "the two it does not say."
    )
    say(
        "The paper's noise is `drop`. There nothing is marked at 1.0, and a row without marks draws attention to all "
        "its words alike."
    )


def correlation(first, second) -> float:
    """Pearson's r; NaN where one side is constant."""
    return float("nan") if np.ptp(second) == 0 else float(pearsonr(first, second).statistic)


def main() -> None:
    parser = options_of(__doc__, data=[*STUDENTS], sizes="600 900 1200; movie_rationales 300 600")
    parser.add_argument("--part", default="both", choices=["table", "noise", "both"])
    parser.add_argument("--how", default="drop", choices=["drop", "swap"], help="what noise does to a marked word")
    asked = asked_for(parser, sizes=SIZES)
    if asked.model:
        parser.error("the teacher is human here: --model has no meaning")
    data = data_of(asked)
    if asked.part != "noise":
        table(asked, data)
    if asked.part != "table":
        noise(asked, data)


if __name__ == "__main__":
    main()
